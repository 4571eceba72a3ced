"""Chien and Li (2025), "Convergent Privacy Loss of Noisy-SGD ...".

The paper adds N(0, sigma^2) to the iterate, so its sigma is ``step_std``. Its K is
`NoisySGD.gradient_bound` (the clip norm, or the Lipschitz constant, whichever is smaller), its L
the smoothness or the Hoelder constant. K bounds the whole gradient of a record: for losses that are
neither convex nor clipped a shared regulariser must be counted in it. Where zeroing a record halves
a term, it halves 2 eta K/n (or 2 eta K/b), which is ``eta * sensitivity/n`` here, and not 2 eta K.

Every theorem starts from a bound on the distance of two neighbouring runs. Cyclic batches are in
`audit.bounds.cl25_cyclic`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.bounds.accounting.shift_allocation import (
    HolderModulus,
    HolderShifts,
    LipschitzShifts,
    Meetings,
    cheapest_holder,
    smallest,
)
from audit.bounds.accounting.update import checked_tau
from audit.bounds.assumptions import (
    CONTRACTIVE_STEPS,
    CONVEX,
    HOLDER,
    ROUNDING,
    SMOOTH,
    STRONGLY_CONVEX,
    UNCLIPPED,
    Assumption,
    NotApplicable,
    domain,
    fields,
    known,
)
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import CostlyRenyiCurve, RenyiCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array

# ------------------------------------------------------------------------------- distance tracking


_TRACKED_STEPS = 1 << 14  # steps that are tracked one by one

SHORT_STEPS = Assumption(
    "eta <= 1/M with M the smoothness",
    # a constant step size is not expanded: there may be 10^9 steps
    lambda m: (
        m.smoothness is not None and float(np.max(m.step_size)) * m.smoothness <= 1 + ROUNDING
    ),
    fields("step_size", "smoothness"),
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
    eta = mechanism.constant_step_size
    values = {
        Branch.STRONGLY_CONVEX: -eta * mechanism.strong_convexity,
        Branch.CONVEX: 0.0,
        Branch.NON_CONVEX: eta * known(mechanism.smoothness),
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

    free: HolderModulus
    met: HolderModulus
    shift: float
    speed: float
    widest: float

    def track(self, meetings: Iterable[bool]) -> list[float]:
        """Return the distances before the first and after each step, until they are constant."""
        distances, now = [0.0], 0.0
        for met in meetings:
            grown = self.met(now) + self.shift if met else self.free(now)
            now = min(grown, now + self.speed, self.widest)
            distances.append(now)
            if now == self.widest:
                break
        return distances

    def after(self, meetings: Meetings) -> Callable[[ArrayLike], Array]:
        """Return a function from numbers of steps to distances, valid for any number.

        Beyond 16384 steps it returns ``widest``.
        """
        steps = min(meetings.steps, _TRACKED_STEPS)
        tracked = self.track(t % meetings.period == meetings.position for t in range(steps))
        table = np.array([*tracked, self.widest])

        def distance(done: ArrayLike) -> Array:
            place = np.minimum(np.asarray(done), table.size - 1).astype(np.intp)
            return np.asarray(table[place])

        return distance


def growth_of(
    mechanism: NoisySGD, batch: int, free: HolderModulus, met: HolderModulus | None = None
) -> Growth:
    """Return Lemmas 3.5, 3.10 and A.2: min(g(d) + 2 eta K/batch at a meeting, d + 2 eta K, D).

    g is ``free``, and ``met`` at a meeting where that is another one; c d is the modulus of order 1
    with the constant c - 1.
    """
    shift = step_shift(mechanism, batch)
    return Growth(free, met or free, shift, clip_speed(mechanism), domain(mechanism))


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


# ------------------------------------------------------------------------------------ full batches


def _smooth_square(
    mechanism: NoisySGD,
    losses: Branch | None,
    tau: int | None,
    beta: float | Sequence[float] | None,
) -> float:
    """Return the bracket of equation (3), in units of the squared noise of the iterate."""
    steps = mechanism.steps
    shifts = LipschitzShifts(
        Meetings(steps),
        step_shift(mechanism, mechanism.dataset_size),
        excess(mechanism, losses),
    )
    speed, widest = clip_speed(mechanism), domain(mechanism)

    def distance(done: Array) -> Array:
        with np.errstate(invalid="ignore"):
            moved = np.where(done > 0, speed * done, 0.0)
        return np.minimum(np.minimum(shifts.grown(done), moved), widest)

    def cost(lengths: Array) -> Array:
        return shifts.costs(lengths, distance(steps - lengths))

    if beta is not None:
        if tau is None:
            raise ValueError("tau must be given with beta, got None")
        start = checked_tau(mechanism.steps, tau)
        gap = float(distance(np.array([float(start)]))[0])
        square = _given_split(shifts, steps - start, gap, beta)
    elif tau is not None:
        square = float(cost(np.array([float(steps - checked_tau(mechanism.steps, tau))]))[0])
    else:
        square, _ = smallest(cost, steps)
    return square / mechanism.step_std**2


def _given_split(
    shifts: LipschitzShifts, length: int, distance: float, beta: float | Sequence[float]
) -> float:
    split = validate.array_in(0, 1, open_ends=False, beta=beta)
    if split.ndim and split.shape != (length,):
        raise ValueError(
            f"beta must be one number, or one for each of the {length} steps from tau on, "
            f"got {split.size}"
        )
    split = np.broadcast_to(split, (length,))
    if np.min(split) == 0:
        raise ValueError("beta must be above 0 in a step that meets the record, got 0")
    weights = np.exp(-2 * shifts.log_contraction * np.arange(1, length + 1))
    room = float(np.sum((1 - split) * weights))
    if distance > 0 and room == 0:
        raise ValueError(
            f"beta must leave room for the distance {distance:g} at tau, got 1 in every step"
        )
    absorbed = distance**2 / room if distance > 0 else 0.0
    return float(np.sum(shifts.shift**2 / split)) + absorbed


@bound("cl25.theorem_3_1")
def theorem_3_1(
    mechanism: NoisySGD,
    *,
    losses: Branch | None = None,
    tau: int | None = None,
    beta: float | Sequence[float] | None = None,
) -> PrivacyCurve:
    """Smooth losses, full batches (Theorem 3.1), at the best beta and tau unless they are given.

    losses: Branch. Default: the applicable one with the smallest c.
    tau: Start of the analysis, 0 to T - 1.
    beta: Noise split, one value or one per step from tau on.
    """
    return RenyiCurve.linear(_smooth_square(mechanism, losses, tau, beta) / 2)


@bound("cl25.theorem_3_1_gaussian")
def theorem_3_1_gaussian(
    mechanism: NoisySGD,
    *,
    losses: Branch | None = None,
    tau: int | None = None,
    beta: float | Sequence[float] | None = None,
) -> PrivacyCurve:
    """Theorem 3.1 as a tradeoff function; options as in `theorem_3_1`.

    The shifts b_t of Theorem 3.1, started from two iterates at most the tracked distance apart, are
    shifts of the interpolated process of Bok, Su and Altschuler (2024, Theorem 3.3), which needs
    only the Lipschitz constant of the updates. For convex losses k = T is composition.
    """
    return GaussianCurve(math.sqrt(_smooth_square(mechanism, losses, tau, beta)))


@bound("cl25.theorem_3_7")
def theorem_3_7(
    mechanism: NoisySGD, *, tau: int | None = None, shifts: Sequence[float] | None = None
) -> PrivacyCurve:
    """Hoelder continuous gradients, full batches (Theorem 3.7).

    The best beta_t is s/(s + a_t), s = 2 eta K/n. The shifts come from
    `audit.bounds.accounting.shift_allocation`: they are feasible, so the bound is valid, and
    lengths T - tau above 4096 are not tried.

    tau: Start of the analysis, 0 to T - 1.
    shifts: Values a_t for t = tau..T-1; requires ``tau``.
    """
    meetings = Meetings(mechanism.steps)
    size, modulus = step_shift(mechanism, mechanism.dataset_size), holder_modulus(mechanism)
    distance = growth_of(mechanism, mechanism.dataset_size, modulus).after(meetings)
    start = None if tau is None else checked_tau(mechanism.steps, tau)
    if shifts is None:
        length = None if start is None else mechanism.steps - start
        square = cheapest_holder(meetings, size, modulus, distance, length)
        return RenyiCurve.linear(square / mechanism.step_std**2 / 2)
    if start is None:
        raise ValueError("tau must be given with shifts, got None")
    given = validate.array_in(0, np.inf, open_ends=False, shifts=shifts)
    if given.shape != (mechanism.steps - start,):
        raise ValueError(
            f"shifts must be one for each of the {mechanism.steps - start} steps from tau on, "
            f"got {given.size}"
        )
    absorbed = 0.0
    for shift in given[::-1]:
        absorbed = float(modulus.inverse(absorbed + float(shift)))
    needed = float(distance(start))
    if absorbed < needed * (1 - 1e-12):
        raise ValueError(f"shifts must absorb the distance {needed:g} at tau, got {absorbed:g}")
    return RenyiCurve.linear(float(np.sum((size + given) ** 2)) / mechanism.step_std**2 / 2)


@bound("cl25.output_perturbation")
def output_perturbation(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the diameter (Figure 1).

    False: the last noiseless update differs too. With D = 2 eta K/n = 1, sigma = .3, T = 20 and
    drifts of +-1/2 the divergence of order 2 is 12.88954 against the 11.111 claimed.
    """
    return RenyiCurve.linear((known(mechanism.diameter) / mechanism.step_std) ** 2 / 2)


