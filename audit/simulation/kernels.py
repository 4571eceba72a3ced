"""The compiled loops over walks in lanes. Importing this module imports Numba.

Trial i of a block walks in lane i modulo ``LANES`` if there is one path. If there are several,
trial i first draws its path from that lane; then the trials are sorted by their paths, ties in
order, and the trial in place i walks in that lane.

So ``LANES`` walks are under way side by side, and every lane draws from its own generator, in this
order: for each 16 steps that the longest of the walks still has (the last ones may be fewer), a
pair of normals for steps 1 and 2, for steps 3 and 4, ... (the last one may not need its second);
then for each of the steps, if it has several maps, 64 bits that pick the map (always, if it depends
on the memory of the batches). Lanes whose walk has ended, or that have none, draw the normals
alone.

The loops over one step take ``first`` and ``last``: the lanes from the first up to the last.
Normals ``z`` have rows of ``LANES``, one for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from audit.numerics.arrays import Array, Integers
from audit.numerics.compiled import compiled_inline, compiled_loop, fma
from audit.simulation.program import GENERAL, Tables
from audit.simulation.rng import LANES, Words, aligned, draw, fill_normals, signed_power

CHUNK = 16  # steps; their normals fill half of a usual first cache
_MANY_MAPS = 64  # maps; a binary search, which has no vectors, is faster for more
LARGEST = float(np.finfo(np.float64).max)

# Rows of LANES numbers. One array of many rows, because the compiler would have to check at run
# time that different arrays do not overlap, and gives up the vectors where they are many.
X, MOVED, T, FACTOR, ORDER = (np.uint64(row * LANES) for row in range(5))  # rows of ``numbers``
CHOICE, ASTRAY, MEMORY = (np.uint64(row * LANES) for row in range(3))  # rows of ``counts``
DRAWN = np.uint64(4 * LANES)  # row of ``words``, after the generators


@compiled_inline
def clamped(x: float, lower: float, upper: float) -> float:
    """Return the nearest number to x between the ends."""
    x = lower if x < lower else x
    return upper if x > upper else x


@compiled_inline
def stepped(
    x: float, slope: float, shift: float, std: float, z: float, lower: float, upper: float
) -> float:
    """Return the iterate after a step of one line with the normal z."""
    return clamped(fma(std, z, fma(slope, x, shift)), lower, upper)


@compiled_inline
def _lanes(first: int, last: int) -> Any:
    """Return a range whose numbers the compiler knows not to be negative, which count from back."""
    return range(np.uint64(first), np.uint64(last))


@compiled_loop
def step_lines(
    words: Words,
    chooses: bool,
    below: np.uint64,
    numbers: Array,
    z: Array,
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
    """Take a step of a line with each row of normals from ``begin`` up to ``end``.

    If there are two lines, a lane whose random bits are less than ``below`` takes the first.
    """
    for row in range(begin, end):
        at = np.uint64(row * LANES)
        for i in _lanes(first, last):
            a, b = usual_slope, usual_shift
            if chooses and draw(words, i) < below:
                a, b = slope, shift
            numbers[i] = stepped(numbers[i], a, b, std, z[at + i], lower, upper)


@compiled_loop
def choose(words: Words, counts: Integers, below: Words, first: int, last: int) -> None:
    """Choose each lane's map, from 0: as many as the words ``below`` that are at most its bits."""
    for i in _lanes(first, last):
        counts[CHOICE + i] = 0
    if below.size == 0:
        return
    for i in _lanes(first, last):
        words[DRAWN + i] = draw(words, i)
    if below.size < _MANY_MAPS:
        for limit in below:
            for i in _lanes(first, last):
                counts[CHOICE + i] += 1 if words[DRAWN + i] >= limit else 0
    else:
        for i in _lanes(first, last):
            counts[CHOICE + i] = np.searchsorted(below, words[DRAWN + i], side="right")


@compiled_loop
def choose_by_memory(
    words: Words,
    counts: Integers,
    row: int,
    first_entry: Integers,
    below: Words,
    after: Integers,
    first: int,
    last: int,
) -> None:
    """Choose each lane's map in the row of its memory, from ``row`` on, and set its memory."""
    for i in _lanes(first, last):
        words[DRAWN + i] = draw(words, i)
    for i in _lanes(first, last):
        own = row + counts[MEMORY + i]
        entry, beyond = first_entry[own], first_entry[own + 1]
        while entry + 1 < beyond and words[DRAWN + i] >= below[entry]:
            entry += 1
        counts[CHOICE + i] = entry - first_entry[row]
        counts[MEMORY + i] = after[entry]


