"""Batches without replacement under replace-one, between what is attained and what dominates."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from audit import exact
from audit.constructions.explicit_laws import AllIterates
from audit.curves import Order
from audit.dominating import dominating_curve
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.runs import MixtureRun
from audit.mechanism import Batching, Composition, Divisor, Relation
from tests.mechanisms import dp_sgd

M = dp_sgd(noise_std=0.2, batching=Batching.WITHOUT_REPLACEMENT, relation=Relation.REPLACE_ONE)


def without_replacement(z: float, q: float, steps: int, accuracy: float):  # type: ignore[no-untyped-def]
    batch = round(10 * q)
    m = replace(M, steps=steps, dataset_size=10, batch_size=batch, noise_std=2 * z / batch)
    return dominating_curve(m, accuracy=accuracy)


def hockey_stick(first: list[tuple[float, float]], second, epsilon: float, z: float) -> float:
    """Sum of (p - e^epsilon q)_+ over a fine grid: masses and means of normals of deviation z."""
    x = np.linspace(-14 * z - 2, 14 * z + 2, 20_001)

    def masses(law: list[tuple[float, float]]) -> np.ndarray:
        return sum(w * np.diff(ndtr((x - mean) / z)) for w, mean in law)

    return float(np.maximum(masses(first) - np.exp(epsilon) * masses(second), 0).sum())


def test_one_step_is_exact_and_no_gradients_do_worse() -> None:
    z, q = 0.8, 0.3
    curve = without_replacement(z, q, 1, accuracy=1e-6)
    ends = np.linspace(-0.5, 0.5, 3)  # gradients over 2 C
    for epsilon in (0.0, 0.5, 1.5):
        low, high = curve.delta_bracket(epsilon)
        assert high - low < 1e-6
        found = {
            (u, v, w): hockey_stick([(1 - q, w), (q, u)], [(1 - q, w), (q, v)], epsilon, z)
            for u, v, w in itertools.product(ends, repeat=3)
        }
        assert max(found.values()) < high + 1e-6
        # others beside the record that takes its place attain it; others of 0 do not
        assert found[0.5, -0.5, -0.5] == pytest.approx(low, abs=1e-6)
        if epsilon > 0:
            assert found[0.5, -0.5, 0.0] < 0.95 * low


def test_adversaries_that_turn_round_stay_below() -> None:
    """Two steps, all of them one way round or one each way: by the sums of their losses."""
    z, q = 1.0, 0.2
    curve = without_replacement(z, q, 2, accuracy=1e-6)
    edges = np.linspace(-12, 13, 1201)
    base = np.diff(ndtr(edges / z))
    other = (1 - q) * base + q * np.diff(ndtr((edges - 1) / z))
    for epsilon in (0.1, 0.5, 1.0):
        low, high = curve.delta_bracket(epsilon)
        deltas = []
        for p1, q1, p2, q2 in (
            (other, base, other, base),
            (other, base, base, other),
            (base, other, base, other),
        ):
            both = np.outer(p1, p2) - np.exp(epsilon) * np.outer(q1, q2)
            deltas.append(float(np.maximum(both, 0).sum()))
        assert deltas[0] == pytest.approx(low, abs=1e-5)
        assert max(deltas) <= high
        assert low < high < 1.3 * low


def test_the_mirrored_pair_has_both_sides() -> None:
    pair = MixturePair(0.2, 1.0, 1.0, two_sided=False)
    for side in pair.grid_pairs(1e-3, log_tails(10)):
        found, _ = MixtureRun(pair, 1).mirrored(side.above, 1e-3, log_tails(10))
        q = found.lifted * np.exp(-found.losses)
        total = math.fsum([*found.p, found.p_only])
        assert 0 <= (total - 1 if found.above else 1 - total) < 1e-9
        assert q.sum() + found.q_only == pytest.approx(1, abs=1e-9)
        once = side.p - np.exp(0.3) * side.lifted * np.exp(-side.losses)
        for p, other in ((found.p, q), (q, found.p)):
            delta = np.maximum(p - np.exp(0.3) * other, 0).sum() + found.p_only
            assert delta == pytest.approx(np.maximum(once, 0).sum() + side.p_only, abs=1e-9)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
def test_renyi_divergences_bound_the_mirrored_pair(alpha: float) -> None:
    z, q, steps = 1.0, 0.2, 10
    curve = without_replacement(z, q, steps, accuracy=1e-6)
    run = MixtureRun(MixturePair(q, z, 1.0, two_sided=False), steps)
    found, _ = run.mirrored(False, 1e-4, log_tails(steps))
    some = found.lifted > 0
    ratios = (found.p[some] / found.lifted[some]) * np.exp(found.losses[some])
    own = steps * np.log(np.sum(found.p[some] * ratios ** (alpha - 1))) / (alpha - 1)
    assert own <= curve.renyi(alpha) <= own * (1 + 1e-6)


def test_the_mechanism_gets_brackets_and_a_pair() -> None:
    curve = dominating_curve(M)
    low, high = curve.epsilon_bracket(1e-5)
    assert (low, high) == pytest.approx((3.590744, 3.743261), abs=1e-4)
    law = exact.curve(AllIterates(M))
    assert law.epsilon_bracket(1e-5) == pytest.approx((low, high))
    ends = law.renyi_bracket(2.0)
    attained = 20 * np.log(1 + 0.1**2 * np.expm1(1.0))
    assert ends[0] == pytest.approx(attained, rel=1e-4)
    assert ends[1] == pytest.approx(curve.renyi(2.0), rel=1e-9)
    assert ends[1] > ends[0]
    assert dominating_curve(replace(M, divisor=Divisor.ACTUAL)).epsilon_bracket(1e-5)[1] == high
    whole = dominating_curve(replace(M, batch_size=100, noise_std=0.02))
    assert whole.epsilon(1e-5) == pytest.approx(
        dominating_curve(
            replace(M, batch_size=100, noise_std=0.02, batching=Batching.FULL)
        ).epsilon(1e-5)
    )


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.ADD_REMOVE])
def test_other_neighbours_are_refused(relation: Relation) -> None:
    with pytest.raises(ValueError, match="relation must be 'replace one' for batches without"):
        dominating_curve(replace(M, relation=relation))


def test_what_else_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gradient_sensitivity must be None, .* got 0.5"):
        dominating_curve(replace(M, gradient_sensitivity=0.5))
    with pytest.raises(
        ValueError, match=r"must not be shuffled or without replacement in a part of a"
    ):
        dominating_curve(Composition((M, replace(M, noise_std=0.3))))


def test_orders_are_those_of_the_attained_pair() -> None:
    curve = without_replacement(1.0, 0.1, 20, accuracy=1e-5)
    forward, reverse = (curve.epsilon_bracket(1e-5, order) for order in Order)
    assert reverse[0] < forward[0]  # less is attained this way round
    assert reverse[1] == forward[1]  # and no less is possible
