"""Chien and Li (2025): distance tracking, a bound on the distance of two neighbouring runs.

The paper's K is `NoisySGD.gradient_bound` (the clip norm, or the Lipschitz constant, whichever is
smaller), its L the smoothness or the Hoelder constant, and its sigma the noise of the iterate,
``step_std``. K bounds the whole gradient of a record: for losses that are neither convex nor
clipped a shared regulariser must be counted in it. Where zeroing a record halves a term, it halves
2 eta K/n (or 2 eta K/b), which is ``eta * sensitivity/n`` here, and not 2 eta K.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.bounds.accounting.shift_allocation import HolderModulus, Meetings
from audit.bounds.assumptions import (
    CONTRACTIVE_STEPS,
    CONVEX,
    ROUNDING,
    SMOOTH,
    STRONGLY_CONVEX,
    UNCLIPPED,
    Assumption,
    NotApplicable,
)
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array

_LONGEST = 1 << 14  # steps that are tracked one by one

SHORT_STEPS = Assumption(
    "eta <= 1/M with M the smoothness",
    # a constant step size is not expanded: there may be 10^9 steps
    lambda m: (
        m.smoothness is not None and float(np.max(m.step_size)) * m.smoothness <= 1 + ROUNDING
    ),
    lambda m: f"step_size={m.step_size!r} and smoothness={m.smoothness!r}",
)


class Branch(enum.Enum):
    """Assumptions on smooth losses, one per branch of Theorem 3.1."""

    NON_CONVEX = "non-convex"  # c = 1 + eta L
    CONVEX = "convex"  # c = 1
    STRONGLY_CONVEX = "strongly convex"  # c = 1 - eta m


BRANCHES = {
    Branch.NON_CONVEX: (SMOOTH,),
    Branch.CONVEX: (SMOOTH, CONVEX, UNCLIPPED, CONTRACTIVE_STEPS),
    Branch.STRONGLY_CONVEX: (SMOOTH, STRONGLY_CONVEX, UNCLIPPED, SHORT_STEPS),
}
"""Assumptions of each branch of Theorem 3.1."""


def excess(mechanism: NoisySGD, losses: Branch | None = None) -> float:
    """Return c - 1 of Lemma 3.4, for the given branch or the best one that applies."""
    if losses is not None and not isinstance(losses, Branch):
        raise ValueError(f"losses must be a Losses, got {losses!r}")
    for assumption in BRANCHES[losses] if losses is not None else (SMOOTH,):
        failure = assumption.failure(mechanism)
        if failure is not None:
            raise NotApplicable(f"the {(losses or Branch.NON_CONVEX).value} branch {failure}")
    assert mechanism.smoothness is not None
    eta = mechanism.constant_step_size
    values = {
        Branch.STRONGLY_CONVEX: -eta * mechanism.strong_convexity,
        Branch.CONVEX: 0.0,
        Branch.NON_CONVEX: eta * mechanism.smoothness,
    }
    if losses is not None:
        return values[losses]
    for branch, value in values.items():
        if all(assumption.holds(mechanism) for assumption in BRANCHES[branch]):
            return value
    raise AssertionError("the non-convex branch needs nothing but smoothness")


def step_shift(mechanism: NoisySGD, batch: int) -> float:
    """Return 2 eta K/batch, or half of it for zero-out: the distance that one meeting adds."""
    return mechanism.constant_step_size * mechanism.sensitivity / batch


def clip_speed(mechanism: NoisySGD) -> float:
    """Return 2 eta K, the most by which a step separates two iterates; infinite if unbounded."""
    bound = _whole_gradient(mechanism)
    return math.inf if bound is None else 2 * mechanism.constant_step_size * bound


def _whole_gradient(mechanism: NoisySGD) -> float | None:
    """Return K if it bounds every part of a gradient that separates two iterates.

    The Lipschitz constant excludes a shared regulariser, which strongly convex losses may have. The
    regulariser does not separate iterates if steps contract.
    """
    if mechanism.strong_convexity > 0 and not CONTRACTIVE_STEPS.holds(mechanism):
        return mechanism.clip_norm
    return mechanism.gradient_bound


def domain(mechanism: NoisySGD) -> float:
    """Return D; infinite if the domain is unbounded."""
    return math.inf if mechanism.diameter is None else float(mechanism.diameter)


def holder_modulus(mechanism: NoisySGD, share: float = 1.0) -> HolderModulus:
    """Return x + eta share L x^lambda."""
    assert mechanism.holder is not None
    constant, order = mechanism.holder
    return HolderModulus(mechanism.constant_step_size * constant * share, order)


@dataclass(frozen=True)
class Growth:
    """Change of a distance in a step: ``free``, or ``met`` plus ``shift`` at a meeting.

    In both cases it grows by at most ``speed``, and never beyond ``widest``.
    """

    free: Callable[[float], float | Array]
    met: Callable[[float], float | Array]
    shift: float
    speed: float
    widest: float

    def track(self, meetings: Iterable[bool]) -> list[float]:
        """Return the distances before the first and after each step, until they are constant."""
        distances, now = [0.0], 0.0
        for met in meetings:
            grown = float(self.met(now)) + self.shift if met else float(self.free(now))
            now = min(grown, now + self.speed, self.widest)
            distances.append(now)
            if now == self.widest:
                break
        return distances

    def after(self, meetings: Meetings) -> Callable[[ArrayLike], Array]:
        """Return a function from numbers of steps to distances, valid for any number.

        Beyond 16384 steps it returns ``widest``.
        """
        steps = min(meetings.steps, _LONGEST)
        tracked = self.track(t % meetings.period == meetings.position for t in range(steps))
        table = np.array([*tracked, self.widest])

        def distance(done: ArrayLike) -> Array:
            place = np.minimum(np.asarray(done), table.size - 1).astype(np.intp)
            return np.asarray(table[place])

        return distance


def lipschitz_growth(mechanism: NoisySGD, batch: int, surplus: float) -> Growth:
    """Return Lemma 3.5: min(c d + 2 eta K/batch, d + 2 eta K), with c = 1 + surplus."""

    def grow(distance: float) -> float:
        return distance + surplus * distance

    return Growth(
        grow, grow, step_shift(mechanism, batch), clip_speed(mechanism), domain(mechanism)
    )


def holder_growth(mechanism: NoisySGD, batch: int, share: float = 1.0) -> Growth:
    """Return Lemmas 3.10 and A.2: g(d) + 2 eta K/batch at a meeting, with ``share`` of L in g."""
    free, met = holder_modulus(mechanism), holder_modulus(mechanism, share)
    return Growth(free, met, step_shift(mechanism, batch), clip_speed(mechanism), domain(mechanism))


def others_share(mechanism: NoisySGD) -> float:
    """Return (b - 1)/b, the shared part of a batch, if sensitivity bounds the rest; 1 otherwise.

    A record that is zeroed out keeps its regulariser, which the sensitivity does not count.
    """
    bound = _whole_gradient(mechanism)
    factor = 2 if mechanism.relation is Relation.REPLACE_ONE else 1
    zeroed = mechanism.relation is Relation.ZERO_OUT
    if bound is None or zeroed or mechanism.sensitivity < factor * bound * (1 - ROUNDING):
        return 1.0
    return (mechanism.batch_size - 1) / mechanism.batch_size
