"""Compiled loops of the bounds by shifts and couplings.

The coupling recursion: the options of one step, for all weights.
``table[i, middle + j]`` bounds H_k(r_i, e^(j h)) for every whole j from -middle to middle, with
``middle`` several times the number of weights. H is convex in the weight, so chords of the table
are bounds as well. It decreases in the weight, so the largest weight of the grid bounds all larger
ones, and it is at most 1, which bounds all below the grid's mirror image. An option that multiplies
weights by a constant is a shift along the grid, so the loops over j have no branches and no
logarithms.

Shifts for any modulus of continuity (`audit.bounds.own.moves`): a run's distances and costs.
"""

from __future__ import annotations

import math

import numpy as np

from audit.numerics.arrays import Array, Integers
from audit.numerics.compiled import compiled, compiled_inline, compiled_loop

PADDING = 4
"""Ratio of ``middle`` to the largest j of the grid."""
_ROUND_UP = 1 + 64 * 2.0**-53  # roundings of one step: products, a root or a power, and sums
_TRACKED_STEPS = 1 << 25  # steps over which distances grow one by one

_Step = tuple[float, float, float, float, float, float, float]  # modulus, push and speed


@compiled
def mirror(values: Array, growth: Array, table: Array) -> None:
    """Fill a table from the bounds for weights of at least 1, ``values[i, j]``.

    E_g(P || Q) = 1 - g + g E_(1/g)(Q || P), and H bounds both orders.
    """
    rows, count = values.shape
    top = count - 1
    middle = (table.shape[1] - 1) // 2
    for i in range(rows):
        for j in range(count):
            table[i, middle + j] = values[i, j]
        for j in range(1, count):
            table[i, middle - j] = 1.0 - (1.0 - values[i, j]) / growth[j]
        for j in range(count, middle + 1):
            table[i, middle + j] = values[i, top]
            table[i, middle - j] = 1.0


@compiled
def weigh(
    source: Array, right: Array, left: Array, rest: float, stride: int, first: int, result: Array
) -> None:
    """Set ``result`` to the mean of H over a step's privacy loss, from weight ``first`` on.

    ``right[l]`` is the chance of the loss l stride h, which divides the weight by its exponential,
    ``left[l]`` that of its opposite, and ``rest`` that of an infinite one.
    """
    count = result.shape[0]
    start = (source.shape[0] - 1) // 2 + first
    for j in range(count):
        result[j] = rest
    _add_shifted(source, right, 0, start, -stride, result)
    _add_shifted(source, left, 1, start, stride, result)


@compiled_inline
def _add_shifted(
    source: Array, chances: Array, begin: int, start: int, stride: int, result: Array
) -> None:
    """Add ``source`` from ``start + k stride`` on, times ``chances[k]``, for k from ``begin`` on.

    Four at a time. Slices show the compiler that no index is negative, so that it makes vectors.
    """
    count = result.shape[0]
    k = begin
    while k + 4 <= chances.shape[0]:
        c0, c1, c2, c3 = chances[k], chances[k + 1], chances[k + 2], chances[k + 3]
        at = start + k * stride
        s0 = source[at : at + count]
        s1 = source[at + stride : at + stride + count]
        s2 = source[at + 2 * stride : at + 2 * stride + count]
        s3 = source[at + 3 * stride : at + 3 * stride + count]
        for j in range(count):
            result[j] += (c0 * s0[j] + c1 * s1[j]) + (c2 * s2[j] + c3 * s3[j])
        k += 4
    while k < chances.shape[0]:
        c0 = chances[k]
        s0 = source[start + k * stride : start + k * stride + count]
        for j in range(count):
            result[j] += c0 * s0[j]
        k += 1


