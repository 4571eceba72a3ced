"""Functions of the normal law that stay accurate where the naive formulas fail."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from audit.numerics.arrays import Array
from audit.numerics.panels import gauss_legendre

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_UNIT, _TINY = 2.0**-53, 1e-320  # roundoff; and room for the spacing of doubles near 0
# Errors of erfcx and ndtr, in units of rounding, and of a sum over nodes with all besides.
_FUNCTION_UNITS, _SUM_UNITS = 16, 64
# The integrand below is entire: a length of at most 1 takes 16 nodes for an error below rounding.
# With n nodes over a length h the relative error is at most h^(2n) n!^4 / ((2n + 1) (2n)!^3) times
# the 2n-th derivative, below (2n)! for x > 0 and |x|^(2n) farther left. 8 nodes leave 1e-18 up to
# the length .5, and 6 leave 1e-16 up to .25, for x > -4.


def log_density(x: Array) -> Array:
    """Log density of the standard normal law."""
    return -0.5 * x * x - _LOG_SQRT_TWO_PI


def log_interval(low: Array, high: Array) -> Array:
    """Log of Phi(high) - Phi(low) for ``low < high``, in both tails and for infinite ends."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top = log_ndtr(b)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(-np.expm1(np.minimum(log_ndtr(a) - top, 0.0))))


def log_ndtr_error(x: Array, moved: Array | float = 0.0) -> Array:
    """Bound the error of SciPy's ``log_ndtr`` at points that err by ``moved``.

    Its series and erfcx err by some units; on the right, roundings of x/sqrt(2) and of its square
    move 1 - Phi(x) by x^2 units each (2 x^2 were seen in 8,000 places). The slope is below |x| + 1,
    for x > 0 times (1 - Phi(x))/Phi(x), below twice the value.
    """
    at = np.where(np.isfinite(x), x, 0.0)
    size = np.abs(log_ndtr(at))
    own = size * (_FUNCTION_UNITS + 4 * np.square(np.maximum(at, 0.0)))
    slope = (np.abs(at) + 1) * np.where(at > 0, np.minimum(2 * size, 1.0), 1.0)
    return np.where(np.isfinite(x), _UNIT * own + slope * moved, 0.0)


def log_interval_error(low: Array, high: Array, moved: Array | float = 0.0) -> Array:
    """Bound the error of `log_interval` for ends that err by ``moved``.

    With d < 0 the difference of the logs of two tails, log(1 - e^d) changes by e^d/(1 - e^d) times
    the error of d.
    """
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(b), log_ndtr(a)
    error = log_ndtr_error(b, moved)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.minimum(bottom - top, 0.0)
        slip = error + log_ndtr_error(a, moved) + _UNIT * np.abs(gap)
        share = np.where(gap == -np.inf, 0.0, slip / np.expm1(-gap))
        rest = np.log(-np.expm1(gap))
        # linear as long as it is small
        share = np.where(share < 0.5, 2 * share, np.inf)
        units = 8 + 4 * np.abs(rest) + 2 * np.abs(top + rest)
    return np.asarray(error + share + _UNIT * units)


def panel_error(nodes: int, width: float, steepness: float) -> float:
    """Bound the relative error of Gauss-Legendre quadrature of the normal density on a panel.

    The panel is of ``width`` w, and w |x| is at most ``steepness`` on it. The error is at most
    w^(2n+1) n!^4/((2n + 1) (2n)!^3) times the derivative He_2n phi, and |He_2n(x)| is at most the
    mean of (|x| + |Z|)^2n, Z standard normal.
    """
    log_double = math.lgamma(2 * nodes + 1)
    scale = 4 * math.lgamma(nodes + 1) - math.log(2 * nodes + 1) - 3 * log_double
    log_moment = log_double - nodes * math.log(2) - math.lgamma(nodes + 1)
    size = steepness + width * math.exp(log_moment / (2 * nodes))
    return 1.001 * math.exp(scale + 2 * nodes * math.log(size) + steepness)


def mills_ratio(x: Array) -> Array:
    """Return (1 - Phi(x)) / phi(x)."""
    return np.asarray(_SQRT_HALF_PI * erfcx(x / math.sqrt(2)))


