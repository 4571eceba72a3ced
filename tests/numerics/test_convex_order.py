"""Sums of positive variables from both sides in the convex order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.numerics.convex_order import (
    GridLaw,
    add,
    halved,
    iid_sum,
    normal_exponential,
    point,
    trimmed,
)
from tests.reference import lognormal_excess

TAIL = 1e-18
LEVELS = np.geomspace(1e-3, 1e3, 61)


def lognormal(above: bool, scale: float, mean: float = 1.0, cells: int = 512) -> GridLaw:
    """A lognormal variable."""
    location = math.log(mean) - 0.5 * scale * scale
    return normal_exponential(above, (scale + 19) * scale / cells, location, scale, tail=TAIL)


def mean_of(above: bool, scale: float, count: int) -> GridLaw:
    """The mean of ``count`` lognormal variables of mean 1."""
    return iid_sum(lognormal(above, scale, 1 / count), count, cells=512, tail=TAIL)


def excess(law: GridLaw, level: float) -> float:
    """E(X - level)_+ of a law on the grid."""
    parts = law.means * np.exp(law.points) - level * law.masses
    return float(np.maximum(parts, 0).sum()) + law.beyond


def assert_bracketed(
    below: GridLaw, above: GridLaw, exact: dict[float, float], *, width: float, slack: float
) -> None:
    for level, value in exact.items():
        assert excess(below, level) <= value * (1 + slack) + 1e-16
        assert excess(above, level) >= value * (1 - slack) - 1e-16
    widths = [excess(above, level) - excess(below, level) for level in exact]
    assert max(widths) < width


@pytest.mark.parametrize("scale", [0.3, 2.0, 8.0])
def test_one_variable_is_bracketed(scale: float) -> None:
    below, above = (lognormal(side, scale) for side in (False, True))
    for law in (below, above):
        assert law.masses.sum() + law.zero == pytest.approx(1, abs=1e-13)
        assert law.mean == pytest.approx(1, abs=1e-13)
    exact = {float(level): float(lognormal_excess(scale, level)) for level in LEVELS}
    # ndtr has 1e-14 relative in the tails
    assert_bracketed(below, above, exact, width=3 * above.interval**2, slack=1e-11)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("scale", [0.7, 2.0])
def test_sums_are_bracketed(scale: float, count: int) -> None:
    below, above = (mean_of(side, scale, count) for side in (False, True))
    levels = (0.3, 0.9, 1.0, 2.0, 10.0)
    exact = {a: float(lognormal_excess(scale, a * count, count)) / count for a in levels}
    # 60 and 120 nodes agree to 1e-9
    assert_bracketed(below, above, exact, width=1e-3, slack=1e-8)


@pytest.mark.parametrize("count", [5, 37, 100])
def test_means_and_variances_add_up(count: int) -> None:
    """The square is convex: the sides enclose the variance."""
    scale = 0.7
    variance = math.expm1(scale * scale) / count
    below, above = (mean_of(side, scale, count) for side in (False, True))
    seconds = []
    for law in (below, above):
        assert law.masses.sum() + law.zero == pytest.approx(1, abs=1e-11)
        assert law.mean == pytest.approx(1, abs=1e-11)
        atoms = law.means / np.where(law.masses > 0, law.masses, 1) * np.exp(law.points)
        seconds.append(float(law.masses @ atoms**2) - 1)
    assert seconds[0] < variance < seconds[1]
    assert seconds[1] - seconds[0] < 3e-2 * variance


def test_the_digits_of_the_count_do_not_matter() -> None:
    """Sums are the same however they are grouped, within the widths of the sides."""
    below, above = (mean_of(side, 1.0, 7) for side in (False, True))
    one, other = lognormal(False, 1.0, 1 / 7), lognormal(True, 1.0, 1 / 7)
    for _ in range(6):
        one = add(one, lognormal(False, 1.0, 1 / 7))
        other = add(other, lognormal(True, 1.0, 1 / 7))
    slipped = replace(one, rounding=1e-3)
    assert add(slipped, slipped).rounding >= 2e-3
    for level in (0.5, 1.0, 3.0):
        assert excess(below, level) < excess(other, level)
        assert excess(one, level) < excess(above, level)


def test_a_constant_is_added_on_both_sides() -> None:
    scale, constant = 2.0, 0.37
    exact = {
        float(a): 0.63 * float(lognormal_excess(scale, (a - constant) / 0.63))
        for a in np.linspace(0.4, 8.0, 20)
    }
    sides = []
    for above in (False, True):
        law = lognormal(above, scale, 0.63)
        sides.append(add(law, point(above, law.interval, constant)))
    assert_bracketed(*sides, exact, width=1e-3, slack=1e-11)


def test_trimming_and_halving_keep_the_side() -> None:
    exact = {float(level): float(lognormal_excess(2.0, level)) for level in LEVELS}
    sides = [trimmed(halved(lognormal(above, 2.0)), 1e-4) for above in (False, True)]
    assert sides[0].masses.size < 1000
    for law in sides:  # what is cut off moves to an end, or to 0, and the mean stays
        assert law.masses.sum() + law.zero == pytest.approx(1, abs=1e-12)
        assert law.mean == pytest.approx(1, abs=1e-12)
    assert_bracketed(*sides, exact, width=2e-3, slack=1e-11)


def test_too_wide_a_law_is_refused() -> None:
    with pytest.raises(ValueError, match="location and scale must keep logarithms within 640"):
        normal_exponential(True, 0.1, -450.0, 30.0, tail=TAIL)


@pytest.mark.parametrize("above", [False, True])
def test_a_planted_error_is_caught(above: bool) -> None:
    """Atoms rounded to grid points, up or down, lose the mean: the comparison shows it."""
    law = lognormal(above, 2.0)
    step = math.exp((0.5 if not above else -0.5) * law.interval)
    wrong = replace(law, moments=law.moments.copy())
    wrong.moments[-1] *= step
    sides = (wrong, lognormal(True, 2.0)) if not above else (lognormal(False, 2.0), wrong)
    exact = {float(level): float(lognormal_excess(2.0, level)) for level in LEVELS}
    with pytest.raises(AssertionError):
        assert_bracketed(*sides, exact, width=1.0, slack=1e-11)
