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
_FUNCTION, _SUM = 16, 64
# The integrand below is entire: a length of at most 1 takes 16 nodes for an error below rounding.
# Of n nodes over a length h the relative error is at most h^(2n) n!^4 / ((2n + 1) (2n)!^3) times
# the 2n-th derivative, below (2n)! for x > 0 and |x|^(2n) farther left. 8 nodes leave 1e-18 up to
# the length .5, and 6 leave 1e-16 up to .25, for x > -4.
_RULES = {n: gauss_legendre(n) for n in (6, 8, 16)}


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
    nodes, weights = _RULES[
        6 if longest <= 0.25 and right else 8 if longest <= 0.5 and right else 16
    ]
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


def gaussian_delta_bracket(epsilon: Array, mu: Array) -> tuple[Array, Array]:
    """Return bounds on `gaussian_delta`: its value, and every rounding counted.

    At fixed mu, the derivative of phi(x) (M(x) - M(x + mu)) is -mu phi(x) M(x + mu), by which an
    error of x counts. M(t) errs by t^2 for the rounding of t where t < 0, and 1 - t M(t) by the
    rounding of both terms.
    """
    epsilon, mu = np.broadcast_arrays(
        np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    )
    with np.errstate(all="ignore"):
        value = gaussian_delta(epsilon, mu)
        x = np.clip(epsilon / mu - mu / 2, -30.0, 1e150)
        end = x + mu
        here, there = mills_ratio(x), mills_ratio(end)
        errors = [_FUNCTION + 2 * np.square(np.minimum(t, 0.0)) for t in (x, end)]
        size = np.exp(log_density(x))
        # of M(x) - M(x + mu), relative: its two terms, or the integral's largest error
        part = np.where(x < -5, here - there, mills_difference(x, mu))
        apart = (here * errors[0] + there * errors[1]) / part
        inner = [
            (1 + np.abs(t) * m * (error + 2)) / (1 - t * m) + t * t
            for t, m, error in zip((x, end), (here, there), errors, strict=True)
        ]
        relative = np.where(mu < 1, np.maximum(*inner), apart) + x * x + _SUM
        moved = mu * there / part * (np.abs(epsilon / mu) + np.abs(x))
        # near 1, a difference of ndtr(-x) and phi(x) M(x + mu)
        second = size * there
        left = second * (errors[1] + x * x + _SUM + mu * (np.abs(epsilon / mu) + np.abs(x)))
        near_one = (left + _FUNCTION) / value
        error = np.where((x < -5) & (-mu * x >= 1), near_one, relative + moved)
        error = np.where(x <= -30, _SUM, error) * _UNIT
    # beyond the range of doubles, nothing is known but that delta is small
    error = np.where(np.isfinite(error), error, np.where(value > 0, np.inf, 0.0))
    with np.errstate(invalid="ignore"):
        low = np.nan_to_num(value * (1 - error) - _TINY, nan=0.0, neginf=0.0)
        high = np.nan_to_num(value * (1 + error) + _TINY, nan=1.0, posinf=1.0)
    least = -np.expm1(np.minimum(epsilon, 0.0))  # of equal laws, and of others at least
    low = np.maximum(low, least * (1 - 8 * _UNIT))
    high = np.where(mu == 0, least * (1 + 8 * _UNIT), high)
    return low, np.minimum(high, 1.0)


def normal_tail_bracket(x: float) -> tuple[float, float]:
    """Return bounds on the probability that a standard normal variable exceeds ``x``."""
    far = math.exp(-0.5 * x * x - _LOG_SQRT_TWO_PI) * float(mills_ratio(np.array(abs(x))))
    error = _UNIT * (x * x + _SUM) * far + _TINY
    low, high = max(far - error, 0.0), far + error
    return (low, high) if x >= 0 else (1 - high - _UNIT, 1 - low + _UNIT)


def log_gaussian_delta(epsilon: float, mu: float) -> float:
    """Log of `gaussian_delta`, also where that is below the range of doubles."""
    x = epsilon / mu - mu / 2
    if x < 1:
        return math.log(float(gaussian_delta(np.array(epsilon), np.array(mu))))
    part = mills_difference(np.array(x), np.array(mu))
    return -0.5 * x * x - _LOG_SQRT_TWO_PI + math.log(float(part))
