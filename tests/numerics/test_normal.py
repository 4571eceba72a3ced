"""Special functions of the normal law against many digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from audit.numerics import normal
from audit.numerics.normal import (
    gaussian_delta,
    log_gaussian_delta_bracket,
    log_interval,
    log_interval_error,
    log_ndtr_error,
    mills_difference,
    mills_ratio,
    panel_error,
)
from audit.numerics.panels import gauss_legendre
from tests import reference


def mills(x: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        t = mpmath.mpf(x)
        return mpmath.erfc(t / mpmath.sqrt(2)) / 2 / mpmath.npdf(t)


@pytest.mark.parametrize("x", [-20.0, -3.0, 0.0, 1e-9, 0.7, 9.0, 100.0])
def test_mills_ratio(x: float) -> None:
    assert float(mills_ratio(np.array(x))) == pytest.approx(float(mills(x)), rel=1e-13)


@pytest.mark.parametrize("x", [-5.0, 0.0, 2.0, 30.0])
@pytest.mark.parametrize("step", [1e-14, 1e-8, 1e-3, 0.5, 0.999, 1.0, 1.5, 50.0])
def test_mills_difference_does_not_cancel(x: float, step: float) -> None:
    with mpmath.workdps(60):
        expected = float(mills(x) - mills(mpmath.mpf(x) + mpmath.mpf(step)))
    own = float(mills_difference(np.array(x), np.array(step)))
    assert own == pytest.approx(expected, rel=2e-12)


@pytest.mark.parametrize("mu", [1e-8, 1e-6, 1e-3, 0.1, 0.999, 1.0, 4.0, 40.0, 300.0])
@pytest.mark.parametrize("z", [-40.0, -31.0, -29.0, -6.0, -4.0, -1.0, 0.0, 0.5, 3.0, 8.0, 36.0])
def test_gaussian_delta(mu: float, z: float) -> None:
    """At epsilon = mu (z + mu/2), where delta is about Phi(-z)."""
    epsilon = mu * (z + mu / 2)
    expected = reference.gaussian_delta(epsilon, mu)
    own = float(gaussian_delta(np.array(epsilon), np.array(mu)))
    # epsilon is rounded: by one part in 2^53 it moves z by epsilon 2^-53 / mu
    slack = 1e-12 + 2e-16 * abs(epsilon) / mu * (1 + abs(z)) * 4
    assert own == pytest.approx(float(expected), rel=slack, abs=1e-310)


@pytest.mark.parametrize("epsilon", [-1e308, -800.0, 800.0, 1e308])
@pytest.mark.parametrize("mu", [1e-300, 1e-6, 1.0, 1e6])
def test_extremes_raise_no_warning(epsilon: float, mu: float) -> None:
    value = float(gaussian_delta(np.array(epsilon), np.array(mu)))
    assert 0 <= value <= 1


def cdf(x: float) -> arb:
    return (-arb(x) / arb(2).sqrt()).erfc() / 2


def misses_of_log_ndtr() -> int:
    from scipy.special import log_ndtr

    places = np.concatenate([np.linspace(-40, 36, 400), -np.geomspace(1e-6, 1e6, 30)])
    found = zip(places.tolist(), log_ndtr(places), log_ndtr_error(places), strict=True)
    with ctx.workprec(2000):  # next to 1, too
        return sum(abs(cdf(x).log() - float(log)) > float(error) for x, log, error in found)


def misses_of_intervals() -> int:
    rng = np.random.default_rng(2)
    low = rng.normal(0, 6, 400)
    high = low + 10 ** rng.uniform(-9, 1.3, 400)
    logs, errors = log_interval(low, high), log_interval_error(low, high)
    missed = 0
    with ctx.workprec(270):
        for a, b, log, error in np.stack([low, high, logs, errors], axis=1).tolist():
            a, b = (-b, -a) if a > 0 else (a, b)
            missed += abs((cdf(b) - cdf(a)).log() - log) > error
    return missed


def outside(exact: arb, low: float, high: float) -> bool:
    """Whether a number is; one within 400 digits of an end is not."""
    return not exact.is_finite() or exact < low or exact > high


def misses_of_log_deltas() -> int:
    """At mu from 1e-9 to 300, in tails down to e^-500,000."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(300):
        mu = float(10 ** rng.uniform(-9, 2.5))
        epsilon = max(mu * (mu / 2 + rng.normal(0, 10) * 10 ** rng.uniform(0, 2)), 0.0)
        low, high = log_gaussian_delta_bracket(epsilon, mu)
        missed += outside(reference.gaussian_delta(epsilon, mu).log(), low, high)
    return missed


