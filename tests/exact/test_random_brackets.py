"""Brackets against references in ball arithmetic: a random sample, and planted errors."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from audit import Order
from audit.constructions.explicit import Densities, Finite, LaplaceMixtures, Mixture, Mixtures
from audit.curves.brackets import BracketError
from audit.curves.finite_pair import Cells, FinitePair
from audit.exact import cell_curve, curve, normal_cells
from tests.exact.random_brackets import (
    KINDS,
    Question,
    explicit_reference,
    judged,
    judged_pair,
    outcomes,
)
from tests.slow import slow

FORWARD, REVERSE = Order
# Of seed 2: all kinds, and references that take little time.
NUMBERS = (1, 4, 8, 11, 28, 43, 63)


def _mixture(*normals: tuple[float, float, float]) -> Mixture:
    weights, means, stds = zip(*normals, strict=True)
    return Mixture(weights, means, stds)


TWO = Mixtures(_mixture((0.3, 0.0, 1.0), (0.7, 2.0, 1.0)), _mixture((1.0, 0.8, 1.0)))
LAPLACES = LaplaceMixtures(1.0, (0.0, 1.0, 3.0), (0.2, 0.3, 0.5), (0.7, 0.3, 0.0))
# the largest loss is inside
INSIDE = Mixtures(_mixture((0.6, 0.0, 0.5), (0.4, 1.5, 0.4)), _mixture((1.0, 0.2, 1.0)))


def _wrong(pair: Mixtures | LaplaceMixtures | Finite, *questions: Question) -> list[str]:
    found, reference = curve(pair), explicit_reference(pair)
    words = [judged(question, question.bracket(found), reference) for question in questions]
    return [word for word in words if word]


P = math.exp(0.9) / (1 + math.exp(0.9))
# the last outcome, which neither law has, gave a warning
ALONE = Finite((0.5, 0.5, 0.0, 0.0), (0.1, 0.5, 0.4, 0.0))
ASKED = [
    # narrower than a width, and true, in both orders
    (Finite((0.5, 0.3, 0.2), (0.2, 0.2, 0.6), 4), 1e-11, {"delta": 0.7, "renyi": 2.5}),
    (Finite((P, 1 - P), (1 - P, P), 1000), 1e-9, {"epsilon": 1e-5}),
    (ALONE, 1e-12, {"power": 0.25, "beta": 0.75, "renyi": 2.0}),
    (ALONE, 1e-12, {"epsilon": 0.3, "pure": 0.0}),
    (Densities(2.0, -0.7, 0.7), 1e-6, {"renyi": 3.0, "epsilon": 1e-10, "pure": 0.0}),
    slow(LAPLACES, 1e-7, {"renyi": 3.0, "delta": 0.4, "power": 0.2}),
    *(
        kept(
            LaplaceMixtures(1.0, (0.0, far), (1.0, 0.0), (0.0, 1.0)),
            1e-12,
            {"pure": 0.0, "delta": at},
        )
        for kept, far in ((slow, 0.1), (pytest.param, 1.0), (slow, 30.0))
        for at in (0.0, 0.5 * far, 0.999 * far, 1.01 * far)
    ),
    (INSIDE, 1e-8, {"pure": 0.0, "epsilon": 1e-6}),
]


@pytest.mark.parametrize(("pair", "width", "asked"), ASKED)
def test_brackets_of_explicit_pairs_are_true_and_narrow(pair, width, asked) -> None:
    found, reference = curve(pair), explicit_reference(pair)
    for order, (quantity, at) in itertools.product(Order, asked.items()):
        question = Question(quantity, at, order)
        low, high = question.bracket(found)
        assert judged(question, (low, high), reference) == ""
        assert low == high or high - low <= width * max(low, 1.0)


def test_a_random_sample_is_true() -> None:
    words: Counter[str] = Counter()
    for number in NUMBERS:
        for found in outcomes(number, 2):
            words[found.word] += 1
            assert found.word in ("true", "no reference"), found
    assert words["true"] > 4 * words["no reference"]
    assert len(KINDS) == 7


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("bumps", 5), *map(slow, ("bumps", "bumps", "mixtures", "mixtures"), (0, 4, 2, 4))],
)
def test_far_bumps_and_several_widths(kind: str, seed: int) -> None:
    """A bump that moves, one that is lacking, mirrored weights; and normals on a line."""
    assert {found.word for found in judged_pair(kind, np.random.default_rng(seed))} == {"true"}


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("gap", [100.0, 1e4, 1e6])
def test_largest_losses_between_far_bumps(gap: float, order: Order) -> None:
    """Where the far bump begins to outweigh the near one, which moves by .3 deviations."""
    pair = Mixtures(
        _mixture((0.5, 0.0, 1.0), (0.5, gap, 1.0)), _mixture((0.5, 0.3, 1.0), (0.5, gap, 1.0))
    )
    low, high = curve(pair).epsilon_bracket(0.0, order)
    if order is FORWARD:
        assert (low, high) == (math.inf, math.inf)  # the first law's nearer bump is farther out
    else:
        # the loss .3 y - .045 of the near bumps holds up to y = gap/2, but for log 2
        assert abs(low - 0.15 * gap) < 1
        assert low <= high < low * (1 + 1e-8)


def test_the_reference_sees_a_flat_top_beside_rounding() -> None:
    """The loss has a maximum at -10, and turns by rounding wherever it is larger, far away."""
    weights = (9.281030496988501e-07, 2.0837908112885782e-09, 0.9999990698131596)
    others = (0.46447226820363047, 0.14291357369849575, 0.24746071866073904, 0.14515343943713468)
    means = (-0.021261931384449075, -0.049246633645612686, -0.02790150934350246)
    moved = (
        -0.048012356144222584,
        -0.013737894409963362,
        -0.00083287910635485,
        0.02868734129377275,
    )
    pair = Mixtures(Mixture(weights, means, (1.0,) * 3), Mixture(others, moved, (1.0,) * 4))
    assert _wrong(pair, Question("epsilon", 3e-234, FORWARD)) == []


@pytest.mark.parametrize("apart", [1e-3, 1e-2, 0.1, 3.0])
def test_half_lines_on_which_losses_settle_slowly(apart: float) -> None:
    """The largest loss is the limit log(.5/.1), which is far away: (1.609, 2.052) once."""
    pair = Mixtures(
        _mixture((0.5, 0.0, 1.0), (0.5, apart, 1.0)), _mixture((0.9, 0.0, 1.0), (0.1, apart, 1.0))
    )
    low, high = curve(pair).epsilon_bracket(0.0, FORWARD)
    assert low <= math.log(5) <= high < low + 1e-6


def test_a_rarely_sampled_normal_has_its_largest_loss() -> None:
    rate = 1e-3
    pair = Mixtures(_mixture((1 - rate, 0.0, 1.0), (rate, 1e-7, 1.0)), _mixture((1.0, 0.0, 1.0)))
    low, high = curve(pair).epsilon_bracket(0.0, REVERSE)
    assert low <= -math.log1p(-rate) <= high < low * (1 + 1e-9)


def test_a_lost_tail_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the points, half-lines without mass."""
    pair = Mixtures(_mixture((0.5, 0.0, 1.0), (0.5, 1.0, 1.0)), _mixture((1.0, 0.0, 1.0)))
    monkeypatch.setattr(normal_cells, "WINDOW", 3.0)
    monkeypatch.setattr(normal_cells, "_DOUBLINGS", 0)
    question = Question("delta", 1.0, FORWARD)
    assert _wrong(pair, question) == []
    monkeypatch.setattr(normal_cells, "log_tail", lambda *_: -math.inf)
    assert "high" in _wrong(pair, question)[0]


