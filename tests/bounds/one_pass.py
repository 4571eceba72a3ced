"""One pass over the records, and mixtures of Gaussians that linear losses lead to."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr

from audit import Batching, bounds
from tests.mechanisms import noisy_sgd


def one_pass(n, **changes):
    values = {"steps": n, "diameter": None, **changes}
    return noisy_sgd(dataset_size=n, batching=Batching.CYCLIC, **values)


def renyi(id, m, alpha=2.0, **options):
    return bounds.evaluate(f"fmtt18.{id}", m, **options).renyi(alpha)


def mixed_renyi(alpha, first, second, variances):
    """D_alpha of two mixtures of Gaussians in equal parts, both orders, on a grid."""
    first, second = np.asarray(first), np.asarray(second)
    reach = 14 * math.sqrt(max(variances)) * max(alpha, 2)
    x = np.linspace(min(*first, *second) - reach, max(*first, *second) + reach, 60_001)

    def log_density(means):
        parts = [
            -((x - m) ** 2) / (2 * v) - 0.5 * math.log(2 * math.pi * v)
            for m, v in zip(means, variances, strict=True)
        ]
        return logsumexp(parts, axis=0) - math.log(len(parts))

    p, q = log_density(first), log_density(second)
    step = math.log(x[1] - x[0])
    return max(
        float(logsumexp(alpha * a + (1 - alpha) * b) + step) / (alpha - 1)
        for a, b in ((p, q), (q, p))
    )


def mixed_epsilon(delta, first, second, variances):
    """Epsilon of two mixtures of Gaussians with the same order of means: thresholds suffice."""
    stds = np.sqrt(variances)
    t = np.linspace(-30 * stds.max(), 30 * stds.max(), 20_001)

    def above(means):
        return np.mean([ndtr((m - t) / s) for m, s in zip(means, stds, strict=True)], axis=0)

    p, q = above(first), above(second)
    return brentq(lambda e: np.max(p - math.exp(e) * q) - delta, 0.0, 100.0)