def mills_difference(x: Array, step: Array) -> Array:
    """Return ``mills_ratio(x) - mills_ratio(x + step)`` for ``step > 0`` without cancellation.

    Uses M'(t) = t M(t) - 1: for short steps the difference is the integral of 1 - t M(t).
    """
    x, step = np.broadcast_arrays(x, step)
    if np.all(step >= 1):  # seventeen ratios a point fewer
        return np.asarray(mills_ratio(x) - mills_ratio(x + step))
    longest, right = step.max(), x.min() > -4
    nodes, weights = gauss_legendre(
        6 if longest <= 0.25 and right else 8 if longest <= 0.5 and right else 16
    )
    points = x[..., None] + 0.5 * np.minimum(step, 1.0)[..., None] * (1 + nodes)
    integral = ((1 - points * mills_ratio(points)) @ weights) * 0.5 * step
    if np.all(step < 1):
        return np.asarray(integral)
    return np.asarray(np.where(step < 1, integral, mills_ratio(x) - mills_ratio(x + step)))


def gaussian_delta(epsilon: Array, mu: Array) -> Array:
    """Privacy profile of N(0, 1) against N(mu, 1): Phi(-x) - e^epsilon Phi(-x - mu).

    Here x = epsilon/mu - mu/2. Written as phi(x) (M(x) - M(x + mu)) with M the Mills ratio, it
    keeps its relative accuracy for mu from 1e-8 to hundreds and for delta down to 1e-300, where
    the difference of two normal probabilities has no digits left. Any real epsilon.
    """
    epsilon, mu = np.broadcast_arrays(
        np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    )
    with np.errstate(over="ignore"):
        x = epsilon / mu - mu / 2
    inner = np.clip(x, -30.0, 1e150)  # keeps the Mills ratio finite; the rest is handled below
    with np.errstate(under="ignore"):
        # e^epsilon Phi(-x - mu) = phi(x) M(x + mu)
        result = np.exp(log_density(inner)) * mills_difference(inner, mu)
        left = x < -5
        if np.any(left):
            other = ndtr(-x) - np.exp(log_density(inner)) * mills_ratio(inner + mu)
            # 1 - e^epsilon Phi(-x - mu), whose last factor is near 1 or near 0
            below = np.minimum(epsilon, 0.0)
            far_left = -np.expm1(below) + np.exp(below) * ndtr(x + mu)
            far_left = np.where(epsilon < 0, far_left, 1.0)
            # elsewhere little is left of 1
            apart = left & (-mu * x >= 1)
            result = np.where(x < -30, far_left, np.where(apart, other, result))
    return np.asarray(np.clip(result, 0, 1))


def gaussian_delta_above(epsilon: Array, mu: Array) -> Array:
    """Return an upper bound on `gaussian_delta`, quicker than `gaussian_delta_bracket`.

    Where delta is above 1e-320, x is below 39. What `_delta_error` counts is then at most
    19 (x^2 + 3) + 3 x^2 + x (2 x + mu/2) + 64 units, below 2^16 + 32 mu.
    """
    with np.errstate(under="ignore"):
        relative = _UNIT * (2.0**16 + 32 * mu)
        return np.asarray(np.minimum(gaussian_delta(epsilon, mu) * (1 + relative) + _TINY, 1.0))


def _delta_error(epsilon: Array, mu: Array, x: Array) -> tuple[Array, Array]:
    """Bound the rounding of phi(x) (M(x) - M(x + mu)), relative; and of phi(x) M(x + mu).

    At fixed mu, its derivative by x is -mu phi(x) M(x + mu), by which an error of x counts. M(t)
    errs by t^2 for the rounding of t where t < 0, and 1 - t M(t) by the rounding of both terms.
    """
    end = x + mu
    here, there = mills_ratio(x), mills_ratio(end)
    errors = [_FUNCTION_UNITS + 2 * np.square(np.minimum(t, 0.0)) for t in (x, end)]
    # relative error of M(x) - M(x + mu): of its two terms, or the integral's largest
    part = np.where(x < -5, here - there, mills_difference(x, mu))
    apart = (here * errors[0] + there * errors[1]) / part
    inner = [
        (1 + np.abs(t) * m * (error + 2)) / (1 - t * m) + t * t
        for t, m, error in zip((x, end), (here, there), errors, strict=True)
    ]
    relative = np.where(mu < 1, np.maximum(*inner), apart) + x * x + _SUM_UNITS
    slip = np.abs(epsilon / mu) + np.abs(x)  # error of x
    second = np.exp(log_density(x)) * there * (errors[1] + x * x + _SUM_UNITS + mu * slip)
    return _UNIT * (relative + mu * there / part * slip), _UNIT * second


