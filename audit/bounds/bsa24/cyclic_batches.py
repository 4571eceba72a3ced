"""Bok, Su and Altschuler (2024), section 4.2: fixed batches in a fixed order (NoisyCGD).

l = n/b batches an epoch and E = t/l epochs, both whole; S is the differing record's sensitivity,
and its batch may stand anywhere in the cycle.
"""

from __future__ import annotations

import math

from audit.bounds.accounting.update import contraction_gap
from audit.bounds.assumptions import ROUNDING, Assumption, constant_step_size
from audit.bounds.bsa24.full_batches import crossing_time, enough_shifts
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD


def power(gap: float, exponent: int) -> float:
    """Return (1 - gap)^exponent for gap in [0, 1]; 1 for exponent 0."""
    if exponent == 0:
        return 1.0
    return 0.0 if gap == 1 else math.exp(exponent * math.log1p(-gap))


def one_minus_power(gap: float, exponent: int) -> float:
    """Return 1 - (1 - gap)^exponent for gap in [0, 1], without cancellation."""
    if exponent == 0:
        return 0.0
    return 1.0 if gap == 1 else -math.expm1(exponent * math.log1p(-gap))


def _epochs_found(mechanism: NoisySGD) -> str:
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return f"epochs={mechanism.epochs:g}"
    return f"epochs={mechanism.epochs:g} below {crossing_time(mechanism, mechanism.batch_size):.6g}"


ENOUGH_EPOCHS = Assumption(
    "epochs >= D b/(eta L) with L the gradient sensitivity",
    lambda m: enough_shifts(m, m.batch_size, m.epochs * (1 + ROUNDING)),
    _epochs_found,
)


def _counts(mechanism: NoisySGD) -> tuple[int, int]:
    """Return l, the number of batches of an epoch, and E, the number of epochs."""
    length = mechanism.dataset_size // mechanism.batch_size
    return length, mechanism.steps // length


def _batch_ratio(mechanism: NoisySGD) -> float:
    return mechanism.sensitivity / (mechanism.batch_size * mechanism.noise_std)


@bound("bsa24.theorem_4_4")
def theorem_4_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition (Theorem 4.4): no convexity, no smoothness, any schedule of step sizes."""
    return GaussianCurve(_batch_ratio(mechanism) * math.sqrt(_counts(mechanism)[1]))


def _old_epochs(gap: float, length: int) -> float:
    """Return (1 - c^2)/(1 - c^l)^2, the effect of earlier epochs after the noise of one epoch."""
    return gap * (2 - gap) / one_minus_power(gap, length) ** 2


@bound("bsa24.theorem_4_5")
def theorem_4_5(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly convex losses, cyclic batches (Theorem 4.5)."""
    gap = contraction_gap(mechanism)
    length, epochs = _counts(mechanism)
    lost = one_minus_power(gap, length * (epochs - 1))
    fraction = power(gap, 2 * length - 2) * _old_epochs(gap, length) * lost / (2 - lost)
    return GaussianCurve(_batch_ratio(mechanism) * math.sqrt(1 + fraction))


@bound("bsa24.theorem_4_6", enough_epochs=ENOUGH_EPOCHS)
def theorem_4_6(mechanism: NoisySGD) -> PrivacyCurve:
    """Convex losses on a bounded domain, at least D b/(eta S) epochs (Theorem 4.6)."""
    assert mechanism.diameter is not None  # an assumption of the entry
    ratio = mechanism.sensitivity / mechanism.batch_size
    length, _ = _counts(mechanism)
    ceiling = math.ceil(crossing_time(mechanism, mechanism.batch_size))
    square = ratio**2 + 3 * ratio * mechanism.diameter / (mechanism.constant_step_size * length)
    square += ratio**2 * ceiling / length
    return GaussianCurve(math.sqrt(square) / mechanism.noise_std)


@bound("bsa24.table_1_renyi")
def table_1_renyi(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound of Table 1, column RDP (Appendix D.2); never below that of Theorem 4.5."""
    gap = contraction_gap(mechanism)
    length, epochs = _counts(mechanism)
    lost = one_minus_power(gap, length * (epochs - 1))
    before = power(gap, length - 2) if length > 1 or gap < 1 else math.inf
    growth = before * _old_epochs(gap, length) * lost if lost else 0.0
    rho = _batch_ratio(mechanism) ** 2 / 2 * (1 + growth)
    return RenyiCurve.linear(rho)
