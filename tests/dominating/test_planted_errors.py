"""Errors that are planted in compositions: a side that is the wrong one, roundings left out.

Randomised response has its losses on the grid, so that nothing but rounding separates the sides.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.fft

from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.dominating import layer
from audit.dominating.curve import ComposedCurve
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair
from tests.dominating.test_grid_composition import gaussian_sides

CELLS, LOSS, TIMES = 64, 0.1, 1000
EPSILONS = (1.0, 20.0, 45.0, 70.0, 95.0)


@pytest.mark.parametrize("side", [0, 1])
def test_cells_on_the_wrong_side(monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    """Cells merged above lose information where none may be lost; split below, they gain some."""
    sides, exact = gaussian_sides(0.5, 0.005), GaussianCurve(0.5 * math.sqrt(50))
    low, high = ComposedCurve.of(*sides, 50).delta_bracket(5.0, Order.FORWARD)
    assert low < exact.delta(5.0) < high
    right = ComposedCurve._sides
    monkeypatch.setattr(ComposedCurve, "_sides", lambda *given: (right(*given)[side],) * 2)
    low, high = ComposedCurve.of(*sides, 50).delta_bracket(5.0, Order.FORWARD)
    assert not low <= exact.delta(5.0) <= high


def exact(epsilon: float) -> mp.mpf:
    """Delta of the composed randomised response, from the numbers of each answer."""
    loss = mp.mpf(LOSS)
    p = 1 / (1 + mp.exp(-loss))
    total = mp.mpf(0)
    for k in range(TIMES + 1):
        at = (2 * k - TIMES) * loss
        if at > epsilon:
            total += mp.binomial(TIMES, k) * p**k * (1 - p) ** (TIMES - k) * -mp.expm1(epsilon - at)
    return total


def misses(slip: float, rounding: float) -> int:
    """Count brackets that do not hold, of masses wrong by ``slip`` that state ``rounding``."""
    p = np.zeros(2 * CELLS + 1)
    odds = math.exp(LOSS)
    p[0], p[-1] = (1 + slip) / (1 + odds), (1 + slip) * odds / (1 + odds)
    sides = [
        GridPair(above, LOSS / CELLS, -CELLS, p, p, rounding=rounding) for above in (False, True)
    ]
    curve = ComposedCurve.of(*sides, TIMES)
    count = 0
    with mp.workdps(60):
        for epsilon in EPSILONS:
            try:
                low, high = curve.delta_bracket(epsilon, Order.FORWARD)
            except BracketError:  # the ends are in the wrong order
                count += 1
            else:
                count += not low <= exact(epsilon) <= high
    return count


def test_brackets_on_the_grid_are_narrow_and_hold() -> None:
    assert misses(0.0, 4 * UNIT_ROUNDOFF) == 0


@pytest.mark.parametrize("slip", [1e-10, -1e-10])
def test_a_rounding_of_masses_that_is_left_out(slip: float) -> None:
    assert misses(slip, 1.01e-10) == 0
    assert misses(slip, 4 * UNIT_ROUNDOFF) == len(EPSILONS)


@pytest.mark.parametrize(
    ("units", "assumed", "caught"), [(3.0, 10.0, False), (-1e8, 1e9, False), (1e8, 10.0, True)]
)
def test_errors_of_transforms(
    monkeypatch: pytest.MonkeyPatch, units: float, assumed: float, caught: bool
) -> None:
    """Transforms with the errors that are assumed; larger ones are not covered."""
    monkeypatch.setattr(layer, "_UNITS_PER_STAGE", assumed)
    transform, random = scipy.fft.rfft, np.random.default_rng(1)

    def rounded(x: np.ndarray, *more: object) -> np.ndarray:
        found = transform(x, *more)
        size = units * UNIT_ROUNDOFF * math.log2(x.size) * float(np.linalg.norm(x))
        slips = size * np.exp(2j * np.pi * random.random(found.size))
        slips[[0, -1]] = size
        if units < 0:  # all masses are too small
            slips = units * UNIT_ROUNDOFF * math.log2(x.size) * found
        return np.asarray(found + slips)

    monkeypatch.setattr(scipy.fft, "rfft", rounded)
    assert (misses(0.0, 4 * UNIT_ROUNDOFF) > 0) is caught
