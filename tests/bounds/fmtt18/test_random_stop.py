"""Stop-PNSGD: Lemma 25 and Theorem 26, printed, corrected and sharper."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from audit import Release
from audit.bounds.fmtt18.renyi import _log_tail, harmonic
from papers.fmtt18_statements import weak_convexity
from tests.bounds.fmtt18.one_pass import mixed_renyi, one_pass, renyi


def stopped(n, alpha, factor=1.0, **changes):
    noise = factor * math.sqrt(2 * alpha * (alpha - 1))
    return one_pass(n, noise_std=noise, release=Release.RANDOM_STOP, **changes)


def test_theorem_26_is_refuted():
    assert renyi("theorem_26", stopped(1, 1.2), 1.2) == 0.0
    m = stopped(2, 1.2)
    claimed = renyi("theorem_26", m, 1.2)
    assert claimed == pytest.approx(3.466, abs=5e-4)
    # record 1 at +-L, record 2 pushes both by L
    variance = m.noise_std**2
    true = mixed_renyi(1.2, [1.0, 2.0], [-1.0, 0.0], [variance, 2 * variance])
    assert true == pytest.approx(3.533, abs=5e-4)
    for id in ("theorem_26_corrected", "theorem_26_sharper", "lemma_25"):
        assert renyi(id, m, 1.2) >= true


def test_orders_above_the_threshold_are_not_claimed():
    m = stopped(5, 3.0)
    for id in ("theorem_26", "theorem_26_corrected", "lemma_25"):
        assert renyi(id, m, 3.0) < math.inf
        assert renyi(id, m, 3.001) == math.inf
    assert renyi("theorem_26_sharper", m, 3.001) < math.inf


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("alpha", [1.1, 2.0, 6.0])
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
