import math

import numpy as np
import pytest

from audit.curves import GaussianCurve, RenyiCurve
from papers.renyi_conversions import bun_steinke, lemma_2_5

DELTAS = np.geomspace(1e-12, 0.5, 30)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 40.0])
def test_gaussian_divergences_give_a_sound_and_tight_curve(mu):
    renyi, exact = RenyiCurve.linear(mu**2 / 2), GaussianCurve(mu)
    loose, tight = np.asarray(renyi.epsilon(DELTAS)), np.asarray(exact.epsilon(DELTAS))
    assert np.all(loose >= tight)
    assert np.all(loose <= tight + 0.6 * mu * np.maximum(1, mu))
    far = DELTAS < 1e-4
    if mu >= 1:
        assert np.all(loose[far] <= 1.1 * tight[far])
    epsilons = np.linspace(-2 * mu, mu**2 + 8 * mu, 40)
    assert np.all(np.asarray(renyi.delta(epsilons)) >= np.asarray(exact.delta(epsilons)) - 1e-16)
    alphas = np.linspace(0, 1, 41)
    assert np.all(np.asarray(renyi.beta(alphas)) <= np.asarray(exact.beta(alphas)) + 1e-12)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.5, 100.0])
def test_never_worse_than_the_older_conversions_or_a_dense_grid(rho):
    curve = RenyiCurve.linear(rho)
    orders = 1 + np.geomspace(1e-8, 1e8, 20_001)
    for delta in (1e-12, 1e-5, 0.05):
        log = math.log(1 / delta)
        epsilon = curve.epsilon(delta)
        # Bun and Steinke (2016), Proposition 1.3, is Mironov's conversion at its best order
        assert epsilon <= rho + 2 * math.sqrt(rho * log)
        for alpha in (1.1, 2.0, 10.0, 1000.0):
            assert epsilon <= lemma_2_5(alpha=alpha, divergence=alpha * rho, delta=delta)
        assert epsilon <= bun_steinke(rho=rho, delta=delta) * (1 + 1e-9)
        dense = orders * rho + np.log1p(-1 / orders) + (log - np.log(orders)) / (orders - 1)
        assert epsilon <= max(np.min(dense), 0) + 1e-12


def test_delta_and_epsilon_are_inverses_of_each_other():
    curve = RenyiCurve.linear(0.5)
    deltas = np.geomspace(1e-12, 0.05, 20)
    assert np.asarray(curve.delta(curve.epsilon(deltas))) == pytest.approx(deltas, rel=1e-9)


def test_total_variation_bounds_large_delta():
    curve = RenyiCurve.linear(1e-4)
    assert curve.delta(0.0) == pytest.approx(math.sqrt(1e-4 / 2), rel=1e-6)
    assert curve.epsilon(0.01) == 0.0
    assert curve.delta(-1.0) == pytest.approx(1 - math.exp(-1) * (1 - curve.delta(1.0)))


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
def test_no_pair_of_two_points_is_above_the_conversion(alpha, divergence):
    curve = RenyiCurve(
        lambda a: np.full_like(a, divergence), lowest=alpha, highest=math.nextafter(alpha, 99)
    )
    for delta in (0.02, 0.2):
        epsilon = curve.epsilon(delta)
        reached = worst_two_point_delta(alpha, divergence, epsilon)
        assert reached <= delta
        if alpha * divergence > 0.5:  # for less the conversion loses more than a half
            assert worst_two_point_delta(alpha, divergence, 0.5 * epsilon) > delta


def test_one_order_only_is_the_plain_conversion():
    """D_2 <= 1 and nothing else: chi-squared at most e - 1."""
    curve = RenyiCurve(lambda a: np.ones_like(a), lowest=2.0, highest=math.nextafter(2.0, 3.0))
    expected = 1 + math.log(1 / 2) - (math.log(1e-5) + math.log(2))
    assert curve.epsilon(1e-5) == pytest.approx(expected, rel=1e-9)
    assert curve.renyi(1.5) == 1.0
    assert curve.renyi(3.0) == math.inf


def test_no_loss_at_all():
    curve = RenyiCurve.linear(0.0)
    assert curve.epsilon(1e-12) == 0.0
    assert curve.delta(0.0) == 0.0
    assert curve.beta(0.3) == pytest.approx(0.7)


def test_infinite_divergences_are_welcome():
    """Randomised response has all orders; a bound may end at order 8."""
    curve = RenyiCurve(lambda a: np.where(a <= 8, 0.1 * a, np.inf))
    ended = RenyiCurve(lambda a: 0.1 * a, highest=8.0)
    assert curve.epsilon(1e-9) == pytest.approx(ended.epsilon(1e-9), rel=1e-3)
    assert ended.epsilon(1e-9) >= RenyiCurve.linear(0.1).epsilon(1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RenyiCurve.linear(-1.0), "rho must be a finite number of at least 0, got -1.0"),
        (lambda: RenyiCurve(3), "divergence must be a function of orders, got 3"),  # type: ignore
        (lambda: RenyiCurve(lambda a: a, lowest=3.0, highest=2.0), "lowest must be at least 1"),
        (lambda: RenyiCurve(lambda a: a, search=(0.0, 1.0)), "search must be an increasing pair"),
        (
            lambda: RenyiCurve(lambda a: a - 5).epsilon(0.1),
            "divergence must be at least 0, got -3.9.* at order 1",
        ),
    ],
)
def test_refuses_bad_input(build, message):
    with pytest.raises(ValueError, match=message):
        build()
