"""Feldman and Shenfeld (2025) against the exact curve of the pair that they compose."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, NoisySGD, Order, Relation, Release, bounds
from audit.bounds.recent.fs25 import HIGHEST_ORDER
from audit.curves import GaussianCurve
from audit.dominating.random_allocation import random_allocation

IDS = ("fs25.theorem_4_3", "fs25.theorem_4_4", "fs25.theorem_4_1")
MECHANISMS = 12


def allocation(noise, length, epochs=1, participations=1, **fixed):
    """Return a run whose noise multiplier is ``noise``: records of an epoch in L k steps."""
    return NoisySGD(
        steps=length * participations * epochs,
        dataset_size=length,
        batch_size=1,
        step_size=0.1,
        noise_std=noise,
        clip_norm=1.0,
        convex=False,
        batching=Batching.RANDOM_ALLOCATION,
        relation=Relation.ADD_REMOVE,
        release=Release.ALL_ITERATES,
        participations=participations,
        **fixed,
    )


def violations(random):
    noise = float(np.exp(random.uniform(math.log(0.4), math.log(6.0))))
    length = int(random.choice([2, 3, 5, 12, 60, 400]))
    epochs, times = int(random.choice([1, 1, 2, 7])), int(random.choice([1, 1, 2]))
    m = allocation(noise, length, epochs, times)
    exact = random_allocation(
        m.noise_multiplier,
        steps_per_epoch=m.steps_per_epoch,
        steps=m.steps,
        participations=times,
        cells=512,
    )
    delta = float(10 ** random.uniform(-9, -1))
    least = {order: exact.epsilon_bracket(delta, order=order)[0] for order in Order}
    for id in IDS:
        if id in bounds.applicable(m):
            claimed = bounds.evaluate(id, m)
            for order in Order:
                if least[order] > claimed.epsilon(delta, order) * (1 + 1e-9):
                    yield f"{id} for {m}, {order}, delta={delta}"


def test_no_bound_is_below_the_exact_curve():
    random = np.random.default_rng(11)
    found = [one for _ in range(MECHANISMS) for one in violations(random)]
    assert not found, "\n".join(found[:10])


def test_a_planted_violation_is_found(monkeypatch):
    def too_small(id, mechanism):  # the mean of the steps alone, as if its ratio were lognormal
        return GaussianCurve(1 / (mechanism.noise_multiplier * math.sqrt(mechanism.steps)))

    monkeypatch.setattr(bounds, "evaluate", too_small)
    random = np.random.default_rng(12)
    assert sum(bool(list(violations(random))) for _ in range(10)) >= 9


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


def test_other_orders_take_the_next_integer():
    curve = bounds.evaluate("fs25.theorem_4_4", allocation(1.0, 10))
    removal = Order.FORWARD
    assert curve.renyi(3.5, removal) == curve.renyi(4.0, removal)
    assert curve.renyi(1.5, removal) == curve.renyi(2.0, removal)
    assert math.isinf(curve.renyi(HIGHEST_ORDER + 1.0))


def test_one_step_is_the_gaussian_mechanism():
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


def test_addition_over_epochs_needs_a_constant_for_each():
    """The code of release 1.0.4 adds one: below the exact curve of addition."""
    noise, length, epochs = 0.5, 2, 10
    pair = random_allocation(noise, steps_per_epoch=length, steps=length * epochs)
    low = pair.epsilon_bracket(1e-5, order=Order.REVERSE)[0]
    gaussian = GaussianCurve(math.sqrt(epochs / length) / noise).epsilon(1e-5)
    shift = (1 - 1 / length) / (2 * noise**2)
    assert gaussian + shift < 0.9 * low
    assert gaussian + epochs * shift > low


def test_the_analytic_bound_needs_many_steps():
    assert math.isinf(bounds.evaluate("fs25.theorem_4_1", allocation(1.0, 10)).epsilon(1e-5))
    calm = bounds.evaluate("fs25.theorem_4_1", allocation(10.0, 1000))
    assert calm.epsilon(1e-5) == pytest.approx(0.015569, abs=1e-5)


def test_assumptions_are_named():
    with pytest.raises(bounds.NotApplicable, match="needs one allocation of each record"):
        bounds.evaluate("fs25.theorem_4_3", allocation(1.0, 10, epochs=2))
    begun = replace(allocation(1.0, 10, epochs=2), steps=19)  # a part of an epoch is no epoch less
    for id in ("fs25.theorem_4_4", "fs25.theorem_4_1", "evd26.theorem_3_3", "evd26.theorem_3_5"):
        with pytest.raises(bounds.NotApplicable, match=r"whole .*epochs.*, got .*steps=19"):
            bounds.evaluate(id, begun)
    replaced = replace(allocation(1.0, 10), relation=Relation.REPLACE_ONE)
    with pytest.raises(bounds.NotApplicable, match="needs random allocation"):
        bounds.evaluate("fs25.theorem_4_4", replaced)


def test_records_in_every_step_are_full_batches():
    m = allocation(2.0, 1, 4)
    assert bounds.evaluate("fs25.theorem_4_1", m).epsilon(1e-5) >= GaussianCurve(1.0).epsilon(1e-5)
