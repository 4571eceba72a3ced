"""Trials that the best fixed plan needs to refute a claim whose error is known beforehand."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.stats import binom, norm

from audit.estimation import rate_lower, rate_upper
from audit.estimation.betting import nearest_null

ERROR, POWER = 0.05, 0.9


def _rates(threshold: float) -> tuple[float, float]:
    """Rates of {x >= threshold} under N(1, 1) and N(0, 1)."""
    return float(norm.sf(threshold - 1)), float(norm.sf(threshold))


def clopper_pearson_power(size: int, epsilon: float, delta: float, near: float) -> float:
    """Exact power of the best threshold around ``near`` and the best split of the error."""
    best = 0.0
    count = np.arange(size + 1)
    for threshold, share in product(near + np.linspace(-0.3, 0.3, 7), (0.1, 0.2, 0.3, 0.4, 0.5)):
        p, q = _rates(threshold)
        lead = np.arange(*binom.ppf([1e-6, 1 - 1e-6], size, p).astype(int))
        other = count[: int(binom.ppf(1 - 1e-6, size, q)) + 1]
        needed = (rate_lower(lead, size, share * ERROR) - delta) * np.exp(-epsilon)
        limits = rate_upper(other, size, (1 - share) * ERROR)
        most = np.searchsorted(limits, needed) - 1
        chances = np.where(most >= 0, binom.cdf(most, size, q), 0.0)
        best = max(best, float(np.sum(binom.pmf(lead, size, p) * chances)))
    return best


def joint_size(epsilon: float, delta: float) -> float:
    """Pairs for 90% power of the most powerful test of the best event against its nearest null.

    No test of the composite null hypothesis from this event's counts needs fewer (normal
    approximation of the log likelihood ratio under both).
    """
    sizes = []
    for threshold in np.linspace(-1, 3, 41):
        p, q = _rates(threshold)
        if p - np.exp(epsilon) * q <= 1.02 * delta:
            continue
        x = nearest_null(p, q, float(np.exp(epsilon)), delta)
        y = delta + np.exp(epsilon) * x
        rates, nulls = np.array([p, q]), np.array([y, x])
        weights = np.log(rates / nulls) - np.log((1 - rates) / (1 - nulls))
        spread = [np.sqrt(np.sum(weights**2 * r * (1 - r))) for r in (nulls, rates)]
        gap = np.sum(weights * (rates - nulls))
        sizes.append(((norm.isf(ERROR) * spread[0] + norm.ppf(POWER) * spread[1]) / gap) ** 2)
    return float(min(sizes))
