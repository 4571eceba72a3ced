"""Claims about events, histories, trainings and accountants of other libraries."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.optimize import brentq
from scipy.special import ndtr

from audit.claims import Claim, sources
from audit.claims.claim import Expected
from audit.claims.evidence import Judgement
from audit.claims.formats import Format, write
from audit.claims.judge import Checked, check_file
from audit.codec import decode, encode
from audit.isolation import UserCodeError
from audit.mechanism import Composition, NoisySGD, Relation
from audit.results import Verdict
from tests.mechanisms import dp_sgd, noisy_sgd

from .written import checked as checked_file
from .written import judged as judged_claim

dp = pytest.importorskip("dp_accounting")

# each function has a process of its own, for which importing the library takes longest
MODULE = """\
import dp_accounting as dp

def sampled(noise, rate, steps):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)

def event():
    return sampled(1.1, 0.01, 100)

def growing():
    return dp.ComposedDpEvent([event(), sampled(2.0, 0.02, 50)])

def laplace():
    return dp.ComposedDpEvent([event(), dp.LaplaceDpEvent(1.0)])

def pld():
    return dp.pld.PLDAccountant().compose(event())

def distribution():
    return pld()._pld

def rdp():
    return dp.rdp.RdpAccountant([2, 8.5, 16]).compose(event())

def replace_one():
    return dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE).compose(event())
"""
USER: dict[str, object] = {}
exec(MODULE, USER)

# Of the growing noise PLD accounting says .605654, and without less noise .549765.
FILE = """\
include: inner/mechanisms.yaml
mechanisms:
  trained: {event: "held:event", dataset_size: 60000, relation: add remove}
  less: {history: [[1.078, 0.01, 100]], dataset_size: 60000, relation: add remove}
  grown: {base: growing, dataset_size: 1000}
  dies: {base: trained, event: "dying:dies"}
claims:
  - {id: pld, mechanism: trained, accountant: "held:pld", deltas: [1e-5, 0.95]}
  - {id: loose, mechanism: trained, epsilon: 9, delta: 1e-5}
  - {id: growing, mechanism: grown, epsilon: 0.60566, delta: 1e-5}
  - {id: paired, mechanism: grown, mu: 1, pair: TwoSidedWalk}
  - {id: less, mechanism: less, epsilon: 0.54977, delta: 1e-5, expected: refuted}
  - {id: less.renyi, mechanism: less, accountant: "held:rdp", orders: [2, 8.5], expected: refuted}
  - {id: dies, mechanism: dies, epsilon: 1, delta: 1e-5}
