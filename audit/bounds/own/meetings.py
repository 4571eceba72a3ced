"""Number of meetings with the record in several steps on sampled batches.

At most 1e-40 of the chances are farther than 40 deviations and 64 meetings from the mean, by
Bernstein's inequality.
"""

from __future__ import annotations

import math

import numpy as np

from audit.numerics.arrays import Array, Integers
from audit.numerics.binomial import log_binomial

_DEVIATIONS = np.concatenate(
    [[-8.0, -4.0], np.linspace(-3, 3, 13), [4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0]]
)
_FAR, _NEAR, _REST = 40.0, 64, 1e-40  # deviations and meetings from the mean, and what is beyond
_UNIT = 2.0**-53


def meetings(count: int, rate: float, most: int) -> tuple[Integers, Array, Array]:
    """Return numbers of meetings in ``count`` steps and lower and upper bounds on their chances.

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
    numbers = numbers.astype(np.int64)
    reach = _FAR * spread + _NEAR
    k = np.arange(max(int(middle - reach), 0), min(math.ceil(middle + reach), count) + 1)
    logs, errors = log_binomial(k, count, rate)
    place = np.minimum(np.searchsorted(numbers, k), numbers.size - 1)
    chances = np.bincount(place, np.exp(logs), numbers.size).astype(np.float64)
    error = float(errors[logs > -700].max()) + _UNIT * (k.size + 8)
    return numbers, chances * (1 - error), chances * (1 + error) + _REST
