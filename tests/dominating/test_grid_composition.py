"""Composition of pairs on a grid of losses: closed forms, and finite laws by enumeration."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import scipy.fft
from numpy.typing import NDArray

from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.dominating import layer
from audit.dominating.curve import (
    ComposedCurve,
    EnclosedCurve,
    GaussianDominatingCurve,
    GridComposition,
)
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated, dominating, mixed
from audit.numerics.normal import log_density

Array = NDArray[np.float64]


def gaussian_sides(mu: float, interval: float) -> tuple[GridPair, GridPair]:
    """N(mu, 1) against N(0, 1): 20 outcomes an interval; what lies beyond is 1e-20 at most."""
    # a midpoint rule of this width is exact to rounding, so the outcomes are a fine Gaussian pair
    x = np.arange(-9.5, 9.5 + mu, interval / mu / 20)
    log_width = math.log(interval / mu / 20)
    log_p, log_q = log_density(x - mu) + log_width, log_density(x) + log_width
    return dominated(log_p, log_q, interval), dominating(log_p, log_q, interval)


@pytest.mark.parametrize(
    ("mu", "times", "delta"),
    [(1.0, 1, 1e-6), (0.5, 50, 0.3), (0.5, 50, 1e-12), (2.0, 20, 1e-12), (0.02, 2500, 1e-6)],
)
def test_gaussians_compose(mu: float, times: int, delta: float) -> None:
    """Both orders, small delta and an epsilon of 102."""
    interval = 0.01 * mu
    curve = ComposedCurve.of(*gaussian_sides(mu, interval), times)
    exact = GaussianCurve(mu * math.sqrt(times)).epsilon(delta)
    for order in Order:
        low, high = curve.epsilon_bracket(delta, order)
        # the tails beyond 9.5 and the midpoint rule at the kink: less than this
        assert low <= exact * (1 + 1e-9)
        assert high >= exact * (1 - 1e-9)
        assert high - low < 5e-4 * max(exact, mu)
    low, high = curve.delta_bracket(exact)
    assert low <= delta * (1 + 1e-7)
    assert high >= delta * (1 - 1e-7)
    assert curve.delta(-exact, Order.FORWARD) == pytest.approx(
        1 - math.exp(-exact) * (1 - delta), rel=1e-6
    )


P = np.array([0.5, 0.2, 0.2, 0.06, 0.04, 0.0])
Q = np.array([0.3, 0.4, 0.19, 0.1, 0.0, 0.01])


def exact_delta(p: Array, q: Array, times: int, epsilon: float) -> float:
    """Sum over all outcomes of ``times`` runs."""
    joint_p, joint_q = (
        np.array([math.prod(run) for run in itertools.product(law, repeat=times)]) for law in (p, q)
    )
    return float(np.maximum(joint_p - math.exp(epsilon) * joint_q, 0).sum())


def finite_sides(interval: float) -> tuple[GridPair, GridPair]:
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(P), np.log(Q)
    return dominated(log_p, log_q, interval), dominating(log_p, log_q, interval)


@pytest.mark.parametrize("interval", [0.3, 0.01])
@pytest.mark.parametrize("times", [1, 4])
def test_finite_laws_are_bracketed(times: int, interval: float) -> None:
    """Losses of both signs and outcomes of one law only, by enumeration of all runs."""
    curve = ComposedCurve.of(*finite_sides(interval), times)
    for epsilon in np.linspace(-3.0, 3.0, 13):
        for order, p, q in ((Order.FORWARD, P, Q), (Order.REVERSE, Q, P)):
            exact = exact_delta(p, q, times, float(epsilon))
            low, high = curve.delta_bracket(float(epsilon), order)
            assert low <= exact + 1e-12
            assert high >= exact - 1e-12
            if interval < 0.1:
                assert high - low < 2e-3


def test_roundings_of_negative_epsilons_are_counted() -> None:
    """Of equal laws delta is 1 - e^epsilon."""
    curve = ComposedCurve.of(GridPair.nothing(False, 0.1), GridPair.nothing(True, 0.1), 2)
    for epsilon in np.linspace(-3.0, -0.1, 30).tolist():
        low, high = curve.delta_bracket(epsilon, Order.FORWARD)
        with mp.workdps(40):
            assert low <= -mp.expm1(epsilon) <= high


def test_different_pairs_compose_and_mix() -> None:
    """A run of one pair after another, and a known coin that picks one of two."""
    sides = finite_sides(0.01)
    gaussian = gaussian_sides(1.0, 0.01)
    for index, sign in ((0, 1), (1, -1)):
        both = GridComposition([(sides[index], 2), (gaussian[index], 3)])
        other = GridComposition([(gaussian[index], 3), (sides[index], 2)])
        assert both.delta(1.0) == pytest.approx(other.delta(1.0), rel=1e-9)
        parts = (0.25, 0.25, sides[index]), (0.75, 0.75, gaussian[index])
        coin = GridComposition([(mixed(parts), 1)])
        exact = 0.25 * exact_delta(P, Q, 1, 0.5) + 0.75 * GaussianCurve(1.0).delta(0.5)
        assert sign * coin.delta(0.5) <= sign * exact + 1e-7
        assert coin.delta(0.5) == pytest.approx(exact, abs=2e-3)


def test_the_largest_loss_is_bounded_from_below() -> None:
    """By what is reached with some probability, not by the next point of a wide grid."""
    laws = np.log([0.75, 0.25]), np.log([0.25, 0.75])
    curve = ComposedCurve.of(dominated(*laws, 0.3), dominating(*laws, 0.3), 1)
    assert 1.0 < curve.epsilon_bracket(0.0)[0] <= math.log(3)


def test_what_only_one_law_has_bounds_epsilon() -> None:
    """P has .04 that Q lacks: no finite epsilon below it, in one run or in four."""
    upper = GridComposition([(finite_sides(0.01)[1], 1)])
    assert upper.epsilon(0.04) == math.inf
    assert upper.epsilon(0.041) < math.inf
    assert GridComposition([(finite_sides(0.01)[1], 4)]).p_only == pytest.approx(1 - 0.96**4)


@pytest.mark.parametrize("planted", ["location", "mass", "lifted"])
def test_a_planted_error_is_caught(planted: str) -> None:
    """One cell of shift, 0.3 % of mass, and atoms of the lower side out of place."""
    lower, upper = gaussian_sides(0.5, 0.01)
    if planted == "location":
        upper = replace(upper, first=upper.first - 1)
    elif planted == "mass":
        upper = replace(upper, p=upper.p * 0.997, lifted=upper.p * 0.997)
    else:
        lower = replace(lower, lifted=lower.p * math.exp(-0.005))
    with pytest.raises(BracketError, match=r"at delta 1e-06 in forward order .* low <= high"):
        ComposedCurve.of(lower, upper, 10).epsilon_bracket(1e-6, Order.FORWARD)


def test_exchanged_laws_state_their_rounding() -> None:
    """Products of an index and the interval are rounded by more, the larger they are."""
    cells = 400
    pair = GridPair(True, 0.1, 6000, np.full(cells, 0.5), np.full(cells, 0.5))
    other = pair.swapped()
    with mp.workdps(40):
        exact = [mp.exp(-mp.mpf(0.1) * (6000 + k)) / 2 for k in range(cells)]
        errors = [abs(mp.mpf(float(p)) / e - 1) for p, e in zip(other.p[::-1], exact, strict=True)]
    assert 20 * UNIT_ROUNDOFF < max(errors) <= other.rounding


def test_sides_and_intervals_must_match() -> None:
    lower, upper = finite_sides(0.01)
    with pytest.raises(ValueError, match="parts must be on one side and one interval"):
        GridComposition([(lower, 1), (upper, 1)])
    with pytest.raises(ValueError, match="parts must be on one side and one interval, got 0 parts"):
        GridComposition([(lower, 0)])
    with pytest.raises(ValueError, match="lower must be dominated and upper must dominate"):
        ComposedCurve(GridComposition([(upper, 1)]), GridComposition([(lower, 1)]))


# ------- Errors that are planted in compositions: a side that is the wrong one, roundings left out


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


@functools.cache
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
def test_errors_of_transforms(monkeypatch, units, assumed, caught):
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


def test_the_power_is_that_of_one_adversary() -> None:
    """The largest deltas of several, slope by slope, are those of the hull of their tradeoffs."""
    laws = [((0.6, 0.4), (0.4, 0.6)), ((0.9, 0.1), (0.999, 0.001))]
    sides = [GridComposition([(dominated(*np.log(law), 2.0**-8), 1)]) for law in laws]
    curve = EnclosedCurve(tuple(sides), GaussianDominatingCurve(6.0))
    # rejects the second outcome under the second law, and in .049 of the other cases
    best = 0.1 + 0.9 * (0.05 - 0.001) / 0.999
    low = curve.power_bracket(0.05, Order.REVERSE)[0]
    assert 0.9 * best < low < best


def test_the_power_of_an_enclosed_curve_takes_the_other_order_of_its_bounds() -> None:
    logs = np.log([(0.6, 0.4 - 1e-6, 1e-6), (0.1, 0.4, 0.5)])
    exact = ComposedCurve.of(dominated(*logs, 2.0**-8), dominating(*logs, 2.0**-8), 1)
    wide = ComposedCurve.of(dominated(*logs, 2.0), dominating(*logs, 2.0), 1)
    nothing = GridComposition([(GridPair.nothing(False, 1.0), 1)])
    for order, best in ((Order.FORWARD, 0.5 + 0.05), (Order.REVERSE, 0.3)):
        found = EnclosedCurve((exact.lower,), exact).power_bracket(0.05, order)
        assert 0.9 * best < found[0] <= best + 1e-3
        attained = EnclosedCurve((nothing,), exact, wide).power_bracket(0.05, order)
        assert attained[0] == wide.power_bracket(0.05, order)[0]
