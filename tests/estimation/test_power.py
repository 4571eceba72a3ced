"""The certified share of the true value: medians over fixed seeds, at small sizes.

The thresholds leave room of about three standard errors of the median, so a fresh set of seeds
would fail one of these checks with probability well under 1%.
"""

from __future__ import annotations

import numpy as np
import pytest

from audit.estimation import Evidence, audit_samples

from .audited_laws import GAUSSIAN, LAPLACE, KnownPair


def median_epsilon(pair: KnownPair, delta: float, size: int, repeats: int) -> float:
    values = []
    for seed in range(repeats):
        generator = np.random.default_rng([seed, size])
        first, second = pair.draw_first(generator, size), pair.draw_second(generator, size)
        audit = audit_samples(first, second, confidence=0.95, deltas=(delta,), seed=seed)
        values.append(audit.epsilon_lower(delta))
    return float(np.median(values))


@pytest.mark.parametrize(
    ("pair", "delta", "size", "repeats", "least"),
    [
        (GAUSSIAN, 1e-5, 10**6, 25, 3.25),  # truth 4.377; 3.44 over 100 seeds
        (GAUSSIAN, 1e-2, 10**6, 15, 2.25),  # truth 2.318; 2.27 over 100 seeds
        (LAPLACE, 1e-5, 10**5, 40, 0.96),  # truth 1; 0.98 over 200 seeds
    ],
)
def test_power(pair: KnownPair, delta: float, size: int, repeats: int, least: float) -> None:
    assert median_epsilon(pair, delta, size, repeats) >= least


def test_band_is_not_far_behind_a_named_delta() -> None:
    generator = np.random.default_rng(1)
    first, second = GAUSSIAN.draw_first(generator, 10**6), GAUSSIAN.draw_second(generator, 10**6)
    band = audit_samples(first, second, confidence=0.95, seed=1)
    assert band.epsilon_lower(1e-2) > 2.15
    assert band.epsilon_lower(1e-5) > 2.85
    assert band.mu_lower() > 0.98
    assert band.renyi_lower(2.0) > 0.6


def test_disjoint_laws_reach_the_sampling_limit() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.uniform(10, 11, 10**5), generator.uniform(0, 1, 10**5)
    audit = audit_samples(first, second, confidence=0.95, deltas=(1e-5,), seed=0)
    evidence: Evidence = audit.evidence(1e-5)
    assert evidence.sampling_limit == pytest.approx(np.log(90_000 / -np.log(0.04275)), abs=1e-3)
    assert 0.97 * evidence.sampling_limit < evidence.value <= evidence.sampling_limit
