import math

import numpy as np
import pytest

from audit.curves import PureCurve

BOUNDS = [1e-9, 1e-3, 0.5, 3.0, 40.0, 900.0]


def response(bound):
    """The two laws of randomised response."""
    keep = 1 / (1 + math.exp(-bound))
    return np.array([keep, 1 - keep]), np.array([1 - keep, keep])


@pytest.mark.parametrize("bound", BOUNDS[:4])
def test_it_is_randomised_response(bound):
    p, q = response(bound)
    curve = PureCurve(bound)
    for epsilon in (-4.0, -0.4, 0.0, 0.3, 2.0, 5.0):
        exact = np.sum(np.maximum(p - math.exp(epsilon) * q, 0))
        assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-7, abs=1e-15)
    for alpha in (1.001, 2.0, 17.0):
        exact = math.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1)
        assert curve.renyi(alpha) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_inverse_and_limits(bound):
    curve = PureCurve(bound)
    assert curve.delta(bound) == 0
    assert curve.delta(-2 * bound) == pytest.approx(-math.expm1(-2 * bound))
    deltas = np.array([1e-12, 1e-5, 0.3, 0.9])
    epsilons = np.asarray(curve.epsilon(deltas))
    inside = (epsilons > 0) & (bound - epsilons > 1e-6)
    assert np.asarray(curve.delta(epsilons))[inside] == pytest.approx(deltas[inside], rel=1e-6)
    assert np.all(epsilons <= bound)
    orders = np.geomspace(1 + 1e-9, 1e9, 40)
    values = np.asarray(curve.renyi(orders))
    assert np.all((values >= 0) & (values <= bound))
    assert np.all(np.diff(values) >= -1e-9 * bound)
    betas = np.asarray(curve.beta([0.0, 1e-300, 0.3, 1.0]))
    assert betas[0] == 1
    assert betas[-1] == 0
    assert np.all((betas >= 0) & (betas <= 1))


def test_tradeoff_is_that_of_the_two_laws():
    curve = PureCurve(1.0)
    keep = 1 / (1 + math.exp(-1.0))
    assert curve.beta(1 - keep) == pytest.approx(1 - keep)
    assert curve.beta(0.5 * (1 - keep)) == pytest.approx(0.5 * (1 + 1 - keep))


def test_perfect_privacy_and_bad_input():
    assert PureCurve(0.0).delta(0.0) == 0
    assert PureCurve(0.0).epsilon(1e-9) == 0
    assert PureCurve(0.0).beta(0.25) == 0.75
    with pytest.raises(ValueError, match="bound must be a finite number of at least 0, got -1"):
        PureCurve(-1)
