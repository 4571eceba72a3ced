"""Objects on the screen: short reprs, pictures in notebooks, plots."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import audit
from audit import Batching, NoisySGD, Relation, Release
from audit.bounds.assumed_batches import BatchingGap
from audit.bounds.trainings import TrainingEpsilon, TrainingNoise
from audit.claims import Claim
from audit.claims.claim import statement_of
from audit.claims.judge import judge
from audit.curves import GaussianCurve, Order, PrivacyCurve, RenyiCurve
from audit.dominating import MatrixMechanism, Participation, dominating_curve, square_root_strategy
from audit.numerics.display import Marks, ShortRepr, sandwich
from tests.mechanisms import dp_sgd, noisy_sgd

M = noisy_sgd(steps=10, dataset_size=100, step_size=0.1, noise_std=0.5, lipschitz=1.25)
SGD = dp_sgd(dataset_size=1000, step_size=0.1)
STORED = Path(__file__).parents[1] / "results" / "at22_lower_bound" / "result.json"


def dominating(batching: Batching, relation: Relation) -> PrivacyCurve:
    return dominating_curve(dataclasses.replace(SGD, batching=batching, relation=relation))


def samples() -> audit.estimation.Audit:
    draws = np.random.default_rng(1)
    one, other = draws.normal(1, 1, 3000), draws.normal(0, 1, 3000)
    return audit.estimation.audit_samples(one, other, confidence=0.95, deltas=(0.01,), seed=2)


def verdict() -> Any:
    claim = Claim(id="mine", mechanism=M, statement=statement_of(epsilon=0.01, delta=1e-5))
    return judge(claim)


OBJECTS: dict[str, Callable[[], Any]] = {
    "mechanism": lambda: M,
    "composition": lambda: audit.Composition((SGD, SGD)),
    "entry": lambda: audit.bounds.entry("bsa24.theorem_4_3"),
    "row": lambda: audit.bounds.table(M, 1e-5)[0],
    "pair": lambda: audit.constructions.TwoSidedWalk(M),
    **{
        f"curve of {id}": lambda id=id: audit.bounds.evaluate(id, M)
        for id in audit.bounds.applicable(M)
        if not audit.bounds.entry(id).slow
    },
    "best bound": lambda: audit.bounds.best(M, delta=1e-5),
    "exact law": lambda: audit.exact.curve(audit.constructions.TwoSidedWalk(M)),
    "Poisson": lambda: dominating_curve(SGD),
    "shuffled": lambda: dominating(Batching.RESHUFFLED, Relation.ZERO_OUT),
    "allocated": lambda: dominating(Batching.RANDOM_ALLOCATION, Relation.ZERO_OUT),
    "without replacement": lambda: dominating(Batching.WITHOUT_REPLACEMENT, Relation.REPLACE_ONE),
    "found": lambda: audit.search.worst_case(M, delta=1e-5, evaluations=3, seed=0),
    "audit": samples,
    "verdict": verdict,
    "verdicts on scores": lambda: audit.estimation.judge_scores(
        (np.arange(2000.0) + 900, np.arange(2000.0)), ((0.1, 1e-5),), confidence=0.95
    ),
    "batching gap": lambda: BatchingGap(SGD, Batching.CYCLIC, 1e-5, 2.0, 0.4, 0.5, 0.2, 0.3),
    "matrix mechanism": lambda: MatrixMechanism(
        square_root_strategy(20), 1.0, Participation.single()
    ),
    "stored result": lambda: audit.results.from_json(STORED.read_text(encoding="utf-8")),
    "source": lambda: audit.bounds.entry("bsa24.theorem_4_3").cite,
    "epsilon": lambda: TrainingEpsilon(0.5, 0.6, 1e-5, "accounting.poisson"),
    "noise": lambda: TrainingNoise(1.1, 1.2, "advantage <= 0.1", "accounting.poisson"),
}


@functools.cache
def made(name: str) -> Any:
    """Return an object, made once for all tests."""
    return OBJECTS[name]()


PICTURES = (
    "best bound",
    "exact law",
    "Poisson",
    "found",
    "audit",
    "verdict",
    "verdicts on scores",
    "batching gap",
    "epsilon",
    "noise",
)


def held(thing: object) -> Iterator[object]:
    """An object of the package and those that its public attributes hold, one of each class."""
    found, waiting = dict[type, object](), [thing]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple | list | Mapping):
            waiting += one.values() if isinstance(one, Mapping) else one
        elif isinstance(one, enum.Enum) or type(one) in found:
            continue
        elif type(one).__module__.startswith("audit."):
            found[type(one)] = one
            waiting += [v for k, v in getattr(one, "__dict__", {}).items() if k[0] != "_"]
    return iter(found.values())


@pytest.mark.parametrize("name", OBJECTS)
def test_reprs_are_short_and_show_no_machinery(name: str) -> None:
    for one in held(made(name)):
        text = repr(one)
        assert len(text) < (350 if one is made(name) else 600), text
        assert re.fullmatch(r"[A-Z_]\w+\(.*\)", text), text
        assert not re.search(r" at 0x|lru_cache|mappingproxy|array\(|<function|<Batching", text), (
            text
        )


def test_the_repr_of_a_mechanism_makes_it_again() -> None:
    names = {kind.__name__: kind for kind in (Batching, NoisySGD, Relation, Release)}
    for m in (M, SGD):
        assert eval(repr(m), names) == m


def test_what_a_repr_leaves_out() -> None:
    class Colour(enum.Enum):
        RED = "red"

    @dataclass
    class Thing(ShortRepr):
        number: float
        colour: Colour = Colour.RED
        name: str = ""
        values: object = ()
        inside: object = None
        quiet: int = dataclasses.field(default=0, repr=False)

    assert repr(Thing(1.5)).endswith("Thing(number=1.5)")
    assert repr(Thing(2, name="x" * 99, values=(1, (2.0,)))) == (
        f"Thing(number=2, name='{'x' * 57}...', values=(1, (2.0,)))"
    )
    assert repr(Thing(2, values=range(3), inside=np.ones(3))) == (
        "Thing(number=2, inside=<float64 (3,)>, ...)"
    )
    assert repr(Thing(2, values=[1] * 9)) == "Thing(number=2, ...)"
    assert repr(Thing(2, inside=Thing(3))) == "Thing(number=2, inside=Thing(number=3))"
    long = Thing(3, name="y" * 60, values=("z" * 60,))
    assert repr(Thing(2, inside=long)) == "Thing(number=2, inside=Thing(...))"

    @dataclass
    class Named(Thing):
        def __repr__(self) -> str:
            return "mine"

    assert repr(Named(1.0)) == "mine"


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_have_a_mark_for_every_number(name: str) -> None:
    thing = made(name)
    picture = thing._repr_html_()
    assert picture.count("<svg") == picture.count("</svg>") == 1
    assert re.search(r"<path|<rect", picture)
    for x in re.findall(r" (?:x|x1|x2)=\"([^\"]+)\"", picture):
        assert math.isfinite(float(x))


def test_marks_are_where_the_numbers_are() -> None:
    picture = sandwich("a < b", [Marks("one", 1.0, (2.0, 2.0), 4.0), Marks("two", note="unknown")])
    assert "a &lt; b" in picture
    assert "unknown" in picture
    lower, upper = (float(x) for x in re.findall(r'd="M([\d.]+),', picture))
    (exact,) = (float(x) + 1 for x in re.findall(r'<rect x="([\d.]+)"', picture))
    assert exact - lower == pytest.approx((upper - lower) / 3, abs=0.2)
    infinite = sandwich("", [Marks("", upper=math.inf)])
    assert "nan" not in infinite
    assert "≤ inf" in infinite


def test_text_of_marks_is_rounded_outward() -> None:
    assert Marks("", 1.99999999, upper=2.00000001).text == "1.9999 to 2.0001"
    assert Marks("", 1.23456789).text == "≥ 1.2345"
    assert Marks("", 2.000011, upper=2.000005).text == "2.000011 > 2.000005"
    assert Marks("", upper=1.23456789).text == "≤ 1.2346"
    assert Marks("", 2.0, upper=1.5).text == "2.0000 > 1.5000"
    assert Marks("").text == ""


def test_a_number_that_cannot_be_computed_is_said_so() -> None:
    class Broken(GaussianCurve):
        def _epsilon(self, delta: Any, order: Order) -> Any:
            raise ValueError("nothing follows")

    assert "nothing follows" in Broken(1.0)._repr_html_()


@pytest.mark.parametrize("name", ["exact law", "audit"])
def test_plots(name: str) -> None:
    axes = Figure().subplots()
    assert made(name).plot(axes, color="red") is axes
    (line,) = axes.lines
    deltas, epsilons = line.get_data()
    assert line.get_color() == "red"
    assert np.all(np.isfinite(epsilons))
    assert np.all(np.diff(epsilons) <= 1e-9)  # epsilon falls as delta grows
    assert deltas[0] == pytest.approx(1e-10)


def test_a_plot_of_an_upper_bound() -> None:
    axes = Figure().subplots()
    curve = RenyiCurve(lambda alpha: 0.1 * alpha)
    (line,) = curve.plot(axes).lines
    assert line.get_ydata()[-1] == pytest.approx(curve.epsilon(0.1))
    with pytest.raises(ValueError, match="ax must be axes of matplotlib, got 5"):
        curve.plot(5)


def test_a_best_bound_can_be_sent_to_another_process() -> None:
    best = audit.bounds.best(noisy_sgd(), delta=1e-5)
    assert pickle.loads(pickle.dumps(best)) == best


def test_an_audit_prints_what_it_certifies() -> None:
    audited = made("audit")
    text = str(audited)
    assert re.fullmatch(r"(epsilon >= [\d.]+ at delta [\de.-]+(; )?)+confidence 0\.\d+", text), text
    for low, delta in re.findall(r"epsilon >= ([\d.]+) at delta ([\de.-]+)", text):
        exact = audited.epsilon_lower(float(delta))
        assert exact - 1e-3 * max(exact, 1.0) <= float(low) <= exact  # rounded downward


def test_bounds_that_differ_by_rounding_keep_the_order_of_the_catalogue() -> None:
    best = audit.bounds.BestBound(
        "a", 1.0, GaussianCurve(1.0), 1e-5, {"c": 2.0, "a": 1.0 + 1e-13, "b": 1.0}
    )
    picture = best._repr_html_()
    assert [picture.index(f">{id}<") for id in "abc"] == sorted(
        picture.index(f">{id}<") for id in "abc"
    )
