"""Exact confidence limits for one rate from counts (Clopper and Pearson 1934)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from audit import validate

Array = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)


def rate_lower(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Lower confidence limit of a binomial rate.

    Parameters
    ----------
    count, total
        Successes and trials, ``0 <= count <= total``, ``total > 0``; arrays broadcast. Counts
        need not be whole: planning uses expected counts.
    error
        Probability, in (0, 1), with which the limit may exceed the true rate.

    Returns
    -------
    The largest rate r with P(Bin(total, r) >= count) <= error; 0 where ``count`` is 0. It
    exceeds the true rate with probability at most ``error`` (Clopper and Pearson 1934, as the
    beta quantile of Brown, Cai and DasGupta 2001, section 4.2.1).

    Raises
    ------
    ValueError
        If a count lies outside [0, total], a total is not positive, or an error not in (0, 1).
    """
    return lower_limit(*_checked(count, total, error))


def rate_upper(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Upper confidence limit of a binomial rate; the mirror image of `rate_lower`.

    Returns
    -------
    The smallest rate r with P(Bin(total, r) <= count) <= error; 1 where ``count`` is ``total``.
    It falls below the true rate with probability at most ``error`` (Clopper and Pearson 1934).

    Raises
    ------
    ValueError
        If a count lies outside [0, total], a total is not positive, or an error not in (0, 1).
    """
    return upper_limit(*_checked(count, total, error))


def clopper_pearson(
    count: ArrayLike, total: ArrayLike, *, confidence: ArrayLike
) -> tuple[Array, Array]:
    """Return the two-sided interval ``(low, high)`` that holds the true rate with ``confidence``.

    The error is shared equally between the ends: ``rate_lower`` and ``rate_upper`` at half the
    error each. Same shapes, guarantee and errors as theirs.
    """
    half = 0.5 * (1 - validate.array_in(0, 1, open_ends=True, confidence=confidence))
    return rate_lower(count, total, half), rate_upper(count, total, half)


def lower_limit(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return `rate_lower` for numbers that are known to be in range."""
    k, n = np.asarray(count, dtype=np.float64), np.asarray(total, dtype=np.float64)
    inside = np.maximum(k, _TINY)  # the value at 0 is set below
    limit = np.where(k == 0, 0.0, betaincinv(inside, n - k + 1, np.asarray(error)))
    return np.where(np.isnan(limit), 0.0, limit)  # the inverse gives up at errors below 1e-130


def upper_limit(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return `rate_upper` for numbers that are known to be in range."""
    k, n = np.asarray(count, dtype=np.float64), np.asarray(total, dtype=np.float64)
    inside = np.maximum(n - k, _TINY)
    limit = np.where(k == n, 1.0, betainccinv(k + 1, inside, np.asarray(error)))
    return np.where(np.isnan(limit), 1.0, limit)


def _checked(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> tuple[Array, Array, Array]:
    n = validate.array_in(0, np.inf, open_ends=True, total=total)
    k = validate.array_in(0, np.inf, open_ends=False, count=count)
    a = validate.array_in(0, 1, open_ends=True, error=error)
    k, n, a = np.broadcast_arrays(k, n, a)
    if np.any(k > n):
        first = int(np.flatnonzero(k > n)[0])
        raise validate.fail("count", f"at most total ({n.flat[first]:g})", float(k.flat[first]))
    return k, n, a
