"""The curve of the Laplace mechanism against integrals and its own inverses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from audit import Order
from audit.curves import LaplaceCurve, PureCurve

BOUNDS = (0.1, 1.0, 3.0)


def excess_mass(bound: float, epsilon: float, low: float, high: float) -> float:
    def excess(x: float) -> float:
        return max(laplace.pdf(x) - math.exp(epsilon) * laplace.pdf(x, bound), 0.0)

    return float(quad(excess, low, high, epsabs=1e-13)[0])


@pytest.mark.parametrize("bound", BOUNDS)
def test_delta_is_the_integral(bound: float) -> None:
    for epsilon in (-1.5 * bound, -0.3, 0.0, 0.4 * bound, 0.99 * bound, 1.2 * bound):
        kinks = sorted({-30.0, 0.0, 0.5 * (bound - epsilon), bound, 30.0})
        pieces = [excess_mass(bound, epsilon, *ends) for ends in itertools.pairwise(kinks)]
        assert LaplaceCurve(bound).delta(epsilon) == pytest.approx(math.fsum(pieces), abs=1e-11)


@pytest.mark.parametrize("bound", BOUNDS)
def test_epsilon_inverts_delta_and_is_pure_at_zero(bound: float) -> None:
    curve = LaplaceCurve(bound)
    delta = np.array([1e-12, 1e-5, 1e-2, 0.03])
    assert curve.delta(curve.epsilon(delta)) == pytest.approx(delta, rel=1e-3, abs=1e-16)
    assert curve.epsilon(0.0) == bound == PureCurve(bound).epsilon(0.0)
    assert curve.epsilon(0.0, Order.REVERSE) == bound
    assert LaplaceCurve(0.0).epsilon(0.0) == 0


@pytest.mark.parametrize("bound", BOUNDS)
def test_beta_is_that_of_threshold_tests(bound: float) -> None:
    threshold = np.linspace(-5.0, 5.0 + bound, 41)
    alpha, beta = laplace.sf(threshold), laplace.cdf(threshold, bound)
    assert LaplaceCurve(bound).beta(alpha) == pytest.approx(beta, rel=1e-12)
    assert LaplaceCurve(bound).beta([0.0, 1.0]) == pytest.approx([1.0, 0.0])
    assert LaplaceCurve(800.0).beta(0.0) == 1.0


@pytest.mark.parametrize("bound", [1e-6, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 8.0])
def test_renyi_is_the_integral(bound: float, alpha: float) -> None:
    import mpmath

    with mpmath.workdps(50):
        a, b = mpmath.mpf(alpha), mpmath.mpf(bound)
        moment = (a * mpmath.exp((a - 1) * b) + (a - 1) * mpmath.exp(-a * b)) / (2 * a - 1)
        truth = float(mpmath.log(moment) / (a - 1))
    assert LaplaceCurve(bound).renyi(alpha) == pytest.approx(truth, rel=1e-11)


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="bound must be"):
        LaplaceCurve(-1.0)
