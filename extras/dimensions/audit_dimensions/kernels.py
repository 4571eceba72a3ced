"""The compiled loop over d-dimensional runs. Importing this module imports Numba.

Run i of a block takes place in lane i modulo ``LANES``. Every lane draws from a generator of its
own, in this order: 64 bits for the number of steps (if it is random); n - 1 times 64 bits that
permute the records (shuffled batches); then for each of the mechanism's steps, if an epoch begins,
n - 1 times 64 bits that permute the records (reshuffled batches) or k times for each record in turn
(random allocation), those that draw its batch (sampled batches, and after them those that choose
from a batch that is cut), and a pair of normals for coordinates 1 and 2, for 3 and 4, ... (the last
pair may not need its second). In steps that a run does not take, a lane draws the normals alone.
What is drawn depends on neither the losses nor the iterates, so two datasets with the same
generators have the same batches and the same noise.

Functions of one lane take its own rows of the tables and, as ``words`` and ``lane``, its generator
among all.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.numerics.compiled import compiled_inline, compiled_loop, fma
from audit.simulation.rng import (
    LANES,
    Words,
    draw,
    exponential,
    fill_normals,
    square_of_radius,
)
from audit_dimensions.losses.base import Family
from audit_dimensions.program import (
    ALLOCATED,
    FIXED,
    POISSON,
    RANDOM_SKIP,
    RANDOM_STOP,
    RESHUFFLED,
    SHUFFLED,
    Floats,
    Integers,
    Program,
    Rules,
    Shape,
)

Indices = NDArray[np.int32]
Truths = NDArray[np.bool_]

CHUNK = 16  # coordinates, an even number; their normals fill half of a usual first cache
_AFFINE, _HUBER, _LOGISTIC = int(Family.AFFINE), int(Family.HUBER), int(Family.LOGISTIC)


@compiled_inline
def _below(words: Words, lane: int, n: int) -> int:
    """Draw a whole number from 0 to n - 1."""
    return int(np.float64(draw(words, lane) >> np.uint64(11)) * 2.0**-53 * n)


@compiled_inline
def _permute(words: Words, lane: int, order: Indices, count: int, n: int) -> None:
    """Bring a uniform choice of ``count`` of the first n entries to the front, in uniform order."""
    for i in range(count):
        j = i + _below(words, lane, n - i)
        order[lane, i], order[lane, j] = order[lane, j], order[lane, i]


@compiled_inline
def _bernoulli(words: Words, lane: int, order: Indices, gap_scale: float) -> int:
    """Write the members of a Poisson batch to the front, and return how many they are."""
    i, found, n = 0, 0, order.shape[1]
    while True:
        # may be longer than any whole number
        gap = square_of_radius(draw(words, lane)) * gap_scale
        if not gap < n - i:
            return found
        i += int(gap)
        order[lane, found] = i
        found += 1
        i += 1


@compiled_inline
def _batch(words: Words, lane: int, rules: Rules, order: Indices, step: int) -> tuple[int, int]:
    """Draw the batch of a step: the entries of ``order`` between the two that are returned."""
    n, b = order.shape[1], rules.batch_size
    if rules.batches == POISSON:
        found = _bernoulli(words, lane, order, rules.gap_scale)
        if found > rules.most:
            _permute(words, lane, order, rules.most, found)
            found = rules.most
        return 0, found
    if rules.batches == SHUFFLED or rules.batches == RESHUFFLED:
        if rules.batches == RESHUFFLED and step % rules.epoch == 0:
            _permute(words, lane, order, n - 1, n)
        place = step % (n // b)
        return place * b, (place + 1) * b
    if b <= n - b:
        _permute(words, lane, order, b, n)
        return 0, b
    _permute(words, lane, order, n - b, n)  # those that are left out
    return n - b, n


@compiled_inline
def _allocate(
    words: Words,
    lane: int,
    times: int,
    slots: Indices,
    places: Indices,
    starts: Indices,
    members: Indices,
) -> None:
    """Draw batches of an epoch: batch t holds the members from ``starts[t]`` to ``starts[t + 1]``.

    ``slots`` are the batches in any order, ``places`` room for the ``times`` of every record.
    """
    epoch, entries = slots.shape[1], members.shape[1]
    for t in range(epoch + 1):
        starts[lane, t] = 0
    for i in range(0, entries, times):
        _permute(words, lane, slots, times, epoch)
        for j in range(times):
            places[lane, i + j] = slots[lane, j]
            starts[lane, slots[lane, j] + 1] += 1
    for t in range(epoch):
        starts[lane, t + 1] += starts[lane, t]
    for entry in range(entries - 1, -1, -1):  # the last record of a batch comes to its end
        t = places[lane, entry] + 1
        starts[lane, t] -= 1
        members[lane, starts[lane, t]] = entry // times
    for t in range(epoch):  # every end has become the start
        starts[lane, t] = starts[lane, t + 1]
    starts[lane, epoch] = entries


@compiled_inline
def _square(a: float, v: float, b: float, x: float, c: float, ridge: float, square: float) -> float:
    """Return ``square + (a v + (b + c ridge) x)^2``."""
    t = fma(a, v, fma(c, ridge, b) * x)
    return fma(t, t, square)


@compiled_inline
def _norm(
    a: float, v: Floats, k: int, b: float, x: Floats, lane: int, c: float, ridge: Floats
) -> float:
    """Return |a v[k] + (b + c ridge) x|, in four sums that do not wait for each other."""
    d = x.shape[1]
    whole = d - d % 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        s0 = _square(a, v[k, j], b, x[lane, j], c, ridge[j], s0)
        s1 = _square(a, v[k, j + 1], b, x[lane, j + 1], c, ridge[j + 1], s1)
        s2 = _square(a, v[k, j + 2], b, x[lane, j + 2], c, ridge[j + 2], s2)
        s3 = _square(a, v[k, j + 3], b, x[lane, j + 3], c, ridge[j + 3], s3)
    for j in range(whole, d):
        s0 = _square(a, v[k, j], b, x[lane, j], c, ridge[j], s0)
    return math.sqrt((s0 + s1) + (s2 + s3))


@compiled_inline
def _distance(v: Floats, k: int, x: Floats, lane: int) -> float:
    """Return |x - v[k]|."""
    s0 = s1 = 0.0
    for j in range(0, x.shape[1] - 1, 2):
        apart, beside = x[lane, j] - v[k, j], x[lane, j + 1] - v[k, j + 1]
        s0, s1 = fma(apart, apart, s0), fma(beside, beside, s1)
    if x.shape[1] % 2 == 1:
        apart = x[lane, x.shape[1] - 1] - v[k, x.shape[1] - 1]
        s0 = fma(apart, apart, s0)
    return math.sqrt(s0 + s1)


@compiled_inline
def linear_score(v: Floats, k: int, x: Floats, lane: int) -> float:
    """Return the inner product of ``v[k]`` and ``x[lane]``, in four sums as `_norm`."""
    d = x.shape[1]
    whole = d - d % 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        s0 = fma(v[k, j], x[lane, j], s0)
        s1 = fma(v[k, j + 1], x[lane, j + 1], s1)
        s2 = fma(v[k, j + 2], x[lane, j + 2], s2)
        s3 = fma(v[k, j + 3], x[lane, j + 3], s3)
    for j in range(whole, d):
        s0 = fma(v[k, j], x[lane, j], s0)
    return (s0 + s1) + (s2 + s3)


@compiled_inline
def _coefficients(
    shape: Shape, v: Floats, k: int, x: Floats, lane: int, ridge: Floats
) -> tuple[float, float]:
    """Return (a, b) with grad l_i(x) = a v + b x, for a record whose vector is ``v[k]``."""
    if shape.family == _HUBER:
        distance = _distance(v, k, x, lane)
        inside = shape.curvature * distance <= shape.cap
        pull = shape.curvature if inside else shape.cap / distance
        return -pull, pull
    if shape.family == _LOGISTIC:
        return -1.0 / (1.0 + exponential(linear_score(v, k, x, lane))), 0.0
    return 1.0, 0.0


@compiled_inline
def set_tables(lane: int, rules: Rules, order: Indices, slots: Indices, tally: Indices) -> None:
    """Put records and batches in order, and no kind in a batch, before a lane's first run."""
    if rules.ordered:
        for i in range(order.shape[1]):
            order[lane, i] = i
    if rules.batches == ALLOCATED:
        for t in range(slots.shape[1]):
            slots[lane, t] = t
    for k in range(tally.shape[1]):
        tally[lane, k] = 0


