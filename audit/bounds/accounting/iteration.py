"""Privacy amplification by iteration: the best allocation of shifts to steps.

Two noisy iterations use maps that differ by at most s_t at step t, contract by c, and add noise
N(0, std_t^2 I). For every allocation a_t with

    z_t = c z_{t-1} + s_t - a_t >= 0,   z_tau = D,   z_T = 0,

the Renyi divergence of order alpha is at most (alpha/2) sum a_t^2/std_t^2 (Feldman et al. 2018,
Theorem 22, for c = 1 and D = 0; Altschuler and Talwar 2022, Propositions 2.17, 3.2 and 5.4). The
best allocation is a shortest path below the line of shifts that were made: the greatest convex
minorant of the points (sum of std^2, sum of s), with all lengths of step t scaled by c^(T - t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.bounds.accounting.shift_allocation import MIN_LOG, geometric, smallest
from audit.bounds.accounting.update import checked_index, checked_tau
from audit.bounds.assumptions import ROUNDING, constant_step_size
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

_MAX_SHIFTS = 10**6  # shifts of all places together
_MAX_CUTS = 200  # missing a start loosens the bound; it stays valid
LONGEST = 10_000
"""Number of last steps that are searched one by one for the start of an allocation."""


def allocation_cost(
    allocations: ArrayLike,
    shifts: ArrayLike,
    stds: ArrayLike,
    *,
    distance: float = 0.0,
    contraction: float = 1.0,
) -> float:
    """Return sum a_t^2/std_t^2 of a given allocation."""
    a, s, std = (
        _row(name, values)
        for name, values in (("allocations", allocations), ("shifts", shifts), ("stds", stds))
    )
    if not a.size == s.size == std.size:
        raise ValueError(
            f"allocations must have one value per step ({s.size} shifts, {std.size} noises), "
            f"got {a.size}"
        )
    z, scale = distance, max(distance, float(np.max(s, initial=0.0)))
    scale += float(np.sum(s)) if contraction <= 1 else 0.0
    for t in range(a.size):
        z = contraction * z + float(s[t]) - float(a[t])
        if z < -ROUNDING * scale:
            raise ValueError(f"allocations must leave z_t >= 0, got z_{t + 1} = {z:g}")
    if abs(z) > ROUNDING * scale * a.size:
        raise ValueError(f"allocations must end at z_T = 0, got {z:g}")
    return float(np.sum((a / std) ** 2))


def _row(name: str, values: ArrayLike) -> Array:
    array = validate.sample(**{name: values})
    if name == "stds":
        validate.positive(stds=float(np.min(array)))
    if name == "shifts":
        validate.nonnegative(shifts=float(np.min(array)))
    return array


def best_cost(
    shifts: ArrayLike,
    stds: ArrayLike,
    *,
    distance: float | None = None,
    contraction: float = 1.0,
) -> float:
    """Return the least sum a_t^2/std_t^2 over all allocations."""
    s, std = _row("shifts", shifts), _row("stds", stds)
    if s.size != std.size:
        raise ValueError(f"shifts must have one value per step ({std.size}), got {s.size}")
    validate.closed_unit(contraction=contraction)
    if contraction == 0:
        return float(s[-1] / std[-1]) ** 2  # the last step removes all earlier information
    longest = s.size if distance is None else LONGEST
    if contraction < 1:  # lengths at time t are scaled by c^(T - t), which is kept down to e^-200
        longest = min(longest, max(1, math.floor(-200 / math.log(contraction))))
    if distance is None and longest < s.size:
        raise ValueError(
            f"shifts must be at most {longest} without a distance for "
            f"contraction={contraction!r}, got {s.size}"
        )
    s, std = s[-longest:], std[-longest:]
    scale = np.exp(math.log(contraction) * np.arange(s.size - 1, -1, -1))
    rises, widths = s * scale, (std * scale) ** 2
    if distance is None:
        return float(np.sum(widths * _slopes(rises, widths) ** 2))
    drops = distance * contraction ** np.arange(s.size, 0, -1, dtype=np.float64)
    return _cheapest_start(rises, widths, drops)


def _slopes(rises: Array, widths: Array) -> Array:
    """Return the slopes of the greatest convex minorant of the cumulative points."""
    from scipy.optimize import isotonic_regression  # slow to import, and rarely needed

    return np.asarray(isotonic_regression(rises / widths, weights=widths).x)


def _cheapest_start(rises: Array, widths: Array, drops: Array) -> float:
    """Return the least cost of a path that starts ``drops[k]`` below point k, over all k.

    A relaxed path costs too little: at first every start may go straight to the end. The cheapest
    start is then solved exactly. Where its path leaves the straight line, at point p, convexity
    gives a lower bound on the remaining cost of every path through p or below, and so on the cost
    of every earlier start. The search ends when no lower bound is below the best cost found.
    """
    x, y = (np.concatenate([[0.0], np.cumsum(lengths)]) for lengths in (widths, rises))
    low, start = y[:-1] - drops, x[:-1]
    promised = (y[-1] - low) ** 2 / (x[-1] - start)
    best = math.inf
    for _ in range(_MAX_CUTS):
        k = int(np.argmin(promised))
        if promised[k] >= best * (1 - 1e-13):
            break
        own = rises[k:].copy()
        own[0] += drops[k]
        slopes = _slopes(own, widths[k:])
        costs = widths[k:] * slopes**2
        best = min(best, float(np.sum(costs)))
        promised[k] = np.inf  # solved
        first = int(np.searchsorted(slopes, slopes[0], side="right"))
        if first < slopes.size:
            p = k + first
            slope, rest = slopes[first], float(np.sum(costs[first:]))
            reach = np.minimum(y[p] - low[:p], slope * (x[p] - start[:p]))
            least = reach**2 / (x[p] - start[:p]) + rest + 2 * slope * (y[p] - low[:p] - reach)
            promised[:p] = np.maximum(promised[:p], least)
    return best


def visits_cost(
    shift: float, std: float, steps: int, period: int, *, distance: float, contraction: float = 1.0
) -> float:
    """Return `best_cost` with a distance if only steps T, T - l, T - 2l, ... have a shift.

    The best start lies just after such a step, or at time 0.
    """
    log_c = math.log(contraction) if contraction > 0 else MIN_LOG

    def cost(cycles: Array) -> Array:
        return cyclic_squares(shift, log_c, period, np.minimum(cycles * period, steps), distance)

    return smallest(cost, -(-steps // period))[0] / std**2


def cyclic_squares(
    shift: float, log_contraction: float, period: int, lengths: ArrayLike, starts: ArrayLike
) -> Array:
    """Return the least sums of a_t^2 over the last steps of a run, one in ``period`` with a shift.

    The last step has a shift. In the scaled lengths the states just before such steps lie on a
    concave chain (a line where c = 1), so that the minorant has at most two vertices besides its
    ends, and is the cheapest feasible one of four paths.

    lengths: Numbers k of steps, at least 1.
    starts: Distances before them, of a shape that broadcasts with ``lengths``.
    """
    k, d = np.broadcast_arrays(
        np.asarray(lengths, dtype=np.float64), np.asarray(starts, dtype=np.float64)
    )
    log_c = log_contraction
    kept = np.exp(log_c * k) * d
    met = np.ceil(k / period)
    # the first point besides the start, counted from the end; 0 if there is none
    first = np.where(k > (met - 1) * period + 1, met, met - 1)
    inner = np.maximum(first, 1)
    left = (inner - 1) * period + 1  # steps after it
    own = shift * np.exp(log_c * period * inner)  # shift of a use before the first point
    rises = (
        kept + np.where(met > inner, own, 0.0),
        shift * math.exp(log_c * period) * geometric(log_c * period, inner - 1),
        np.full_like(k, shift),
    )
    runs = (
        np.exp(2 * log_c * left) * geometric(2 * log_c, np.maximum(k - left, 0)),
        math.exp(2 * log_c) * geometric(2 * log_c, (inner - 1) * period),
        np.ones_like(k),
    )
    straight = (kept + shift * geometric(log_c * period, met)) ** 2 / geometric(2 * log_c, k)
    return np.where(first > 0, _least_of_paths(rises, runs), straight)


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


def record_shifts(mechanism: NoisySGD, count: int) -> tuple[Array, ...]:
    """Return by how much the maps of the last ``count`` steps can differ, per record position.

    eta_t S/b where the record can be in the batch. For a constant step size the worst place in a
    cycle is the last step's batch: for any other, every shift comes earlier, and an allocation for
    the last batch remains possible. Where step sizes vary any batch may be the worst, and all are
    returned; or, if they are many, one array that lets the record be in every batch. Batches drawn
    at random are coupled, and the record may be in each.
    """
    sizes = mechanism.step_sizes[mechanism.steps - count :]
    shift = np.asarray(sizes * (mechanism.sensitivity / mechanism.batch_size))
    if not mechanism.batching.repeats:
        return (shift,)
    period = mechanism.dataset_size // mechanism.batch_size
    back = np.arange(count)[::-1] % period
    places = [0] if np.ptp(sizes) == 0 else list(range(min(period, count)))
    if len(places) * count > _MAX_SHIFTS:
        return (shift,)
    return tuple(np.where(back == place, shift, 0.0) for place in places)


def record_place(mechanism: NoisySGD, index: int | None) -> tuple[int, int]:
    """Return the number of batches from the record's to the end of its cycle, and the cycle."""
    period = mechanism.dataset_size // mechanism.batch_size
    if index is None:
        return 1, period
    return period - (checked_index(mechanism, index) - 1) // mechanism.batch_size, period


