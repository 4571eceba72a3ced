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
from numpy.typing import NDArray

from audit import validate
from audit.bounds.assumptions import ROUNDING
from audit.mechanism import Batching, NoisySGD

Array = NDArray[np.float64]

LONGEST = 10_000
"""Steps that are searched one by one; a bound that may start anywhere starts within the last."""


def allocation_cost(
    allocations: Sequence[float],
    shifts: Sequence[float],
    stds: Sequence[float],
    *,
    distance: float = 0.0,
    contraction: float = 1.0,
) -> float:
    """Return sum a_t^2/std_t^2 of an allocation chosen by hand.

    Raises
    ------
    ValueError
        If the lengths differ, or some z_t is negative, or the last one is not 0.
    """
    a, s, std = (
        _row(name, values)
        for name, values in (("allocations", allocations), ("shifts", shifts), ("stds", stds))
    )
    if not a.size == s.size == std.size:
        raise ValueError(
            f"allocations must be one a step ({s.size} shifts, {std.size} noises), got {a.size}"
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


def _row(name: str, values: Sequence[float]) -> Array:
    array = validate.sample(**{name: values})
    if name == "stds":
        validate.positive(stds=float(np.min(array)))
    if name == "shifts":
        validate.nonnegative(shifts=float(np.min(array)))
    return array


def best_cost(
    shifts: Sequence[float],
    stds: Sequence[float],
    *,
    distance: float | None = None,
    contraction: float = 1.0,
) -> float:
    """Return the least sum a_t^2/std_t^2 over all allocations.

    Parameters
    ----------
    shifts, stds
        s_t and the noise of each step.
    distance
        D, the distance of the states at the time tau from which allocation starts, any tau below
        T (the best is taken). None for iterations that start together at time 0.
    contraction
        c in [0, 1].
    """
    s, std = _row("shifts", shifts), _row("stds", stds)
    if s.size != std.size:
        raise ValueError(f"shifts must be one a step ({std.size}), got {s.size}")
    validate.closed_unit(contraction=contraction)
    if contraction == 0:
        return float(s[-1] / std[-1]) ** 2  # the last step forgets everything
    longest = s.size if distance is None else LONGEST
    if contraction < 1:  # a length at time t counts c^(T - t) at the end: down to e^-200 is kept
        longest = min(longest, max(1, math.floor(-200 / math.log(contraction))))
    if distance is None and longest < s.size:
        raise ValueError(
            f"shifts must be at most {longest} without a distance for "
            f"contraction={contraction!r}, got {s.size}"
        )
    s, std = s[-longest:], std[-longest:]
    scale = np.exp(math.log(contraction) * np.arange(s.size - 1, -1, -1))
    y = np.concatenate([[0.0], np.cumsum(s * scale)])
    x = np.concatenate([[0.0], np.cumsum((std * scale) ** 2)])
    if distance is None:
        return float(_minorant_costs(x, y, np.array([0.0]))[0])
    drop = distance * contraction ** np.arange(s.size, 0, -1, dtype=np.float64)
    return float(np.min(_minorant_costs(x, y, drop)))


def _minorant_costs(x: Array, y: Array, drops: Array) -> Array:
    """Return the cost of the lowest path from (x_k, y_k - drop_k) to the end, for each k.

    The path stays on or below the points between. The lower hull of the points to the right of k
    is a stack; the path leaves (x_k, y_k - drop_k) along the tangent to it.
    """
    last = x.size - 1
    hull = [last]  # indices, the leftmost on top
    costs = [0.0]  # of the path from each of them to the end
    found = np.empty(drops.size)
    for k in range(last - 1, -1, -1):
        if k < drops.size:
            x0, y0 = x[k], y[k] - drops[k]
            low, high = 0, len(hull) - 1  # the slope to a hull point falls, then rises
            while low < high:
                middle = (low + high) // 2
                i, j = hull[middle], hull[middle + 1]  # j lies left of i
                to_left = (y[j] - y0) * (x[i] - x0) <= (y[i] - y0) * (x[j] - x0)
                low, high = (middle + 1, high) if to_left else (low, middle)
            i = hull[low]
            found[k] = costs[low] + (y[i] - y0) ** 2 / (x[i] - x0)
        if drops.size == 1 and k == 0:
            break
        while len(hull) > 1:
            i, j = hull[-1], hull[-2]
            if (y[i] - y[k]) * (x[j] - x[k]) < (y[j] - y[k]) * (x[i] - x[k]):
                break
            hull.pop()
            costs.pop()
        i = hull[-1]
        costs.append(costs[-1] + (y[i] - y[k]) ** 2 / (x[i] - x[k]))
        hull.append(k)
    return found


def constant_cost(
    shift: float, std: float, steps: int, *, distance: float, contraction: float = 1.0
) -> float:
    """Return `best_cost` with a distance where all steps are alike, in closed form.

    Over R steps the best allocation costs (s (1 - c^R)/(1 - c) + c^R D)^2 (1 - c^2)/
    (std^2 (1 - c^(2 R))), and (D + R s)^2/(R std^2) where c = 1; the best R is next to
    log(1 - D (1 - c)/s)/log c, or D/s.
    """
    if contraction == 0:
        return (shift / std) ** 2
    log_c = math.log(contraction)
    if contraction == 1:
        best = distance / shift if shift > 0 else math.inf
    else:
        left = 1 - distance * (1 - contraction) / shift if shift > 0 else 0.0
        best = math.log(left) / log_c if left > 0 else math.inf
    best = min(max(best, 1.0), float(steps))
    lengths = {max(1, math.floor(best)), min(steps, math.ceil(best))}

    def cost(length: int) -> float:
        if contraction == 1:
            return (distance + length * shift) ** 2 / length
        gone = -math.expm1(length * log_c)  # 1 - c^R
        reach = shift * gone / (1 - contraction) + (1 - gone) * distance
        return reach**2 * (1 - contraction) * (1 + contraction) / (gone * (2 - gone))

    return min(cost(length) for length in lengths) / std**2


def record_shifts(mechanism: NoisySGD, count: int) -> Array:
    """Return how far the maps of the last ``count`` steps can differ, for the record's worst place.

    eta_t S/b where the record can be in the batch. In a cycle the worst place is the last step's
    batch: for any other, every shift comes earlier, and an allocation for the last batch remains
    possible. Batches drawn at random are coupled, and the record may be in each.
    """
    sizes = mechanism.step_sizes[mechanism.steps - count :]
    shift = sizes * (mechanism.sensitivity / mechanism.batch_size)
    if mechanism.batching not in (Batching.CYCLIC, Batching.SHUFFLED):
        return np.asarray(shift)
    period = mechanism.dataset_size // mechanism.batch_size
    return np.where(np.arange(count)[::-1] % period == 0, shift, 0.0)
