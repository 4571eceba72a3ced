"""Roots of functions of one variable, and of many monotone functions at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from audit.numerics.arrays import Array

_UNIT = 2.0**-52
_FARTHEST = 1e9  # place up to which a crossing is looked for


def decreasing_root(
    function: Callable[[Array], Array], low: Array, high: Array, *, xtol: ArrayLike = 0.0
) -> Array:
    """Return where each entry of a decreasing function crosses 0, between ``low`` and ``high``.

    ``function`` maps an array of points to an array of values of the same shape, entry by entry,
    positive at ``low`` and not positive at ``high``; infinite values are welcome. Regula falsi
    (Illinois) with every third step a bisection, so that it is quick on smooth functions and never
    wrong about a flat or a kinked one: only signs move the bracket. The returned point is the upper
    end of the last bracket, where the function is not positive, ``xtol`` or a few units in the last
    place above the sign change, whichever is more.
    """
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    f_low, f_high = function(low), function(high)
    side = np.zeros_like(low)
    for count in range(300):
        width = high - low
        tolerance = np.maximum(4 * _UNIT * np.maximum(np.abs(low), np.abs(high)), xtol)
        middle = 0.5 * (low + high)
        if np.all((width <= tolerance) | (middle <= low) | (middle >= high)):
            break
        point = middle
        if count % 3 != 2:
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                chord = low + width * (f_low / (f_low - f_high))
            # a step past the root closes the bracket from the other side
            chord = np.clip(chord, low + 0.4 * tolerance, high - 0.4 * tolerance)
            # values may be infinite, and rounding may give an end the wrong sign
            sound = np.isfinite(f_low) & np.isfinite(f_high) & (f_low > f_high)
            point = np.where(sound & (width > tolerance), chord, middle)
        value = function(point)
        above = value > 0
        # an end that stays where it is counts for half next time
        f_low = np.where(above, value, np.where(side < 0, 0.5 * f_low, f_low))
        f_high = np.where(above, np.where(side > 0, 0.5 * f_high, f_high), value)
        side = np.where(above, 1.0, -1.0)
        low, high = np.where(above, point, low), np.where(above, high, point)
    return high


def last_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the last integer of a condition that holds at ``low`` and no longer at ``high``.

    Neither end is tried. If the condition holds again further up, one of its last integers.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def bracketed_root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float
) -> float:
    """Return a root between ``low`` and ``high``, where the signs differ, by Brent's method."""
    from scipy.optimize import brentq  # SciPy's optimizers are slow to import

    return float(brentq(function, low, high, xtol=xtol))


def certified_crossing(excess: Callable[[float], float], start: float, *, above: bool) -> float:
    """Return a place >= 0 on the requested side of where a decreasing function crosses 0.

    The function is certainly not positive there if ``above``, and positive otherwise, or the place
    is 0. The search begins at ``start``. If it is positive as far as 1e9, infinity, or the last
    place tried.
    """
    if above and excess(0.0) <= 0:
        return 0.0
    low, high, ratio = 0.0, max(start, 1e-300), 1.001
    if excess(high) > 0:
        while excess(high) > 0:
            if high >= _FARTHEST:
                return math.inf if above else high
            low, high, ratio = high, min(high * ratio, _FARTHEST), 1 + 4 * (ratio - 1)
    else:
        while high > 1e-300 and excess(high / ratio) <= 0:
            high, ratio = high / ratio, 1 + 4 * (ratio - 1)
        low = high / ratio if high > 1e-300 else 0.0
        if low == 0 and excess(0.0) <= 0:
            return 0.0
    ends = np.array([low]), np.array([high])
    root = float(decreasing_root(lambda x: np.array([excess(float(x[0]))]), *ends)[0])
    for width in (1e-15, 1e-14, 1e-13, 1e-12, 1e-9):
        left, right = root * (1 - width), root * (1 + width)
        low = left if low < left and excess(left) > 0 else low
        high = right if right < high and excess(right) <= 0 else high
        if (high if above else low) in (left, right):
            break
    return high if above else low


def root_from_below(function: Callable[[float], float], high: float) -> float:
    """Return the root in [0, high] of an increasing function from its negative side, or an end."""
    if function(0.0) >= 0:
        return 0.0
    if function(high) < 0:
        return high
    root = bracketed_root(function, 0.0, high, xtol=1e-12)
    while root > 0 and function(root) > 0:
        root = max(root - 1e-12 * max(root, 1.0), 0.0)
    return root