@compiled
def reflection_terms(
    right: Array,
    left: Array,
    right_low: Array,
    left_low: Array,
    largest: Array,
    powers: Integers,
    spacing: float,
    reach: int,
) -> tuple[Integers, Integers, Array]:
    """Return the terms of a reflection's cost that do not depend on the table.

    Bin b holds the offsets beyond the midpoint in an interval: ``right[b]`` of p and ``left[b]`` of
    q there, and the mirror image on the other side. For a factor kappa = e^(k h), k in ``powers``
    (rising from 0), of at most e^largest[b]: pairs at the near distance and weight g/kappa take
    kappa q of the mass p on the right, and all the mass on the left; the rest of p is paired with
    the other side, at a far distance, and all of what the budget there has left. ``right_low`` and
    ``left_low`` are the integrals of (1 - x)(1 - k) over p, from below, and over q, from above
    (`audit.bounds.own.stretches`); x of a pair is the mean of those of its two points.

    Returns begins: First term of each bin, and the number of terms.
    Returns shifts: Shifts along the grid of the near and of the far weights, per term.
    Returns masses: Masses at the near distance; at the upper far one and both weights around that
        of the rest; and at the lower far one, likewise.
    """
    bins = right.shape[0]
    begins = np.zeros(bins + 1, np.int64)
    shifts = np.empty((bins * powers.shape[0], 2), np.int64)
    masses = np.empty((bins * powers.shape[0], 5))
    n = 0
    for b in range(bins):
        begins[b] = n
        p, q = right[b], left[b]
        if p <= 0.0:
            continue
        for a in range(powers.shape[0]):
            kappa = np.exp(powers[a] * spacing)
            if a > 0 and (powers[a] * spacing > largest[b] or kappa * q > p or q < 1e-7 * p):
                break
            rest = max(p - kappa * q, 0.0)
            place, share, down = 0.0, 0.0, 0.0
            if rest > 0.0:
                budget = p - q / kappa
                weight = budget / rest
                if weight <= 0.0:
                    place = -float(reach)
                else:
                    place = np.floor(np.log(weight) / spacing)
                    if place >= reach - 1:
                        place = float(reach - 1)
                    elif place <= -reach:
                        place = -float(reach)
                    else:
                        share = (weight * np.exp(-place * spacing) - 1) / np.expm1(spacing)
                        share = min(max(share, 0.0), 1.0)
                    mine = min(max((right_low[b] - kappa * left_low[b]) / rest, 0.0), 1.0)
                    other = min(max((right_low[b] - left_low[b] / kappa) / budget, 0.0), 1.0)
                    down = rest * (mine + other) / 2
            up = rest - down
            shifts[n, 0], shifts[n, 1] = -powers[a], int(place)
            masses[n, 0] = p + q - rest
            masses[n, 1], masses[n, 2] = up * (1 - share), up * share
            masses[n, 3], masses[n, 4] = down * (1 - share), down * share
            n += 1
    begins[bins] = n
    return begins, shifts[:n].copy(), masses[:n].copy()


@compiled_inline
def _add_term(
    close: Array,
    above: Array,
    below: Array,
    shift: Integers,
    mass: Array,
    low: int,
    high: int,
    least: bool,
    result: Array,
) -> None:
    """Add a term of a reflection's cost at some weights, or lower ``result`` to it if ``least``."""
    middle = (close.shape[0] - 1) // 2
    count = high - low
    first, second = middle + low + shift[0], middle + low + shift[1]
    m, h0, h1, l0, l1 = mass[0], mass[1], mass[2], mass[3], mass[4]
    # slices show the compiler that no index is negative, so that it makes vectors
    met, values = close[first : first + count], result[low:high]
    a0, a1 = above[second : second + count], above[second + 1 : second + 1 + count]
    b0, b1 = below[second : second + count], below[second + 1 : second + 1 + count]
    if least:
        for j in range(count):
            apart = (h0 * a0[j] + h1 * a1[j]) + (l0 * b0[j] + l1 * b1[j])
            values[j] = min(values[j], m * met[j] + apart)
    else:
        for j in range(count):
            apart = (h0 * a0[j] + h1 * a1[j]) + (l0 * b0[j] + l1 * b1[j])
            values[j] += m * met[j] + apart


