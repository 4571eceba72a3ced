"""How fast lower bounds come from samples and counts."""

from __future__ import annotations

import importlib.util

import numpy as np

from audit.estimation import SimultaneousBand, audit_samples, clopper_pearson
from audit.estimation.levels import limits
from tests.benchmarks.timing import Measured, median_seconds

DELTAS = np.geomspace(1e-7, 1e-1, 10)


def rows() -> list[Measured]:
    """Measure the promised speeds of the estimators."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal(10**7) + 1, random.standard_normal(10**7)

    def named(size: int) -> object:
        first, second = x[:size], y[:size]
        return audit_samples(first, second, confidence=0.95, deltas=(1e-5,), seed=1).mu_lower()

    def band() -> object:
        limits.cache_clear()  # a first audit of this size
        found = audit_samples(x, y, confidence=0.95, thresholds=SimultaneousBand())
        return found.epsilon_lower(DELTAS), found.beta_points

    counts = random.integers(0, 10**6, 10**5)
    intervals = median_seconds(lambda: clopper_pearson(counts, 10**6, confidence=0.95), 3)
    return [
        Measured(
            "audit_samples, pilot split, 10^6 a side", median_seconds(lambda: named(10**6), 3), "s"
        ),
        Measured(
            "audit_samples, pilot split, 10^7 a side", median_seconds(lambda: named(10**7), 3), "s"
        ),
        Measured("band and epsilon at ten deltas, 10^7 a side", median_seconds(band, 3), "s", 2),
        Measured("Clopper-Pearson for 10^5 pairs of counts", intervals, "s", 1),
        *_credible(),
    ]


def _credible() -> list[Measured]:
    if importlib.util.find_spec("audit.estimation.credible") is None:
        return []
    from audit.estimation.credible import credible_epsilon

    def interval() -> object:
        return credible_epsilon(487, 512, 1, 0, delta=1e-5).interval(0.9)

    return [Measured("credible interval of (487, 512, 1, 0)", median_seconds(interval), "s", 1)]
