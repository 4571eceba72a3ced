"""Compiled loops of the coupling recursion: the options of one step, for all weights.

``table[i, middle + j]`` bounds H_k(r_i, e^(j h)) for every whole j from -middle to middle, with
``middle`` several times the number of weights. H is convex in the weight, so chords of the table
are bounds as well. It decreases in the weight, so the largest weight of the grid bounds all larger
ones, and it is at most 1, which bounds all below the grid's mirror image. An option that multiplies
weights by a constant is a shift along the grid, so the loops over j have no branches and no
logarithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audit.numerics.compiled import compiled, compiled_inline

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

PADDING = 4
"""Ratio of ``middle`` to the largest j of the grid."""


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
    source: Array, right: Array, left: Array, rest: float, stride: int, result: Array
) -> None:
    """Set ``result`` to the mean of H over a step's privacy loss.

    ``right[l]`` is the chance of the loss l stride h, which divides the weight by its exponential,
    ``left[l]`` that of its opposite, and ``rest`` that of an infinite one.
    """
    count = result.shape[0]
    middle = (source.shape[0] - 1) // 2
    for j in range(count):
        result[j] = rest
    _add_shifted(source, right, 0, middle, -stride, result)
    _add_shifted(source, left, 1, middle, stride, result)


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
def reflect(
    table: Array,
    near: int,
    far: Integers,
    right_mass: Array,
    left_mass: Array,
    largest: Array,
    powers: Integers,
    spacing: float,
    best: Array,
    result: Array,
) -> None:
    """Set ``result`` to the cost of reflection, each bin at the best of its local weights.

    Bin b holds the offsets beyond the midpoint in an interval: ``right_mass[b]`` of p and
    ``left_mass[b]`` of q there, and the mirror image on the other side. For a factor
    kappa = e^(k h), k in ``powers`` (rising from 0), of at most e^largest[b]: pairs at distance
    r_near and weight g/kappa take kappa q of the mass p on the right, and all the mass on the left;
    the rest of p is paired with the other side, at distance r_far[b], and all of what the budget
    there has left.
    """
    count = result.shape[0]
    middle = (table.shape[1] - 1) // 2
    reach = middle - count
    close = table[near]
    for j in range(count):
        result[j] = 0.0
    for b in range(right_mass.shape[0]):
        p, q = right_mass[b], left_mass[b]
        if p <= 0.0:
            continue
        apart = table[far[b]]
        for a in range(powers.shape[0]):
            kappa = np.exp(powers[a] * spacing)
            if a > 0 and (powers[a] * spacing > largest[b] or kappa * q > p or q < 1e-7 * p):
                break
            rest = max(p - kappa * q, 0.0)
            here = p + q - rest
            place, share = 0.0, 0.0
            if rest > 0.0:
                weight = (p - q / kappa) / rest
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
            first, second = middle - powers[a], middle + int(place)
            low, high = rest * (1 - share), rest * share
            # slices show the compiler that no index is negative, so that it makes vectors
            met = close[first : first + count]
            left, right = apart[second : second + count], apart[second + 1 : second + 1 + count]
            if a == 0:
                for j in range(count):
                    best[j] = here * met[j] + (low * left[j] + high * right[j])
            else:
                for j in range(count):
                    best[j] = min(best[j], here * met[j] + (low * left[j] + high * right[j]))
        for j in range(count):
            result[j] += best[j]


@compiled
def reflect_merged(
    table: Array, after: Array, far: Integers, right_mass: Array, left_mass: Array, result: Array
) -> None:
    """Set ``result`` to the cost of reflection over merged steps, at one weight.

    ``after`` is the cost of composition over the merged steps. What meets is charged ``after``;
    what stays apart is charged no less, so that the charge rises with the distance.
    """
    count = result.shape[0]
    middle = (table.shape[1] - 1) // 2
    for j in range(count):
        result[j] = 0.0
    for b in range(right_mass.shape[0]):
        p, q = right_mass[b], left_mass[b]
        apart = max(p - q, 0.0)
        met = p + q - apart
        source = table[far[b], middle : middle + count]
        for j in range(count):
            result[j] += met * after[j] + apart * max(source[j], after[j])


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
