"""Bound `own.parallel_moves`: the least parameter of shifts is that of a weighted taut string.

From distance z_0 = d, step i brings the distance to at most c_i z_(i-1) + v_i. A parallel move
shifts the noise of one run by x_i, which costs the Gaussian parameter x_i/s_i and leaves

    z_i = c_i z_(i-1) + v_i - x_i >= 0,   z_k = 0.

The parameters of the steps add up in squares, so that two runs of k steps from starts at most d
apart have a tradeoff function of at least G(mu), mu^2 = sum of x_i^2/s_i^2, for every choice of the
x_i (Bok, Su and Altschuler 2024, Theorem 3.3).

Theorem. Let all c_i > 0, w_i = c_(i+1) ... c_k, tau_i = sum over j <= i of w_j^2 s_j^2, and
V_i = w_0 d + sum over j <= i of w_j v_j. The least mu^2 is the sum of rise^2/run over the edges of
the lower convex hull of the points (0, 0), (tau_1, V_1), ..., (tau_k, V_k).

Proof. Let U_i = sum over j <= i of w_j x_j. Then w_i z_i = V_i - U_i, so that the conditions are
U_i <= V_i and U_k = V_k, and the cost is the sum of (U_i - U_(i-1))^2/(tau_i - tau_(i-1)). Let
h_i be the height of the hull at tau_i; its end is V_k, as tau_k is the largest abscissa, and its
beginning is 0, as no V_i is negative. So U = h satisfies the conditions. Let
g_i = (h_i - h_(i-1))/(tau_i - tau_(i-1)) be its slopes, which do not decrease. For any other U
that satisfies them, since a^2 >= b^2 + 2 b (a - b), its cost exceeds that of h by at least

    2 sum of g_i ((U - h)_i - (U - h)_(i-1)) = -2 sum over i < k of (g_(i+1) - g_i) (U - h)_i,

by summation by parts, with (U - h)_0 = (U - h)_k = 0. Where g_(i+1) > g_i the hull has a vertex, so
that h_i = V_i >= U_i, and the term is not negative; the others vanish. QED

Only points just before a positive v_i can be vertices, besides the two ends: between two of them
V is constant and tau increases.

Corollary. Let c <= 1 and s be constant, with v_i = v in the last step and in every l-th step before
it, and 0 in the others. Count the points just before v from the end, m = 1, 2, .... The hull has no
vertices besides the ends, m = 1 and the first of the points in the last k steps.

Proof. From point m + 1 to point m, V rises by c^(l m) v, and tau by s^2 c^(2 (m - 1) l + 2)
(1 + c^2 + ... + c^(2 (l - 1))). The ratio is a constant times c^(-l m), which does not increase in
time: the points are on a concave chain, of which only the two ends can be vertices. QED

Of the four paths through these two points, through one or through none, those that are nowhere
above a point are feasible, and the hull is one of them. So the least cost of the feasible ones is
the optimum, in closed form.

Rounding. All coordinates, and differences of them, are computed as products and sums of positive
terms, to a relative error of at most e = 1e-13. Let (tau', V') be computed, and U' a path that is
feasible for them. Then (1 - e) U', with what is missing at the end, at most 2 e V'_k, added to its
last edge of run r and slope g, is feasible for the true ones. Its cost is larger by a factor of at
most 1 + e, and by 4 e V'_k g (1 + e V'_k/(r g)). Since the cost is at least r g^2 and at least
V'_k^2/tau'_k, this is at most 4 e sqrt(tau'_k/r) (1 + ...) of it, and tau'_k/r <= k for c <= 1.
Costs are raised by 8 e (1 + sqrt(k)), relative.
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

_ERROR = 1e-13


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


def _raised(steps: ArrayLike) -> Array:
    return np.asarray(1 + 8 * _ERROR * (1 + np.sqrt(np.asarray(steps, dtype=np.float64))))


def taut_string(points: Iterable[tuple[float, float]]) -> float:
    """Return the sum of rise^2/run over the lower convex hull of (0, 0) and ``points``.

    The abscissas must be positive and increase; the hull ends at the last point.
    """
    hull = [(0.0, 0.0)]
    for x, y in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
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
        _raised(taus.size)
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
    log_c = math.log1p(-run.gap) if run.gap < 1 else -700.0
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
    return np.asarray(costs * _raised(k) / run.noise**2)


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
