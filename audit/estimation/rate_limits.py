"""Exact confidence limits for one rate from counts, of Clopper and Pearson (1934).

The limits are quantiles of beta laws: a step of Halley's method on the log of the probability, from
an expansion where the law is nearly normal and elsewhere from SciPy's inverse. Where that does not
give the error (the inverses return 1.49e-8 for some smaller quantiles, and are off by 1e-7 beside
1), the quantile is bracketed by bisection.
`statsmodels.stats.proportion.proportion_confint` takes four times as long, is right to about 9
digits and accepts counts above the number of trials; tests compare with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, ndtri

from audit import validate
from audit.numerics.arrays import Array

_TINY = float(np.finfo(np.float64).tiny)
# A step from a probability that is so near to the error (as a logarithm) leaves the cube of that,
# unless the probability is so steep that neighbouring doubles differ. Other limits are confirmed
# where their probability is the error to 8 digits; else they are bracketed by so many halvings,
# which reach the next doubles.
_NEAR_WIDTH, _FLAT_SLOPE = 1e-4, 1e5
_AGREEMENT_TOLERANCE, _HALVINGS = 1e-8, 64
_MIN_ERROR = 1e-40  # SciPy's inverse warns from 1e-60 on
_UNDERFLOW = 1e-250  # SciPy's functions lose digits below about 1e-280: nothing is known there
_STEEP_RATE = 0.05  # from about this rate on, an upper limit is 1 less the mirrored lower one
# The expansion serves laws of parameters from the first number on, and scores of the error up to
# the second. It is off by some 1e-5 standard deviations, and a step leaves the cube of that.
_LARGE_COUNT, _MAX_DEVIATIONS = 1000.0, 6.0


def rate_lower(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return a lower confidence limit of a binomial rate."""
    return lower_limit(*_checked(count, total, error))


def rate_upper(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return an upper confidence limit of a binomial rate."""
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
    Clopper and Pearson (1934); the beta quantile of Brown, Cai and DasGupta (2001), Section 4.2.1.

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
    limit[inner] = _quantile(k[inner], (n - k + 1)[inner], e[inner], upper=False)
    return limit


def upper_limit(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> Array:
    """Return `rate_upper` for numbers that are known to be in range."""
    k, n, e = _broadcast(count, total, error)
    limit, a, b = np.ones(k.shape), k + 1, n - k
    mirrored = (b > 0) & (_STEEP_RATE * b <= a)
    rest = _quantile(b[mirrored], a[mirrored], e[mirrored], upper=False)
    steep = 1 - rest
    # rounded up where few digits are left
    limit[mirrored] = np.where(1 - steep > rest, np.nextafter(steep, 2.0), steep)
    direct = (b > 0) & ~mirrored
    limit[direct] = _quantile(a[direct], b[direct], e[direct], upper=True)
    return limit


def _broadcast(*given: ArrayLike) -> tuple[Array, Array, Array]:
    k, n, e = np.broadcast_arrays(*(np.asarray(one, dtype=np.float64) for one in given))
    return k, n, e


def _quantile(a: Array, b: Array, error: Array, *, upper: bool) -> Array:
    """Return where one tail of the beta law has the probability ``error``."""
    tail, sign = (betaincc, -1.0) if upper else (betainc, 1.0)
    with np.errstate(all="ignore"):  # whatever fails is bracketed below
        x = _start(a, b, error, upper=upper)
        probability = tail(a, b, x)
        gap = np.log(probability / error)
        density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - betaln(a, b))
        slope = sign * density / probability
        step = -gap / slope
        step /= 1 + 0.5 * step * ((a - 1) / x - (b - 1) / (1 - x) - slope)
        x = np.where(np.isfinite(step), x + step, x)
        wrong = ~((np.abs(gap) <= _NEAR_WIDTH) & (np.abs(slope) <= _FLAT_SLOPE))  # NaN is wrong
        left = a[wrong], b[wrong], x[wrong]
        wrong[wrong] = ~(np.abs(tail(*left) / error[wrong] - 1) <= _AGREEMENT_TOLERANCE)
    if wrong.any():
        x[wrong] = _beside_quantile(a[wrong], b[wrong], error[wrong], upper=upper)
    return np.where(error < _UNDERFLOW, float(upper), x)


def _start(a: Array, b: Array, error: Array, *, upper: bool) -> Array:
    """Return quantiles to start from: by Cornish and Fisher (1938) for large parameters."""
    z = -ndtri(error) if upper else ndtri(error)
    large = (np.minimum(a, b) >= _LARGE_COUNT) & (np.abs(z) <= _MAX_DEVIATIONS)
    x, rest = np.empty(a.shape), ~large
    inverse = betainccinv if upper else betaincinv
    x[rest] = inverse(a[rest], b[rest], np.maximum(error[rest], _MIN_ERROR))
    if large.any():
        a, b, z = a[large], b[large], z[large]
        size, product, square = a + b, a * b, z * z
        std = np.sqrt(product / (size + 1)) / size
        skew = 2 * (b - a) * np.sqrt((size + 1) / product) / (size + 2)
        excess = 6 * ((a - b) ** 2 * (size + 1) / product - (size + 2)) / ((size + 2) * (size + 3))
        score = z + (square - 1) * skew / 6 + z * (square - 3) * excess / 24
        x[large] = a / size + std * (score - z * (2 * square - 5) * skew**2 / 36)
    return x


def _beside_quantile(a: Array, b: Array, error: Array, *, upper: bool) -> Array:
    """Bracket quantiles by bisection of their logarithms, where SciPy's inverses are wrong."""
    low, high = np.zeros(a.shape), np.ones(a.shape)
    for _ in range(_HALVINGS):
        middle = np.sqrt(np.maximum(low, _TINY)) * np.sqrt(high)
        # NaN moves the end that is not returned
        below = ~(betaincc(a, b, middle) <= error) if upper else betainc(a, b, middle) <= error
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high if upper else low


def _checked(count: ArrayLike, total: ArrayLike, error: ArrayLike) -> tuple[Array, Array, Array]:
    n = validate.array_in(0, np.inf, open_ends=True, total=total)
    k = validate.array_in(0, np.inf, open_ends=False, count=count)
    a = validate.array_in(0, 1, open_ends=True, error=error)
    k, n, a = np.broadcast_arrays(k, n, a)
    if np.any(k > n):
        first = int(np.flatnonzero(k > n)[0])
        raise validate.fail("count", f"at most total ({n.flat[first]:g})", float(k.flat[first]))
    return k, n, a
