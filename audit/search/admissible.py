"""Check independently that a pair is admissible, from its update maps alone.

`GradientPair` checks the gradients that it is given. This check takes the two processes as they run
and tests the mechanism's assumptions about every noiseless update on a grid, by differences. It
uses no information about how the construction was made or checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from audit.constructions.base import Construction, Inadmissible
from audit.constructions.cone import check_cancelled
from audit.constructions.gradients import GradientPair
from audit.constructions.process import DependentStep, Path, Process, Step
from audit.constructions.updates import UpdateMap
from audit.mechanism import Batching, Losses, NoisySGD, Relation, Release
from audit.numerics.arrays import Array

_POINTS = 2001
_PAIRED_POINTS = 401  # points of which all pairs are compared
# Differences over a cell of the grid contain the rounding errors of two values.
_ROUNDING = 1e-9
Mixture = tuple[tuple[UpdateMap, ...], tuple[float, ...]]


def check_admissible(pair: Construction) -> None:
    """Check that the two processes of a pair satisfy the assumptions of its mechanism.

    The two processes must start at the same point of the same domain and take the same number of
    steps with the same noise and the same probabilities of batches. An update of batch size b moves
    the state by at most eta L. Updates of the two datasets differ by at most eta S/b, and only in
    steps that can contain the record. Slopes lie in [1 - eta M, 1 - eta m] (up to 1 + eta M for
    losses that need not be convex). Moves have the Hoelder constant of the gradients. Fixed losses
    give the same updates in all steps that use a batch with the same step size. A gradient that the
    domain cancels (`audit.constructions.cone`) counts as part of every move.

    Parameters
    ----------
    pair : Construction
        The pair.

    Raises
    ------
    Inadmissible
        If the pair breaks an assumption.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=2, dataset_size=2, batch_size=2, step_size=0.1,
    ...                    noise_std=1.0, lipschitz=1.0, diameter=1.0)
    >>> check_admissible(audit.constructions.TwoSidedWalk(m))
    """
    m = pair.mechanism
    first, second = pair.processes()
    half = math.inf if m.diameter is None else m.diameter / 2
    for process in (first, second):
        if (process.lower, process.upper) != (-half, half):
            raise Inadmissible(f"the domain must be [{-half:g}, {half:g}], got {process.lower:g}")
    if first.start != second.start or abs(first.start) > half:
        raise Inadmissible(f"the starts must be equal, got {first.start}, {second.start}")
    grid = _grid(m, first, second)
    cancelled = pair.cancelled if isinstance(pair, GradientPair) else 0.0
    if cancelled:
        check_cancelled(pair.name, m)
    seen: set[tuple[Step, Step]] = set()
    if len(first.paths) != len(second.paths):
        raise Inadmissible("the processes must have the same paths")
    for one, other in zip(first.paths, second.paths, strict=True):
        if len(one) != len(other) or one.probability != other.probability:
            raise Inadmissible("the processes must have the same paths")
        positions = set()
        taken: dict[tuple[int, float], tuple[Step, Step]] = {}
        memories = {0: 1.0}  # and their probabilities
        for position, eta, a, b in _together(m, one, other):
            if (a, b) not in seen:
                seen.add((a, b))
                _check_step(m, eta, a, b, memories, grid, cancelled)
            if a.maps != b.maps:
                positions.add(position)
            batch = position if m.batching.repeats else 0
            _check_fixed(m, taken.setdefault((batch, eta), (a, b)), (a, b))
            memories = _after(a if isinstance(a, DependentStep) else b, memories)
        if m.batching.repeats and len(positions) > 1:
            raise Inadmissible(f"one batch of the cycle holds the record, got {len(positions)}")


def _together(m: NoisySGD, one: Path, other: Path) -> Iterator[tuple[int, float, Step, Step]]:
    """Yield (position in the cycle, step size, step, step); repeated steps only once."""
    length = m.dataset_size // m.batch_size
    begun = m.steps - len(one) if m.release is Release.RANDOM_SKIP else 0
    for first, second in zip(one.segments, other.segments, strict=True):
        if (first.times, len(first.steps)) != (second.times, len(second.steps)):
            raise Inadmissible("the processes must repeat the same steps")
        # unless a period is a whole cycle, its repetitions start at other positions
        period = len(first.steps)
        for repeat in range(min(first.times, length // math.gcd(period, length))):
            for k, (a, b) in enumerate(zip(first.steps, second.steps, strict=True)):
                at = begun + repeat * period + k
                yield at % length, float(m.step_sizes[at]), a, b
        begun += len(first)


def _check_fixed(m: NoisySGD, before: tuple[Step, Step], now: tuple[Step, Step]) -> None:
    """Refuse other updates than before from the same batch, if losses are fixed."""
    # epochs with new batches have steps that depend on the epoch so far
    if m.losses is Losses.FIXED and not m.batching.renews and before != now:
        raise Inadmissible(
            "fixed losses must give the same updates whenever a batch is used, "
            "got updates that change over time"
        )


def _after(step: Step, memories: dict[int, float]) -> dict[int, float]:
    """Return the probabilities of the batches' memories after a step."""
    result: dict[int, float] = {}
    for before, probability in memories.items():
        for _, weight, after in step.transitions(before):
            result[after] = result.get(after, 0.0) + weight * probability
    return {memory: probability for memory, probability in result.items() if probability > 0}