"""
# the function is found beside the included file, and a base may be an event
INCLUDED = (
    "mechanisms: {growing: {event: 'held_there:growing', dataset_size: 99, relation: add remove}}"
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("held")
    (folder / "inner").mkdir()
    for file, text in (("held.py", MODULE), ("inner/held_there.py", MODULE),
                       ("dying.py", "import os\n\ndef dies():\n    os._exit(3)\n"),
                       ("inner/mechanisms.yaml", INCLUDED)):  # fmt: skip
        (folder / file).write_text(text)
    return checked_file(folder, FILE, error=0.05)


def test_claims_of_accountants_are_judged(checked: Checked) -> None:
    *found, dies = checked.judgements  # without the one that is refused
    assert [j.claim.id for j in found if not j.as_expected] == []
    ratios = {j.claim.id: j.tightness or 0 for j in found}
    assert 1 <= ratios["pld"] < 1.001
    assert 1 <= ratios["growing"] < 1.001
    assert 0.93 < ratios["less"] < 0.98  # 2 % of noise is some 5 % of epsilon here
    assert dies.verdict is Verdict.ERROR
    paired, died = map(str, checked.complaints)
    assert "claim 'dies': dying:dies ended its process with status 3" in died
    assert "pair must be left out for a composition of several runs, got 'TwoSidedWalk'" in paired


def test_what_was_read(checked: Checked) -> None:
    by_id = {j.claim.id: j.claim for j in checked.judgements}
    trained, growing = by_id["pld"].mechanism, by_id["growing"].mechanism
    assert isinstance(trained, NoisySGD)
    assert (trained.steps, trained.batch_size, trained.noise_multiplier) == (100, 600, 1.1)
    assert isinstance(growing, Composition)
    assert (growing.steps, growing.dataset_size) == (150, 1000)
    assert by_id["pld"].source == (
        "DpEvent of held:event: 100 steps on poisson batches at rate 0.01 with noise multiplier "
        "1.1 (noise over clip norm); 60000 records, relation 'add remove', all iterates released; "
        "given beside it: the records, the relation and the clip norm 1; assumed: a public divisor"
    )
    # in the text once for all claims on it, in JSON at each
    text = write(checked, Format.TEXT)
    assert text.count("DpEvent of held:event:") == 1
    assert "\npld, loose: DpEvent of held:event:" in text
    entries = {e["id"]: e for e in json.loads(write(checked, Format.JSON))["claims"]}
    assert entries["loose"]["judged"] == by_id["pld"].source
    assert [part["steps"] for part in entries["growing"]["mechanism"]["parts"]] == [100, 50]
    assert entries["dies"]["verdict"] == "error"


def test_a_history_needs_no_dataset_size(tmp_path: Path) -> None:
    mechanism = "{history: [[1.1, 0.01, 9]], relation: add remove}"
    text = f"claims:\n- {{id: a, mechanism: {mechanism}, epsilon: 9, delta: 0.1}}\n"
    (judgement,) = checked_file(tmp_path, text).judgements
    assert judgement.verdict is Verdict.CONSISTENT
    assert judgement.claim.source == (
        "history: 9 steps on poisson batches at rate 0.01 with noise multiplier 1.1 (noise over "
        "clip norm); any number of records, relation 'add remove', all iterates released; "
        "given beside it: the relation and the clip norm 1; assumed: a public divisor"
    )


# what workers run, without a process of its own

FIELDS = dp_sgd(steps=100, dataset_size=1000, noise_std=0.11)
LAST = noisy_sgd(smoothness=None, diameter=None)


def library(name: str, mechanism: NoisySGD, *places: list[float]) -> object:
    return sources.ask_accountant(sources.of_library, name, encode(mechanism), *places)


def test_a_distribution_and_an_accountant_claim_the_same() -> None:
    claimed = [
        sources.ask_accountant(USER[name], name, encode(FIELDS), [1e-5], [])[0][0]
        for name in ("pld", "distribution")
    ]
    assert claimed[0] == pytest.approx(claimed[1])
    assert library("dp_accounting.pld", FIELDS, [1e-5], [])[0] == [
        pytest.approx(claimed[0], rel=1e-3)
    ]


def event(made: object) -> object:
    return sources.read_event(made, "f", 100, "add remove", 1.0)


def accountant(made: object) -> object:
    return sources.ask_accountant(made, "f", encode(FIELDS), [0.1], [])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: event(USER["laplace"]), "f: event.events[1] must be one of GaussianDpEvent, "),
        (lambda: event(3), "f must be a function, got 3"),
        (
            lambda: sources.read_training(lambda: (0.5,), "f"),
            "f must return a PrivateTraining, got (0.5,)",
        ),
        (
            lambda: accountant(USER["replace_one"]),
            "f must return an accountant for the mechanism's relation ('add remove'), got one for "
            "'replace one'",
        ),
        (
            lambda: accountant(USER["event"]),
            "f: source must be a PrivacyAccountant or a PrivacyLossDistr",
        ),
        (
            lambda: accountant(lambda: 3),
            "f must return an accountant of dp-accounting or Opacus, or a PrivacyLossDistribution, "
            "got 3",
        ),
        (
            lambda: library("dp_accounting.pld", FIELDS, [], [2.0]),
            "dp_accounting.pld: orders must be left out: this accountant claims no Renyi",
        ),
        (
            lambda: library("dp_accounting.pld", LAST, [1e-5], []),
            "dp_accounting.pld: release must be 'all iterates' for a DpEvent, got 'last",
        ),
    ],
)
def test_what_goes_wrong_is_one_line(ask, message: str) -> None:
    with pytest.raises(UserCodeError) as caught:
        ask()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def composition() -> Composition:
    from audit.adapters.dp_accounting import from_dp_event

    parts = [
        dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)),
        dp.SelfComposedDpEvent(dp.GaussianDpEvent(8.0), 3),
    ]
    found = from_dp_event(dp.ComposedDpEvent(parts), dataset_size=100, relation=Relation.ADD_REMOVE)
    assert isinstance(found, Composition)
    return found


def test_claims_about_compositions() -> None:
    m = composition()

    def verdict(**keys: object) -> Verdict:
        found = judged_claim(m, **keys)
        assert decode(Claim, json.loads(json.dumps(encode(found.claim)))) == found.claim
        return found.verdict

    assert verdict(epsilon=3.0, delta=1e-5) is Verdict.CONSISTENT
    assert verdict(epsilon=0.5, delta=1e-5) is Verdict.REFUTED
    assert verdict(not_private={"epsilon": 0.5, "delta": 1e-5}) is Verdict.CONSISTENT
    bound = judged_claim(m, bound="accounting.poisson", deltas=[1e-5])
    assert bound.verdict is Verdict.ERROR
    assert bound.message == "accounting.poisson needs a single run, got a composition of 2"


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"accountant": "dp_accounting.pld"}, "an accountant"),
        ({"bound": "own.coupling"}, "a bound"),
    ],
)
def test_who_computes_a_number_needs_a_mechanism(asked: dict[str, str], what: str) -> None:
    found = judged_claim(**asked, deltas=[1e-5])
    assert found.message == f"mechanism must be given for {what}, got none"


# trainings, as from_private finds them, without Opacus: `tests/adapters/real` has the real ones

TRAINED = """\
from audit.adapters import opacus
from audit.mechanism import Batching, Relation

