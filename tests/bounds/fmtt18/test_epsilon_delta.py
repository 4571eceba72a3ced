"""The statements of Feldman et al. in (epsilon, delta): refuted as printed, and corrected."""

import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Order, Release, bounds, exact
from audit.bounds import Status
from audit.constructions import TwoSidedWalk
from audit.curves import GaussianCurve
from tests.bounds.fmtt18.one_pass import mixed_epsilon, mixed_renyi, one_pass, renyi


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


@pytest.mark.parametrize("index", [1, 3, 7, 10])
def test_skipping_is_sound(index):
    for noise in (0.3, 1.0, 10.0):
        m = one_pass(10, noise_std=noise, release=Release.RANDOM_SKIP)
        first, second, variances = skipped(m, index)
        true = mixed_renyi(3.0, first, second, variances)
        assert true <= renyi("theorem_24", m, 3.0, index=index) * (1 + 1e-9)
        claimed = bounds.evaluate("fmtt18.theorem_30_corrected", m, index=index).epsilon(1e-5)
        assert mixed_epsilon(1e-5, first, second, variances) <= claimed + 1e-9


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
