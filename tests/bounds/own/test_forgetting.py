"""Forgetting: known values, its walk against exact laws and simulated chains, and refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from audit import Batching, Relation, bounds, exact
from audit.bounds.own.forgetting import KilledWalk, Lengths, walk_of
from audit.bounds.own.run import WorstRun
from audit.constructions import BiasedWalk, Construction, Process
from audit.curves.gaussian import GaussianCurve
from tests.bounds.own.soundness import mechanism
from tests.mechanisms import noisy_sgd


@pytest.mark.parametrize(
    ("drift", "noise", "epsilon"),
    [(0.01, 0.05, 0.05124483), (0.1, 0.2, 0.74075359), (0.3, 0.05, 2.09259104)],
)
def test_long_runs_in_a_small_domain(drift, noise, epsilon):
    m = mechanism(drift, noise, 10**9)
    assert bounds.evaluate("own.forgetting", m).epsilon(1e-5) == pytest.approx(epsilon, abs=1e-7)


@dataclass(frozen=True)
class EndToEnd(Construction):
    """The same walk from the two ends of the domain."""

    citation: ClassVar[str] = "a test"
    is_neighbouring: ClassVar[bool] = False

    def processes(self) -> tuple[Process, Process]:
        low, high = (BiasedWalk(self.mechanism, start=x).processes()[0] for x in (-0.5, 0.5))
        return low, high


@pytest.mark.parametrize(("noise", "steps"), [(0.05, 30), (0.2, 7), (0.4, 40), (1.5, 3)])
def test_the_walk_is_the_total_variation_of_walks_from_both_ends(noise, steps):
    variation = exact.curve(EndToEnd(mechanism(1.0, noise, steps))).delta(0.0)
    walk = walk_of(1.0, noise, 1.0, 1.0)
    assert walk.survival(np.ones(steps), 16)[-1] == pytest.approx(variation, abs=1e-10)
    bound = walk.bounds(np.ones(steps))[-1]
    # the variation is a difference of probabilities near one half
    assert variation - 1e-14 <= bound <= variation + 1e-10
    # another noise is another number
    other = walk_of(1.0, 1.01 * noise, 1.0, 1.0).bounds(np.ones(steps))[-1]
    assert abs(other - variation) > 1e-4 * variation


def clipped(x, shape):
    """Project onto the ball of diameter 1, or the box whose diagonal is 1."""
    if shape == "ball":
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        return x * np.minimum(1.0, 0.5 / np.maximum(norm, 1e-300))
    half = 0.5 / math.sqrt(x.shape[1])
    return np.clip(x, -half, half)


def together(random, updates, noise, dimension, shape, chains):
    """Simulate maximal reflection couplings from two ends; return the shares still apart."""
    end = np.zeros(dimension)
    end[0] = 0.5
    if shape == "box":
        end[:] = 0.5 / math.sqrt(dimension)
    x, y = np.tile(end, (chains, 1)), np.tile(-end, (chains, 1))
    shares = []
    for update in updates:
        a, b = update(x), update(y)
        gap = a - b
        z = random.standard_normal((chains, dimension))
        moved = gap / noise + z
        # stay together with probability min(1, q/p), else reflect
        log_ratio = 0.5 * np.sum(z**2 - moved**2, axis=1)
        meets = np.log(random.random(chains)) < log_ratio
        size = np.linalg.norm(gap, axis=1, keepdims=True)
        e = gap / np.maximum(size, 1e-300)
        mirrored = z - 2 * np.sum(z * e, axis=1, keepdims=True) * e
        new = a + noise * z
        x = clipped(new, shape)
        y = np.where(meets[:, None], x, clipped(b + noise * mirrored, shape))
        shares.append(np.mean(np.any(x != y, axis=1)))
    return np.array(shares)


def updates(kind, dimension, steps, random):
    if kind == "identity":
        return [lambda x: x] * steps
    if kind == "rotation":  # an isometry that is another one in each step
        turns = [np.linalg.qr(random.standard_normal((dimension,) * 2))[0] for _ in range(steps)]
        return [lambda x, turn=turn: x @ turn for turn in turns]
    # one-sided shrinking: 1-Lipschitz and not linear
    return [lambda x: np.where(x > 0.1, 0.1 + 0.5 * (x - 0.1), x)] * steps


CHAINS = 5000


@pytest.mark.parametrize("dimension", [1, 2, 20])
@pytest.mark.parametrize("shape", ["ball", "box"])
@pytest.mark.parametrize("kind", ["identity", "rotation", "shrinking"])
def test_coupled_chains_meet_no_later_than_the_walk(dimension, shape, kind):
    """A share is above its bound by 4.5 deviations with probability 3e-6, 12 times in each case."""
    random = np.random.default_rng([dimension, len(shape), len(kind)])
    steps, noise = 12, 0.2
    moves = updates(kind, dimension, steps, random)
    shares = together(random, moves, noise, dimension, shape, CHAINS)
    betas = walk_of(1.0, noise, 1.0, 1.0).bounds(np.ones(steps))
    spread = 4.5 * np.sqrt(betas * (1 - betas) / CHAINS)
    assert np.all(shares <= betas + spread)
    if dimension == 1 and kind == "identity":  # equality: and a noise 10% larger is caught
        assert np.all(shares >= betas - spread)
        wrong = walk_of(1.0, 1.1 * noise, 1.0, 1.0).bounds(np.ones(steps))
        assert np.any(shares > wrong + 4.5 * np.sqrt(wrong * (1 - wrong) / CHAINS))


def test_merged_steps_keep_the_walk_alive_no_shorter():
    walk = walk_of(1.0, 0.02, 1.0, 1.0)
    single = walk.survival(np.ones(600), 16)
    merged = walk.merged(9).survival(np.ones(66), 16)
    assert np.all(merged >= single[8::9] * (1 - 1e-12))
    assert np.all(merged <= 1.1 * single[8::9])
    contracting = KilledWalk(0.98, 0.1, 1.0)
    single, merged = contracting.survival(np.ones(90), 16), contracting.merged(3)
    assert np.all(merged.survival(np.ones(30), 16) >= single[2::3] * (1 - 1e-12))


def test_a_contracting_walk_without_walls_is_normal():
    """Without a wall a killed walk is alive with probability 2 Phi(mean/spread) - 1."""
    c, s = 0.9, 0.1
    walk = walk_of(c, s, math.inf, 2.0)
    steps = np.arange(1, 31)
    spread = 2 * s * np.sqrt((1 - c ** (2 * steps)) / (1 - c**2))
    alive = np.array([GaussianCurve(2 * x).delta(0.0) for x in c**steps * 2.0 / spread])
    bound = walk.bounds(np.full(30, 2.0))
    assert np.all(bound >= alive)
    assert bound == pytest.approx(alive, rel=1e-9)


def test_a_length_by_hand_is_its_formula():
    m = mechanism(0.3, 0.2, 60)
    beta = Lengths.of(WorstRun.of(m)).only(20).betas[0]
    mu = 0.3 * 0.2 * math.sqrt(20)
    curve = bounds.evaluate("own.forgetting", m, m=20)
    for epsilon in (0.0, 0.4, 3.0):
        expected = GaussianCurve(mu).delta(epsilon) + beta
        assert curve.delta(epsilon) == pytest.approx(expected, rel=1e-12)
    delta = curve.delta(0.4)
    assert curve.epsilon(delta) == pytest.approx(0.4, rel=1e-9)
    best = bounds.evaluate("own.forgetting", m)
    lengths = [bounds.evaluate("own.forgetting", m, m=k).epsilon(delta) for k in range(1, 61)]
    assert best.epsilon(delta) == pytest.approx(min(lengths), rel=1e-12)
    whole = bounds.evaluate("own.forgetting", m, m=60).epsilon(1e-5)
    composed = bounds.evaluate("bsa24.theorem_4_1", m).epsilon(1e-5)
    assert whole == pytest.approx(composed, rel=1e-9)


def test_conversions_agree_with_the_profile():
    curve = bounds.evaluate("own.forgetting", mechanism(0.3, 0.2, 60))
    alpha = np.linspace(0, 1, 21)
    beta = curve.beta(alpha)
    assert np.all(np.diff(beta) <= 1e-12)
    for epsilon in (0.1, 1.0):
        delta = curve.delta(epsilon)
        assert np.all(beta >= 1 - delta - math.exp(epsilon) * alpha - 1e-3)
        assert curve.delta(-epsilon) == pytest.approx(1 - math.exp(-epsilon) * (1 - delta))
    assert curve.renyi(2.0) == pytest.approx((0.06 * math.sqrt(60)) ** 2)


def test_batches_that_meet_the_record_seldom():
    cyclic = mechanism(1.0, 0.1, 300, batching=Batching.CYCLIC, batch_size=2)
    run = WorstRun.of(cyclic)
    assert (run.period, run.shift) == (5, pytest.approx(0.05))
    assert run.meetings([1, 5, 6, 11]).tolist() == [1, 1, 2, 3]
    assert run.tracked([1, 5, 6, 300]) == pytest.approx([0.05, 0.05, 0.1, 1.0])
    beta = Lengths.of(run).only(100).betas[0]
    expected = GaussianCurve(run.ratio * math.sqrt(20)).delta(1.0) + beta
    curve = bounds.evaluate("own.forgetting", cyclic, m=100)
    # raised by 2^16 units
    assert expected <= curve.delta(1.0) <= expected * (1 + 8e-12)
    # a shuffled cycle is a mixture of cycles
    shuffled = replace(cyclic, batching=Batching.SHUFFLED)
    assert WorstRun.of(shuffled) == run


def test_sampled_batches():
    sampled = mechanism(1.0, 0.2, 60, batching=Batching.WITHOUT_REPLACEMENT, batch_size=2)
    found = bounds.evaluate("own.forgetting", sampled)
    composed = bounds.evaluate("bsa24.theorem_4_8", sampled)
    assert found.epsilon(1e-2) < 0.9 * composed.epsilon(1e-2)
    assert found.delta(found.epsilon(1e-2)) <= 1e-2 * (1 + 1e-6)  # what is forgotten is paid for
    assert found.delta(1.0) <= composed.delta(1.0)
    zero_out = replace(sampled, relation=Relation.ZERO_OUT)
    assert WorstRun.of(zero_out).shift == pytest.approx(2 * WorstRun.of(sampled).shift)


def test_lengths_out_of_range():
    m = noisy_sgd(steps=5, dataset_size=2)
    with pytest.raises(ValueError, match=r"m must be at most steps \(5\), got 6"):
        bounds.evaluate("own.forgetting", m, m=6)
    with pytest.raises(ValueError, match=r"m must be a whole number of at least 1, got 0"):
        bounds.evaluate("own.forgetting", m, m=0)
