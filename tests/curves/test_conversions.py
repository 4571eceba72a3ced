import math

import numpy as np
import pytest

from audit.curves import GaussianCurve, RenyiCurve
from audit.curves.conversions import asoodeh_epsilon, best_epsilon
from papers.renyi_conversions import balle, bun_steinke, lemma_2_5


def worst_two_point_delta(alpha, divergence, epsilon):
    """The best event of two-point pairs within the divergence: the least q, for each of many p."""
    p = np.linspace(1e-6, 1 - 1e-6, 3000)
    low, high = np.full(p.shape, 1e-12), p
    for _ in range(50):  # the moment falls as q rises to p, where it is 1
        q = np.sqrt(low * high)
        moment = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
        allowed = moment <= math.exp((alpha - 1) * divergence)
        low, high = np.where(allowed, low, q), np.where(allowed, q, high)
    return float(np.max(p - math.exp(epsilon) * high))


@pytest.mark.parametrize("alpha", [1.5, 3.0, 10.0])
@pytest.mark.parametrize("divergence", [0.01, 0.3, 2.0])
def test_one_order_is_converted_exactly(alpha, divergence):
    for delta in (0.02, 0.2):
        epsilon = asoodeh_epsilon(alpha, divergence, delta)
        assert epsilon <= balle(alpha=alpha, divergence=divergence, delta=delta)
        reached = worst_two_point_delta(alpha, divergence, epsilon)
        assert reached <= delta
        if epsilon > 0:
            assert reached == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize(
    ("mu", "delta"), [(1e-3, 1e-12), (1e-3, 0.2), (1.0, 1e-5), (40.0, 1e-12), (40.0, 0.2)]
)
def test_the_best_is_sound_and_never_above_the_others(mu, delta):
    rho = mu**2 / 2
    curve = RenyiCurve.linear(rho)
    best = best_epsilon(curve, delta)
    assert GaussianCurve(mu).epsilon(delta) <= best <= curve.epsilon(delta)
    assert curve.epsilon(delta) <= bun_steinke(rho=rho, delta=delta) * (1 + 1e-9)
    for alpha in (1.1, 2.0, 10.0, 1000.0):
        assert best <= lemma_2_5(alpha=alpha, divergence=alpha * rho, delta=delta)


def test_asoodeh_gains_where_delta_is_large():
    curve = RenyiCurve.linear(0.05**2 / 2)
    assert best_epsilon(curve, 0.01) <= 0.9 * curve.epsilon(0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 1.0, 0.1), "alpha must be a finite number above 1, got 1.0"),
        ((2.0, -1.0, 0.1), "divergence must be a finite number of at least 0"),
        ((2.0, 1.0, 1.0), r"delta must be in \(0, 1\), got 1.0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        asoodeh_epsilon(*arguments)
    assert asoodeh_epsilon(2.0, 0.0, 0.1) == 0
