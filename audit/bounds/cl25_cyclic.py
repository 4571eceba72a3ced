"""Chien and Li (2025), Appendix A.2: cyclic batches, shuffled or not.

See `audit.bounds.cl25` for the paper's K, L and sigma.

The paper reshuffles the records in every epoch (``Batching.RESHUFFLED``). Theorem A.1 bounds the
run for one sequence of batches, and Corollary A.3 averages over all sequences. For records shuffled
once (``Batching.SHUFFLED``) the average is over one position; the average over independent shuffles
is not a bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.accounting.shift_allocation import (
    HolderModulus,
    LipschitzShifts,
    Meetings,
    cheapest_holder,
    smallest,
)
from audit.bounds.accounting.update import checked_tau
from audit.bounds.assumptions import HOLDER, SMOOTH, Assumption, NotApplicable, domain
from audit.bounds.cl25 import (
    Branch,
    clip_speed,
    excess,
    growth_of,
    holder_modulus,
    others_share,
    step_shift,
)
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import Batching, NoisySGD
from audit.numerics.arrays import Array

_POSITIONS = 128  # positions in the cycle that are computed separately
_MAX_SEQUENCES = 4096
_FEW_MEETINGS = 1000  # all of which are tried at once


def _cycle(mechanism: NoisySGD, position: int | None) -> Meetings:
    """Return the meetings of a record in batch ``position``; defaults to the last step's batch."""
    period = mechanism.steps_per_epoch
    if position is None:
        return Meetings(mechanism.steps, period, (mechanism.steps - 1) % period)
    validate.integer(0, position=position)
    if position >= period:
        raise ValueError(
            f"position must be below dataset_size/batch_size ({period}), got {position!r}"
        )
    return Meetings(mechanism.steps, period, int(position))


def _cyclic_square(
    mechanism: NoisySGD, meetings: Meetings, losses: Branch | None, length: int | None
) -> float:
    """Return the minimum in equation (25), in units of the squared noise of the iterate."""
    shift, batch = step_shift(mechanism, mechanism.batch_size), mechanism.batch_size
    if meetings.total == 0:
        return 0.0
    squares = []
    if HOLDER.holds(mechanism) and losses is None:
        modulus = holder_modulus(mechanism)
        met = holder_modulus(mechanism, others_share(mechanism))
        distance = growth_of(mechanism, batch, modulus, met).after(meetings)
        squares.append(cheapest_holder(meetings, shift, modulus, distance, length))
    if SMOOTH.holds(mechanism) or losses is not None:
        squares.append(_smooth_cyclic_square(mechanism, meetings, losses, length))
    return min(squares) / mechanism.step_std**2


def _smooth_cyclic_square(
    mechanism: NoisySGD, meetings: Meetings, losses: Branch | None, length: int | None
) -> float:
    surplus, shift = excess(mechanism, losses), step_shift(mechanism, mechanism.batch_size)
    shifts = LipschitzShifts(meetings, shift, surplus)
    steps, widest, speed = meetings.steps, domain(mechanism), clip_speed(mechanism)

    def grown(done: Array) -> Array:
        """Return the distances of Lemma A.2 with c d for g(d), by iterating both branches."""
        since = done - 1 - meetings.position
        with np.errstate(invalid="ignore"):
            moved = np.where(since > 0, shift + speed * since, np.where(since == 0, shift, 0.0))
        return np.asarray(np.minimum(np.minimum(shifts.grown(done), moved), widest))

    tracked = None
    if surplus > 0:  # the repulsion of the differing record's own gradient can be omitted
        constant = float(mechanism.step_sizes[0]) * (mechanism.smoothness or 0.0)
        free = HolderModulus(constant, 1.0)
        met = HolderModulus(constant * others_share(mechanism), 1.0)
        tracked = growth_of(mechanism, mechanism.batch_size, free, met).after(meetings)

    def cost(lengths: Array) -> Array:
        done = steps - lengths
        distance = grown(done) if tracked is None else np.minimum(grown(done), tracked(done))
        return shifts.costs(lengths, distance)

    if length is not None:
        return float(cost(np.array([float(length)]))[0])
    if surplus > 0:
        return smallest(cost, steps)[0]
    # steps without the record only contract, so starting later in a cycle than just after its
    # meeting gains nothing
    ends = np.array([float(steps), float(max(meetings.after_last, 1))])
    period, after = meetings.period, meetings.after_last
    if meetings.total <= _FEW_MEETINGS:
        lengths = after + period * np.arange(1.0, meetings.total)
        return float(np.min(cost(np.concatenate([ends, lengths]))))
    others = smallest(lambda met: cost(after + met * period), meetings.total - 1)[0]
    return min(others, float(np.min(cost(ends))))