def _in_memory(m: NoisySGD, step: Step, memory: int) -> Mixture:
    """Return the maps of a step for a given memory, and their probabilities.

    Without the record (random allocation) only the other records that have occurred matter.
    """
    taken = list(step.transitions(memory)) or list(step.transitions(memory % m.dataset_size))
    return tuple(phi for phi, *_ in taken), tuple(weight for _, weight, _ in taken)


def _check_step(
    m: NoisySGD,
    eta: float,
    a: Step,
    b: Step,
    memories: dict[int, float],
    grid: Array,
    cancelled: float,
) -> None:
    if a.noise_std != b.noise_std:
        raise Inadmissible(f"the noise must be shared, got {a.noise_std:g} and {b.noise_std:g}")
    if abs(a.noise_std / (eta * m.noise_std) - 1) > _ROUNDING:
        raise Inadmissible(f"the noise must be {eta * m.noise_std:g}, got {a.noise_std:g}")
    for update in (*a.maps, *b.maps):
        _check_update(m, eta, update, grid, cancelled)
    scale = eta * m.sensitivity / m.batch_size
    if m.relation is Relation.ADD_REMOVE and m.batching is Batching.WITHOUT_REPLACEMENT:
        scale *= 2  # another record replaces the one that is left out
    differing = 0.0
    for memory, probability in memories.items():
        for weight, gap in _gaps(_in_memory(m, a, memory), _in_memory(m, b, memory), grid):
            if gap > scale * (1 + _ROUNDING) + _ROUNDING * 1e-3 * a.noise_std:
                raise Inadmissible(f"updates must differ by at most {scale:g}, got {gap:g}")
            differing += probability * weight * (gap > _ROUNDING * scale)
    if m.batching.has_random_size:
        return  # batches of several sizes may share an update, so the number that differ is unknown
    rate = 1.0 if m.batching.repeats else m.sampling_rate
    if differing > rate * (1 + _ROUNDING):
        raise Inadmissible(f"updates must differ with probability {rate:g}, got {differing:g}")


def _gaps(a: Mixture, b: Mixture, grid: Array) -> list[tuple[float, float]]:
    """Return the distances between updates of the same batches, with their probabilities.

    If equal updates of different batches were merged, batches are matched by the order of their
    updates at each state: in one dimension no matching has a smaller largest gap.
    """
    (maps, weights), (maps_prime, weights_prime) = a, b
    first = np.stack([phi(grid) for phi in maps])
    second = np.stack([phi(grid) for phi in maps_prime])
    one_map = 1 in (len(first), len(second))
    if one_map or (
        len(weights) == len(weights_prime)
        and np.allclose(weights, weights_prime, rtol=1e-12, atol=0)
    ):
        more = weights if len(weights) > 1 else weights_prime
        return list(zip(more, np.abs(first - second).max(axis=1).tolist(), strict=True))
    ordered = np.concatenate([np.argsort(first, axis=0), np.argsort(second, axis=0)])
    # many states have the same orders
    orders, which = np.unique(ordered, axis=1, return_inverse=True)
    gap = 0.0
    for number, both in enumerate(orders.T):
        order_x, order_y = both[: len(first)], both[len(first) :]
        upto_x, upto_y = (
            np.cumsum(np.take(weights, order_x)),
            np.cumsum(np.take(weights_prime, order_y)),
        )
        # ignore tiny weights that come from rounding
        levels = np.unique(np.round(np.concatenate([upto_x, upto_y]), 12))
        middles = (np.concatenate([[0.0], levels[:-1]]) + levels) / 2
        i = order_x[np.minimum(np.searchsorted(upto_x, middles), len(first) - 1)]
        j = order_y[np.minimum(np.searchsorted(upto_y, middles), len(second) - 1)]
        here = which.ravel() == number
        gap = max(gap, float(np.max(np.abs(first[i][:, here] - second[j][:, here]))))
    return [(0.0, gap)]


