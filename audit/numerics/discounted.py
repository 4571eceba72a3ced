"""Sums of later entries of an array, discounted by their distance."""

from __future__ import annotations

import math

import numpy as np

from audit.numerics.arrays import Array

_BLOCK, _BLOCK_NATS = 8192, 100.0  # largest block: in entries, which fit a cache, and in nats
_SHORT_BLOCK = 64  # entries of a block: a loop over such blocks takes longer than their sums


def discounted_sums(values: Array, rate: float) -> Array:
    """Return the sum over k >= j of values[k] e^(-(k - j) rate) for each j, and 0.

    The sums run block by block from the end. Weights within a block differ by a factor of at most
    e^100, so that none underflows. Where blocks would be short, sums of 1, 2, 4, ... terms are
    added up until the weights vanish.
    """
    result = np.zeros(values.size + 1)
    falling, sums = values[::-1], result[-2::-1]
    length = _length(values.size, rate)
    if length < _SHORT_BLOCK:
        sums[:], lag = falling, 1
        while lag < sums.size and (weight := math.exp(-rate * lag)) > 0:
            sums[lag:] += weight * sums[:-lag]
            lag *= 2
        return result
    weights = np.exp(rate * np.arange(length))
    shrink, last = math.exp(-rate), 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow are not finite
        for begin in range(0, falling.size, length):
            block, part = falling[begin : begin + length], sums[begin : begin + length]
            own = weights[: block.size]
            np.cumsum(block * own, out=part)
            part += shrink * last
            part /= own
            last = float(part[-1])
    return result


def _length(size: int, rate: float) -> int:
    return max(int(min(_BLOCK, _BLOCK_NATS / max(rate, 1e-300), size)), 1)


def sum_units(size: int, rate: float) -> float:
    """Return a bound on the error of such sums, in units of roundoff of those of absolute values.

    A sum is that of a block, of one rounding an entry and of weights in e^(-100), and the later
    ones, to which each block adds the rounding of a weight.
    """
    length = _length(size, rate)
    if length < _SHORT_BLOCK:
        # the weights of the lags that count, and one sum each
        return 2 * _BLOCK_NATS * math.log2(size + 2)
    return length + 2 * _BLOCK_NATS + 8 + (_BLOCK_NATS + 4) * -(-size // length)