HISTORY = ((0.5, 0.01, 100),)

def told(batching, now=0.5, **drawn):
    loader = opacus.Loader(
        sampler="Sampler", batching=batching, records=10_000, batches=100, **drawn
    )
    relation = Relation.ZERO_OUT
    return opacus.PrivateTraining(
        history=HISTORY,
        claimed=opacus.from_history(HISTORY, dataset_size=10_000, relation=relation),
        actual=loader.mechanism(HISTORY, relation=relation, clip_norm=1.0),
        loader=loader,
        divisor=100,
        divisor_without_record=99,
        clipping=opacus.Clipping.FLAT,
        clip_norm=1.0,
        noise_multiplier=now,
    )

def poisson():
    return told(Batching.POISSON, rate=0.01)

def shuffled():
    return told(Batching.RESHUFFLED, batch_size=100)

def quieter():
    return told(Batching.POISSON, rate=0.01, now=0.1)
"""

# What Opacus 1.6.0's prv accountant says of the history: 7.926709979462523.
TRAININGS = """\
claims:
  - {id: poisson, mechanism: {training: "trained:poisson"}, epsilon: 7.926709979462523, delta: 1e-6}
  - {id: shuffled, mechanism: {training: "trained:shuffled"}, epsilon: 7.926709979462523,
     delta: 1e-6, expected: refuted}
  - {id: quieter, mechanism: {training: "trained:quieter"}, epsilon: 8, delta: 1e-6}
