"""One step in all lanes: compiled loops over lanes, each made so that the compiler finds vectors.

Importing this module imports Numba. ``first`` and ``last`` say which lanes: from the first up to
the last. Normals ``z`` have rows of ``LANES``, one for each step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.simulation.normals import (
    LANES,
    Floats,
    Words,
    compiled_inline,
    compiled_loop,
    draw,
    signed_power,
)
from audit.simulation.program import Integers

LARGEST = float(np.finfo(np.float64).max)
_MANY = 64  # maps; a binary search, which has no vectors, is faster for more
ASTRAY = 2  # a bit of row MET: a map left the finite numbers

# Rows of LANES numbers. One array of many rows, because the compiler would have to check at run
# time that different arrays do not overlap, and gives up the vectors where they are many.
X, T, VALUE, MOVED = (np.uint64(row * LANES) for row in range(4))  # of ``numbers``
CHOICE, PIECE, JUMPS, MET = (np.uint64(row * LANES) for row in range(4))  # of ``counts``
DRAWN = np.uint64(4 * LANES)  # of ``words``, after the generators


@compiled_inline
def _clamped(x: float, lower: float, upper: float) -> float:
    return min(max(x, lower), upper)


@compiled_inline
def _lanes(first: int, last: int) -> Any:
    """Return a range whose numbers the compiler knows not to be negative, which count from back."""
    return range(np.uint64(first), np.uint64(last))


@compiled_loop
def one_line(
    numbers: Floats,
    z: Floats,
    begin: int,
    end: int,
    slope: float,
    shift: float,
    std: float,
    lower: float,
    upper: float,
    first: int,
    last: int,
) -> None:
    """Take a step of one line with each row of normals from ``begin`` up to ``end``."""
    for row in range(begin, end):
        at = np.uint64(row * LANES)
        for i in _lanes(first, last):
            numbers[i] = _clamped(slope * numbers[i] + shift + std * z[at + i], lower, upper)


@compiled_loop
def two_lines(
    words: Words,
    below: np.uint64,
    numbers: Floats,
    z: Floats,
    begin: int,
    end: int,
    slope: float,
    shift: float,
    usual_slope: float,
    usual_shift: float,
    std: float,
    lower: float,
    upper: float,
    first: int,
    last: int,
) -> None:
    """As `one_line`, where a lane whose bits are less than ``below`` takes the first line."""
    for row in range(begin, end):
        at = np.uint64(row * LANES)
        for i in _lanes(first, last):
            rare = draw(words, i) < below
            moved = (slope if rare else usual_slope) * numbers[i] + (shift if rare else usual_shift)
            numbers[i] = _clamped(moved + std * z[at + i], lower, upper)


@compiled_loop
def choose(words: Words, counts: Integers, below: Words, maps: int, first: int, last: int) -> None:
    """Choose each lane's map, from 0: as many as the words ``below`` that are at most its bits."""
    for i in _lanes(first, last):
        counts[CHOICE + i] = 0
    if maps == 1:
        return
    for i in _lanes(first, last):
        words[DRAWN + i] = draw(words, i)
    if maps <= _MANY:
        for k in range(maps - 1):
            limit = below[k]
            for i in _lanes(first, last):
                counts[CHOICE + i] += 1 if words[DRAWN + i] >= limit else 0
    else:
        for i in _lanes(first, last):
            counts[CHOICE + i] = np.searchsorted(below, words[DRAWN + i], side="right")


@compiled_loop
def apply_all(
    numbers: Floats,
    counts: Integers,
    maps: int,
    pieces: int,
    edge: Floats,
    origin: Floats,
    coefficients: Floats,
    degree: int,
    factor: Floats,
    order: Floats,
    first: int,
    last: int,
) -> None:
    """Apply every piece of every map in all lanes, and keep what each lane's own moves it to."""
    for k in range(maps * pieces):
        own, start, middle = k // pieces, edge[k], origin[k]
        leading, size, exponent = coefficients[degree, k], factor[k], order[k]
        for i in _lanes(first, last):
            numbers[T + i] = numbers[X + i] - middle
            numbers[VALUE + i] = leading
        for d in range(degree - 1, -1, -1):
            term = coefficients[d, k]
            for i in _lanes(first, last):
                numbers[VALUE + i] = numbers[VALUE + i] * numbers[T + i] + term
        if size != 0.0:
            for i in _lanes(first, last):
                numbers[VALUE + i] += size * signed_power(numbers[T + i], exponent)
        for i in _lanes(first, last):
            here = (counts[CHOICE + i] == own) & (numbers[X + i] >= start)
            numbers[MOVED + i] = numbers[VALUE + i] if here else numbers[MOVED + i]
            counts[PIECE + i] = k if here else counts[PIECE + i]


@compiled_loop
def look_up(
    numbers: Floats,
    counts: Integers,
    pieces: int,
    edge: Floats,
    origin: Floats,
    coefficients: Floats,
    degree: int,
    factor: Floats,
    order: Floats,
    first: int,
    last: int,
) -> None:
    """Do what `apply_all` does, lane by lane: faster where there are many maps."""
    for i in _lanes(first, last):
        x = numbers[X + i]
        k = counts[CHOICE + i] * pieces
        beyond = k + pieces
        while k + 1 < beyond and x >= edge[k + 1]:
            k += 1
        t = x - origin[k]
        value = coefficients[degree, k]
        for d in range(degree - 1, -1, -1):
            value = value * t + coefficients[d, k]
        if factor[k] != 0.0:
            value += factor[k] * signed_power(t, order[k])
        numbers[MOVED + i] = value
        counts[PIECE + i] = k


@compiled_loop
def add_jumps(
    numbers: Floats,
    counts: Integers,
    ends: tuple[float, float, float, float],
    is_jump: Integers,
    first: int,
    last: int,
) -> None:
    """Count those lanes that are not absorbed and whose piece is a jump."""
    _, _, absorb_lower, absorb_upper = ends
    for k in range(is_jump.size):
        if is_jump[k]:
            for i in _lanes(first, last):
                free = (numbers[X + i] > absorb_lower) & (numbers[X + i] < absorb_upper)
                counts[JUMPS + i] += 1 if free & (counts[PIECE + i] == k) else 0


@compiled_loop
def arrive(
    numbers: Floats,
    counts: Integers,
    z: Floats,
    row: int,
    std: float,
    ends: tuple[float, float, float, float],
    first: int,
    last: int,
) -> None:
    """Add a row of noise, and mark who met an end or is astray.

    ``ends``: lower, upper, and where they absorb, or infinities.
    """
    lower, upper, absorb_lower, absorb_upper = ends
    at = np.uint64(row * LANES)
    for i in _lanes(first, last):
        x, moved = numbers[X + i], numbers[MOVED + i]
        gone = (x <= absorb_lower) | (x >= absorb_upper)
        y = x if gone else _clamped(moved + std * z[at + i], lower, upper)
        end = 1 if (y <= lower) | (y >= upper) else 0
        astray = 0 if abs(moved) <= LARGEST else ASTRAY
        counts[MET + i] |= end | astray
        numbers[X + i] = y
