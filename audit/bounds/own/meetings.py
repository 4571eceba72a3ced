"""Number of meetings with the record in several steps on sampled batches."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincc

from audit.numerics.arrays import Array, Integers

_DEVIATIONS = np.concatenate(
    [[-8.0, -4.0], np.linspace(-3, 3, 13), [4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0]]
)
_INFLATION = 1e-9  # relative, for the rounding of binomial tails


def meetings(count: int, rate: float, most: int) -> tuple[Integers, Array]:
    """Return numbers of meetings in ``count`` steps and bounds on their chances, rounded up.

    A number that is not listed counts as the next one. The last is ``most``, which stands for all
    larger ones, or ``count``.

    count: Number of steps.
    rate: Chance of a meeting in a step.
    most: From here on numbers need not be told apart.
    """
    last = min(count, most)
    middle, spread = count * rate, math.sqrt(count * rate * (1 - rate))
    near = np.ceil(middle + spread * _DEVIATIONS)
    numbers = np.unique(np.append(near[(near >= 0) & (near < last)], last))
    at_most, above = _tails(np.append(-1.0, numbers), count, rate)
    # the smaller tail loses least by subtraction, also where a single meeting is unlikely
    chances = np.where(at_most[1:] < above[:-1], np.diff(at_most), -np.diff(above))
    chances[-1] = above[-2]
    return numbers.astype(np.int64), chances * (1 + _INFLATION)


def _tails(numbers: Array | Integers, count: int, rate: float) -> tuple[Array, Array]:
    """Return the binomial chances of at most and of more than each number; -1 is allowed."""
    inside = (numbers >= 0) & (numbers < count)
    k = np.where(inside, numbers, 0.0)
    # scipy.stats.binom has the same values and is slow to import
    at_most = np.where(inside, betaincc(k + 1, count - k, rate), numbers >= 0)
    above = np.where(inside, betainc(k + 1, count - k, rate), numbers < 0)
    return at_most, above