def cycle_cost(mechanism: NoisySGD, index: int | None) -> float:
    """Return the best sum a_t^2/std^2 over all steps, for a constant step size.

    A record that is visited V times, the last time r steps before the end (inclusive), costs s^2
    ((V - 1)/l + 1/r) over cycles of l batches. By default it is in the last batch.
    """
    steps, b = mechanism.steps, mechanism.batch_size
    square = (mechanism.sensitivity / (b * mechanism.noise_std)) ** 2
    if not mechanism.batching.repeats:
        return steps * square
    period = mechanism.dataset_size // b
    last = (steps - 1) % period + 1 if index is None else (index - 1) // b + 1
    visits = (steps - last) // period + 1
    if visits < 1:
        return 0.0  # never used
    remaining = steps - last - (visits - 1) * period + 1
    return ((visits - 1) / period + 1 / remaining) * square


def _steps_from(
    mechanism: NoisySGD,
    shifts: Sequence[float] | None,
    count: int,
    allocations: Sequence[float] | None,
) -> tuple[tuple[Array, ...], Array]:
    """Return the shifts of the last ``count`` steps, one array a place, and the noises."""
    if shifts is None:
        places = record_shifts(mechanism, count)
        if len(places) > 1 and allocations is not None:
            raise ValueError(
                "shifts must be given with allocations if step sizes vary over a cycle of batches, "
                "because no position of the record is the worst, got None"
            )
    else:
        places = (np.array(shifts, dtype=np.float64)[len(shifts) - count :],)
        if len(shifts) != mechanism.steps and not constant_step_size(mechanism):
            raise ValueError(
                f"shifts must have one value per step ({mechanism.steps}) for a schedule, "
                f"got {len(shifts)}"
            )
    if constant_step_size(mechanism):
        return places, np.full(count, mechanism.step_std)
    return places, mechanism.step_sizes[mechanism.steps - count :] * mechanism.noise_std