def _last_distance(mechanism: NoisySGD) -> float:
    """Return a bound on the distance of two iterates before the last step's noise."""
    shift, widest = step_shift(mechanism, mechanism.dataset_size), domain(mechanism)
    reach = [widest + clip_speed(mechanism)]
    if SMOOTH.holds(mechanism):
        reach.append(widest + excess(mechanism) * widest + shift)
    if HOLDER.holds(mechanism):
        reach.append(float(holder_modulus(mechanism)(widest)) + shift)
    return min(reach)


@bound("cl25.output_perturbation_corrected")
def output_perturbation_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the distance of the last noiseless updates.

    Given two iterates of the domain before the last step, the last iterates are projections of
    normal laws, and tradeoff functions are jointly convex. With Hoelder continuous gradients g(D)
    takes the place of c D.
    """
    distance = _last_distance(mechanism)
    if math.isinf(distance):
        raise NotApplicable(
            "cl25.output_perturbation_corrected needs steps whose effect on distances is bounded "
            f"(smoothness, or clipping), got smoothness={mechanism.smoothness}"
        )
    return GaussianCurve(distance / mechanism.step_std)


# --------------------------------------------------------------------------------- sampled batches


_SPLITS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92, 0.97, 1.0)
_MAX_LENGTH = 4096


def _sampled_growth(mechanism: NoisySGD) -> list[tuple[Growth, HolderModulus | None, float]]:
    """Return (tracking, modulus or None, c - 1) for each condition that the mechanism meets."""
    b, share = mechanism.batch_size, (mechanism.batch_size - 1) / mechanism.batch_size
    found: list[tuple[HolderModulus, HolderModulus | None, float]] = []
    if HOLDER.holds(mechanism):
        found.append((holder_modulus(mechanism, share), holder_modulus(mechanism), 0.0))
    if SMOOTH.holds(mechanism):
        surplus = excess(mechanism)
        found.append((HolderModulus(surplus * (share if surplus > 0 else 1), 1.0), None, surplus))
    # any record may take the place of another one, in both relations
    shift = clip_speed(mechanism) / b
    return [
        (replace(growth_of(mechanism, b, met), shift=shift), modulus, surplus)
        for met, modulus, surplus in found
    ]


def _absorbing_costs(mechanism: NoisySGD) -> tuple[Array, Array]:
    """Return lengths k and small sums of a_t^2 that absorb the distance at T - k."""
    steps = mechanism.steps
    dense = np.arange(1, min(steps, _MAX_LENGTH) + 1)
    sparse = np.rint(np.geomspace(1, steps, 256)).astype(np.int64)
    lengths = np.unique(np.concatenate([dense, sparse, steps + 1 - sparse]))
    best = np.full(lengths.size, np.inf)
    every = Meetings(steps)
    for growth, modulus, surplus in _sampled_growth(mechanism):
        distances = growth.after(every)(steps - lengths)
        if modulus is not None and modulus.order < 1:
            costs = np.full(lengths.size, np.inf)
            shifts = HolderShifts(every, 0.0, modulus)
            costs[: dense.size] = shifts.costs(distances[: dense.size])
            costs = np.where(distances == 0, 0.0, costs)
        else:
            constant = surplus if modulus is None else modulus.constant
            costs = LipschitzShifts(every, 0.0, constant).costs(lengths, distances)
        best = np.minimum(best, costs)
    return lengths.astype(np.float64), best


def _theorem_3_12(
    mechanism: NoisySGD, beta: float | None, order: Order, square_root: bool
) -> PrivacyCurve:
    """Return the minimum of equation (19) over tau and a constant split, for each order."""
    splits: tuple[float, ...] = _SPLITS
    if beta is not None:
        validate.positive(beta=beta)
        validate.closed_unit(beta=beta)
        splits = (float(beta),)
    lengths, absorbed = _absorbing_costs(mechanism)
    absorbed = absorbed / mechanism.step_std**2
    noise = mechanism.step_std * mechanism.batch_size / clip_speed(mechanism)
    noises = noise * (np.sqrt(splits) if square_root else np.array(splits))

    def at_order(alpha: float, steps: Array) -> float:
        best = math.inf
        for split, step in zip(splits, steps, strict=True):
            # without a distance all noise may hide the gradients
            room = alpha / (2 * (1 - split)) if split < 1 else math.inf
            moved = np.zeros_like(absorbed)
            np.multiply(absorbed, room, out=moved, where=absorbed > 0)
            best = min(best, float(np.min(lengths * step + moved)))
        return best

    def divergence(alpha: Array) -> Array:
        orders = alpha[:, None]
        steps = sampled_gaussian_renyi(orders, mechanism.sampling_rate, noises, order)
        pairs = zip(alpha.tolist(), np.asarray(steps), strict=True)
        return np.array([at_order(*pair) for pair in pairs])

    return CostlyRenyiCurve(divergence, search=(1e-2, 1e3), points=41, refinements=2)


@bound("cl25.theorem_3_12")
def theorem_3_12(mechanism: NoisySGD, *, beta: float | None = None) -> PrivacyCurve:
    """Batches drawn without replacement, Hoelder continuous gradients (Theorem 3.12, as printed).

    S_alpha is one order of the pair (Definition 3.11), and a mechanism is private only if both are
    bounded: one step of one of two records with gradients +L, +L against +L, -L refutes it. The
    split is constant here.

    beta: Noise split, in (0, 1]. Default: the best of 12 values for each order alpha.
    """
    return _theorem_3_12(mechanism, beta, Order.REVERSE, False)


@bound("cl25.theorem_3_12_both_orders")
def theorem_3_12_both_orders(mechanism: NoisySGD, *, beta: float | None = None) -> PrivacyCurve:
    """Theorem 3.12 with the larger of both orders of S_alpha, and sqrt(beta_t) in it.

    Unproven: given the shifted noise, the law of the batch differs for the second process, so the
    two processes do not share their maps, as the proof requires.
    """
    # D(mixture || N) is the larger one (Mironov, Talwar and Zhang 2019, Theorem 5)
    return _theorem_3_12(mechanism, beta, Order.FORWARD, True)