@compiled_inline
def set_out(words: Words, lane: int, rules: Rules, steps: int, order: Indices) -> tuple[int, int]:
    """Draw the first step of a run and the one after its last, and the order of its records."""
    begin, end = 0, steps
    if rules.release == RANDOM_STOP:
        end = 1 + _below(words, lane, steps)
    elif rules.release == RANDOM_SKIP:
        begin = _below(words, lane, steps // 2 + 1)
    if rules.batches == SHUFFLED:
        _permute(words, lane, order, order.shape[1] - 1, order.shape[1])
    return begin, end


@compiled_inline
def set_gradients(
    words: Words,
    first_lane: int,
    last_lane: int,
    shape: Shape,
    rules: Rules,
    vectors: Floats,
    present: Truths,
    ridge: Floats,
    kind: Integers,
    first: Integers,
    kinds: Integers,
    counts: Integers,
    step: int,
    begins: Integers,
    ends: Integers,
    order: Indices,
    slots: Indices,
    places: Indices,
    starts: Indices,
    members: Indices,
    tally: Indices,
    met: Indices,
    x: Floats,
    g: Floats,
) -> None:
    """Draw the batches of a step, and set g to the sums of their gradients at x.

    In each lane from ``first_lane`` up to ``last_lane`` whose run takes the step. ``tally`` holds
    zeros, before and after. Little of it is in functions of its own: each time that an array
    is handed to one with a loop, Numba counts the references to it, in time for three normals.
    """
    d = x.shape[1]
    shared = 1.0 if shape.clip == math.inf else 0.0  # clipped gradients have it inside
    plain = shape.family == _AFFINE and shape.clip == math.inf
    place = step % rules.epoch
    fixed = step % (first.size - 1) if rules.batches == FIXED else 0
    for lane in range(first_lane, last_lane):
        if not begins[lane] <= step < ends[lane]:
            continue
        if rules.batches == FIXED:
            different = first[fixed + 1] - first[fixed]
        else:
            listed = order
            if rules.batches == ALLOCATED:
                if place == 0:
                    _allocate(words, lane, rules.participations, slots, places, starts, members)
                low, high, listed = starts[lane, place], starts[lane, place + 1], members
            else:
                low, high = _batch(words, lane, rules, order, step)
            different = 0
            for i in range(low, high):  # count the kinds of the batch, and list those that it has
                k = kind[listed[lane, i]]
                if tally[lane, k] == 0:
                    met[lane, different] = k
                    different += 1
                tally[lane, k] += 1
        for j in range(d):
            g[lane, j] = shared * rules.batch_size * ridge[j] * x[lane, j]
        for c in range(different):  # add the gradients of equal records: of l_i, or of f_i clipped
            if rules.batches == FIXED:
                k, count = kinds[first[fixed] + c], counts[first[fixed] + c]
            else:
                k = met[lane, c]
                count = tally[lane, k]
                tally[lane, k] = 0
            if not present[k]:
                continue
            weight, inside = float(count), 0.0
            if plain:
                for j in range(d):
                    g[lane, j] = fma(weight, vectors[k, j], g[lane, j])
                continue
            a, b = _coefficients(shape, vectors, k, x, lane, ridge)
            if shape.clip < math.inf:
                norm = _norm(a, vectors, k, b, x, lane, 1.0, ridge)
                weight *= shape.clip / norm if norm > shape.clip else 1.0
                inside = weight
            a, b = weight * a, weight * b
            for j in range(d):
                g[lane, j] += fma(a, vectors[k, j], fma(inside, ridge[j], b) * x[lane, j])


@compiled_inline
def summed_gradient(batch_size: int, ridge: float, x: float, row: float) -> float:
    """Return a coordinate of the gradient of a fixed batch, whose l_i add up to ``row``."""
    return fma(batch_size * ridge, x, row)


@compiled_inline
def moved(x: float, g: float, z: float, scale: float, std: float, half_side: float) -> float:
    """Take a coordinate's noisy step against g, and project onto the box."""
    y = fma(std, z, fma(-scale, g, x))
    y = -half_side if y < -half_side else y
    return half_side if y > half_side else y


@compiled_inline
def shrinkage(square: float, radius: float) -> float:
    """Return by how much the projection onto the ball shrinks a point of this squared norm."""
    if not square > radius * radius:
        return 1.0
    # a square that overflows says nothing about the direction: no number, no result
    return radius / math.sqrt(square) if square < math.inf else math.nan


@compiled_loop
def fill(words: Words, p: Program, normals: Floats, out: Floats) -> None:
    """Fill ``out``, shape (trials, d), with what the runs release.

    ``normals``, shape (CHUNK/2, 2 LANES), is room.
    """
    # arrays by names of their own: each time that the program is handed on, Numba counts the
    # references to all of its arrays, which costs more than a step in few dimensions
    shape, rules, vectors, present, ridge = p.shape, p.rules, p.vectors, p.present, p.ridge
    kind, first, kinds, counts, sums = p.kind, p.first, p.kinds, p.counts, p.sums
    start, scales, stds = p.start, p.scales, p.noise_stds
    (trials, d), n, steps = out.shape, kind.size, scales.size
    z = normals.reshape(-1)
    # a row for each lane; memory that is not written to costs nothing
    g = np.empty((LANES, d))
    order = np.empty((LANES, n), dtype=np.int32)
    slots = np.empty((LANES, rules.epoch), dtype=np.int32)
    allocated = n * rules.participations if rules.batches == ALLOCATED else 0
    places = np.empty((LANES, allocated), dtype=np.int32)
    starts = np.empty((LANES, rules.epoch + 1), dtype=np.int32)
    members = np.empty((LANES, allocated), dtype=np.int32)
    tally = np.empty((LANES, vectors.shape[0]), dtype=np.int32)
    met = np.empty((LANES, vectors.shape[0]), dtype=np.int32)
    for lane in range(LANES):
        set_tables(lane, rules, order, slots, tally)
    begins, ends = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    squares = np.empty(LANES)
    for done in range(0, trials, LANES):
        x = out[done : done + LANES]
        live = x.shape[0]
        for lane in range(live):
            for j in range(d):  # an assignment of arrays would compile a message of unequal shapes
                x[lane, j] = start[j]
            begins[lane], ends[lane] = set_out(words, lane, rules, steps, order)
        for step in range(steps):
            scale, std = scales[step], stds[step]
            row = step % (first.size - 1) if rules.summed else 0
            if not rules.summed:
                none = int(np.int64(0))  # no literal, for which it would be compiled once more
                set_gradients(
                    words, none, live, shape, rules, vectors, present, ridge, kind, first, kinds,
                    counts, step, begins, ends, order, slots, places, starts, members, tally, met,
                    x, g,
                )  # fmt: skip
            squares[:] = 0.0
            for low in range(0, d, CHUNK):
                high = min(low + CHUNK, d)
                fill_normals(words, (high - low + 1) // 2, normals)
                for lane in range(live):
                    if not begins[lane] <= step < ends[lane]:
                        continue
                    square = squares[lane]
                    for j in range(low, high):
                        if rules.summed:
                            slope = summed_gradient(
                                rules.batch_size, ridge[j], x[lane, j], sums[row, j]
                            )
                        else:
                            slope = g[lane, j]
                        noise = z[(j - low) * LANES + lane]
                        y = moved(x[lane, j], slope, noise, scale, std, rules.half_side)
                        x[lane, j] = y
                        square = fma(y, y, square)
                    squares[lane] = square
            for lane in range(live):
                shrink = shrinkage(squares[lane], rules.radius)
                if shrink != 1.0:
                    for j in range(d):
                        x[lane, j] *= shrink


@compiled_loop
def linear_scores(direction: Floats, points: Floats, scores: Floats) -> None:
    """Set ``scores``, shape (m,), to inner products of points, shape (m, d), with a (1, d) one."""
    for i in range(scores.size):
        scores[i] = linear_score(direction, 0, points, i)
