"""Conversion of a privacy profile delta(epsilon) to a tradeoff function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from audit.curves.brackets import Bracket
from audit.numerics.arrays import Array

_MIN_LOG = -50.0  # smallest logarithm of a tangent's slope
_ROUNDING = 2.0**-44  # relative error of a slope
_FIRST_SLOPES, _MAX_SLOPES = 12, 60
_TOLERANCE = 1e-9  # relative width of a power


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

    Every x gives an upper end. The lower end rests on f being convex (see `_least_between`), delta
    falling, and f being at least 1 beyond 1/alpha. Points are added where f may be least.
    """
    known: dict[float, Bracket] = {}
    added = {*np.geomspace(math.exp(_MIN_LOG), 1 / alpha, _FIRST_SLOPES).tolist(), 1.0}
    while True:
        known |= {x: delta_bracket(math.log(x)) for x in added}
        x = np.array(sorted(known))
        deltas = np.array([known[slope] for slope in x.tolist()])
        # a slope and its logarithm agree but for some units of the last place of the latter
        lows, highs = ((deltas + alpha * x[:, None]) * (1 - _ROUNDING, 1 + _ROUNDING)).T
        between, places = _least_between(x, lows, highs)
        between = np.maximum(between, (deltas[1:, 0] + alpha * x[:-1]) * (1 - _ROUNDING))
        low, high = min(float(np.min(between)), deltas[0, 0]), float(np.min(highs))
        # the part of the gap that the widths of deltas do not explain
        width = highs - lows
        unexplained = (
            high - between - np.maximum(2 * np.minimum(width[1:], width[:-1]), _TOLERANCE * high)
        )
        worst = int(np.argmax(unexplained))
        left, right = x[worst : worst + 2]
        # lines of wide deltas meet beside the least value
        halved = right > 3 * left or len(known) % 4 == 0
        place = float(math.sqrt(left * right) if halved else places[worst])
        if unexplained[worst] <= 0 or len(known) >= _MAX_SLOPES or place in known:
            return min(max(low, alpha), 1.0), min(max(high, alpha), 1.0)
        added = {place}


def _least_between(x: Array, lows: Array, highs: Array) -> tuple[Array, Array]:
    """Bound a convex function from below between neighbouring points, given its brackets there.

    Between two points it is above the lines through the next ones on either side. Return the bounds
    and where these lines meet, or else the middle.
    """
    width, inner = np.diff(x), lows[1:-1]
    before, behind = (inner - highs[:-2]) / width[:-1], (highs[2:] - inner) / width[1:]
    left, right, rise, fall, w = inner[:-1], inner[1:], before[:-1], behind[1:], width[1:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        meeting = (left - right + fall * w) / (fall - rise)
    meeting = np.where((meeting > 0) & (meeting < w), meeting, 0.5 * w)
    least = np.min(
        [
            np.maximum(left, right - fall * w),
            np.maximum(right, left + rise * w),
            np.maximum(left + rise * meeting, right - fall * (w - meeting)),
        ],
        axis=0,
    )
    ends = np.minimum(
        inner[[0, -1]], inner[[0, -1]] + [-behind[0] * width[0], before[-1] * width[-1]]
    )
    middle = 0.5 * (x[1:] + x[:-1])
    middle[1:-1] = x[1:-2] + meeting
    return np.concatenate([ends[:1], least, ends[1:]]), middle