"""


def test_an_accountant_is_judged_on_the_batches_that_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "trained.py").write_text(TRAINED, encoding="utf-8")
    found = checked_file(tmp_path, TRAININGS, error=1e-6)
    assert [j.as_expected for j in found.judgements] == [True, True, True]
    assert (found.judgements[1].certified or 0) > 10.99
    text = write(found, Format.MARKDOWN)
    assert "loader and optimizer of trained:shuffled: 100 steps on reshuffled batches" in text
    assert "assumed: a public number of records" in text
    # the claim is judged at the noise of the history, which the optimizer no longer has
    doubt = "multiplier 0.5 at the end of the history, but the optimizer's is 0.1 now; if no"
    assert [doubt in j.claim.source for j in found.judgements] == [False, False, True]
    assert doubt in text


# the shipped claims of the accountants, and of trainings with less noise

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scenarios" / "claims"
FILES = {name: yaml.safe_load((FOLDER / f"{name}.claims.yaml").read_text(encoding="utf-8"))
         for name in ("dp_accounting", "opacus", "less_noise")}  # fmt: skip
CLAIMS = {claim["id"]: claim for file in FILES.values() for claim in file["claims"]}
# judged here; results/claims/make.py judges all
QUICK = {"dp_accounting": ("03",), "opacus": ("12",)}
# more processes that import the library; claims of such events and accountants are refuted above
NOT_QUICK = "less_noise.dp_accounting"
# tight claims of each library, which less noise must refute
TIGHT = ("dp_accounting.pld", "dp_accounting.rdp", "opacus.prv", "opacus.rdp")


def is_quick(id: str) -> bool:
    library, _, setting = id.removeprefix("less_noise.").split(".")
    quick = (*QUICK[library], "replace_one", "without_replacement")
    return setting in quick and not id.startswith(NOT_QUICK)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """The quick claims, without reading the events of the others."""
    folder = tmp_path_factory.mktemp("quick")
    shutil.copy(FOLDER / "dp_accounting_events.py", folder)
    found: list[Judgement] = []
    for name, file in FILES.items():
        path = folder / f"{name}.claims.yaml"
        quick = [claim for claim in file["claims"] if is_quick(claim["id"])]
        path.write_text(yaml.safe_dump({**file, "claims": quick}), encoding="utf-8")
        found += check_file(path)
    return {judgement.claim.id: judgement for judgement in found}


def test_there_are_twelve_settings_of_each_accountant() -> None:
    kinds = Counter(id.rpartition(".")[0] for id in CLAIMS if re.search(r"\.\d\d$", id))
    assert set(kinds) == {
        f"{head}{kind}"
        for head in ("", "less_noise.")
        for kind in (*TIGHT, "dp_accounting.rdp_epsilon", "opacus.rdp_epsilon")
    }
    assert set(kinds.values()) == {12}


def test_accountants_are_consistent(judged: dict[str, Judgement]) -> None:
    for id, judgement in judged.items():
        assert judgement.as_expected, judgement.message
        if not id.startswith("less_noise.") and judgement.claim.expected is not Expected.REFUTED:
            assert judgement.tightness is not None
            assert judgement.tightness >= 1


def test_two_percent_less_noise_is_refuted(judged: dict[str, Judgement]) -> None:
    found = {id: j for id, j in judged.items() if id.startswith("less_noise.")}
    assert len(found) == 3
    for id, judgement in found.items():
        tight = id.removeprefix("less_noise.").rpartition(".")[0] in TIGHT
        # what is expected is written by hand, so that it is checked here too
        assert (judgement.claim.expected is Expected.REFUTED) is tight
        # an epsilon that is made of Renyi divergences still holds: nothing can refute it
        assert ((judgement.tightness or 0) < 1) is tight, judgement.message


def test_the_stored_table_is_of_these_claims() -> None:
    table = (ROOT / "results" / "claims" / "accountants.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\w\\.]+) \| (\w+) \|", table, flags=re.MULTILINE)
    assert [id for _, id, _ in rows] == list(CLAIMS)
    assert {mark for mark, _, _ in rows} == {"ok"}


def test_the_truth_at_a_tiny_delta_in_a_second_way() -> None:
    """Fourier transforms lose what is below 1e-16; those of a law tilted to the place do not."""
    z, q, steps, interval, tilt = 6.0, 0.01, 10_000, 4e-5, 30.0
    x = np.linspace(-14 * z, 14 * z + 1, 800_001)
    middle = (x[1:] + x[:-1]) / 2

    def masses(mean: float) -> np.ndarray:
        left, right = (x[:-1] - mean) / z, (x[1:] - mean) / z
        return np.where(middle > mean, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))

    p = (1 - q) * masses(0.0) + q * masses(1.0)
    place = np.log1p(q * np.expm1((2 * middle - 1) / (2 * z * z))) / interval
    low = np.floor(place).astype(int)
    first, share = int(low.min()), place - low
    once = np.bincount(low - first, p * (1 - share), low.max() - first + 2)
    once += np.bincount(low - first + 1, p * share, once.size)
    tilted = once * np.exp(tilt * (np.arange(once.size) + first) * interval)
    scale = tilted.sum()
    # losses as distances from the mean of a step, which is about 0 on the grid
    wheel = np.zeros(1 << 18)
    np.add.at(wheel, (np.arange(once.size) + first) % wheel.size, tilted / scale)
    composed = np.fft.irfft(np.fft.rfft(wheel) ** steps, wheel.size)
    losses = np.arange(wheel.size) * interval  # the tilted law is around 2

    def log_delta(epsilon: float) -> float:
        above = losses > epsilon
        terms = composed[above] * np.exp(steps * np.log(scale) - tilt * losses[above])
        return float(np.log(np.sum(terms * -np.expm1(epsilon - losses[above]))))

    for point in CLAIMS["dp_accounting.pld.tiny_delta"]["points"]:
        claimed, delta = point["epsilon"], float(point["delta"])
        true = brentq(lambda e, d=delta: log_delta(e) - np.log(d), 0.5, 2.0)
        # rounding losses to the grid adds about 5e-5 at this interval
        assert claimed < true - 2e-4
        assert true == pytest.approx({1e-12: 1.1102925, 1e-13: 1.1665957}[delta], abs=1e-4)