def _check_update(
    m: NoisySGD, eta: float, update: UpdateMap, grid: Array, cancelled: float
) -> None:
    values = update(grid)
    if m.gradient_bound is not None and m.strong_convexity == 0:
        moved = float(np.max(np.abs(values - grid - eta * cancelled)))
        most = eta * m.gradient_bound * _batch_factor(m)
        if moved > most * (1 + _ROUNDING):
            raise Inadmissible(f"updates must move by at most {most:g}, got {moved:g}")
    _check_holder(m, eta, values - grid, grid)
    slopes = np.diff(values) / np.diff(grid)
    steepest = math.inf if m.smoothness is None else eta * m.smoothness
    factor = _batch_factor(m)
    low = 1 - factor * steepest
    high = 1 - eta * m.strong_convexity / factor if m.convex else 1 + factor * steepest
    if m.batching.has_random_size:
        high = max(high, 1.0)  # an empty batch does not move
    slack = _ROUNDING * max(1.0, float(np.max(np.abs(slopes))))
    if np.min(slopes) < low - slack or np.max(slopes) > high + slack:
        raise Inadmissible(
            f"updates must have slopes in [{low:g}, {high:g}], "
            f"got [{np.min(slopes):g}, {np.max(slopes):g}]"
        )


def _check_holder(m: NoisySGD, eta: float, moves: Array, grid: Array) -> None:
    if m.holder is None:
        return
    constant, order = m.holder
    most = eta * constant * _batch_factor(m)
    few = np.unique(np.linspace(0, grid.size - 1, _PAIRED_POINTS).astype(int))
    distance = np.abs(grid[few][:, None] - grid[few])
    change = np.abs(moves[few][:, None] - moves[few]) - _ROUNDING * np.max(np.abs(moves))
    apart = distance > 0
    needed = float(np.max(change[apart] / distance[apart] ** order))
    if needed > most * (1 + _ROUNDING):
        raise Inadmissible(
            f"updates must have moves with a Hoelder constant of at most {most:g}, got {needed:g}"
        )


def _batch_factor(m: NoisySGD) -> float:
    """Return the largest size of a batch divided by the divisor, if batches vary in size.

    At least 1: a regulariser enters a step whole, however few records a batch has.
    """
    if not m.batching.has_random_size:
        return 1.0
    return max(min(m.max_batch_size or m.dataset_size, m.dataset_size) / m.batch_size, 1.0)


def _grid(m: NoisySGD, first: Process, second: Process) -> Array:
    """Return points over the whole domain, including the kinks of the maps."""
    if m.diameter is not None:
        half = m.diameter / 2
    else:
        spread = float(np.max(m.step_sizes)) * m.noise_std * math.sqrt(m.steps)
        half = abs(first.start) + 10 * spread
    steps = [*first.distinct_steps(), *second.distinct_steps()]
    kinks = {x for step in steps for phi in step.maps for x in phi.kinks}
    if m.diameter is None:
        half = max([half, *(1.1 * abs(x) for x in kinks)])
    bends = {x for x in kinks if abs(x) < half}
    grid = np.unique(np.concatenate([np.linspace(-half, half, _POINTS), sorted(bends)]))
    # differences between closer points are mostly rounding
    keep = np.concatenate([[True], np.diff(grid) > 1e-7 * half])
    return np.asarray(grid[keep])
