"""No bound lies below an explicit adversary, for every sampler, adjacency and release.

The record's loss is linear and the others' are zero, so that the noisy gradients are normal around
the steps that take the record. Their weighted sum is a mixture of normals in one dimension, one for
each set of steps, and any event of it certifies a lower bound.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from audit import Batching, NoisySGD, Order, Relation, Release, bounds
from audit.curves import PrivacyCurve, RenyiCurve
from tests.mechanisms import dp_sgd
from tests.slow import slow

Array = np.ndarray
Pattern = tuple[float, Array]  # probability, and the steps that take the record
Mixture = list[tuple[float, float]]  # (weight, mean)
SLACK = 1e-9
# divisors have their own adversaries: tests/dominating/test_actual_divisor.py
ACCOUNTANTS = [
    id
    for id in bounds.CATALOGUE
    if id.startswith("accounting.") and id != "accounting.actual_divisor"
]
RELEASES = (Release.LAST_ITERATE, Release.ALL_ITERATES)


KINDS = list(itertools.product(Batching, Relation, RELEASES))


def random_mechanism(random: np.random.Generator, kind: int | None = None) -> NoisySGD:
    chosen = int(random.integers(len(KINDS))) if kind is None else kind % len(KINDS)
    batching, relation, release = KINDS[chosen]
    steps_per_epoch = int(random.integers(1, 4))
    b = int(random.integers(1, 3))
    n = b * steps_per_epoch
    k = 1
    if batching is Batching.FULL:
        n = b
    if batching is Batching.RANDOM_ALLOCATION and steps_per_epoch == 3 and random.random() < 0.5:
        n, b, k = 3, 2, 2  # two of three steps
    return dp_sgd(
        steps=int(random.integers(1, 5)),
        dataset_size=n,
        batch_size=b,
        step_size=0.1,
        noise_std=float(np.exp(random.uniform(math.log(0.3), math.log(3.0)))) / b,
        batching=batching,
        relation=relation,
        release=release,
        participations=k,
        max_batch_size=int(random.integers(1, n + 1))
        if batching is Batching.TRUNCATED_POISSON
        else None,
    )


def patterns(m: NoisySGD) -> list[Pattern]:
    """The sets of steps that take the record, and how probable each is."""
    length = m.steps_per_epoch
    if m.batching in (Batching.POISSON, Batching.TRUNCATED_POISSON, Batching.WITHOUT_REPLACEMENT):
        rate = m.sampling_rate
        if m.max_batch_size is not None:
            others = np.arange(m.dataset_size)
            kept = np.minimum(1.0, m.max_batch_size / (1 + others))
            rate *= float(binom.pmf(others, m.dataset_size - 1, rate) @ kept)
        return [
            (math.prod(rate if taken else 1 - rate for taken in bits), np.array(bits, float))
            for bits in itertools.product((0, 1), repeat=m.steps)
        ]
    of_epoch = itertools.combinations(range(length), m.participations)
    once = [np.isin(np.arange(length), steps) for steps in of_epoch]
    epochs = -(-m.steps // length)
    if m.batching in (Batching.FULL, Batching.CYCLIC):
        once = once[:1]
    if m.batching in (Batching.RESHUFFLED, Batching.RANDOM_ALLOCATION):
        chosen = list(itertools.product(once, repeat=epochs))
    else:
        chosen = [(one,) * epochs for one in once]
    return [(1 / len(chosen), np.concatenate(one)[: m.steps].astype(float)) for one in chosen]


def sums(m: NoisySGD, weights: Array) -> tuple[Mixture, Mixture, float]:
    """The laws of the sum under X and X', and the deviation of their components."""
    up, down = (1.0, -1.0) if m.relation is Relation.REPLACE_ONE else (1.0, 0.0)
    laws = [[(p, sign * float(weights @ s)) for p, s in patterns(m)] for sign in (up, down)]
    return laws[0], laws[1], m.noise_std * m.batch_size * float(np.linalg.norm(weights))


