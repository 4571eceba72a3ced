"""Conversion of a privacy profile delta(epsilon) to a tradeoff function."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def tradeoff_from_profile(alpha: Array, epsilon: Array, delta: Array) -> Array:
    """Return the largest tradeoff function consistent with points of a privacy profile.

    At each point both orders of the pair are (epsilon, delta)-indistinguishable, which is
    equivalent to (Wasserman and Zhou 2010; Dong, Roth and Su 2022, Proposition 2.5)

        beta >= max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)).

    Parameters
    ----------
    alpha : ndarray
        Type I errors, shape ``(a,)``.
    epsilon, delta : ndarray
        Points of an upper bound on the profile, shape ``(e,)`` each, epsilon >= 0.

    Returns
    -------
    ndarray
        Lower bound on the type II error at each alpha, shape ``(a,)``. Valid for any choice of
        points; more points make it tighter.
    """
    best = np.zeros_like(alpha)
    with np.errstate(over="ignore"):
        growth, shrinkage = np.exp(epsilon), np.exp(-epsilon)
    # in slices, to bound memory
    for start in range(0, alpha.size, 256):
        a = alpha[start : start + 256, None]
        with np.errstate(invalid="ignore"):
            steep = np.where(a > 0, 1 - delta - growth * a, 1 - delta)
        flat = shrinkage * (1 - delta - a)
        best[start : start + 256] = np.maximum(np.max(np.maximum(steep, flat), axis=1), 0.0)
    return best


def profile_points(largest: float, count: int = 1024) -> Array:
    """Return epsilons from 0 to ``largest``, dense near 0, for `tradeoff_from_profile`."""
    if not (np.isfinite(largest) and largest > 0):
        return np.zeros(1)
    return np.unique(
        np.concatenate([[0.0], np.geomspace(1e-6, 1.0, count // 2), np.linspace(0, 1, count)])
        * largest
    )
