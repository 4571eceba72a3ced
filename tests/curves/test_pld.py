import math

import numpy as np
import pytest

from audit.curves import LossDistribution, Order, PLDCurve, RenyiCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.gaussian import GaussianCurve


def randomised_response(epsilon=1.0, points=4):
    """Loss +epsilon with probability e^epsilon/(1 + e^epsilon), else -epsilon."""
    masses = np.zeros(2 * points + 1)
    masses[-1] = math.exp(epsilon) / (1 + math.exp(epsilon))
    masses[0] = 1 - masses[-1]
    return LossDistribution(epsilon / points, -points, masses)


def test_profile_of_randomised_response():
    law = randomised_response()
    epsilons = np.array([0.0, 0.3, 0.5, 0.99, 1.0, 1.5, 300.0, 2000.0])
    expected = np.maximum(0, math.e - np.exp(np.minimum(epsilons, 700))) / (1 + math.e)
    assert law.delta(epsilons) == pytest.approx(expected, abs=1e-15)


def test_epsilon_inverts_delta_between_grid_points():
    law = randomised_response()
    deltas = np.array([0.4, 0.3, 0.1, 1e-3, 1e-9])
    assert law.delta(law.epsilon(deltas)) == pytest.approx(deltas, rel=1e-6)
    assert law.epsilon(np.array([0.9]))[0] == 0.0


def test_infinite_mass_is_never_exceeded():
    law = LossDistribution(0.5, 0, np.array([0.5, 0.4]), infinite_mass=0.1)
    assert law.epsilon(np.array([0.1, 0.05])).tolist() == [math.inf, math.inf]
    assert law.delta(np.array([50.0]))[0] == 0.1


@pytest.mark.parametrize("interval", [1e-9, 1e-4, 0.01, 0.1, 1.5, 2.0, 50.0, 900.0])
def test_coarse_and_fine_grids_agree_with_sums_one_by_one(interval):
    rng, points = np.random.default_rng(3), 20_000  # several blocks
    masses = rng.random(points) * 10.0 ** rng.uniform(-300, 0, points)
    start, p_tail, q_tail = LossDistribution(interval, 0, masses)._tails
    tail, expected = 0.0, []
    for mass in masses[::-1]:
        tail = math.exp(-interval) * (mass + tail)
        expected.append(tail)
    # sums of positive numbers: as many roundings as points
    assert q_tail[-2::-1] == pytest.approx(expected, rel=points * 2**-53, abs=1e-320)
    assert p_tail[-2::-1] == pytest.approx(np.cumsum(masses[::-1]), rel=points * 2**-53)
    assert (start, p_tail[-1], q_tail[-1]) == (-1, 0.0, 0.0)


def test_losses_of_thousands_of_nats_keep_their_digits():
    law = LossDistribution(0.25, 8000, np.full(4, 0.25))
    by_hand = 0.25 * sum(max(0.0, -math.expm1(2000.3 - loss)) for loss in (2000.5, 2000.75))
    assert law.delta(np.array([2000.3]))[0] == pytest.approx(by_hand, rel=1e-12)
    assert law.epsilon(np.array([by_hand]))[0] == pytest.approx(2000.3, rel=1e-13)
    assert law.delta(np.array([0.0, 100.0])) == pytest.approx([1, 1])


def curve(rounding=1e-13):
    law = randomised_response()
    moments = RenyiCurve(lambda a: np.ones_like(a))
    return PLDCurve(law, rounding, moments, lambda: (law, rounding))


def test_bracket_is_as_wide_as_the_rounding():
    low, high = curve(1e-6).epsilon_bracket(0.1)
    assert low < high
    middle = float(randomised_response().epsilon(np.array([0.1]))[0])
    assert low < middle < high
    assert high - low < 1e-4


def test_below_the_floor_only_renyi_answers():
    c = curve()
    assert c.epsilon(1e-12) == c.moments.epsilon(1e-12)
    assert c.delta(5.0) <= 1e-11
    assert c.delta_bracket(5.0)[0] == 0.0


def test_negative_epsilon_follows_from_the_other_order():
    c = curve()
    exact = 1 - math.exp(-0.5) * (1 - c.delta(0.5))
    assert c.delta(-0.5) == pytest.approx(exact, rel=1e-12)
    low, high = c.delta_bracket(-0.5)
    assert exact - 1e-12 < low < exact <= high


def test_beta_of_randomised_response():
    c = curve()
    # the tradeoff function has its kink at 1/(1 + e) on both axes
    kink = 1 / (1 + math.e)
    assert c.beta(kink) == pytest.approx(kink, rel=1e-3)
    assert c.beta(kink / 2) == pytest.approx(1 - math.e * kink / 2, rel=1e-3)
    assert c.beta(0.0) == pytest.approx(1, rel=1e-6)


def test_brackets_of_other_quantities():
    """The best test of type I error at most 1/(1 + e) has power e/(1 + e); epsilon at 0 is 1."""
    c, share = curve(), 1 / (1 + math.e)
    low, high = c.power_bracket(share, Order.FORWARD)
    assert low <= math.e * share <= high
    assert high - low < 1e-3
    assert c.epsilon_bracket(0.0) == (pytest.approx(1.0, abs=1e-9), math.inf)
    assert c.renyi_bracket(2.0) == (0.0, 1.0)
    assert 0 < c.errors(0.1)["grid"] < 1e-10


def test_duality_recovers_the_gaussian_from_below():
    exact = GaussianCurve(1.5)
    alphas = np.linspace(0, 1, 101)
    points = profile_points(exact.epsilon(1e-13), 4096)
    found = tradeoff_from_profile(alphas, points, np.asarray(exact.delta(points)))
    assert np.all(found <= np.asarray(exact.beta(alphas)) + 1e-14)
    assert found == pytest.approx(exact.beta(alphas), rel=1e-5, abs=1e-9)


def test_duality_with_no_points_but_zero():
    assert profile_points(math.inf).tolist() == [0.0]
    beta = tradeoff_from_profile(np.array([0.0, 0.2]), np.zeros(1), np.array([0.1]))
    assert beta == pytest.approx([0.9, 0.7])


def test_the_lower_side_is_computed_once_and_for_brackets_alone():
    law, asked = randomised_response(), []

    def lower():
        asked.append(law)
        return law, 1e-13

    c = PLDCurve(law, 1e-13, RenyiCurve(lambda a: np.ones_like(a)), lower)
    assert c.epsilon(0.1) > 0
    assert not asked
    assert c.epsilon_bracket(0.1)[0] <= c.epsilon(0.1)
    assert c.delta_bracket(0.5)[0] <= c.delta(0.5)
    assert len(asked) == 1