def certified_delta(m: NoisySGD, weights: Array, epsilon: float, order: Order) -> float:
    """P(S) - e^epsilon Q(S) for the event S of small cells that are likelier under P."""
    first, second, std = sums(m, weights)
    if order is Order.REVERSE:
        first, second = second, first
    means = [mean for _, mean in first + second]
    edges = np.linspace(min(means) - 9 * std, max(means) + 9 * std, 3001)
    edges = np.concatenate([[-np.inf], edges, [np.inf]])

    def masses(law: Mixture) -> Array:
        total = np.zeros(edges.size - 1)
        for weight, mean in law:
            x = (edges - mean) / std
            right = x[:-1] > 0  # tails keep their relative accuracy: e^epsilon multiplies them
            total += weight * np.where(right, -np.diff(ndtr(-x)), np.diff(ndtr(x)))
        return total

    return float(np.maximum(masses(first) - math.exp(epsilon) * masses(second), 0.0).sum())


def violations(
    m: NoisySGD, claims: list[tuple[str, PrivacyCurve]], random: np.random.Generator
) -> Iterator[tuple[str, str]]:
    weights = np.ones(m.steps)
    if m.release is Release.ALL_ITERATES and random.random() < 0.5:
        weights = random.uniform(0.2, 1.0, m.steps)
    order = Order.FORWARD if random.random() < 0.5 else Order.REVERSE
    size = math.sqrt(m.steps) / m.noise_multiplier
    epsilon = float(random.uniform(0, 1.5) * size + random.choice([0.0, size**2 / 2]))
    least = certified_delta(m, weights, epsilon, order)
    for id, curve in claims:
        claimed = curve.delta(epsilon, order)
        if least > claimed * (1 + SLACK) + 1e-13:
            where = f"by {id} for {m}, order {order.name}"
            yield id, f"delta({epsilon}) is {claimed} {where}, but at least {least}"


def sound_claims(m: NoisySGD) -> list[tuple[str, PrivacyCurve]]:
    """What sound entries say of a mechanism."""
    entries = [bounds.CATALOGUE[id] for id in bounds.applicable(m)]
    return [(e.id, e.evaluate(m)) for e in entries if e.status.sound and not e.slow]


@pytest.mark.parametrize("rounds", [1, slow(3)])
def test_no_bound_is_below_an_adversary(rounds):
    random = np.random.default_rng(20260522)
    found, spoken = [], set()
    for k in range(rounds * len(KINDS)):
        m = random_mechanism(random, k)
        claims = sound_claims(m)
        spoken |= {id for id, _ in claims}
        found += [text for _, text in violations(m, claims, random)]
    assert not found, f"{len(found)} violations:\n" + "\n".join(found[:20])
    assert set(ACCOUNTANTS) <= spoken


@pytest.mark.parametrize("id", ACCOUNTANTS)
def test_a_planted_error_in_each_accountant_is_caught(id):
    """Noise that is said to be larger by a half."""
    random = np.random.default_rng(7)
    for _ in range(4000):
        m = random_mechanism(random)
        if id not in bounds.applicable(m):
            continue
        told = dataclasses.replace(m, noise_std=1.5 * m.noise_std)
        if list(violations(m, [(id, bounds.evaluate(id, told))], random)):
            return
    raise AssertionError(f"an error in {id} was not caught")


@pytest.mark.parametrize("batching", [Batching.SHUFFLED, Batching.RESHUFFLED, Batching.DROP_LAST])
def test_shuffled_batches_say_no_more_than_their_first_batch_in_order(batching):
    """That of an epoch that is only begun, too; the composed pair of cyclic batches knows it."""
    for steps in (1, 3, 7):
        sizes = {"steps": steps, "dataset_size": 6, "batch_size": 2, "step_size": 0.1}
        m = dp_sgd(noise_std=0.4, batching=batching, relation=Relation.REPLACE_ONE, **sizes)
        cyclic = dataclasses.replace(m, batching=Batching.CYCLIC)
        known = bounds.evaluate("accounting.full_batch", cyclic).epsilon(1e-5)
        assert bounds.evaluate("accounting.shuffled", m).epsilon(1e-5) == pytest.approx(known)


def test_renyi_bounds_are_compared_in_delta_too():
    m = random_mechanism(np.random.default_rng(3))
    full = dataclasses.replace(
        m, batching=Batching.FULL, dataset_size=m.batch_size, participations=1, max_batch_size=None
    )
    assert any(isinstance(curve, RenyiCurve) for _, curve in sound_claims(full))