@compiled_loop
def apply(
    numbers: Array,
    counts: Integers,
    pieces: int,
    edge: Array,
    origin: Array,
    coefficients: Array,
    degree: int,
    curved: int,
    factor: Array,
    order: Array,
    first: int,
    last: int,
) -> None:
    """Apply each lane's map: find its piece, and evaluate that."""
    for i in _lanes(first, last):
        x = numbers[X + i]
        k = counts[CHOICE + i] * pieces
        size = pieces  # pieces left to search
        while size > 1:
            half = size // 2
            if x >= edge[k + half]:
                k += half
                size -= half
            else:
                size = half
        t = x - origin[k]
        value = coefficients[degree, k]
        for d in range(degree - 1, -1, -1):
            value = fma(value, t, coefficients[d, k])
        numbers[MOVED + i] = value
        if curved:
            numbers[T + i], numbers[FACTOR + i], numbers[ORDER + i] = t, factor[k], order[k]
    if curved:
        for i in _lanes(first, last):
            power = signed_power(numbers[T + i], numbers[ORDER + i])  # finite
            numbers[MOVED + i] = fma(numbers[FACTOR + i], power, numbers[MOVED + i])


@compiled_loop
def arrive(
    numbers: Array,
    counts: Integers,
    z: Array,
    row: int,
    std: float,
    ends: tuple[float, float, float, float],
    first: int,
    last: int,
) -> None:
    """Add a row of noise, and mark who left the finite numbers.

    ``ends``: lower, upper, and where they absorb, or infinities.
    """
    lower, upper, absorb_lower, absorb_upper = ends
    at = np.uint64(row * LANES)
    for i in _lanes(first, last):
        x, moved = numbers[X + i], numbers[MOVED + i]
        gone = (x <= absorb_lower) | (x >= absorb_upper)
        y = x if gone else clamped(fma(std, z[at + i], moved), lower, upper)
        counts[ASTRAY + i] |= 0 if abs(moved) <= LARGEST else 1
        numbers[X + i] = y


class Scratch(NamedTuple):
    """Working memory of the walks of all lanes."""

    words: Words  # (5 LANES,): the states of the generators, and drawn words
    normals: Array  # (CHUNK/2, 2 LANES)
    rows: Array  # (CHUNK LANES,), the same normals: a row of LANES for each step
    numbers: Array  # (5 LANES,)
    counts: Integers  # (3 LANES,): a step's map; whether one left the finite numbers; the memory
    cursors: Integers  # (LANES, 6), by run of lanes on one path: see `_advance`


def scratch(states: Words) -> Scratch:
    """Return room for walks whose generators have these states."""
    words = aligned(5 * LANES, np.uint64)
    words[: states.size] = states
    rows = aligned(CHUNK * LANES)
    return Scratch(
        words,
        rows.reshape(-1, 2 * LANES),
        rows,
        aligned(5 * LANES),
        aligned(3 * LANES, np.int64),
        np.empty((LANES, 6), dtype=np.int64),
    )


@compiled_loop
def _advance(
    sequence: Integers,
    first_place: Integers,
    times: Integers,
    kind: Integers,
    cursors: Integers,
    runs: int,
    most: int,
) -> int:
    """Set column 1 of the cursors to the step under each, -1 after the last, and move on.

    Columns: the run's first lane; its step; segment, times left, place in ``sequence``; the
    path's last segment and one. Returns for how many steps, up to ``most``, the cursors have moved
    on: more than one where a single path repeats a step that is not of the general kind.
    """
    taken = 1
    for run in range(runs):
        # one by one: a row of its own would be counted as a reference, which costs more than a step
        segment, left, place = cursors[run, 2], cursors[run, 3], cursors[run, 4]
        end = cursors[run, 5]
        if segment == end:
            cursors[run, 1] = -1
            continue
        cursors[run, 1] = sequence[place]
        if runs == 1 and first_place[segment + 1] - first_place[segment] == 1:
            taken = 1 if kind[sequence[place]] == GENERAL else min(left, most)
            left -= taken - 1
        place += 1
        if place == first_place[segment + 1]:
            left -= 1
            if left == 0:
                segment += 1
                left = times[segment] if segment < end else 0
            place = first_place[segment]
        cursors[run, 2] = segment
        cursors[run, 3] = left
        cursors[run, 4] = place
    return taken