def test_a_rounding_that_is_not_counted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways to order 200 draws round by some units of 700."""
    rng = np.random.default_rng(5)
    pairs = [Finite((p, 1 - p), (q, 1 - q), 200) for p, q in rng.uniform(0.2, 0.8, (6, 2))]
    question = Question("delta", 0.3, FORWARD)
    assert [_wrong(pair, question) for pair in pairs] == [[]] * 6
    monkeypatch.setattr(cell_curve, "UNIT", 0.0)
    monkeypatch.setattr(FinitePair, "rounding", 0.0)
    assert any(_wrong(pair, question) for pair in pairs)


def test_a_tangent_that_is_taken_for_a_chord_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both densities between their chords: ratios within a cell are those at its ends."""
    monkeypatch.setattr(cell_curve, "_ROUNDS", 1)
    question = Question("pure", 0.0, REVERSE)  # the largest loss is inside of a cell
    assert _wrong(TWO, question) == []

    def at_ends(width: Any, p: Any, q: Any, std: Any) -> Any:
        left, right = (one.log_density - other.log_density for one, other in zip(p, q, strict=True))
        return np.maximum(left, right)

    monkeypatch.setattr(normal_cells, "largest_ratio", at_ends)
    with pytest.raises(BracketError, match="0 <= low <= high"):
        _wrong(TWO, question)


def test_a_split_on_the_wrong_side_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells merged above: information is lost where it must be gained."""
    monkeypatch.setattr(cell_curve, "_ROUNDS", 1)
    monkeypatch.setattr(Cells, "split", Cells.merged)
    question = Question("delta", 0.2, FORWARD)
    assert "high" in _wrong(TWO, question)[0]
