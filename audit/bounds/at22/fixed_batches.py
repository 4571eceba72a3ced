"""Altschuler and Talwar (2022): iteration for any shifts, full batches and a fixed order.

The paper's update is the package's: ``noise_std`` is its sigma. Its 2L is the sensitivity of the
differing record, `NoisySGD.sensitivity`, which is L for zero-out neighbours (Remark B.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit import validate
from audit.bounds.accounting.iteration import (
    cycle_cost,
    diameter_amplification,
    record_place,
)
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.curves.tails import TailCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array


@bound("at22.b_1")
def b_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Full-batch Noisy-SGD with convex losses on a bounded domain (Appendix B.1, equation (B.1)).

    The proof uses L only through the sensitivity S (2L, or L for zero-out), so that s = eta S/n and
    losses with a shared regulariser are covered. The inner minimum is taken at the exact best
    integer: (D~ + s T~)^2/T~, D~ = D + s, decreases until T~ = D~/s and increases after it. The
    first branch is composition, needs none of the assumptions, and is ``bsa24.theorem_4_1``.
    """
    steps, eta = mechanism.steps, mechanism.constant_step_size
    assert mechanism.diameter is not None  # an assumption of the entry
    shift = eta * mechanism.sensitivity / mechanism.dataset_size
    diameter = mechanism.diameter + shift
    turning_point = min(diameter / shift, float(steps))
    candidates = {max(math.floor(turning_point), 1), min(math.ceil(turning_point), steps)}
    squares = [steps * shift**2]
    squares += [(diameter + shift * length) ** 2 / length for length in candidates]
    return RenyiCurve.linear(min(squares) / (2 * mechanism.step_std**2))


@bound("at22.eq_5_4")
def eq_5_4(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Batches in fixed order, any number of steps (equation (5.4), with its constant).

    The proof of Theorem 35 of Feldman et al. (2018) with a_t spread evenly from visit to visit.

    index: Record, counted from 1. Default: the worst, in the batch of the last step.
    """
    record_place(mechanism, index)  # the range of the index
    return RenyiCurve.linear(cycle_cost(mechanism, index) / 2)


@bound("at22.theorem_5_6")
def theorem_5_6(
    mechanism: NoisySGD, *, index: int | None = None, length: int | None = None
) -> PrivacyCurve:
    """Cyclic batches on a bounded domain (Theorem 5.6, the sum before (5.6) is simplified).

    The smallest over T~ = k l <= T, or the bound of (5.4) if that is smaller. The best k is next to
    (D + s)/s, s = eta S/b.

    index: Record, counted from 1. Default: the worst, in the last batch.
    length: Length T~, a multiple of n/b. Default: the best.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    rest, period = record_place(mechanism, index)
    shift = mechanism.constant_step_size * mechanism.sensitivity / mechanism.batch_size
    diameter = mechanism.diameter + shift
    most = mechanism.steps // period
    if length is None:
        best = min(max(diameter / shift, 1.0), float(most))
        cycles = {math.floor(best), math.ceil(best)}
    else:
        validate.integer(1, length=length)
        if length % period or length > mechanism.steps:
            raise ValueError(
                f"length must be a multiple of n/b ({period}) up to steps ({mechanism.steps}), "
                f"got {length!r}"
            )
        cycles = {length // period}
    costs = [
        diameter**2 / (k * period)
        + 2 * diameter * shift / period
        + (k - 1) * shift**2 / period
        + shift**2 / rest
        for k in cycles
    ]
    if length is None:
        costs.append((mechanism.epochs - 1) * shift**2 / period + shift**2 / rest)
    return RenyiCurve.linear(min(costs) / (2 * mechanism.step_std**2))


@bound("at22.conversion")
def conversion(mechanism: NoisySGD) -> PrivacyCurve:
    """Lemma 2.5 at the best order; never below ``at22.b_1``, which converts the same tightly."""
    rho = float(b_1(mechanism).renyi(2.0)) / 2
    if rho == 0:
        return TailCurve.gaussian(0.0, rho=0.0)

    def epsilon_at(delta: Array) -> Array:
        return np.asarray(rho + 2 * np.sqrt(-rho * np.log(delta)))

    def delta_at(epsilon: Array) -> Array:
        over = np.minimum(np.maximum(epsilon - rho, 0.0) / (2 * math.sqrt(rho)), 1e100)
        return np.asarray(np.exp(-np.square(over)))

    return TailCurve(epsilon_at, delta_at, rho=rho)


@bound("at22.proposition_3_2")
def proposition_3_2(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
    tau: int | None = None,
    distance: float | None = None,
) -> PrivacyCurve:
    """Amplification by iteration that uses the diameter (Proposition 3.2).

    Any tau < T is allowed. The states at tau are taken after their projection, so D is the
    diameter, not widened.

    tau: Time from which shifts are allocated, 0 to T - 1. Default: the best (the best of the last
        10,000 steps if step sizes vary or shifts are given).
    distance: Largest distance D of the states at ``tau``. Default: the diameter.
    """
    return diameter_amplification(mechanism, 1.0, shifts, allocations, tau, distance)


@bound("at22.proposition_5_4")
def proposition_5_4(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
    tau: int | None = None,
    distance: float | None = None,
) -> PrivacyCurve:
    """Amplification by iteration for c-contractive steps (Proposition 5.4)."""
    c = min(mechanism.contraction, 1.0)  # 1 + rounding at eta = 2/M
    return diameter_amplification(mechanism, c, shifts, allocations, tau, distance)