def misses_of_deltas() -> int:
    """At epsilons of both signs, where delta is near 1 and where it is tiny."""
    rng = np.random.default_rng(5)
    mu = 10 ** rng.uniform(-3, 2.5, 600)
    epsilon = mu * (mu / 2 + rng.uniform(-30, 8, 600))
    epsilon[::3] = -(10 ** rng.uniform(-6, 4.7, 200))  # of far normals, too
    lows, highs = normal.gaussian_delta_bracket(epsilon, mu)
    rows = np.stack([epsilon, mu, lows, highs], axis=1).tolist()
    return sum(outside(reference.gaussian_delta(e, m), low, high) for e, m, low, high in rows)


@pytest.mark.parametrize(
    ("count", "name", "dropped"),
    [
        (misses_of_deltas, "_UNIT", 2.0**-60),
        (misses_of_log_ndtr, "_FUNCTION_UNITS", 0.0),
        (misses_of_intervals, "_UNIT", 2.0**-60),
        (misses_of_log_deltas, "_UNIT", 2.0**-60),
    ],
)
def test_error_bounds_hold_and_are_needed(monkeypatch, count, name, dropped) -> None:  # type: ignore[no-untyped-def]
    """No reference of many digits is missed; without the roundings some are."""
    assert count() == 0
    monkeypatch.setattr(normal, name, dropped)
    assert count() > 0


def test_far_tails_have_bounds_by_series() -> None:
    """Where 1 - t M(t) has no digits left, 1/(t^2 + 3) and 1/(t^2 + 1) enclose it."""
    mu, epsilon = 1e-9, 1e3
    low, high = log_gaussian_delta_bracket(epsilon, mu)
    assert high - low < 1e-14 * abs(low)
    assert low < -0.5 * (epsilon / mu) ** 2 + math.log(mu) < 0


def worst_panel(nodes: int, width: float, steepness: float) -> float:
    """Largest relative error of panels, but for 1e-16 of the rule's own rounding."""
    points, weights = (part.tolist() for part in gauss_legendre(nodes))
    half, found = mpmath.mpf(width) / 2, []
    with mpmath.workdps(60):
        for far in np.linspace(width, steepness / width, 7):
            start = mpmath.mpf(float(far)) - width
            exact = mpmath.ncdf(start + width) - mpmath.ncdf(start)
            values = [mpmath.npdf(start + half * (1 + x)) for x in points]
            total = sum(w * value for w, value in zip(weights, values, strict=True))
            found.append(abs(float(half * total / exact - 1)))
    return max(found) - 4e-16


def test_rules_are_rounded_once() -> None:
    """NumPy's weights of 24 nodes are off by up to 1e-13."""
    with ctx.workprec(120):
        exact = [arb.legendre_p_root(24, k, weight=True) for k in reversed(range(24))]
        for numbers, truth in zip(gauss_legendre(24), zip(*exact, strict=True), strict=True):
            for number, true in zip(numbers.tolist(), truth, strict=True):
                assert abs(true - number) <= abs(true) * 2.0**-53


@pytest.mark.parametrize(
    ("nodes", "width", "steepness"), [(3, 0.01, 0.01), (5, 0.2, 0.2), (8, 1.0, 2.0)]
)
def test_quadrature_of_the_density(nodes: int, width: float, steepness: float) -> None:
    """Errors are within the bound, which half the nodes do not meet."""
    bound = panel_error(nodes, width, steepness)
    assert worst_panel(nodes, width, steepness) <= bound < worst_panel(nodes // 2, width, steepness)


def test_the_quick_upper_bound_is_one() -> None:
    """At least the counted one, in all tails and for mu up to 1000, and hardly above it."""
    rng = np.random.default_rng(4)
    mu = 10 ** rng.uniform(-9, 3, 4000)
    epsilon = np.maximum(mu * (mu / 2 + rng.uniform(-40, 38, 4000)), -700)
    counted = normal.gaussian_delta_bracket(epsilon, mu)[1]
    quick = normal.gaussian_delta_above(epsilon, mu)
    some = counted > 1e-310
    assert np.all(quick[some] >= counted[some])
    assert np.all(quick[some] <= counted[some] * (1 + 1e-10))