@compiled_loop
def _set_out(p: Tables, paths: Integers, cursors: Integers) -> tuple[int, int]:
    """Set the cursors to the starts of ascending paths; return their number and longest path."""
    runs = 0
    longest = 0
    for lane in range(paths.size):
        path = paths[lane]
        if lane == 0 or path != paths[lane - 1]:
            g = p.first_segment[path]
            cursors[runs, 0] = lane
            cursors[runs, 2] = g
            cursors[runs, 3] = p.times[g]
            cursors[runs, 4] = p.first_place[g]
            cursors[runs, 5] = p.first_segment[path + 1]
            longest = max(longest, p.lengths[path])
            runs += 1
    return runs, longest


def _walker(general: bool) -> Callable[[Tables, Scratch, Integers, Integers, Array], bool]:
    """Return the loop over all walks, with the code of steps of the general kind or without."""

    @compiled_loop
    def walk(p: Tables, w: Scratch, paths: Integers, places: Integers, x: Array) -> bool:
        """Set ``x[places[i]]``, shape (trials,), to the final iterate of walk i.

        ``paths``, shape (trials,), ascend. Return whether all walks stayed finite.
        """
        # each array has a name of its own here: taking one out of a tuple in the loop costs time
        words, normals, z, numbers, counts, cursors = w
        sequence, first_place, times, kind = p.sequence, p.first_place, p.times, p.kind
        edge, first_piece, pieces, factor = p.edge, p.first_piece, p.pieces, p.factor
        order, degree, origin, coefficients = p.order, p.degree, p.origin, p.coefficients
        first_row, first_entry, below = p.first_row, p.first_entry, p.below
        after, depends, curved, noise_std = p.after, p.depends, p.curved, p.noise_std
        lower, upper = p.lower, p.upper
        ends = (lower, upper, p.absorb_lower, p.absorb_upper)
        finite = True
        for begin in range(0, paths.size, LANES):  # walks that are under way together
            count = min(LANES, paths.size - begin)
            numbers[:LANES] = p.start
            counts[:] = 0
            runs, longest = _set_out(p, paths[begin : begin + count], cursors)
            done = 0
            while done < longest:
                row = done % CHUNK
                if row == 0:
                    fill_normals(words, (min(CHUNK, longest - done) + 1) // 2, normals)
                same = _advance(sequence, first_place, times, kind, cursors, runs, CHUNK - row)
                done += same
                run = 0
                while run < runs:  # neighbouring paths that take the same step take it together
                    s, first = cursors[run, 1], cursors[run, 0]
                    run += 1
                    while run < runs and cursors[run, 1] == s:
                        run += 1
                    last = cursors[run, 0] if run < runs else count
                    if s < 0:
                        continue
                    std, k, entry = noise_std[s], first_piece[s], first_entry[first_row[s]]
                    if kind[s] != GENERAL:
                        usual = first_piece[s + 1] - 1
                        slope, usual_slope = coefficients[1, k], coefficients[1, usual]
                        shift, usual_shift = coefficients[0, k], coefficients[0, usual]
                        step_lines(
                            words, usual > k, below[entry], numbers, z, row, row + same,
                            slope, shift, usual_slope, usual_shift, std, lower, upper, first, last,
                        )  # fmt: skip
                        continue
                    if not general:  # known to the compiler, which leaves out what follows
                        continue
                    if depends[s]:
                        choose_by_memory(
                            words, counts, first_row[s], first_entry, below, after, first, last
                        )
                    else:
                        chosen = below[entry : first_entry[first_row[s] + 1] - 1]
                        choose(words, counts, chosen, first, last)
                    apply(
                        numbers, counts, pieces[s], edge[k:], origin[k:], coefficients[:, k:],
                        degree[s], curved[s], factor[k:], order[k:], first, last,
                    )  # fmt: skip
                    arrive(numbers, counts, z, row, std, ends, first, last)
            for lane in range(count):
                trial = places[begin + lane]
                x[trial] = numbers[lane]
                finite &= abs(x[trial]) <= LARGEST and counts[LANES + lane] == 0
        return finite

    return walk


walk_lines = _walker(general=False)  # half as long to compile
walk = _walker(general=True)


@compiled_loop
def draw_paths(words: Words, below: Words, paths: Integers) -> None:
    """Draw the path of every trial: how many words ``below`` are at most its 64 bits."""
    for trial in range(paths.size):
        paths[trial] = np.searchsorted(below, draw(words, trial % LANES), side="right")
