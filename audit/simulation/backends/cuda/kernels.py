"""The CUDA kernels. Importing this module imports Numba.

A CUDA block of ``LANES`` threads runs one numbered block, and thread i is lane i of it. What a lane
draws and computes is what `audit.simulation.kernels` and `audit.simulation.dimensions.kernels`
say, by the same functions, compiled for the device. Products are added by `fma` alone, so there is
nothing that the device's compiler could contract, and the bits are those of the processor.

A walk's generator and state are in registers, and its next normals in shared memory, at an address
of its own bank. Points and what their batches are drawn from are in the device's memory, where
entry j of all lanes is one line. Iterates are counted in shared memory, by atomic additions of
whole numbers, so their order does not matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, uint64
from numpy.typing import NDArray

from audit.numerics.compiled import compiled_inline, fma
from audit.simulation import rng
from audit.simulation.backends.cuda.device import SIMULATED, cuda, kernel, on_device
from audit.simulation.dimensions.kernels import (
    linear_score,
    moved,
    set_gradients,
    set_out,
    set_tables,
    shrinkage,
    summed_gradient,
)
from audit.simulation.kernels import LARGEST, clamped, stepped
from audit.simulation.program import GENERAL, ONE_LINE, TWO_LINES
from audit.simulation.rng import LANES, draw, normal_pair, signed_power

CHUNK = 16  # steps whose normals a lane draws at once, as on the processor
BINS = 1024  # of counts in shared memory; more are in the device's memory
NORMALS, STATES, PLACES = CHUNK * LANES, 4 * LANES, LANES  # sizes of shared arrays


class Task(NamedTuple):
    """The blocks of a launch: what each has is in its row, and what they return."""

    words: NDArray[np.uint64]  # (blocks, 4 LANES): the generators
    trials: NDArray[np.int64]  # (blocks,)
    first: NDArray[np.int64]  # (blocks,): where the iterates of a block begin in ``out``
    thresholds: NDArray[np.float64]  # ascending; none where iterates are returned
    exactly: NDArray[np.int64]  # (thresholds + 1,): how many iterates reach so many thresholds
    out: NDArray[np.float64]  # (trials,) or (trials, d); empty where they are counted
    astray: NDArray[np.int32]  # (1,): 1 if an iterate is not finite


class PathRoom(NamedTuple):
    """Where the paths of walks are drawn and sorted; empty where there is one path."""

    lengths: NDArray[np.int64]  # by path
    path: NDArray[np.int32]  # (blocks, trials)
    order: NDArray[np.int32]  # (blocks, trials): the trial in each place
    places: NDArray[np.int32]  # (blocks, paths + 1): the next place of each path


class PointRoom(NamedTuple):
    """The tables of `set_gradients`, and a direction: the last axis is that of the lanes."""

    x: NDArray[np.float64]
    g: NDArray[np.float64]
    order: NDArray[np.int32]
    slots: NDArray[np.int32]
    places: NDArray[np.int32]
    starts: NDArray[np.int32]
    members: NDArray[np.int32]
    tally: NDArray[np.int32]
    met: NDArray[np.int32]
    direction: NDArray[np.float64]  # (1, d), or (1, 0) where points are returned


@compiled_inline
def _fused(a: float, b: float, c: float) -> float:
    return fma(a, b, c)


def _advanced(a: Any, b: Any, c: Any, counter: Any) -> Any:
    """Advance a generator in the simulator, where compiled functions return Python's integers."""
    return tuple(map(np.uint64, rng.advanced(a, b, c, counter)))


advanced: Any = _advanced if SIMULATED else rng.advanced


