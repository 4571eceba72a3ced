"""Special functions of the normal law against many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from audit.numerics.normal import gaussian_delta, log_density, mills_difference, mills_ratio
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
    slack = 1e-11 + 2e-16 * abs(epsilon) / mu * (1 + abs(z)) * 4
    assert own == pytest.approx(float(expected), rel=slack, abs=1e-310)


def test_the_naive_formula_fails() -> None:
    """A test of the test: a difference of two normal probabilities has no digits left."""
    from scipy.special import ndtr

    mu, epsilon = 1e-6, 4e-6
    naive = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    expected = float(reference.gaussian_delta(epsilon, mu))
    assert abs(naive / expected - 1) > 1e-9
    assert float(gaussian_delta(np.array(epsilon), np.array(mu))) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("epsilon", [-1e308, -800.0, 800.0, 1e308])
@pytest.mark.parametrize("mu", [1e-300, 1e-6, 1.0, 1e6])
def test_extremes_raise_no_warning(epsilon: float, mu: float) -> None:
    value = float(gaussian_delta(np.array(epsilon), np.array(mu)))
    assert 0 <= value <= 1


def test_log_density() -> None:
    assert float(log_density(np.array(100.0))) == pytest.approx(-5000.918938533205)


@pytest.mark.parametrize("mu", [20.0, 60.0, 61.0, 300.0])
@pytest.mark.parametrize("epsilon", [-1e-6, -1.0, -40.0, -2e3, -5e4])
def test_gaussian_delta_of_far_normals_at_negative_epsilons(mu: float, epsilon: float) -> None:
    """Of normals 60 deviations apart it is 1 at epsilon -1, not 1 - e^-1."""
    value = float(gaussian_delta(np.array(epsilon), np.array(mu)))
    assert value == pytest.approx(float(reference.gaussian_delta(epsilon, mu)), rel=1e-12)
