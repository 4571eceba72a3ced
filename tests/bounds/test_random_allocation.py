"""Feldman and Shenfeld (2025), and Ertan and van Dijk (2026), against exact curves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from audit import Batching, Order, bounds
from audit.bounds.random_allocation import (
    HIGHEST_ORDER,
    TotalVariationCurve,
    chi_square,
    least_noise_multiplier,
    total_variation_bound,
)
from audit.curves import GaussianCurve
from audit.dominating.random_allocation import random_allocation
from tests.mechanisms import dp_sgd
from tests.slow import slow

IDS = ("fs25.theorem_4_3", "fs25.theorem_4_4", "fs25.theorem_4_1")


def allocation(noise, length, epochs=1, participations=1, **fixed):
    """Return a run whose noise multiplier is ``noise``: records of an epoch in L k steps."""
    return dp_sgd(
        steps=length * participations * epochs,
        dataset_size=length,
        batch_size=1,
        noise_std=noise,
        batching=Batching.RANDOM_ALLOCATION,
        participations=participations,
        **fixed,
    )


def violations(random):
    noise = float(np.exp(random.uniform(math.log(0.4), math.log(6.0))))
    length = int(random.choice([2, 3, 5, 12, 60, 400]))
    epochs, times = int(random.choice([1, 1, 2, 7])), int(random.choice([1, 1, 2]))
    m = allocation(noise, length, epochs, times)
    sizes = {"steps_per_epoch": m.steps_per_epoch, "steps": m.steps, "participations": times}
    exact = random_allocation(m.noise_multiplier, cells=512, **sizes)
    delta = float(10 ** random.uniform(-9, -1))
    least = {order: exact.epsilon_bracket(delta, order=order)[0] for order in Order}
    for id in IDS:
        if id in bounds.applicable(m):
            claimed = bounds.evaluate(id, m)
            for order in Order:
                if least[order] > claimed.epsilon(delta, order) * (1 + 1e-9):
                    yield f"{id} for {m}, {order}, delta={delta}"


@pytest.mark.parametrize("mechanisms", [4, slow(8)])
def test_no_bound_is_below_the_exact_curve(mechanisms):
    random = np.random.default_rng(11)
    found = [one for _ in range(mechanisms) for one in violations(random)]
    assert not found, "\n".join(found[:10])


def test_a_planted_violation_is_found(monkeypatch):
    def too_small(id, mechanism):  # the mean of the steps alone, as if its ratio were lognormal
        return GaussianCurve(1 / (mechanism.noise_multiplier * math.sqrt(mechanism.steps)))

    monkeypatch.setattr(bounds, "evaluate", too_small)
    random = np.random.default_rng(12)
    assert sum(bool(list(violations(random))) for _ in range(5)) >= 4


def test_moments_are_those_of_the_mean():
    noise, length = 0.9, 4
    curve = bounds.evaluate("fs25.theorem_4_4", allocation(noise, length))
    two = math.exp(1 / noise**2) / length + 1 - 1 / length
    assert curve.renyi(2.0, Order.FORWARD) == pytest.approx(math.log(two), rel=1e-8)
    # every term of the fourth moment
    total = sum(
        math.exp((sum(uses.count(j) ** 2 for j in set(uses)) - 4) / (2 * noise**2))
        for uses in itertools.product(range(length), repeat=4)
    )
    assert curve.renyi(4.0, Order.FORWARD) == pytest.approx(
        math.log(total / length**4) / 3, rel=1e-8
    )


def test_other_orders_take_the_next_integer_and_one_step_is_the_gaussian_mechanism():
    curve = bounds.evaluate("fs25.theorem_4_4", allocation(1.0, 10))
    removal = Order.FORWARD
    assert curve.renyi(3.5, removal) == curve.renyi(4.0, removal)
    assert curve.renyi(1.5, removal) == curve.renyi(2.0, removal)
    assert math.isinf(curve.renyi(HIGHEST_ORDER + 1.0))
    curve = bounds.evaluate("fs25.theorem_4_4", allocation(1.3, 1, epochs=3))
    assert curve.renyi(8.0) == pytest.approx(3 * 8 / (2 * 1.3**2), rel=1e-8)


def test_the_price_over_poisson_batches_is_at_most_e_over_e_minus_1():
    m = allocation(3.0, 200)
    claimed = bounds.evaluate("fs25.theorem_4_3", m)
    share = 1 - (1 - 1 / 200) ** 200
    poisson = claimed.poisson.epsilon(1e-6 * share, Order.FORWARD)
    ratio = claimed.epsilon(1e-6, Order.FORWARD) / poisson
    assert 1 < ratio < math.e / (math.e - 1)
    assert claimed.delta(claimed.epsilon(1e-6, Order.FORWARD), Order.FORWARD) <= 1.001e-6


def test_the_analytic_bound_needs_many_steps():
    assert math.isinf(bounds.evaluate("fs25.theorem_4_1", allocation(1.0, 10)).epsilon(1e-5))
    calm = bounds.evaluate("fs25.theorem_4_1", allocation(10.0, 1000))
    assert calm.epsilon(1e-5) == pytest.approx(0.015569, abs=1e-5)


def test_records_in_every_step_are_full_batches():
    m = allocation(2.0, 1, 4)
    assert bounds.evaluate("fs25.theorem_4_1", m).epsilon(1e-5) >= GaussianCurve(1.0).epsilon(1e-5)


# --------------------------------------------------------------------------------- total variation


def test_the_bound_is_above_the_exact_total_variation():
    random = np.random.default_rng(21)
    ratios = []
    for _ in range(5):
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
    usual = bounds.evaluate("evd26.theorem_3_3", allocation(2.0, 10, 3)).delta(0.0)
    exact = math.sqrt((1 + math.expm1(1 / 4) / 10) ** 3 - 1) / 2
    assert exact <= usual == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("id", ["fs25.theorem_4_4", slow("fs25.theorem_4_3")])
def test_tradeoff_functions_of_both_orders(id):
    """Each order's steep tests are bounded by the delta of the other one: .98 of .946 once."""
    m = allocation(0.4, 5)
    exact, claimed = random_allocation(0.4, steps_per_epoch=5, steps=5), bounds.evaluate(id, m)
    for order, alpha in itertools.product(Order, (1e-4, 1e-3, 1e-2, 0.1)):
        assert claimed.beta(alpha, order) <= exact.beta_bracket(alpha, order)[1]


def test_noise_beyond_the_grid_is_refused():
    with pytest.raises(ValueError, match=r"at most 1e\+08 for random .* got 1000000000"):
        random_allocation(1e14, steps_per_epoch=100, steps=100)