@compiled
def reflect(
    table: Array,
    near: int,
    far: Integers,
    begins: Integers,
    shifts: Integers,
    masses: Array,
    low: int,
    high: int,
    longest: int,
    result: Array,
) -> None:
    """Set ``result`` to the cost of reflection, for the weights from ``low`` to before ``high``.

    ``far[b]`` is the upper far distance of bin b; `reflection_terms` returns its terms. With
    ``longest`` = 0 a bin is taken at its best term at each weight. Otherwise it is taken at the
    term that is the best in the middle of a block of weights. Blocks are short near weight 1, where
    the best term changes fastest, and have up to ``longest`` weights.
    """
    middle = (table.shape[1] - 1) // 2
    close = table[near]
    best = np.empty(high if longest == 0 else 0)
    for j in range(low, high):
        result[j] = 0.0
    for b in range(far.shape[0]):
        if begins[b] == begins[b + 1]:
            continue
        above, below = table[far[b]], table[far[b] - 1]
        if longest == 0:
            for j in range(low, high):
                best[j] = np.inf
            for t in range(begins[b], begins[b + 1]):
                _add_term(close, above, below, shifts[t], masses[t], low, high, True, best)
            for j in range(low, high):
                result[j] += best[j]
            continue
        begin, block, chosen = low, low, -1
        while begin < high:
            following = min(block + min(1 + block // 3, longest), high)
            first, least = -1, np.inf
            if block < high:
                first, last = begins[b], begins[b + 1]
                if chosen >= 0:  # the best term moves little from block to block
                    first, last = max(first, chosen - 2), min(last, chosen + 3)
                j = middle + (block + following) // 2
                for t in range(first, last):
                    at = j + shifts[t, 1]
                    cost = masses[t, 0] * close[j + shifts[t, 0]]
                    cost += masses[t, 1] * above[at] + masses[t, 2] * above[at + 1]
                    cost += masses[t, 3] * below[at] + masses[t, 4] * below[at + 1]
                    if cost < least:
                        first, least = t, cost
            if first != chosen:
                if chosen >= 0:
                    shift, mass = shifts[chosen], masses[chosen]
                    _add_term(close, above, below, shift, mass, begin, block, False, result)
                begin, chosen = block, first
            block = following


@compiled
def split(first: Array, second: Array, rate: float, weights: Array, result: Array) -> None:
    """Set ``result`` to the smallest (1 - p) A(g_1) + p B(g_2), (1 - p) g_1 + p g_2 = g, g_1 <= g.

    A = ``first``, B = ``second`` and ``result`` are given at ``weights`` and are read as chords
    between them; p = ``rate``. Both are made convex first (an envelope of bounds on a convex
    function is a bound); segments are then laid end to end from the largest weights on, the
    flattest first, which is the best split. Where it has g_1 > g, which is not allowed, the best
    one has g_1 = g_2 = g, since the cost is convex along all splits.
    """
    count = weights.shape[0]
    hulls = np.empty((2, count), np.int64)
    sizes = np.empty(2, np.int64)
    for which in range(2):
        source = first if which == 0 else second
        size = 0
        for j in range(count):
            while size >= 2:
                a, b = hulls[which, size - 2], hulls[which, size - 1]
                rise = (source[b] - source[a]) * (weights[j] - weights[a])
                if rise >= (source[j] - source[a]) * (weights[b] - weights[a]):
                    size -= 1
                else:
                    break
            hulls[which, size] = j
            size += 1
        sizes[which] = size
    at_a, at_b = sizes[0] - 1, sizes[1] - 1
    g = (1 - rate) * weights[hulls[0, at_a]] + rate * weights[hulls[1, at_b]]
    value = (1 - rate) * first[hulls[0, at_a]] + rate * second[hulls[1, at_b]]
    j = count - 1
    while j >= 0 and weights[j] >= g:
        result[j] = value
        j -= 1
    while j >= 0 and (at_a > 0 or at_b > 0):
        slope_a, slope_b = -np.inf, -np.inf
        if at_a > 0:
            low, high = hulls[0, at_a - 1], hulls[0, at_a]
            slope_a = (first[high] - first[low]) / (weights[high] - weights[low])
        if at_b > 0:
            low, high = hulls[1, at_b - 1], hulls[1, at_b]
            slope_b = (second[high] - second[low]) / (weights[high] - weights[low])
        if slope_a >= slope_b:
            at_a -= 1
        else:
            at_b -= 1
        # never by subtraction: the weights span many orders of magnitude
        lower = (1 - rate) * weights[hulls[0, at_a]] + rate * weights[hulls[1, at_b]]
        above = (1 - rate) * first[hulls[0, at_a]] + rate * second[hulls[1, at_b]]
        second_here = weights[hulls[1, at_b]] if slope_a >= slope_b else 0.0
        first_here = weights[hulls[0, at_a]] if slope_a < slope_b else np.inf
        while j >= 0 and weights[j] >= lower:
            # on a segment of A the weight g_2 is fixed, on one of B the weight g_1
            allowed = second_here >= weights[j] or first_here <= weights[j]
            if allowed:
                result[j] = value + (above - value) * (g - weights[j]) / (g - lower)
            else:
                result[j] = (1 - rate) * first[j] + rate * second[j]
            j -= 1
        g, value = lower, above
    while j >= 0:
        result[j] = 1.0
        j -= 1


@compiled_loop
def _reach(step: _Step, z: float) -> float:
    """Return the largest distance after a step's updates, min(w(z) + push, z + speed)."""
    factor, jump, scale, square, order, push, speed = step
    if z <= 0:
        return push
    w = min(factor * z, z + jump)
    if scale < math.inf:
        w = min(w, z + scale * z**order)
    return min(min(w, math.sqrt(z * z + square)) + push, z + speed)


@compiled_loop
def _slope(step: _Step, z: float) -> float:
    """Return the derivative of `_reach` at z > 0."""
    factor, _, scale, square, order, push, _ = step
    reach = _reach(step, z)
    if reach == factor * z + push:
        return factor
    if reach == math.sqrt(z * z + square) + push:
        return z / math.sqrt(z * z + square)
    if scale < math.inf and reach == z + scale * z**order + push:
        return float(1 + scale * order * z ** (order - 1))
    return 1.0


@compiled_loop
def _before(step: _Step, reach: float) -> float:
    """Return the largest distance from which a step reaches at most ``reach``, up to rounding."""
    factor, jump, scale, square, order, push, speed = step
    y = reach - push
    distance = max(y - jump, reach - speed)
    if factor < math.inf:
        distance = max(distance, y / factor)
    if y > 0 and y * y > square:
        distance = max(distance, math.sqrt(y * y - square))
    if scale < math.inf and y > 0:
        z = min(y / 2, (y / (2 * scale)) ** (1 / order)) if scale > 0 else y
        for _ in range(60):  # from the left, where tangents of the concave function end below y
            if not z > 0:
                break
            gain = (y - z - scale * z**order) / (1 + scale * order * z ** (order - 1))
            z += max(gain, 0.0)
            if gain <= 1e-14 * z:
                break
        distance = max(distance, z)
    return max(distance, 0.0)


@compiled_loop
def track(
    free: _Step, met: _Step, steps: int, period: int, diameter: float, distances: Array
) -> None:
    """Fill ``distances[k]`` with a bound on the distance before the last k steps."""
    longest = distances.size - 1
    z, t, stable = 0.0, 0, 0
    while True:
        left = steps - t
        if left <= longest:
            distances[left] = z
        if left == 0:
            return
        if t == _TRACKED_STEPS:
            distances[:left] = diameter
            return
        before = z
        z = min(_reach(met if (left - 1) % period == 0 else free, z) * _ROUND_UP, diameter)
        stable = stable + 1 if z == before and t > 0 else 0
        t += 1
        if stable > period:  # nothing changes any more
            t = max(t, steps - longest)


@compiled_loop
def paid(
    free: _Step,
    met: _Step,
    period: int,
    diameter: float,
    first: int,
    before: float,
    limit: float,
    distances: Array,
    sizes: Array,
) -> float:
    """Return the cost of the shifts that leave ``before`` at the last of them.

    That step is followed by ``first`` others. The shifts are found backwards, with
    x_i = x_(i+1) w'(z_i), until they begin at ``distances[k]``, k steps before the end; then they
    are paid forwards. The cost is infinite where it exceeds ``limit``.
    """
    z = before
    step = met if first % period == 0 else free
    price = _reach(step, z)
    spent = price * price
    price *= _slope(step, z)
    left = first + 1
    while not z >= distances[left]:
        if left + 1 == distances.size or spent > limit or not z > 0:
            return math.inf
        step = met if left % period == 0 else free
        z = _before(step, z + price)
        sizes[left] = price
        spent += price * price
        price = min(price * _slope(step, z), 1e150) if z > 0 else 0.0
        left += 1
    z, total = distances[left], 0.0
    for b in range(left - 1, first - 1, -1):
        reach = _reach(met if b % period == 0 else free, z) * _ROUND_UP
        size = reach if b == first else min(sizes[b], reach)
        total += size * size
        z = min((reach - size) * _ROUND_UP + 1e-15 * reach, diameter) if size < reach else 0.0
    return total
