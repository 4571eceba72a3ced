"""The compiled loop over d-dimensional runs. Importing this module imports Numba.

Random numbers come from the generator that is passed in, in this order: a uniform for the number
of steps (if it is random); n - 1 uniforms that permute the records (shuffled batches); then for
each step, if an epoch begins, n - 1 uniforms that permute the records (reshuffled batches) or k for
each record in turn that draw its batches (random allocation), those that draw its batch (sampled
batches, and after them those that choose from a batch that is cut), and d normals. They depend on
neither the losses nor the iterates, so two datasets that are given the same generator have the
same batches and the same noise.
"""

from __future__ import annotations

import math

import numpy as np

from audit.numerics.compiled import compiled_inline, compiled_loop
from audit.simulation.dimensions.losses.base import Family
from audit.simulation.dimensions.program import (
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

_AFFINE, _HUBER, _LOGISTIC = int(Family.AFFINE), int(Family.HUBER), int(Family.LOGISTIC)


@compiled_inline
def _window(rng: np.random.Generator, release: int, steps: int) -> tuple[int, int]:
    """Draw the first step and the one after the last."""
    if release == RANDOM_STOP:
        return 0, 1 + int(rng.random() * steps)
    if release == RANDOM_SKIP:
        return int(rng.random() * (steps // 2 + 1)), steps
    return 0, steps


@compiled_inline
def _permute(rng: np.random.Generator, order: Integers, count: int, n: int) -> None:
    """Bring a uniform choice of ``count`` of the first n entries to the front, in uniform order."""
    for i in range(count):
        j = i + int(rng.random() * (n - i))
        order[i], order[j] = order[j], order[i]


@compiled_inline
def _bernoulli(rng: np.random.Generator, order: Integers, rate: float) -> int:
    """Write the members of a Poisson batch to the front, and return how many they are."""
    scale = 1.0 / math.log1p(-rate) if rate < 1.0 else 0.0
    i, found = 0.0, 0  # a gap may be longer than any whole number
    while True:
        i += math.floor(math.log1p(-rng.random()) * scale)
        if i >= order.size:
            return found
        order[found] = int(i)
        found += 1
        i += 1.0


@compiled_inline
def _batch(rng: np.random.Generator, rules: Rules, order: Integers, step: int) -> tuple[int, int]:
    """Draw the batch of a step: the entries of ``order`` between the two that are returned."""
    n, b = order.size, rules.batch_size
    if rules.batches == POISSON:
        found = _bernoulli(rng, order, b / n)
        if found > rules.most:
            _permute(rng, order, rules.most, found)
            found = rules.most
        return 0, found
    if rules.batches == SHUFFLED or rules.batches == RESHUFFLED:
        place = step % (n // b)
        return place * b, (place + 1) * b
    if b <= n - b:
        _permute(rng, order, b, n)
        return 0, b
    _permute(rng, order, n - b, n)  # those that are left out
    return n - b, n


@compiled_inline
def _allocate(
    rng: np.random.Generator, slots: Integers, places: Integers, starts: Integers, members: Integers
) -> None:
    """Draw batches of an epoch: batch t holds the members from ``starts[t]`` to ``starts[t + 1]``.

    ``slots`` are the batches in any order, ``places`` room for those of every record in turn.
    """
    records = members.size // places.shape[1]
    starts[:] = 0
    for i in range(records):
        _permute(rng, slots, places.shape[1], slots.size)
        for j in range(places.shape[1]):
            places[i, j] = slots[j]
            starts[slots[j] + 1] += 1
    for t in range(slots.size):
        starts[t + 1] += starts[t]
    for i in range(records - 1, -1, -1):
        for j in range(places.shape[1]):  # the last record of a batch comes to its end
            t = places[i, j] + 1
            starts[t] -= 1
            members[starts[t]] = i
    for t in range(slots.size):  # every end has become the start
        starts[t] = starts[t + 1]
    starts[slots.size] = members.size


@compiled_inline
def _norm(a: float, v: Floats, b: float, x: Floats, c: float, ridge: Floats) -> float:
    """Return |a v + (b + c ridge) x|, in four sums that do not wait for each other."""
    d = x.size
    whole = d - d % 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        s0 += (a * v[j] + (b + c * ridge[j]) * x[j]) ** 2
        s1 += (a * v[j + 1] + (b + c * ridge[j + 1]) * x[j + 1]) ** 2
        s2 += (a * v[j + 2] + (b + c * ridge[j + 2]) * x[j + 2]) ** 2
        s3 += (a * v[j + 3] + (b + c * ridge[j + 3]) * x[j + 3]) ** 2
    for j in range(whole, d):
        s0 += (a * v[j] + (b + c * ridge[j]) * x[j]) ** 2
    return math.sqrt((s0 + s1) + (s2 + s3))


@compiled_inline
def _dot(v: Floats, x: Floats) -> float:
    d = x.size
    whole = d - d % 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        s0 += v[j] * x[j]
        s1 += v[j + 1] * x[j + 1]
        s2 += v[j + 2] * x[j + 2]
        s3 += v[j + 3] * x[j + 3]
    for j in range(whole, d):
        s0 += v[j] * x[j]
    return (s0 + s1) + (s2 + s3)


@compiled_inline
def _coefficients(shape: Shape, v: Floats, x: Floats, ridge: Floats) -> tuple[float, float]:
    """Return (a, b) with grad l_i(x) = a v + b x, for a record whose vector is v."""
    if shape.family == _HUBER:
        distance = _norm(-1.0, v, 1.0, x, 0.0, ridge)
        inside = shape.curvature * distance <= shape.cap
        pull = shape.curvature if inside else shape.cap / distance
        return -pull, pull
    if shape.family == _LOGISTIC:
        return -1.0 / (1.0 + math.exp(_dot(v, x))), 0.0
    return 1.0, 0.0


@compiled_inline
def _add(shape: Shape, v: Floats, count: int, x: Floats, g: Floats, ridge: Floats) -> None:
    """Add the gradients of ``count`` equal records: of l_i, or of f_i if they are clipped."""
    if shape.family == _AFFINE and shape.clip == math.inf:
        for j in range(x.size):
            g[j] += count * v[j]
        return
    a, b = _coefficients(shape, v, x, ridge)
    weight, shared = float(count), 0.0
    if shape.clip < math.inf:
        norm = _norm(a, v, b, x, 1.0, ridge)
        weight *= shape.clip / norm if norm > shape.clip else 1.0
        shared = weight
    a, b = weight * a, weight * b
    for j in range(x.size):
        g[j] += a * v[j] + (b + shared * ridge[j]) * x[j]


@compiled_inline
def _tally(
    kind: Integers, order: Integers, first: int, last: int, tally: Integers, met: Integers
) -> int:
    """Count the kinds of a drawn batch, list those that it has, and return how many they are."""
    kinds = 0
    for i in range(first, last):
        k = kind[order[i]]
        if tally[k] == 0:
            met[kinds] = k
            kinds += 1
        tally[k] += 1
    return kinds


@compiled_inline
def _move(
    rng: np.random.Generator, scale: float, std: float, rules: Rules, x: Floats, g: Floats
) -> None:
    """Take a noisy step against g, and project."""
    square = 0.0
    for j in range(x.size):
        moved = x[j] - scale * g[j] + std * rng.standard_normal()
        moved = min(max(moved, -rules.half_side), rules.half_side)
        square += moved * moved
        x[j] = moved
    if square > rules.radius * rules.radius:
        # a square that overflows says nothing about the direction: no number, no result
        shrink = rules.radius / math.sqrt(square) if square < math.inf else math.nan
        for j in range(x.size):
            x[j] *= shrink


@compiled_loop
def fill(rng: np.random.Generator, p: Program, out: Floats) -> None:
    """Fill ``out``, shape (trials, d), with what the runs release."""
    # arrays by names of their own: each time that the program is handed on, Numba counts the
    # references to all of its arrays, which costs more than a step in few dimensions
    shape, rules, vectors, present, ridge = p.shape, p.rules, p.vectors, p.present, p.ridge
    kind, first, kinds, counts, sums = p.kind, p.first, p.kinds, p.counts, p.sums
    start, scales, stds = p.start, p.scales, p.noise_stds
    n, d = kind.size, out.shape[1]
    g = np.empty(d)
    order = np.arange(n)
    tally = np.zeros(vectors.shape[0], dtype=np.int64)
    met = np.empty(vectors.shape[0], dtype=np.int64)
    shared = 1.0 if shape.clip == math.inf else 0.0  # clipped gradients have it inside
    allocated = n * rules.participations if rules.batches == ALLOCATED else 0
    slots = np.arange(rules.epoch)
    places = np.empty((n, rules.participations), dtype=np.int64)
    starts = np.zeros(rules.epoch + 1, dtype=np.int64)
    members = np.zeros(allocated, dtype=np.int64)
    for i in range(out.shape[0]):
        x = out[i]
        x[:] = start
        begin, end = _window(rng, rules.release, scales.size)
        if rules.batches == SHUFFLED:
            _permute(rng, order, n - 1, n)
        for step in range(begin, end):
            place = step % rules.epoch
            if place == 0 and rules.batches == RESHUFFLED:
                _permute(rng, order, n - 1, n)
            if place == 0 and rules.batches == ALLOCATED:
                _allocate(rng, slots, places, starts, members)
            if rules.summed:
                row = sums[step % (first.size - 1)]
                for j in range(d):
                    g[j] = rules.batch_size * ridge[j] * x[j] + row[j]
            elif rules.batches == FIXED:
                place = step % (first.size - 1)
                for j in range(d):
                    g[j] = shared * rules.batch_size * ridge[j] * x[j]
                for c in range(first[place], first[place + 1]):
                    k = kinds[c]
                    if present[k]:
                        _add(shape, vectors[k], counts[c], x, g, ridge)
            else:
                if rules.batches == ALLOCATED:
                    low, high = starts[place], starts[place + 1]
                    different = _tally(kind, members, low, high, tally, met)
                else:
                    low, high = _batch(rng, rules, order, step)
                    different = _tally(kind, order, low, high, tally, met)
                for j in range(d):
                    g[j] = shared * (high - low) * ridge[j] * x[j]
                for c in range(different):
                    k = met[c]
                    if present[k]:
                        _add(shape, vectors[k], tally[k], x, g, ridge)
                    tally[k] = 0
            _move(rng, scales[step], stds[step], rules, x, g)