@bound("cl25.theorem_a_1")
def theorem_a_1(
    mechanism: NoisySGD,
    *,
    position: int | None = None,
    losses: Branch | None = None,
    tau: int | None = None,
) -> PrivacyCurve:
    """Batches in a fixed, possibly shuffled, cycle (Theorem A.1): for any order of the records.

    With smooth losses the shifts obey the Lipschitz constant c of Theorem 3.1, as its proof allows,
    and are optimal; with Hoelder continuous gradients they are those of Theorem 3.7. Where both are
    given the better one counts.

    position: Position of the record's batch in the cycle, from 0. Default: the batch of the last
        step, whose shifts, moved forward in time, serve every other position.
    losses: Branch of smooth losses. Default: the best that applies.
    tau: Start of the analysis, 0 to T - 1. Default: the best.
    """
    length = None
    if position is not None and mechanism.batching is Batching.SHUFFLED:
        raise NotApplicable("position must be left out for shuffled batches, whose order is random")
    if tau is not None:
        length = mechanism.steps - checked_tau(mechanism.steps, tau)
    square = _cyclic_square(mechanism, _cycle(mechanism, position), losses, length)
    return RenyiCurve.linear(square / 2)


def _mixed(squares: list[float], weights: Array) -> RenyiCurve:
    """Return log of the mean of e^((alpha - 1) alpha square/2), over alpha - 1."""
    rhos = np.array(squares) / 2

    def divergence(alpha: Array) -> Array:
        exponent = ((alpha - 1) * alpha)[:, None] * rhos
        top = exponent.max(axis=1)
        result = np.full(alpha.shape, np.inf)
        near, far = top < 1, (top >= 1) & np.isfinite(top)
        result[near] = np.log1p(np.expm1(exponent[near]) @ weights)
        scaled = np.exp(exponent[far] - top[far, None]) @ weights
        result[far] = top[far] + np.log(scaled)
        return np.asarray(result / (alpha - 1))

    return RenyiCurve(divergence, points=101)


@bound("cl25.corollary_a_3")
def corollary_a_3(mechanism: NoisySGD, *, losses: Branch | None = None) -> PrivacyCurve:
    """Average Theorem A.1 over the position of the record in shuffled cyclic batches (A.3).

    By joint convexity. These batches are shuffled once, so the expectation is over one position.
    Beyond 128 positions, neighbouring ones are grouped and each group counts as its worst member,
    the one that leaves the fewest steps after the last meeting.

    losses: Branch. Default: the applicable one with the smallest Lipschitz constant.
    """
    period = mechanism.steps_per_epoch
    edges = np.unique(np.rint(np.linspace(0, period, min(period, _POSITIONS) + 1)).astype(int))
    squares = []
    for after in edges[:-1]:
        meetings = Meetings(mechanism.steps, period, (mechanism.steps - 1 - int(after)) % period)
        squares.append(_cyclic_square(mechanism, meetings, losses, None))
    return _mixed(squares, np.diff(edges) / period)


