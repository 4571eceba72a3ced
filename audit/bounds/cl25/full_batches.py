"""Chien and Li (2025): full batches, and output perturbation, which sees only the last step.

The paper adds N(0, sigma^2) to the iterate, so its sigma is ``step_std``; its K is
`NoisySGD.gradient_bound` and its L the smoothness: see `audit.bounds.cl25.distance_tracking`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit import validate
from audit.bounds.accounting.shift_allocation import (
    LipschitzShifts,
    Meetings,
    cheapest_holder,
    smallest,
)
from audit.bounds.accounting.update import checked_tau
from audit.bounds.assumptions import HOLDER, SMOOTH, NotApplicable
from audit.bounds.cl25.distance_tracking import (
    Branch,
    clip_speed,
    domain,
    excess,
    holder_growth,
    holder_modulus,
    step_shift,
)
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array


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
    """Smooth losses, full batches (Theorem 3.1).

    c = 1 needs eta <= 2/M, and c = 1 - eta m needs eta <= 1/M; both need losses whose gradients are
    not clipped. The best beta is found exactly, and the best tau among all.

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
    """Theorem 3.1 as a tradeoff function: G(mu) with alpha mu^2/2 its bound.

    The shifts b_t of Theorem 3.1, started from two iterates at most the tracked distance apart, are
    shifts of the interpolated process of Bok, Su and Altschuler (2024, Theorem 3.3), which needs
    only the Lipschitz constant of the updates. For convex losses k = T is composition. The options
    are those of `theorem_3_1`.
    """
    return GaussianCurve(math.sqrt(_smooth_square(mechanism, losses, tau, beta)))


@bound("cl25.theorem_3_7")
def theorem_3_7(
    mechanism: NoisySGD, *, tau: int | None = None, shifts: Sequence[float] | None = None
) -> PrivacyCurve:
    """Hoelder continuous gradients, full batches (Theorem 3.7).

    D_t is that of Lemma 3.10, and the best beta_t is s/(s + a_t), s = 2 eta K/n. The shifts come
    from `audit.bounds.accounting.shift_allocation`: they are feasible, so the bound is valid, and
    lengths T - tau above 4096 are not tried.

    tau: Start of the analysis, 0 to T - 1.
    shifts: Values a_t for t = tau..T-1; requires ``tau``.
    """
    meetings = Meetings(mechanism.steps)
    distance = holder_growth(mechanism, mechanism.dataset_size).after(meetings)
    size, modulus = step_shift(mechanism, mechanism.dataset_size), holder_modulus(mechanism)
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
    """Compare the noise of the last step with the diameter: alpha D^2/(2 sigma^2) (Figure 1).

    It is the Gaussian mechanism whose sensitivity is D. As a bound on update (1) it is false: the
    last noiseless update differs too, and the iterates before the noise are up to c D + 2 eta K/n
    apart. With D = 2 eta K/n = 1, sigma = .3, T = 20 and drifts of +-1/2 the divergence of order 2
    is 12.88954 against the 11.111 claimed.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    return RenyiCurve.linear((mechanism.diameter / mechanism.step_std) ** 2 / 2)


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
    """G(min(c D + s, D + 2 eta K)/sigma) with s = 2 eta K/n, from the last step only.

    Given two iterates of the domain before the last step, in any coupling, the last iterates are
    projections of normal laws of equal variance whose means are at most so far apart, and tradeoff
    functions are jointly convex. c is that of Theorem 3.1; with Hoelder continuous gradients
    g(D) takes the place of c D.
    """
    distance = _last_distance(mechanism)
    if math.isinf(distance):
        raise NotApplicable(
            "cl25.output_perturbation_corrected needs steps whose effect on distances is bounded "
            f"(smoothness, or clipping), got smoothness={mechanism.smoothness}"
        )
    return GaussianCurve(distance / mechanism.step_std)