def gaussian_delta_bracket(epsilon: Array, mu: Array) -> tuple[Array, Array]:
    """Return bounds on `gaussian_delta`: its value, and every rounding counted."""
    with np.errstate(all="ignore"):
        value = gaussian_delta(epsilon, mu)
        x = np.clip(epsilon / mu - mu / 2, -30.0, 1e150)
        relative, second = _delta_error(epsilon, mu, x)
        # near 1, a difference of ndtr(-x) and phi(x) M(x + mu)
        near_one = (second + _FUNCTION_UNITS * _UNIT) / value
        error = np.where((x < -5) & (-mu * x >= 1), near_one, relative)
        error = np.where(x <= -30, _SUM_UNITS * _UNIT, error)
    # beyond the range of doubles, nothing is known but that delta is small
    error = np.where(np.isfinite(error), error, np.where(value > 0, np.inf, 0.0))
    with np.errstate(invalid="ignore"):
        low = np.nan_to_num(value * (1 - error) - _TINY, nan=0.0, neginf=0.0)
        high = np.nan_to_num(value * (1 + error) + _TINY, nan=1.0, posinf=1.0)
    least = -np.expm1(np.minimum(epsilon, 0.0))  # delta of equal laws, and a lower bound
    low = np.maximum(low, least * (1 - 8 * _UNIT))
    high = np.where(mu == 0, least * (1 + 8 * _UNIT), high)
    return low, np.minimum(high, 1.0)


def normal_tail_bracket(x: float) -> tuple[float, float]:
    """Return bounds on the probability that a standard normal variable exceeds ``x``."""
    far = math.exp(-0.5 * x * x - _LOG_SQRT_TWO_PI) * float(mills_ratio(np.array(abs(x))))
    error = _UNIT * (x * x + _SUM_UNITS) * far + _TINY
    low, high = max(far - error, 0.0), far + error
    return (low, high) if x >= 0 else (1 - high - _UNIT, 1 - low + _UNIT)


def log_gaussian_delta_bracket(epsilon: float, mu: float) -> tuple[float, float]:
    """Return bounds on the log of `gaussian_delta`, also where that is below the range of doubles.

    For x > 0, 1 - t M(t) lies between 1/(t^2 + 3) and 1/(t^2 + 1), so that its integral from x to
    x + mu is mu/(x (x + mu)) but for a share of 3/x^2, and log delta falls by at most x + 3/x.
    """
    at, apart = np.array(epsilon), np.array(mu)
    x = epsilon / mu - mu / 2
    if x < 1:
        low, high = (float(end) for end in gaussian_delta_bracket(at, apart))
        low = math.log(low) * (1 + 2 * _UNIT) if low > 0 else -math.inf
        return low, math.log(high) * (1 - 2 * _UNIT)
    base = -0.5 * x * x - _LOG_SQRT_TWO_PI
    far = math.log(mu) - math.log(x) - math.log(x + mu)
    slip = 2 * x * x + 4 * x * (epsilon / mu + x) + 16 + 2 * abs(far) + 2 * abs(base)
    low, high = base + far - 3 / (x * x) - _UNIT * slip, base + far + _UNIT * slip
    with np.errstate(all="ignore"):
        part = float(mills_difference(np.array(x), apart))
        relative = float(_delta_error(at, apart, np.array(x))[0])
    if part > 0 and relative < 0.5:
        value = base + math.log(part)
        error = 2 * relative + _UNIT * (8 + 2 * abs(value) + 2 * abs(base))
        low, high = max(low, value - error), min(high, value + error)
    return low, high
