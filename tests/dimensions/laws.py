"""Closed forms that know nothing of the simulator, and checks of samples against them.

Every check returns a p-value, Bonferroni-corrected over what it looks at; tests reject below
``LEVEL``, the false alarm rate of one check over the choice of its (fixed) seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.simulation.twin import LEVEL, has_counts, is_normal

Floats = NDArray[np.float64]

__all__ = ["LEVEL", "affine_law", "has_counts", "has_law", "is_gaussian"]


def affine_law(
    hessians: list[Floats], pulls: list[Floats], step_size: float, noise_std: float,
    start: Floats, steps: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Mean and covariance of x -> x - eta (H_k x - p_k + Z), k cycling: sums over all steps.

    x_T = A_{T-1} ... A_0 x_0 + sum over k of A_{T-1} ... A_{k+1} (eta p_k - eta Z_k),
    A_k = I - eta H_k; every product is multiplied out anew.
    """
    d = start.size

    def product(first: int) -> Floats:
        whole = np.eye(d)
        for k in range(first, steps):
            whole = (np.eye(d) - step_size * hessians[k % len(hessians)]) @ whole
        return whole

    mean = product(0) @ start
    covariance = np.zeros((d, d))
    for k in range(steps):
        rest = product(k + 1)
        mean = mean + step_size * rest @ pulls[k % len(pulls)]
        covariance += (step_size * noise_std) ** 2 * rest @ rest.T
    return mean, covariance


def is_gaussian(x: Floats, mean: Floats, covariance: Floats) -> float:
    """Whitened samples, shape (trials, d), against N(0, I).

    All numbers together (mean, variance, Kolmogorov-Smirnov), all means, and all correlations of
    two coordinates, each of which is nearly normal with variance 1/trials.
    """
    z = np.linalg.solve(np.linalg.cholesky(covariance), (x - mean).T).T
    n, d = z.shape
    of_means = float(stats.chi2.sf(n * np.sum(z.mean(axis=0) ** 2), d))
    values = [is_normal(z.ravel(), 0.0, 1.0), of_means]
    if d > 1:
        products = (z.T @ z)[np.triu_indices(d, 1)] / np.sqrt(n)
        values.append(float(stats.chi2.sf(np.sum(products**2), products.size)))
    return min(1.0, len(values) * min(values))


def has_law(x: Floats, law: object, low: float, high: float, bins: int = 25) -> float:
    """Chi-square of the two atoms and of bins between them, against an `audit.exact` law."""
    edges = np.linspace(low, high, bins + 1)
    inside = np.diff(law.cdf(edges[1:-1]))  # type: ignore[attr-defined]
    first, last = law.atoms  # type: ignore[attr-defined]
    below = law.probability(low, edges[1]) - first  # type: ignore[attr-defined]
    above = law.probability(edges[-2], high) - last  # type: ignore[attr-defined]
    codes = np.digitize(x, edges[1:-1]) + 1
    codes[x == low], codes[x == high] = 0, bins + 1
    return has_counts(codes, np.array([first, below, *inside, above, last]))
