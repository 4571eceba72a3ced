"""Exact confidence limits for one rate from counts, of Clopper and Pearson (1934).

The limits are quantiles of beta laws, which `statsmodels.stats.proportion.proportion_confint`
computes. It accepts counts above the number of trials and is right to about 9 digits; here counts
are validated, and one step of Newton's method on the log probability gives the rest. Where that
fails, as for quantiles below 1e-8 of some laws, the quantile is bracketed by bisection.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, betaln

from audit import validate

Array = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)
# A limit is confirmed where its probability is the error to 8 digits; else it is bracketed by so
# many halvings, which reach the next doubles.
_AGREEMENT, _HALVINGS = 1e-8, 64
_LEAST_ERROR = 1e-40  # SciPy's inverse warns from 1e-60 on
_STEEP = 0.05  # from about this rate on, an upper limit is 1 less the mirrored lower one


def rate_lower(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return a lower confidence limit of a binomial rate.

    References
    ----------
    Clopper and Pearson (1934); the beta quantile of Brown, Cai and DasGupta (2001), Section 4.2.1.
    """
    return lower_limit(*_checked(count, total, error))


def rate_upper(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return an upper confidence limit of a binomial rate.

    References
    ----------
    Clopper and Pearson (1934).
    """
    return upper_limit(*_checked(count, total, error))


def clopper_pearson(
    count: ArrayLike, total: ArrayLike, *, confidence: ArrayLike
) -> tuple[Array, Array]:
    """Return a two-sided confidence interval of a binomial rate.

    The error is shared equally between the ends, which are those of `rate_lower` and `rate_upper`
    at half the error each.

    Parameters
    ----------
    count, total : array_like
        Successes and trials, ``0 <= count <= total``, ``total > 0``; arrays broadcast.
    confidence : array_like
        Confidence level, in (0, 1).

    Returns
    -------
    low : numpy.ndarray
        The lower end.
    high : numpy.ndarray
        The upper end.

    Raises
    ------
    ValueError
        If a count lies outside [0, total], a total is not positive, or a confidence not in (0, 1).

    References
    ----------
    Clopper and Pearson (1934).

    Examples
    --------
    >>> low, high = clopper_pearson(8, 10, confidence=0.95)
    >>> round(float(low), 4), round(float(high), 4)
    (0.4439, 0.9748)
    """
    error = 1 - validate.array_in(0, 1, open_ends=True, confidence=confidence)
    k, n, a = _checked(count, total, error)
    return lower_limit(k, n, a / 2), upper_limit(k, n, a / 2)


def lower_limit(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return `rate_lower` for numbers that are known to be in range."""
    k, n, e = _broadcast(count, total, error)
    limit, inner = np.zeros(k.shape), k > 0
    limit[inner] = _confirmed(*_inner(k, n, e, inner), upper=False)
    return limit


def upper_limit(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return `rate_upper` for numbers that are known to be in range."""
    k, n, e = _broadcast(count, total, error)
    limit = np.ones(k.shape)
    mirrored = (k < n) & (_STEEP * (n - k) <= k + 1)
    rest = _confirmed(*_inner(n - k, n, e, mirrored), upper=False)
    steep = 1 - rest
    # rounded up where few digits are left
    limit[mirrored] = np.where(1 - steep > rest, np.nextafter(steep, 2.0), steep)
    direct = (k < n) & ~mirrored
    limit[direct] = _confirmed(*_inner(k, n, e, direct), upper=True)
    return limit


def _broadcast(*given: ArrayLike) -> tuple[Array, Array, Array]:
    k, n, e = np.broadcast_arrays(*(np.asarray(one, dtype=np.float64) for one in given))
    return k, n, e


def _inner(k: Array, n: Array, e: Array, inner: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    return k[inner], n[inner], e[inner]


def _confirmed(count: Array, total: Array, error: Array, *, upper: bool) -> Array:
    """Return the limits of statsmodels, each with its probability confirmed."""
    from statsmodels.stats.proportion import proportion_confint  # takes a second to import

    a, b = (count + 1, total - count) if upper else (count, total - count + 1)
    tail, sign = (betaincc, 1.0) if upper else (betainc, -1.0)
    alpha = 2 * np.maximum(error, _LEAST_ERROR)
    with np.errstate(all="ignore"):  # whatever fails is bracketed below
        limit = proportion_confint(count, total, alpha=alpha, method="beta")[int(upper)]
        probability = tail(a, b, limit)
        density = np.exp((a - 1) * np.log(limit) + (b - 1) * np.log1p(-limit) - betaln(a, b))
        step = sign * np.log(probability / error) * probability / density
        limit = np.where(np.isfinite(step), limit + step, limit)
        wrong = ~(np.abs(tail(a, b, limit) / error - 1) <= _AGREEMENT)  # NaN is wrong
    if wrong.any():
        ends = _around_quantile(a[wrong], b[wrong], error[wrong], upper=upper)
        limit[wrong] = ends[int(upper)]
    return np.asarray(limit)


def _around_quantile(a: Array, b: Array, error: Array, *, upper: bool) -> tuple[Array, Array]:
    """Bracket quantiles by bisection of their logarithms.

    SciPy's inverses return 1.49e-8 for quantiles below it where one parameter is 1e3 and the other
    above 1e10, and are off by 1e-7 beside 1, where doubles are too far apart.
    """
    low, high = np.zeros(a.shape), np.ones(a.shape)
    for _ in range(_HALVINGS):
        middle = np.sqrt(np.maximum(low, _TINY)) * np.sqrt(high)
        # NaN moves the end that is not returned
        below = ~(betaincc(a, b, middle) <= error) if upper else betainc(a, b, middle) <= error
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low, high


def _checked(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> tuple[Array, Array, Array]:
    n = validate.array_in(0, np.inf, open_ends=True, total=total)
    k = validate.array_in(0, np.inf, open_ends=False, count=count)
    a = validate.array_in(0, 1, open_ends=True, error=error)
    k, n, a = np.broadcast_arrays(k, n, a)
    if np.any(k > n):
        first = int(np.flatnonzero(k > n)[0])
        raise validate.fail("count", f"at most total ({n.flat[first]:g})", float(k.flat[first]))
    return k, n, a
