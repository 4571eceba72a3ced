"""Ertan and van Dijk (2026): chi-square bounds of random allocation."""

import math

import numpy as np
import pytest

from audit import Order, bounds
from audit.bounds.recent.evd26 import (
    TotalVariationCurve,
    chi_square,
    least_noise_multiplier,
    total_variation_bound,
)
from audit.curves import GaussianCurve
from audit.dominating.random_allocation import random_allocation
from tests.bounds.recent.test_random_allocation import allocation


def test_the_bound_is_above_the_exact_total_variation():
    random = np.random.default_rng(21)
    ratios = []
    for _ in range(15):
        noise = float(np.exp(random.uniform(math.log(0.3), math.log(5.0))))
        length, epochs = int(random.choice([1, 2, 10, 100])), int(random.choice([1, 3, 20]))
        claimed = bounds.evaluate("evd26.theorem_3_3", allocation(noise, length, epochs))
        pair = random_allocation(noise, steps_per_epoch=length, steps=length * epochs, cells=512)
        for order in Order:
            assert pair.delta_bracket(0.0, order=order)[0] <= claimed.delta(0.0) * (1 + 1e-9)
        ratios.append(claimed.delta(0.0) / pair.delta_bracket(0.0)[1])
    assert min(ratios) < 1.4


def test_the_divergence_is_the_second_moment_of_the_likelihood_ratio():
    for noise, length, epochs in ((1.0, 10, 1), (0.7, 3, 4)):
        m = allocation(noise, length, epochs)
        second = bounds.evaluate("fs25.theorem_4_4", m).renyi(2.0, Order.FORWARD)
        assert chi_square(noise, length, epochs) == pytest.approx(math.expm1(second), rel=1e-7)


def test_two_points_attain_the_bound():
    """Remark 3.2: both branches, by laws on two points."""
    for c in (0.04, 0.5, 1.0, 3.0):
        share = np.linspace(1e-6, 1 - 1e-6, 200_001)
        # Q puts q on a point of P-probability p, with (q - p)^2/(p (1 - p)) = c and q <= 1
        gap = np.sqrt(c * share * (1 - share))
        possible = gap[share + gap <= 1]
        assert possible.max() == pytest.approx(total_variation_bound(c), rel=1e-4)


def test_the_noise_of_corollary_3_4_meets_its_target():
    for length, epochs, target in ((100, 10, 0.1), (1, 5, 0.3), (1000, 1, 0.7)):
        noise = least_noise_multiplier(length, epochs, target)
        found = total_variation_bound(chi_square(noise, length, epochs))
        assert found == pytest.approx(target, rel=1e-9)
    with pytest.raises(ValueError, match="total_variation must be"):
        least_noise_multiplier(10, 1, 1.0)


def test_the_factor_tends_to_the_root_of_half_pi():
    claimed = total_variation_bound(chi_square(2.0, 4096, 1))
    low, high = random_allocation(2.0, steps_per_epoch=4096, steps=4096).delta_bracket(0.0)
    assert claimed / high < 1.2534
    assert claimed / low > 1.2532
    assert math.sqrt(math.pi / 2) == pytest.approx(1.2533, abs=5e-5)


def test_the_gaussian_limit_is_no_bound():
    """At one epoch of 64 steps it is far below the exact epsilon; at 64 epochs close to it."""
    limit = bounds.CATALOGUE["evd26.theorem_3_5"].function
    one = limit(allocation(1.0, 64))
    assert isinstance(one, GaussianCurve)
    exact = random_allocation(1.0, steps_per_epoch=64, steps=64).epsilon_bracket(1e-5)[0]
    assert one.epsilon(1e-5) == pytest.approx(0.5836, abs=1e-4)
    assert exact > 1.4 * one.epsilon(1e-5)
    exact = random_allocation(1.0, steps_per_epoch=64, steps=4096).epsilon_bracket(1e-5)
    assert limit(allocation(1.0, 64, 64)).epsilon(1e-5) == pytest.approx(exact[0], rel=0.01)


def test_the_curve_says_nothing_beyond_total_variation():
    curve = TotalVariationCurve(0.2)
    assert curve.delta([0.0, 3.0]).tolist() == [0.2, 0.2]
    assert curve.delta(-1.0) == pytest.approx(1 - math.exp(-1) * 0.8)
    assert math.isinf(curve.epsilon(0.19))
    assert math.isinf(curve.renyi(2.0))
    assert curve.beta([0.1, 0.9]).tolist() == pytest.approx([0.7, 0.0])


def test_extreme_noises_do_not_overflow():
    assert bounds.evaluate("evd26.theorem_3_3", allocation(0.01, 5)).delta(0.0) == 1.0
    assert chi_square(1e6, 10, 3) == pytest.approx(3e-13, rel=1e-6)
