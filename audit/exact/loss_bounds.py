"""Bounds on the privacy loss log p - log q of two mixtures of normals, everywhere on an interval.

Two bounds hold at once. The ratio of two normal densities is e to a quadratic, whose range is
known; from it follows the range of the ratio of two mixtures. And a bound on the second derivative
of the loss bounds its distance from the chord between the two ends.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from audit.constructions.explicit import Mixture, Mixtures
from audit.numerics.normal import log_density

Array = NDArray[np.float64]

_MOST_PAIRS = 64  # of normals, one of each law, that are compared on every interval
_ROUNDING = 16 * 2.0**-53
# Where the largest loss may be: how often and how finely intervals are cut.
_ROUNDS, _PARTS, _MOST_PARTS, _CLOSE = 6, 8, 200_000, 1e-10


def loss_bounds(pair: Mixtures, left: Array, right: Array) -> tuple[Array, Array]:
    """Return lower and upper bounds on log p - log q between left and right.

    Parameters
    ----------
    pair
        The laws of X, with density p, and of X', with density q; of one draw.
    left, right
        The two ends of every interval, shape ``(cells,)``; they may be infinite.

    Returns
    -------
    tuple[Array, Array]
        Each of shape ``(cells,)``, infinite where there is no bound.
    """
    low, high = np.full(left.size, -np.inf), np.full(left.size, np.inf)
    finite = np.isfinite(left) & np.isfinite(right)
    few = len(pair.first.weights) * len(pair.second.weights) <= _MOST_PAIRS
    compared = np.ones_like(finite) if few else ~finite
    low[compared], high[compared] = _by_normals(pair, left[compared], right[compared])
    chord_low, chord_high = _by_chords(pair, left[finite], right[finite])
    low[finite] = np.maximum(low[finite], chord_low)
    high[finite] = np.minimum(high[finite], chord_high)
    return low, high


def largest_loss(pair: Mixtures, ends: Array, attained: float) -> float:
    """Return an upper bound on log p - log q: intervals where it may be larger are cut.

    Parameters
    ----------
    pair
        The laws of X, with density p, and of X', with density q; of one draw.
    ends
        Of intervals that cover the line, ascending, shape ``(cells + 1,)``.
    attained
        A value that it has, or comes near to.
    """
    left, right = ends[:-1], ends[1:]
    high = loss_bounds(pair, left, right)[1]
    largest = attained
    for _ in range(_ROUNDS):
        above = high > attained + _CLOSE * max(1.0, abs(attained))
        finite = np.isfinite(left) & np.isfinite(right)
        largest = max(largest, float(np.max(high[above & ~finite], initial=attained)))
        left, right = left[above & finite], right[above & finite]
        if left.size * _PARTS > _MOST_PARTS:
            break
        cuts = np.linspace(left, right, _PARTS + 1)
        left, right = cuts[:-1].ravel(), cuts[1:].ravel()
        high = loss_bounds(pair, left, right)[1]
    # what is dropped is no larger than this
    close = attained + _CLOSE * max(1.0, abs(attained))
    return max(largest, close, float(np.max(high, initial=attained)))


def _by_normals(pair: Mixtures, left: Array, right: Array) -> tuple[Array, Array]:
    """Bound the sum over i of w_i / sum over j of v_j (phi_j / phi_i)."""
    lows, highs = [], []
    for weight, *normal in _normals(pair.first):
        parts = [
            (math.log(other), *_quadratic_range(*_quotient(*against, *normal), left, right))
            for other, *against in _normals(pair.second)
        ]
        least, most = (np.array([log + ends[k] for log, *ends in parts]) for k in (0, 1))
        highs.append(math.log(weight) - logsumexp(least, axis=0))
        lows.append(math.log(weight) - logsumexp(most, axis=0))
    with np.errstate(invalid="ignore"):
        return np.asarray(logsumexp(lows, axis=0)), np.asarray(logsumexp(highs, axis=0))


def _normals(law: Mixture) -> list[tuple[float, float, float]]:
    parts = zip(law.weights, law.means, law.stds, strict=True)
    return [part for part in parts if part[0] > 0]


def _quotient(
    mean: float, std: float, other_mean: float, other_std: float
) -> tuple[float, float, float, float]:
    """Return a, b, c and m: log of the ratio of two densities is a (x - m)^2 + b (x - m) + c."""
    a = (1 / other_std - 1 / std) * (1 / other_std + 1 / std) / 2
    gap = mean - other_mean  # around the mean of the first one
    return a, gap / other_std**2, gap**2 / (2 * other_std**2) + math.log(other_std / std), mean


def _quadratic_range(
    a: float, b: float, c: float, middle: float, left: Array, right: Array
) -> tuple[Array, Array]:
    at_ends = []
    for end in (left, right):
        finite = np.isfinite(end)
        x = np.where(finite, end, middle) - middle
        moved = (np.abs(x) + 2 * abs(middle)) * (2 * np.abs(a * x) + abs(b))  # by rounding of x
        size = (np.abs(a) * x**2 + np.abs(b * x) + abs(c) + moved) * _ROUNDING
        limit = np.where(b * np.sign(end) > 0, np.inf, -np.inf) if b else np.full_like(end, c)
        limit = np.full_like(end, math.copysign(np.inf, a)) if a else limit
        value = np.where(finite, a * x**2 + b * x + c, limit)
        at_ends += [value - size, value + size]
    low, high = np.minimum(at_ends[0], at_ends[2]), np.maximum(at_ends[1], at_ends[3])
    if a:
        vertex = -b / (2 * a)
        inside = (left < middle + vertex) & (middle + vertex < right)
        peak = c - b**2 / (4 * a)
        size = (abs(c) + b**2 / abs(4 * a)) * _ROUNDING
        low = np.where(inside, np.minimum(low, peak - size), low)
        high = np.where(inside, np.maximum(high, peak + size), high)
    return low, high


def _by_chords(pair: Mixtures, left: Array, right: Array) -> tuple[Array, Array]:
    """Bound the loss by its chord and its second derivative.

    That of the logarithm of a mixture is the variance of its normals' scores less the mean of
    1/std^2, both over the normals given x.
    """
    curvature = np.zeros_like(left)
    size = np.zeros_like(left)
    at_left, at_right = np.zeros_like(left), np.zeros_like(left)
    for sign, law in ((1, pair.first), (-1, pair.second)):
        weights, means, stds = (
            np.array(column)[:, None] for column in zip(*_normals(law), strict=True)
        )
        scores = np.stack([(means - end) / stds**2 for end in (left, right)])
        spread = scores.max(axis=(0, 1)) - scores.min(axis=(0, 1)) if len(means) > 1 else 0.0
        curvature += spread**2 / 4
        logs = [np.log(weights / stds) + log_density((x - means) / stds) for x in (left, right)]
        size += np.abs(np.array(logs)).max(axis=(0, 1))
        at_left += sign * logsumexp(logs[0], axis=0)
        at_right += sign * logsumexp(logs[1], axis=0)
    inverse = [[1 / std**2 for _, _, std in _normals(law)] for law in (pair.first, pair.second)]
    # the two means of 1/std^2 are subtracted
    mean = max(max(inverse[0]) - min(inverse[1]), max(inverse[1]) - min(inverse[0]))
    sag = (curvature + mean) * (right - left) ** 2 / 8
    slack = sag * (1 + _ROUNDING) + (size + 1) * _ROUNDING
    return np.minimum(at_left, at_right) - slack, np.maximum(at_left, at_right) + slack


def log_tail_moment(pair: Mixtures, alpha: float, edges: Array) -> float:
    """Return an upper bound on the log of the integral of p^alpha q^(1 - alpha) outside of edges.

    With n normals, (a_1 + ... + a_n)^alpha <= n^(alpha - 1) (a_1^alpha + ... + a_n^alpha); and q is
    at least any one of its normals. What is left are integrals of e to a quadratic.

    Parameters
    ----------
    pair
        The laws of X, with density p, and of X', with density q; of one draw.
    alpha
        The Renyi order, above 1.
    edges
        Finite and ascending; only the first and the last one count.
    """
    first, second = _normals(pair.first), _normals(pair.second)
    total = -math.inf
    for side, end in ((-1, float(edges[0])), (1, float(edges[-1]))):
        for normal in first:
            bounds = [_tail_integral(normal, other, alpha, side, end) for other in second]
            bound = (alpha - 1) * math.log(len(first)) + min(bounds)
            total = float(np.logaddexp(total, bound))
    return total


def _tail_integral(
    normal: tuple[float, float, float],
    other: tuple[float, float, float],
    alpha: float,
    side: int,
    end: float,
) -> float:
    (weight, mean, std), (other_weight, other_mean, other_std) = normal, other
    precision = alpha / std**2 - (alpha - 1) / other_std**2
    if precision < 1e-6 * alpha / std**2:  # it may be rounding, and the integral infinite
        return math.inf
    gap = other_mean - mean  # the integrand's largest value is at mean + shift
    shift = -(alpha - 1) * gap / other_std**2 / precision
    largest = alpha * (alpha - 1) * gap**2 / (2 * precision * std**2 * other_std**2)
    log_total = (
        alpha * math.log(weight / std)
        - (alpha - 1) * math.log(other_weight / other_std)
        - math.log(precision) / 2
        + largest
    )
    beyond = float(log_ndtr(-side * (end - mean - shift) * math.sqrt(precision)))
    rounding = (abs(largest) + abs(beyond) + abs(log_total) + 1) * 1e-12
    return log_total + beyond + rounding