FEW_SEQUENCES = Assumption(
    f"at most {_MAX_SEQUENCES} sequences of the record's positions",
    lambda m: _epochs(m)[1] * math.log(_epochs(m)[0]) <= math.log(_MAX_SEQUENCES) + 1e-9,
    lambda m: "(dataset_size/batch_size)^epochs={}^{}".format(*_epochs(m)),
)


def _epochs(mechanism: NoisySGD) -> tuple[int, int]:
    """Return the number of batches of an epoch, and of epochs, including an incomplete last one."""
    period = mechanism.steps_per_epoch
    return period, -(-mechanism.steps // period)


def sequence_square(mechanism: NoisySGD, places: Sequence[int], losses: Branch | None) -> float:
    """Return the minimum of equation (25) for one sequence, in units of the squared noise."""
    period, _ = _epochs(mechanism)
    steps, shift = mechanism.steps, step_shift(mechanism, mechanism.batch_size)
    surplus, speed, widest = (
        excess(mechanism, losses),
        clip_speed(mechanism),
        domain(mechanism),
    )
    met = np.zeros(steps, dtype=np.bool_)
    times = np.arange(len(places)) * period + np.asarray(places, dtype=np.int64)
    met[times[times < steps]] = True
    if not np.any(met):
        return 0.0
    distances = [0.0]
    for meets in met:  # Lemma A.2 with c d for g(d)
        moved = (1 + surplus) * distances[-1] + shift * meets
        distances.append(min(moved, distances[-1] + speed, widest))
    starts = list(range(steps))
    if surplus <= 0:  # starting later than just after a meeting gains nothing
        starts = [0, *(int(t) + 1 for t in np.flatnonzero(met) if t + 1 < steps)]
    best = min(_cheapest(met[start:], shift, 1 + surplus, distances[start]) for start in starts)
    return best / mechanism.step_std**2


def _cheapest(met: NDArray[np.bool_], shift: float, contraction: float, distance: float) -> float:
    """Return the least sum of b_t^2 with sum of (b_t - s_t) c^-(t-tau+1) >= d and b_t >= s_t.

    b_t = max(s_t, theta w_t), w_t the weights; those of s_t with the largest weights are raised
    first.
    """
    powers = np.arange(met.size - 1, -1, -1.0)
    if contraction <= 1:  # weights c^(T-1-t), against c^(T-tau) d
        weights, target = contraction**powers, contraction**met.size * distance
    else:  # the same, divided by c^(T-tau-1)
        weights, target = contraction ** -powers[::-1], contraction * distance
    own = np.sort(weights[met])[::-1]
    free = float(np.sum(weights[~met] ** 2))
    squares = free + np.concatenate([[0.0], np.cumsum(own**2)])
    needed = target + shift * np.concatenate([[0.0], np.cumsum(own)])
    raised = np.arange(own.size + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.where(needed > 0, needed / squares, 0.0)
        costs = np.where(needed > 0, needed * theta, 0.0) + (own.size - raised) * shift**2
        # where all raised ones end above s the choice is feasible; the optimum is one of those
        feasible = np.concatenate([[True], theta[1:] * own >= shift * (1 - 1e-12)])
    return float(np.min(np.where(feasible, costs, np.inf)))


@bound("cl25.corollary_a_3_reshuffled", few_sequences=FEW_SEQUENCES)
def corollary_a_3_reshuffled(mechanism: NoisySGD, *, losses: Branch | None = None) -> PrivacyCurve:
    """Average Theorem A.1 over all shuffles, independent per epoch (Corollary A.3).

    losses: Branch. Default: the applicable one with the smallest Lipschitz constant.
    """
    period, epochs = _epochs(mechanism)
    squares = [sequence_square(mechanism, places, losses) for places in sequences(period, epochs)]
    return _mixed(squares, np.full(len(squares), 1 / len(squares)))


def sequences(period: int, epochs: int) -> Iterator[tuple[int, ...]]:
    """Return all sequences of positions, one position in ``range(period)`` per epoch."""
    return itertools.product(range(period), repeat=epochs)
