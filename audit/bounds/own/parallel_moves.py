"""Bound `own.parallel_moves`: the least parameter of shifts is that of a weighted taut string.

From distance z_0 = d, step i brings the distance to at most c_i z_(i-1) + v_i, and a shift x_i of
the noise leaves z_i = c_i z_(i-1) + v_i - x_i >= 0, with z_k = 0. By Theorem 6 of "Our own
theorems" in the documentation the least mu^2 = sum of x_i^2/s_i^2 is the sum of rise^2/run over the
edges of a lower convex hull. For uses of the record at equal distances it has at most two vertices
besides its ends, so that it is the cheapest feasible one of four paths.

Coordinates and differences are products and sums of positive terms, with a relative error of some
units for each step, or in closed form; the page proves by how much costs are raised for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from audit.bounds.accounting.shift_allocation import geometric, smallest
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

_UNIT = 2.0**-53
_CLOSED = 1024 * _UNIT  # exponentials of up to -700, and quotients of their differences


@bound("own.parallel_moves")
def parallel_moves(mechanism: NoisySGD) -> PrivacyCurve:
    """Return G(mu) with the least mu of shifts that couple the last k steps, at the best k.

    v_j is eta S/b in the steps that use the record, the last step and one in each cycle before, and
    0 in the others; d_k is a bound on the distance of the two runs before the last k steps. On
    cyclic batches mu is never above that of Theorems 4.4 to 4.6 of Bok, Su and Altschuler (2024),
    nor above that of Chien and Li (2025, Theorem A.1), and needs no whole number of epochs. On full
    batches it is that of Theorem 3.3 of Bok, Su and Altschuler.
    """
    return GaussianCurve(least_mu(WorstRun.of(mechanism)))


def _raised(steps: ArrayLike, error: float) -> Array:
    return np.asarray(1 + 8 * error * (1 + np.sqrt(np.asarray(steps, dtype=np.float64))))


def lower_hull(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the lower convex hull of points with increasing abscissas."""
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull


def taut_string(points: Iterable[tuple[float, float]]) -> float:
    """Return the sum of rise^2/run over the lower convex hull of (0, 0) and ``points``."""
    hull = lower_hull([(0.0, 0.0), *points])
    return sum((y1 - y0) ** 2 / (x1 - x0) for (x0, y0), (x1, y1) in itertools.pairwise(hull))


def least_square(
    start: float, contractions: Sequence[float], shifts: Sequence[float], noises: Sequence[float]
) -> float:
    """Return the least mu^2 of parallel moves from a distance, for any schedule.

    start: Distance d at the start.
    contractions, shifts, noises: c_i > 0, v_i and s_i of each step, in the order of time.

    Returns: The sum of x_i^2/s_i^2, raised by what rounding can do for c_i <= 1.
    """
    factors = np.append(np.cumprod(np.asarray(contractions, dtype=np.float64)[::-1])[::-1], 1.0)
    weights = factors[1:]
    taus = np.cumsum((weights * np.asarray(noises, dtype=np.float64)) ** 2)
    heights = factors[0] * start + np.cumsum(weights * np.asarray(shifts, dtype=np.float64))
    return taut_string(zip(taus.tolist(), heights.tolist(), strict=True)) * float(
        _raised(taus.size, (64 + 4 * taus.size) * _UNIT)
    )


def cyclic_squares(run: WorstRun, lengths: ArrayLike, starts: ArrayLike) -> Array:
    """Return the least mu^2 of parallel moves over the last steps of a run, in closed form.

    run: The run. Its record is used in the last step, and every ``period`` steps before.
    lengths: Numbers k of steps, at least 1.
    starts: Distances d before them, of a shape that broadcasts with ``lengths``.

    Returns: Values of mu^2, raised by what rounding can do.
    """
    k, d = np.broadcast_arrays(
        np.asarray(lengths, dtype=np.float64), np.asarray(starts, dtype=np.float64)
    )
    period, v = run.period, run.shift
    log_c = run.log_contraction
    kept = np.exp(log_c * k) * d
    met = np.ceil(k / period)
    # the first point besides the start, counted from the end; 0 if there is none
    first = np.where(k > (met - 1) * period + 1, met, met - 1)
    inner = np.maximum(first, 1)
    left = (inner - 1) * period + 1  # steps after it
    own = v * np.exp(log_c * period * inner)  # of a use at the start, before the first point
    one, more = np.array(1.0), (inner - 1) * period
    rises = (
        kept + np.where(met > inner, own, 0.0),
        v * math.exp(log_c * period) * geometric(log_c * period, inner - 1),
        np.full_like(k, v),
    )
    runs = (
        np.exp(2 * log_c * left) * geometric(2 * log_c, np.maximum(k - left, 0)),
        math.exp(2 * log_c) * geometric(2 * log_c, more),
        np.full_like(k, one),
    )
    costs = np.where(first > 0, _least_of_paths(rises, runs), np.inf)
    straight = (kept + v * geometric(log_c * period, met)) ** 2 / geometric(2 * log_c, k)
    costs = np.where(first > 0, costs, straight)
    return np.asarray(costs * _raised(k, _CLOSED) / run.noise**2)


def _least_of_paths(rises: tuple[Array, Array, Array], runs: tuple[Array, Array, Array]) -> Array:
    """Return the least cost of the feasible paths from 0 by B and C, or past them, to the end."""
    (a, b, c), (p, q, r) = rises, runs

    def cost(rise: Array, run: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(rise > 0, rise * (rise / run), 0.0)

    # (rise, run) is not below the chord to its sum with (rise', run') if its slope is not less
    past_first = a * (q + r) >= (b + c) * p
    both = cost(a, p) + cost(b, q) + cost(c, r)
    no_last = np.where(b * r >= c * q, cost(a, p) + cost(b + c, q + r), np.inf)
    no_first = np.where(a * q >= b * p, cost(a + b, p + q) + cost(c, r), np.inf)
    none = past_first & ((a + b) * r >= c * (p + q))
    neither = np.where(none, cost(a + b + c, p + q + r), np.inf)
    return np.minimum(np.minimum(both, no_last), np.minimum(no_first, neither))


def least_mu(run: WorstRun) -> float:
    """Return the least parameter of parallel moves over the last k steps of a run, at the best k.

    The distance before them is at most that of `WorstRun.tracked`, which grows with the uses of the
    record alone, so that only k that begin just after one, and k = T, can be best. Of many k not
    all are tried; every k gives a bound.
    """
    period, steps = run.period, run.steps
    whole = float(cyclic_squares(run, steps, 0.0))
    if steps <= period:
        return math.sqrt(whole)

    def cost(cycles: Array) -> Array:
        lengths = np.minimum(cycles * period, steps)
        return cyclic_squares(run, lengths, run.tracked(steps - lengths))

    return math.sqrt(min(whole, smallest(cost, (steps - 1) // period)[0]))
