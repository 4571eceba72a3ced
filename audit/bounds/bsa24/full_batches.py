"""Bok, Su and Altschuler (2024), section 4.1: full batches.

The paper's update is the package's. Its L is a gradient sensitivity (Definition 2.10), written S
here: for full and cyclic batches that of the differing record (`NoisySGD.sensitivity`: 2L for
L-Lipschitz losses, L for zero-out), for sampled batches that of the whole family
(`audit.bounds.accounting.family_sensitivity`).
"""

from __future__ import annotations

import math

from audit.bounds.accounting.update import contraction_gap
from audit.bounds.assumptions import ROUNDING, Assumption, constant_step_size
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD


def crossing_time(mechanism: NoisySGD, batch: int) -> float:
    """Return D batch/(eta S), the number of shifts eta S/batch that cross the domain.

    It is rounded to an integer if it differs from one only by rounding errors: parameters in double
    precision may give 3.0000000000000004.
    """
    assert mechanism.diameter is not None  # an assumption of the entries that use it
    shift = mechanism.constant_step_size * mechanism.sensitivity / batch
    ratio = mechanism.diameter / shift
    if not math.isfinite(ratio):
        return math.inf
    whole = round(ratio)
    return float(whole) if whole and abs(ratio / whole - 1) <= ROUNDING else ratio


def enough_shifts(mechanism: NoisySGD, batch: int, shifts: float) -> bool:
    """Return whether this number of shifts eta S/batch crosses the domain."""
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return False
    return shifts >= crossing_time(mechanism, batch)


def _steps_found(mechanism: NoisySGD) -> str:
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return f"steps={mechanism.steps}"
    needed = crossing_time(mechanism, mechanism.dataset_size)
    return f"steps={mechanism.steps} below {needed:.6g}"


ENOUGH_STEPS = Assumption(
    "steps >= D n/(eta L) with L the gradient sensitivity",
    lambda m: enough_shifts(m, m.dataset_size, m.steps),
    _steps_found,
)


@bound("bsa24.theorem_4_1")
def theorem_4_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for full batches (Theorem 4.1).

    The ratio of shift and noise of a step does not depend on the step size, so schedules are
    covered; neither convexity nor smoothness is used.
    """
    ratio = mechanism.sensitivity / (mechanism.dataset_size * mechanism.noise_std)
    return GaussianCurve(ratio * math.sqrt(mechanism.steps))


@bound("bsa24.theorem_4_2")
def theorem_4_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly convex losses, full batches (Theorem 4.2).

    The root covers both fractions. For eta <= 2/(M + m) quadratics of curvature m reach it.
    Projections are contractive and post-processing, so a bounded domain changes nothing in the
    proof.
    """
    gap = contraction_gap(mechanism)
    # (1 - c^t)/(1 + c^t) = tanh(t log(1/c)/2)
    rate = math.inf if gap == 1 else -math.log1p(-gap)
    square = math.tanh(mechanism.steps * rate / 2) * (2 - gap) / gap
    ratio = mechanism.sensitivity / (mechanism.dataset_size * mechanism.noise_std)
    return GaussianCurve(ratio * math.sqrt(square))


@bound("bsa24.theorem_4_3", enough_steps=ENOUGH_STEPS)
def theorem_4_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Convex losses on a bounded domain, at least D n/(eta S) steps (Theorem 4.3)."""
    assert mechanism.diameter is not None  # an assumption of the entry
    ratio = mechanism.sensitivity / mechanism.dataset_size
    ceiling = math.ceil(crossing_time(mechanism, mechanism.dataset_size))
    square = 3 * ratio * mechanism.diameter / mechanism.constant_step_size + ratio**2 * ceiling
    return GaussianCurve(math.sqrt(square) / mechanism.noise_std)