@on_device
def _at_most(below: Any, first: int, last: int, word: Any) -> int:
    """Return how many of the ascending words from ``first`` up to ``last`` are at most a word."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if below[middle] <= word:
            low = middle + 1
        else:
            high = middle
    return low - first


@on_device
def _image(p: Any, s: int, choice: int, x: float) -> float:
    """Return where map ``choice`` of step s takes x, as `audit.simulation.kernels.look_up`."""
    k, size = p.first_piece[s] + choice * p.pieces[s], p.pieces[s]
    while size > 1:
        half = size // 2
        if x >= p.edge[k + half]:
            k += half
            size -= half
        else:
            size = half
    t = x - p.origin[k]
    degree = p.degree[s]
    value: float = p.coefficients[degree, k]
    for d in range(degree - 1, -1, -1):
        value = _fused(value, t, p.coefficients[d, k])
    if p.factor[k] != 0.0:
        value = _fused(p.factor[k], signed_power(t, p.order[k]), value)
    return value


@on_device
def _record(task: Any, local: Any, reached: float) -> None:
    """Count a finite number by the thresholds that it reaches."""
    passed, size = 0, task.thresholds.size
    while size > 0:
        half = (size + 1) // 2
        if reached >= task.thresholds[passed + half - 1]:
            passed += half
        size -= half
    if task.exactly.size <= BINS:
        cuda.atomic.add(local, passed, 1)
    else:
        cuda.atomic.add(task.exactly, passed, 1)


@on_device
def _clear(task: Any, local: Any, lane: int) -> None:
    for k in range(lane, min(task.exactly.size, BINS), LANES):
        local[k] = 0
    cuda.syncthreads()


@on_device
def _add_up(task: Any, local: Any, lane: int) -> None:
    cuda.syncthreads()
    if task.thresholds.size > 0 and task.exactly.size <= BINS:
        for k in range(lane, task.exactly.size, LANES):
            if local[k] > 0:
                cuda.atomic.add(task.exactly, k, local[k])


@kernel(registers=64)
def walk(p: Any, task: Any, room: Any) -> None:
    """Walk the blocks of a task, each in the block of threads of its number.

    Of a `audit.simulation.program.Program`, a `Task` and a `PathRoom`.
    """
    z = cuda.shared.array(NORMALS, float64)
    local = cuda.shared.array(BINS, int32)
    shared_paths = cuda.shared.array(PLACES, int32)
    shared_longest = cuda.shared.array(1, int32)
    lane = cuda.threadIdx.x
    block = cuda.blockIdx.x
    trials = task.trials[block]
    many = p.paths_below.size > 0
    a, b = task.words[block, lane], task.words[block, LANES + lane]
    c, counter = task.words[block, 2 * LANES + lane], task.words[block, 3 * LANES + lane]
    _clear(task, local, lane)

    if many:  # draw the paths, and sort the trials by them, ties in order
        for k in range(lane, room.places.shape[1], LANES):
            room.places[block, k] = 0
        cuda.syncthreads()
        for trial in range(lane, trials, LANES):
            word, a, b, c, counter = advanced(a, b, c, counter)
            path = _at_most(p.paths_below, 0, p.paths_below.size, word)
            room.path[block, trial] = path
            cuda.atomic.add(room.places, (block, path + 1), 1)
        cuda.syncthreads()
        if lane == 0:
            for k in range(1, room.places.shape[1]):
                room.places[block, k] += room.places[block, k - 1]
        cuda.syncthreads()
        for first in range(0, trials, LANES):
            trial = first + lane
            path = room.path[block, trial] if trial < trials else -1
            shared_paths[lane] = path
            cuda.syncthreads()
            if trial < trials:
                place = room.places[block, path]
                for other in range(lane):
                    if shared_paths[other] == path:
                        place += 1
                room.order[block, place] = trial
            cuda.syncthreads()
            if trial < trials:
                cuda.atomic.add(room.places, (block, path), 1)
            cuda.syncthreads()

    for first in range(0, trials, LANES):
        trial, path, length = first + lane, 0, 0
        live = trial < trials
        if many and live:
            trial = room.order[block, trial]
            path = room.path[block, trial]
        if live:
            length = room.lengths[path]
        longest = room.lengths[0]
        if many:
            cuda.syncthreads()
            if lane == 0:
                shared_longest[0] = 0
            cuda.syncthreads()
            cuda.atomic.max(shared_longest, 0, length)
            cuda.syncthreads()
            longest = shared_longest[0]
        if not live:
            continue

        x, memory, astray = p.start, 0, False
        segment, end = p.first_segment[path], p.first_segment[path + 1]
        left, place = 0, 0
        if segment < end:
            left, place = p.times[segment], p.first_place[segment]
        done = 0
        while done < longest:
            rows = min(CHUNK, longest - done)
            for pair in range((rows + 1) // 2):
                k, a, b, c, counter = advanced(a, b, c, counter)
                m, a, b, c, counter = advanced(a, b, c, counter)
                z[2 * pair * LANES + lane], z[(2 * pair + 1) * LANES + lane] = normal_pair(k, m)
            done += rows
            row = 0
            while row < rows and segment < end:
                s = p.sequence[place]
                kind, std, beyond = p.kind[s], p.noise_std[s], p.first_place[segment + 1]
                alone = beyond - p.first_place[segment] == 1
                same = min(left, rows - row) if alone and kind != GENERAL else 1
                piece, chosen = p.first_piece[s], p.first_below[s]
                if kind == ONE_LINE:
                    slope, shift = p.coefficients[1, piece], p.coefficients[0, piece]
                    for at in range(row, row + same):
                        x = stepped(x, slope, shift, std, z[at * LANES + lane], p.lower, p.upper)
                elif kind == TWO_LINES:
                    slope, usual_slope = p.coefficients[1, piece], p.coefficients[1, piece + 1]
                    shift, usual_shift = p.coefficients[0, piece], p.coefficients[0, piece + 1]
                    below = p.below[chosen]
                    for at in range(row, row + same):
                        word, a, b, c, counter = advanced(a, b, c, counter)
                        rare = word < below
                        own_slope = slope if rare else usual_slope
                        own_shift = shift if rare else usual_shift
                        x = stepped(
                            x, own_slope, own_shift, std, z[at * LANES + lane], p.lower, p.upper
                        )
                else:
                    choice = 0
                    if p.first_row[s] < p.first_row[s + 1]:
                        word, a, b, c, counter = advanced(a, b, c, counter)
                        own = p.first_row[s] + memory
                        entry, last = p.first_entry[own], p.first_entry[own + 1] - 1
                        entry += _at_most(p.entry_below, entry, last, word)
                        choice, memory = p.entry_map[entry], p.entry_after[entry]
                    elif p.maps[s] > 1:
                        word, a, b, c, counter = advanced(a, b, c, counter)
                        choice = _at_most(p.below, chosen, p.first_below[s + 1], word)
                    image = _image(p, s, choice, x)
                    if not abs(image) <= LARGEST:
                        astray = True
                    if not (x <= p.absorb_lower or x >= p.absorb_upper):
                        noise = z[row * LANES + lane]
                        x = clamped(_fused(std, noise, image), p.lower, p.upper)
                row += same
                if alone:
                    left -= same
                else:
                    place += 1
                    if place == beyond:
                        left -= 1
                        place = p.first_place[segment]
                if left == 0:
                    segment += 1
                    if segment < end:
                        left, place = p.times[segment], p.first_place[segment]
        if astray or not abs(x) <= LARGEST:
            task.astray[0] = 1
        if task.thresholds.size > 0:
            _record(task, local, x)
        else:
            task.out[task.first[block] + trial] = x
    _add_up(task, local, lane)


@kernel(registers=128)
def run(p: Any, task: Any, room: Any) -> None:
    """Run the blocks of a task in d dimensions, each in the block of threads of its number.

    Of a `audit.simulation.dimensions.program.Program`, a `Task` and a `PointRoom`.
    """
    words = cuda.shared.array(STATES, uint64)
    begins = cuda.shared.array(PLACES, int64)
    ends = cuda.shared.array(PLACES, int64)
    local = cuda.shared.array(BINS, int32)
    lane = cuda.threadIdx.x
    block = cuda.blockIdx.x
    for k in range(4):
        words[k * LANES + lane] = task.words[block, k * LANES + lane]
    _clear(task, local, lane)
    x, g, order, slots = room.x[block].T, room.g[block].T, room.order[block].T, room.slots[block].T
    places, starts, members = room.places[block].T, room.starts[block].T, room.members[block].T
    tally, met = room.tally[block].T, room.met[block].T
    rules, ridge, d, steps = p.rules, p.ridge, p.start.size, p.scales.size
    set_tables(lane, rules, order, slots, tally)
    for trial in range(lane, task.trials[block], LANES):
        for j in range(d):
            x[lane, j] = p.start[j]
        begins[lane], ends[lane] = set_out(words, lane, rules, steps, order)
        for step in range(steps):
            taken = begins[lane] <= step < ends[lane]
            if taken and not rules.summed:
                set_gradients(
                    words, lane, lane + 1, p.shape, rules, p.vectors, p.present, ridge, p.kind,
                    p.first, p.kinds, p.counts, step, begins, ends, order, slots, places, starts,
                    members, tally, met, x, g,
                )  # fmt: skip
            scale, std, square = p.scales[step], p.noise_stds[step], 0.0
            row = step % (p.first.size - 1) if rules.summed else 0
            for low in range(0, d, 2):
                first_word = np.uint64(draw(words, lane))
                second_word = np.uint64(draw(words, lane))
                if taken:
                    noise, second = normal_pair(first_word, second_word)
                    for j in range(low, min(low + 2, d)):
                        y = x[lane, j]
                        if rules.summed:
                            slope = summed_gradient(rules.batch_size, ridge[j], y, p.sums[row, j])
                        else:
                            slope = g[lane, j]
                        y = moved(y, slope, noise, scale, std, rules.half_side)
                        x[lane, j] = y
                        square = _fused(y, y, square)
                        noise = second
            shrink = shrinkage(square, rules.radius)
            if shrink != 1.0:
                for j in range(d):
                    x[lane, j] *= shrink
        for j in range(d):
            if not abs(x[lane, j]) <= LARGEST:
                task.astray[0] = 1
        if room.direction.size > 0:
            score = linear_score(room.direction, 0, x, lane)
            if task.thresholds.size > 0:
                _record(task, local, score)
            else:
                task.out[task.first[block] + trial, 0] = score
        else:
            for j in range(d):
                task.out[task.first[block] + trial, j] = x[lane, j]
    _add_up(task, local, lane)
