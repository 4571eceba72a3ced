"""Roots of monotone functions, many at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def decreasing_root(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return where each entry of a decreasing function crosses 0, between ``low`` and ``high``.

    ``function`` maps an array of points to an array of values of the same shape, entry by entry,
    positive at ``low`` and not positive at ``high``; infinite values are welcome (they are only
    compared). Bisection finds the sign change to the last bit: slower than a secant method by a
    constant, and never wrong about a flat or a kinked function. The returned point is the upper
    end of the last bracket, where the function is not positive.
    """
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        above = function(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high
