"""Number of meetings with the record in several steps on sampled batches."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_DEVIATIONS = np.concatenate(
    [[-8.0, -4.0], np.linspace(-3, 3, 13), [4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0]]
)
_SMALLEST = 1e-30  # chance of more meetings than are told apart
_INFLATION = 1e-9  # relative, for the rounding of binomial tails


def meetings(count: int, rate: float, most: int) -> tuple[Integers, Array]:
    """Return numbers of meetings in ``count`` steps and bounds on their chances, rounded up.

    A number that is not listed counts as the next one; more than the last but one count as the
    last, which is ``most`` or stands for all ``count``.

    Parameters
    ----------
    count : int
        Number of steps.
    rate : float
        Chance of a meeting in a step.
    most : int
        From here on numbers need not be told apart.
    """
    from scipy.stats import binom  # slow to import

    last = int(min(count, most, binom.isf(_SMALLEST, count, rate)))
    middle, spread = count * rate, math.sqrt(count * rate * (1 - rate))
    near = np.ceil(middle + spread * _DEVIATIONS)
    numbers = np.unique(np.append(near[(near >= 0) & (near < last)], last))
    below = np.append(-1.0, numbers[:-1])
    lower, upper = binom.cdf(numbers, count, rate), binom.sf(below, count, rate)
    # the smaller tail loses least by subtraction, also where a single meeting is unlikely
    chances = np.where(
        lower < upper,
        lower - binom.cdf(below, count, rate),
        upper - binom.sf(numbers, count, rate),
    )
    chances[-1] = upper[-1]
    if last < most:
        numbers[-1] = count
    return numbers.astype(np.int64), chances * (1 + _INFLATION)
