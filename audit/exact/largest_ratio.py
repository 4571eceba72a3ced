"""The largest log-likelihood ratio of two explicit laws: epsilon at delta = 0."""

from __future__ import annotations

import functools
import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from audit.constructions.explicit import (
    Densities,
    Distributions,
    Finite,
    LaplaceMixtures,
    Mixture,
    Mixtures,
)
from audit.curves import Order
from audit.numerics.normal import log_density

Array = NDArray[np.float64]
_T = TypeVar("_T")

_POINTS = 400  # for each normal, where the largest ratio is looked for
_REACH = 60.0  # standard deviations


@functools.singledispatch
def largest_ratio(pair: Distributions, order: Order) -> float:
    """Return the supremum of log p - log q, infinite where it has no bound.

    P is the first law in the order FORWARD. The density at one point is enough to show a ratio, as
    densities are continuous, so that a maximum found on a grid is never too large.
    """
    raise TypeError(f"pair must be of explicit distributions, got {pair!r}")


@largest_ratio.register
def _of_finite(pair: Finite, order: Order) -> float:
    """Return that of one draw, as often as there are draws."""
    p, q = _in_order(order, np.array(pair.first), np.array(pair.second))
    with np.errstate(divide="ignore"):
        ratios = np.log(p[p > 0]) - np.log(q[p > 0])
    return pair.times * float(np.max(ratios))


@largest_ratio.register
def _of_densities(pair: Densities, order: Order) -> float:
    """Return 2 slope x at the end where it is larger, and the ratio of the two constants."""
    sign = 1 if order is Order.FORWARD else -1
    ends = np.array([pair.low, pair.high])
    constant = _log_integral(pair, -sign * pair.slope) - _log_integral(pair, sign * pair.slope)
    return float(np.max(2 * sign * pair.slope * ends)) + constant


def _log_integral(pair: Densities, slope: float) -> float:
    """Return the log of the integral of e^(slope x), but for 1/|slope|."""
    top = pair.high if slope > 0 else pair.low
    return slope * top + math.log(-math.expm1(-abs(slope) * (pair.high - pair.low)))


@largest_ratio.register
def _of_mixtures(pair: Mixtures, order: Order) -> float:
    """Compare the tails of one draw, then look for the maximum of a smooth function."""
    from scipy.optimize import minimize_scalar  # takes a while to import

    first, second = _in_order(order, pair.first, pair.second)
    limits = [_tail_limit(first, second, side) for side in (1, -1)]
    if math.inf in limits:
        return math.inf
    means, stds = (np.array([*getattr(first, n), *getattr(second, n)]) for n in ("means", "stds"))
    grid = np.linspace(-_REACH, _REACH, _POINTS + 1)
    x = np.unique((means[:, None] + stds[:, None] * grid).ravel())
    best = int(np.argmax(_ratio(first, second, x)))
    ends = float(x[max(best - 1, 0)]), float(x[min(best + 1, x.size - 1)])
    found = minimize_scalar(
        lambda at: -float(_ratio(first, second, np.array([at]))[0]),
        bounds=ends,
        method="bounded",
        options={"xatol": 1e-9 * (ends[1] - ends[0])},
    )
    largest = max(-float(found.fun), float(_ratio(first, second, x[[best]])[0]), *limits)
    return pair.times * largest


@largest_ratio.register
def _of_laplace_mixtures(pair: LaplaceMixtures, order: Order) -> float:
    """Return the largest ratio at a mean: between two of them it is monotone, beyond all constant.

    There both densities are a e^(x/scale) + b e^(-x/scale).
    """
    first, second = _in_order(order, pair.first, pair.second)
    gaps = -np.abs(np.subtract.outer(pair.means, pair.means)) / pair.scale
    logs = [logsumexp(gaps, axis=1, b=np.array(weights)) for weights in (first, second)]
    return pair.times * float(np.max(logs[0] - logs[1]))


def _tail_limit(first: Mixture, second: Mixture, side: int) -> float:
    """Return the limit of log p - log q far out on one side.

    There a mixture is its widest normal, and of several the outermost one.
    """
    (p, weight_p), (q, weight_q) = (_outermost(law, side) for law in (first, second))
    return math.log(weight_p / weight_q) if p == q else math.inf if p > q else -math.inf


def _outermost(law: Mixture, side: int) -> tuple[tuple[float, float], float]:
    """Return (std, mean) of the normal that a tail consists of, and its weight."""
    weights: dict[tuple[float, float], float] = {}
    for weight, mean, std in zip(law.weights, law.means, law.stds, strict=True):
        if weight > 0:
            weights[std, side * mean] = weights.get((std, side * mean), 0.0) + weight
    return max(weights.items())


def _ratio(first: Mixture, second: Mixture, x: Array) -> Array:
    return _mixture_log_density(first, x) - _mixture_log_density(second, x)


def _mixture_log_density(law: Mixture, x: Array) -> Array:
    parts = [
        math.log(weight / std) + log_density((x - mean) / std)
        for weight, mean, std in zip(law.weights, law.means, law.stds, strict=True)
        if weight > 0
    ]
    return np.asarray(logsumexp(parts, axis=0))


def _in_order(order: Order, first: _T, second: _T) -> tuple[_T, _T]:
    return (first, second) if order is Order.FORWARD else (second, first)