def _searchable(count: int, name: str) -> int:
    if count > 100 * LONGEST:
        raise ValueError(f"{name} must leave at most {100 * LONGEST} steps, got {count}")
    return count


def original_amplification(
    mechanism: NoisySGD,
    shifts: Sequence[float] | None,
    allocations: Sequence[float] | None,
) -> PrivacyCurve:
    """Return the bound of iterations that start together (``at22.proposition_2_17``)."""
    if shifts is None and allocations is None and constant_step_size(mechanism):
        return RenyiCurve.linear(cycle_cost(mechanism, None) / 2)
    count = _searchable(mechanism.steps if shifts is None else len(shifts), "shifts")
    places, stds = _steps_from(mechanism, shifts, count, allocations)
    if allocations is None:
        return RenyiCurve.linear(max(best_cost(s, stds) for s in places) / 2)
    return RenyiCurve.linear(allocation_cost(allocations, places[0], stds) / 2)


def diameter_amplification(
    mechanism: NoisySGD,
    contraction: float,
    shifts: Sequence[float] | None,
    allocations: Sequence[float] | None,
    tau: int | None,
    distance: float | None,
) -> PrivacyCurve:
    """Return the bound of iterations that are ``distance`` apart at time ``tau``."""
    assert mechanism.diameter is not None  # an assumption of the entries
    apart = mechanism.diameter if distance is None else distance
    validate.nonnegative(distance=apart)
    given = any(option is not None for option in (shifts, allocations, tau))
    if not given and constant_step_size(mechanism):
        shift = mechanism.constant_step_size * mechanism.sensitivity / mechanism.batch_size
        std, count = mechanism.step_std, mechanism.steps
        repeats = mechanism.batching.repeats
        cycle = mechanism.dataset_size // mechanism.batch_size if repeats else 1
        cost = visits_cost(shift, std, count, cycle, distance=apart, contraction=contraction)
        return RenyiCurve.linear(cost / 2)
    steps = mechanism.steps if shifts is None else len(shifts)
    if tau is not None:
        checked_tau(steps, tau)
    if allocations is not None:
        count = _searchable(steps - (tau or 0), "tau")
        (s,), stds = _steps_from(mechanism, shifts, count, allocations)
        cost = allocation_cost(allocations, s, stds, distance=apart, contraction=contraction)
    elif tau is not None:
        count = _searchable(steps - tau, "tau")
        places, stds = _steps_from(mechanism, shifts, count, None)
        # the remaining distance is added to the first shift
        first = np.where(np.arange(count) == 0, contraction * apart, 0.0)
        cost = max(best_cost(s + first, stds, contraction=contraction) for s in places)
    else:
        places, stds = _steps_from(mechanism, shifts, min(steps, LONGEST), None)
        cost = max(best_cost(s, stds, distance=apart, contraction=contraction) for s in places)
    return RenyiCurve.linear(cost / 2)
