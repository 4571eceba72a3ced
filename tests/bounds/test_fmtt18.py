"""Feldman, Mironov, Talwar and Thakurta (2018): what holds, is refuted, or is exact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from audit import Order, Relation, Release, bounds, exact
from audit.bounds import Status
from audit.bounds.fmtt18 import _log_tail, harmonic
from audit.constructions import TwoSidedWalk
from audit.curves import GaussianCurve
from papers.fmtt18_statements import (
    appendix_b_noise,
    corollary_34_smoothing,
    theorem_28,
    theorem_29_utility,
    theorem_30_utility,
    theorem_33,
    weak_convexity,
)
from tests.bounds.grid import random_members
from tests.bounds.one_pass import mixed_epsilon, mixed_renyi, one_pass, renyi
from tests.slow import slow

# --- Theorems 1, 22, 23, 24 ---------------------------------------------------------------------


def test_theorem_1_lacks_a_square():
    m = one_pass(1)
    assert renyi("theorem_1", m, distance=2.0) == pytest.approx(2.0)
    assert renyi("theorem_1", m) == pytest.approx(2.0)
    true = exact.curve(TwoSidedWalk(m)).renyi_bracket(2.0)
    assert true[0] <= 4.0 <= true[1] * (1 + 1e-12)
    assert renyi("theorem_22", m) == pytest.approx(4.0)
    assert bounds.CATALOGUE["fmtt18.theorem_1"].status is Status.REFUTED
    # the square, by Theorem 22 with the distance as first shift
    long = one_pass(10)
    squared = renyi("theorem_22", long, shifts=[2.0] + [0.0] * 9)
    assert squared == pytest.approx(2.0 * 4 / (2 * 10))


def test_index_from_1():
    m = one_pass(10)
    values = [renyi("theorem_23", m, index=t) for t in range(1, 11)]
    assert values == pytest.approx([4 / (11 - t) for t in range(1, 11)])
    assert renyi("theorem_23", m) == pytest.approx(4.0)
    skip = replace(m, release=Release.RANDOM_SKIP)
    assert renyi("theorem_24", skip, index=7) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"index must be at most dataset_size \(10\), got 11"):
        renyi("theorem_23", m, index=11)
    with pytest.raises(ValueError, match="index must be a whole number of at least 1, got 0"):
        renyi("theorem_23", m, index=0)
    zero = replace(m, relation=Relation.ZERO_OUT)
    assert renyi("theorem_23", zero) == pytest.approx(1.0)


# --- Theorem 35 ---------------------------------------------------------------------------------


def test_n_passes():
    m = one_pass(6, steps=36, noise_std=3.0, diameter=2.0)
    assert renyi("theorem_35", m) == pytest.approx(2 * 4 / 9)
    assert bounds.evaluate("at22.eq_5_4", m).renyi(2.0) <= renyi("theorem_35", m)
    rng = np.random.default_rng(2)
    for pair in random_members(m, rng):
        assert exact.curve(pair).renyi_bracket(2.0)[0] <= renyi("theorem_35", m)


def test_noise_of_appendix_b():
    for epsilon, delta in ((0.1, 1e-5), (2.0, 1e-8), (4.0, 1e-5)):
        noise = appendix_b_noise(1.0, epsilon=epsilon, delta=delta)
        m = one_pass(3, steps=9, noise_std=noise)
        assert bounds.evaluate("fmtt18.theorem_35", m).epsilon(delta) <= epsilon


# ------------------------------------------------------------------------------- epsilon and delta


def test_lemma_27_fails_above_1():
    noise = 2 * math.sqrt(2 * math.log(1.25e5)) / 10
    m = one_pass(1, noise_std=noise)
    printed = bounds.evaluate("fmtt18.lemma_27", m)
    assert printed.epsilon(1e-5) == pytest.approx(10.0)
    assert printed.delta(10.0) == pytest.approx(1e-5)
    low, high = exact.curve(TwoSidedWalk(m)).epsilon_bracket(1e-5)
    assert low == pytest.approx(10.394, abs=5e-4)
    assert low > 10.0
    corrected = bounds.evaluate("fmtt18.lemma_27_corrected", m).epsilon(1e-5)
    assert low - 1e-9 <= corrected <= high + 1e-9
    # it needs neither convexity nor smoothness
    rough = one_pass(3, convex=False, smoothness=None, clip_norm=0.1)
    assert renyi("lemma_27_corrected", rough) == pytest.approx(0.04)
    # below 1 it holds
    for target in (0.05, 0.5, 0.99):
        quiet = replace(m, noise_std=noise * 10 / target)
        claimed = bounds.evaluate("fmtt18.lemma_27", quiet).epsilon(1e-5)
        assert claimed == pytest.approx(target)
        assert bounds.evaluate("fmtt18.lemma_27_corrected", quiet).epsilon(1e-5) <= claimed


@pytest.mark.parametrize(
    ("id", "release"),
    [
        ("theorem_29", Release.RANDOM_STOP),
        ("theorem_30", Release.RANDOM_SKIP),
        ("corollary_34", Release.RANDOM_SKIP),
    ],
)
def test_what_inherits_from_lemma_27(id, release):
    noise = 2 * math.sqrt(2 * math.log(1.25e5)) / 10
    m = one_pass(1, noise_std=noise, release=release)
    assert bounds.evaluate(f"fmtt18.{id}", m).epsilon(1e-5) == pytest.approx(10.0)
    corrected = bounds.evaluate(f"fmtt18.{id}_corrected", m).epsilon(1e-5)
    assert corrected == pytest.approx(10.394, abs=5e-4)
    assert bounds.CATALOGUE[f"fmtt18.{id}"].status is Status.REFUTED
    assert bounds.CATALOGUE[f"fmtt18.{id}_corrected"].status is Status.CORRECTED


def skipped(m, index):
    """Means and variances of Skip-PNSGD on linear losses, one for each number of skipped records.

    Only runs that reach the record differ; the others have the same law for both datasets.
    """
    n = m.dataset_size
    skips = np.arange(n // 2 + 1)
    reached = (skips < index).astype(float)
    return reached, -reached, (n - skips) * m.noise_std**2


def test_corollary_31_is_refuted():
    noise = 2 * math.sqrt(math.log(1.25e5)) / 16 / 0.5
    m = one_pass(40, noise_std=noise, release=Release.RANDOM_SKIP)
    assert bounds.evaluate("fmtt18.corollary_31", m, public=16).epsilon(1e-5) == pytest.approx(0.5)
    true = mixed_epsilon(1e-5, *skipped(m, 24))
    assert true == pytest.approx(1.446, abs=1e-3)
    assert true <= bounds.evaluate("fmtt18.theorem_30_corrected", m, index=24).epsilon(1e-5)
    # the corrected noise
    right = replace(m, noise_std=2 * math.sqrt(2 * math.log(1.25e5) / 16) / 0.5)
    corrected = bounds.evaluate("fmtt18.corollary_31_corrected", right, public=16)
    assert corrected.epsilon(1e-5) == pytest.approx(0.5)
    assert mixed_epsilon(1e-5, *skipped(right, 24)) <= 0.5
    assert bounds.evaluate("fmtt18.theorem_30_corrected", right, index=24).epsilon(1e-5) <= 0.5
    assert bounds.evaluate("fmtt18.corollary_31_corrected", m, public=16).epsilon(1e-5) == math.inf
    # without public records nothing is claimed
    for id in ("corollary_31", "corollary_31_corrected"):
        assert bounds.evaluate(f"fmtt18.{id}", m).epsilon(1e-5) == math.inf
        assert bounds.evaluate(f"fmtt18.{id}", m).beta(0.5) == 0.0
    with pytest.raises(ValueError, match=r"public must be below dataset_size \(40\), got 40"):
        bounds.evaluate("fmtt18.corollary_31", m, public=40)


def test_theorem_32_is_refuted_through_ln_n():
    noise = 4 * math.sqrt(2) * math.log(1e5)
    m = one_pass(1, noise_std=noise, release=Release.RANDOM_STOP)
    claimed = bounds.evaluate("fmtt18.theorem_32", m, tasks=10**4)
    assert claimed.epsilon(1e-5) == pytest.approx(1.0)
    # k runs of one step: Gaussians at distance sqrt(k) 2L/sigma
    true = GaussianCurve(math.sqrt(1e4) * 2 / noise).epsilon(1e-5)
    assert true == pytest.approx(17.19, abs=5e-3)
    corrected = bounds.evaluate("fmtt18.theorem_32_corrected", m, tasks=10**4)
    assert corrected.epsilon(1e-5) == math.inf
    louder = replace(m, noise_std=4 * math.sqrt(2e4 * math.log(1e5)))
    corrected = bounds.evaluate("fmtt18.theorem_32_corrected", louder, tasks=10**4)
    assert corrected.epsilon(1e-5) == pytest.approx(1.0)
    assert corrected.delta(corrected.epsilon(1e-5)) == pytest.approx(1e-5)
    assert GaussianCurve(100 * 2 / louder.noise_std).epsilon(1e-5) <= 1.0
    assert corrected.epsilon(0.6) == corrected.epsilon(0.5)  # what holds at 1/2 holds above


def test_printed_curves_are_consistent():
    m = one_pass(3, noise_std=2.0)
    curve = bounds.evaluate("fmtt18.lemma_27", m)
    deltas = np.array([1e-12, 1e-5, 0.3])
    np.testing.assert_allclose(curve.delta(curve.epsilon(deltas)), deltas, rtol=1e-9)
    assert curve.delta(0.0) == 1.0
    assert curve.delta(-1.0) == pytest.approx(1 - math.exp(-1) * (1 - curve.delta(1.0)))
    betas = curve.beta(np.linspace(0, 1, 11))
    assert np.all(np.diff(betas) <= 0)
    assert np.all(betas <= 1 - np.linspace(0, 1, 11) + 1e-12)
    for order in Order:
        assert curve.epsilon(1e-5, order) == curve.epsilon(1e-5)


# -------------------------------------------------------------------------------------- Stop-PNSGD


def stopped(n, alpha, factor=1.0, **changes):
    noise = factor * math.sqrt(2 * alpha * (alpha - 1))
    return one_pass(n, noise_std=noise, release=Release.RANDOM_STOP, **changes)


def test_orders_above_the_threshold_are_not_claimed():
    m = stopped(5, 3.0)
    for id in ("theorem_26", "theorem_26_corrected", "lemma_25"):
        assert renyi(id, m, 3.0) < math.inf
        assert renyi(id, m, 3.001) == math.inf
    assert renyi("theorem_26_sharper", m, 3.001) < math.inf


@pytest.mark.parametrize(
    ("n", "alpha"), [(1, 2.0), (2, 1.1), (7, 6.0), slow(40, 1.1), slow(40, 6.0)]
)
def test_stopping_bounds_are_ordered_and_sound(n, alpha):
    for factor in (1.0, 3.0, 30.0):
        m = stopped(n, alpha, factor)
        sharper, lemma, corrected = (
            renyi(id, m, alpha) for id in ("theorem_26_sharper", "lemma_25", "theorem_26_corrected")
        )
        assert sharper <= lemma * (1 + 1e-9) <= corrected * (1 + 1e-9)
        times, drift = np.arange(1, n + 1), 0.5
        base = drift * (times - 1)
        true = mixed_renyi(alpha, base + 1, base - 1, times * m.noise_std**2)
        assert true <= sharper * (1 + 1e-7) + 1e-12
    # every sigma: also far below the threshold
    small = stopped(n, alpha, 0.05)
    plain = alpha * 2 / small.noise_std**2
    value = renyi("theorem_26_sharper", small, alpha)
    assert plain - math.log(n) / (alpha - 1) <= value * (1 + 1e-12)
    assert value <= plain * (1 + 1e-12)


def test_the_sum_over_many_terms():
    for n in (513, 5000, 10**5):
        m = one_pass(n, noise_std=0.8, release=Release.RANDOM_STOP)
        j = np.arange(1, n + 1)
        for alpha in (1.5, 10.0, 300.0):
            total = logsumexp(2 * alpha * (alpha - 1) / (0.64 * j)) - math.log(n)
            expected = total / (alpha - 1)
            value = renyi("theorem_26_sharper", m, alpha)
            assert expected * (1 - 1e-12) <= value <= expected * (1 + 1e-6)
    assert harmonic(5) == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5)
    for scale in (1e-12, 1e-3, 1.0, 50.0, 1e4):
        true = np.log(np.sum(np.expm1(scale / np.arange(513, 20_001))))
        bound = float(_log_tail(np.array([scale]), 512, 20_000)[0])
        assert true - 1e-9 <= bound <= true + 1e-3


def test_weak_convexity():
    rng = np.random.default_rng(8)
    for _ in range(20):
        alpha = float(rng.uniform(1.1, 5))
        means = rng.uniform(0, math.sqrt(2 / (alpha * (alpha - 1))), 3)
        divergences = alpha * means**2 / 2
        true = mixed_renyi(alpha, means, np.zeros(3), [1.0] * 3)
        assert true <= weak_convexity(alpha, divergences, [1 / 3] * 3) * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"divergences must be at most 1/\(alpha - 1\), got 1.5"):
        weak_convexity(2.0, [1.5, 0.1], [0.5, 0.5])
    with pytest.raises(ValueError, match="weights must be 2 probabilities"):
        weak_convexity(2.0, [0.5, 0.1], [0.5, 0.6])


# ------------------------------------------------------------ utility and smoothing, by simulation


def excess_loss(rng, *, steps, dimension, noise, step_size, runs=200):
    """Mean excess loss of projected SGD on |w - y| with y on a sphere, over all iterates."""
    w = np.zeros((runs, dimension))
    w[:, 0] = -1.0
    target = np.zeros(dimension)
    target[0] = 0.5
    total = 0.0
    for _ in range(steps):
        gap = w - target
        norm = np.linalg.norm(gap, axis=1, keepdims=True)
        gradient = gap / np.maximum(norm, 1e-12) + noise * rng.standard_normal(w.shape)
        w = w - step_size * gradient
        w /= np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1.0)
        total += float(np.mean(np.linalg.norm(w - target, axis=1)))
    return total / steps


@pytest.mark.parametrize(("noise", "steps"), [(0.0, 4), (0.5, 100), (3.0, 100), (3.0, 4)])
def test_random_stopping_finds_the_minimum(noise, steps):
    rng = np.random.default_rng(11)
    dimension = 3
    norm = math.hypot(1.0, math.sqrt(dimension) * noise)
    claim = theorem_28(radius=1.0, gradient_norm=norm, steps=steps)
    same = theorem_29_utility(
        radius=1.0, lipschitz=1.0, noise_std=noise, dimension=dimension, dataset_size=steps
    )
    assert same == claim
    assert claim.excess_loss == pytest.approx(4 * norm / math.sqrt(steps))
    found = excess_loss(
        rng, steps=steps, dimension=dimension, noise=noise, step_size=claim.step_size
    )
    assert found <= claim.excess_loss
    skip = theorem_30_utility(
        radius=1.0, lipschitz=1.0, noise_std=noise, dimension=dimension, dataset_size=steps
    )
    assert skip.excess_loss == pytest.approx(claim.excess_loss * math.sqrt(2))


@pytest.mark.parametrize("dimension", [1, 4])
@pytest.mark.parametrize("width", [0.1, 1.0])
def test_gaussian_smoothing_of_the_norm(dimension, width):
    rng = np.random.default_rng(12)
    claim = theorem_33(lipschitz=1.0, width=width, dimension=dimension)
    z = width * rng.standard_normal((20_000, dimension))
    z = np.concatenate([z, -z])
    unit = np.eye(dimension)[0]

    def smoothed(t):
        return float(np.mean(np.linalg.norm(t * unit + z, axis=1)))

    points = np.linspace(-2, 2, 41)
    values = np.array([smoothed(t) for t in points])
    assert np.max(np.abs(values - np.abs(points))) <= claim.error
    slopes = np.diff(values) / np.diff(points)
    assert np.all(np.abs(slopes) <= 1 + 1e-9)
    assert np.all(np.diff(slopes) >= -1e-9)  # convex
    assert np.max(np.diff(slopes) / 0.1) <= claim.smoothness * 1.02


def test_smoothing_for_the_step_size():
    given = {"radius": 1.0, "lipschitz": 2.0, "epsilon": 0.5, "delta": 1e-6}
    smoothing = corollary_34_smoothing(**given, dimension=10, dataset_size=1000)
    assert smoothing.width == pytest.approx(0.25 / math.sqrt(1000 * math.log(1e6)))
    assert smoothing.smoothness == pytest.approx(2.0 / smoothing.width)
    assert smoothing.error == pytest.approx(2.0 * smoothing.width * math.sqrt(10))
    noise = 2 * 2.0 * math.sqrt(2 * math.log(1.25e6)) / 0.5
    utility = theorem_30_utility(
        radius=1.0, lipschitz=2.0, noise_std=noise, dimension=10, dataset_size=1000
    )
    assert utility.step_size <= 2 / smoothing.smoothness


def test_bad_input():
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        theorem_28(radius=1.0, gradient_norm=1.0, steps=0)
    with pytest.raises(ValueError, match="width must be a positive finite number, got 0"):
        theorem_33(lipschitz=1.0, width=0, dimension=2)
