"""Reflection at one weight in every step of a stretch, from any distance, without composition.

With the constant weight g the lemma of `audit.bounds.own.coupling_curve` gives for one step

    H_(k+1)(r, g) <= E H_k(R, g),

R the distance after maximal reflection coupling from rho = c r + v: killed at 0, otherwise of
density N(r'; rho, 4 s^2) - N(r'; -rho, 4 s^2). Over several steps the bounds are iterated: two runs
that have met separate again by the next v, and go on. The law of the final distance does not
depend on g, so that one matrix serves all weights. On sampled batches a step is a mixture over
meetings. With a local distance z, everything beyond z behaves in this way: the excess over z grows
by at most v in a step, and reflection beyond z leaves it 0 or as above.

Distances are not rounded up to the rows of a grid, but land on them (`audit.bounds.own.landing`).

Rounding. Masses of bins are differences of tails, and these of a tail and its mirror image, which
is smaller by the factor e^(-1.6 rho/d) at least, d the deviation of the distance. The mean of a
function that rises with the distance is a sum of tails times its increments, so that its relative
error is that of the tails: some units times 1 + d/rho. All is positive: errors of steps add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.own.landing import landing, reflected, rising
from audit.bounds.own.options import DistanceGrid
from audit.bounds.own.stretches import Stretch
from audit.numerics.arrays import Array

_PER_DEVIATION = 5  # rows of the fine grid per deviation of a step
_FINEST = 8  # fine rows per row of the grid
# Tails err by 16 units each, and positions and the landing by as many.
_UNIT, _UNITS = 2.0**-53, 64


def reflected_steps(grid: DistanceGrid, stretch: Stretch) -> Array:
    """Return bounds on the law of the row after the stretch, from each row; shape (rows, rows).

    The rows are those of the distances, and the one above all others if there is one. A function
    that increases with the row has at most the mean under these masses.
    """
    log_c = math.log(stretch.contraction) / stretch.count
    noise = stretch.step_noise
    shift = stretch.shift
    if stretch.rate == 1 and stretch.meetings:
        uses = stretch.count if stretch.period == 1 else stretch.meetings
        shift /= float(geometric(log_c * stretch.period, uses))
    fine = math.ceil(_PER_DEVIATION * grid.top / (noise * grid.distances))
    fine = min(max(fine, 1), _FINEST) * grid.distances
    starts = math.exp(log_c) * grid.top * np.arange(fine + 1) / fine

    def step(rows: int, pushed: bool) -> Array:
        far = _landed(starts + shift * pushed, grid.top, rows, noise)
        if pushed and stretch.rate < 1:
            near = _landed(starts, grid.top, rows, noise)
            far = (1 - stretch.rate) * near + stretch.rate * far
        return _closed(far, grid.open_end)

    if stretch.rate == 1 and stretch.meetings == 0:
        before, last = _power(step(fine, False), stretch.count - 1), step(grid.distances, False)
    elif stretch.period == 1:
        before, last = _power(step(fine, True), stretch.count - 1), step(grid.distances, True)
    else:
        idle = _power(step(fine, False), stretch.period - 1)
        cycle = idle @ step(fine, True)
        before = _power(cycle, stretch.meetings - 1) @ idle
        last = step(grid.distances, True)
    kept = np.arange(0, fine + 1, fine // grid.distances)
    if grid.open_end:
        kept = np.append(kept, fine + 1)
    # what is apart at all is at least the push, or a row of the grid, apart
    least = float(np.min(np.append(starts[starts > 0], shift if shift > 0 else grid.top)))
    units = _UNITS * (1 + 2 * noise / least) + 2 * fine + 64
    return np.asarray((before[kept] @ last) * (1 + units * (stretch.count + 1) * _UNIT))


def _power(matrix: Array, exponent: int) -> Array:
    return np.asarray(np.linalg.matrix_power(matrix, exponent))


def _closed(masses: Array, open_end: bool) -> Array:
    """Return one-step masses with the mass beyond the last distance at the last row.

    With an open end that row is one of its own, which is not left again.
    """
    if not open_end:
        masses[:, -2] += masses[:, -1]
        return masses[:, :-1]
    return np.vstack([masses, np.eye(masses.shape[1])[-1:]])


def _landed(rho: Array, top: float, rows: int, noise: float) -> Array:
    """Return masses at ``rows + 1`` rows up to the top and beyond it, after one reflection."""
    divided = landing(top / rows, noise)
    edges = top * np.arange(rows + 1) / rows
    result = np.zeros((rho.size, rows + 2))
    result[:, 0], low, high, result[:, -1] = reflected(
        edges, rho, 2 * divided.first, divided.reached
    )
    result[:, :rows] += low
    result[:, 1 : rows + 1] += high
    return result


def lower(
    values: Array, result: Array, masses: Array, nears: Iterable[int], *, open_end: bool
) -> None:
    """Lower ``result`` to the cost of reflection through a stretch beyond each local distance.

    values: Bounds after the stretch, shape (rows, weights).
    result: Bounds before it, of the same shape.
    masses: Those of `reflected_steps`.
    nears: Rows of the local distances.
    open_end: Whether the last row stands for all larger distances; its bound is 1.
    """
    last = values.shape[0] - 1
    count = values.shape[0] - int(open_end)
    ordered = rising(values)
    for near in nears:
        ends = ordered[np.minimum(np.arange(last + 1) + near, last)]
        cost = masses[: count - near] @ ends
        np.minimum(result[near:count], cost, out=result[near:count])
