"""Conversion of a privacy profile delta(epsilon) to a tradeoff function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from audit.curves.brackets import Bracket
from audit.numerics.arrays import Array

_MIN_LOG = -50.0  # smallest logarithm of a tangent's slope
_ROUNDING = 2.0**-44  # relative error of a slope
_SLOPES = 160  # where the profile is looked at if it has no best tangent
_STEPS = (1e-3, 1e-2, 0.1)  # relative steps of slopes around the best tangent


def tradeoff_from_profile(alpha: Array, epsilon: Array, delta: Array) -> Array:
    """Return the largest tradeoff function consistent with points of a privacy profile.

    At each point both orders of the pair are (epsilon, delta)-indistinguishable, which is
    equivalent to (Wasserman and Zhou 2010; Dong, Roth and Su 2022, Proposition 2.5)

        beta >= max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)).
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


def power_bracket(delta_bracket: Callable[[float], Bracket], alpha: float) -> Bracket:
    """Return a bracket of the power at ``alpha``: min over x of f(x) = delta(log x) + x alpha.

    Every x gives an upper end. The lower end rests on f being convex: where f is larger at both
    neighbours of x, its minimum is between them, and above the lines through x and a neighbour.
    Else it follows from some slopes; f is at least 1 beyond 1/alpha.
    """
    from scipy.optimize import minimize_scalar  # takes a while to import

    def ends(log_x: float) -> Bracket:
        low, high = delta_bracket(log_x)
        cost = alpha * math.exp(log_x)
        # a slope and its logarithm agree but for some units of the last place of the latter
        return (low + cost) * (1 - _ROUNDING), (high + cost) * (1 + _ROUNDING)

    found = minimize_scalar(
        lambda log_x: ends(log_x)[1],
        bounds=(_MIN_LOG, -math.log(alpha)),
        method="bounded",
        options={"xatol": _STEPS[0]},
    )
    low, high = ends(found.x)
    most = min(high, ends(0.0)[1])  # for pairs that hardly differ, the best slope is near 1
    for step in _STEPS:
        left, right = ends(found.x + math.log1p(-step)), ends(found.x + math.log1p(step))
        if min(left[0], right[0]) > high:
            return max(2 * low - max(left[1], right[1]), alpha), min(max(most, alpha), 1.0)
    # between two slopes f is above the lines through the next ones, and delta falls
    slopes = np.exp(np.linspace(_MIN_LOG, -math.log(alpha), _SLOPES))
    deltas = np.array([delta_bracket(float(e)) for e in np.log(slopes)])
    lows, highs = (deltas + alpha * slopes[:, None]).T
    falls = (lows[1:-1] - highs[:-2]) / np.diff(slopes)[:-1]
    rises = (highs[2:] - lows[1:-1]) / np.diff(slopes)[1:]
    widths = np.diff(slopes)
    from_left = np.append(-np.inf, np.minimum(lows[1:-1], lows[1:-1] + falls * widths[1:]))
    from_right = np.append(np.minimum(lows[1:-1], lows[1:-1] - rises * widths[:-1]), -np.inf)
    flat = deltas[1:, 0] + alpha * slopes[:-1]
    inside = np.maximum(np.maximum(from_left, from_right), flat).min(initial=deltas[0, 0])
    least = float(inside) * (1 - _ROUNDING)
    return min(max(least, alpha), 1.0), min(max(most, alpha), 1.0)
