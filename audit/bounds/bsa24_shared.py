"""What the modules of paper 004 (Bok, Su and Altschuler 2024) share.

The paper's update is the package's. Its L is a gradient sensitivity (Definition 2.10), written S
here: for full and cyclic batches that of the differing record (`NoisySGD.sensitivity`: 2L for
L-Lipschitz losses, L for zero-out), for sampled batches that of the whole family, because the
differing record takes the place of another one: see `family_sensitivity`.
"""

from __future__ import annotations

import math

from audit.bounds.assumptions import ROUNDING, Assumption, constant_step_size
from audit.bounds.registry import Citation
from audit.mechanism import NoisySGD, Relation


def cite(place: str) -> Citation:
    """Return the citation of a place in the paper."""
    return Citation(
        "Bok, Su, Altschuler", 2024, "Shifted Interpolation for Differential Privacy", place
    )


def family_sensitivity(mechanism: NoisySGD) -> float:
    """Bound on the difference of any two records' gradients, whatever the relation.

    In a batch drawn without replacement the differing record stands where another record would
    stand, so bounds for such batches need the distance of any two gradients of the family. For
    replace-one that is the sensitivity itself. For zero-out the sensitivity S only bounds the
    distance of a gradient from the zeroed one, and two gradients can be 2S apart.
    """
    if mechanism.relation is Relation.ZERO_OUT:
        return 2 * mechanism.sensitivity
    return mechanism.sensitivity


def crossing_time(mechanism: NoisySGD, batch: int) -> float:
    """D batch/(eta S): the number of shifts eta S/batch that cross the domain.

    It is rounded to a whole number that it misses by no more than rounding: decimals in double
    precision make 3 shifts 3.0000000000000004.
    """
    assert mechanism.diameter is not None  # an assumption of the entries that use it
    shift = mechanism.constant_step_size * mechanism.sensitivity / batch
    ratio = mechanism.diameter / shift
    if not math.isfinite(ratio):
        return math.inf
    whole = round(ratio)
    return float(whole) if whole and abs(ratio / whole - 1) <= ROUNDING else ratio


def contraction_gap(mechanism: NoisySGD) -> float:
    """1 - c with c = max(|1 - eta m|, |1 - eta M|), without the cancellation near c = 1.

    Negative for losses that are not convex, where c = 1 + eta M.
    """
    assert mechanism.smoothness is not None  # an assumption of the entries that use it
    eta = mechanism.constant_step_size
    if not mechanism.convex:
        return -eta * mechanism.smoothness
    pulls = (eta * mechanism.strong_convexity, eta * mechanism.smoothness)
    return min(min(pull, 2 - pull) for pull in pulls)


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


def enough_shifts(mechanism: NoisySGD, batch: int, shifts: float) -> bool:
    """Whether so many shifts of eta S/batch cross the domain."""
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return False
    return shifts >= crossing_time(mechanism, batch)


def _steps_found(mechanism: NoisySGD) -> str:
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return f"steps={mechanism.steps}"
    needed = crossing_time(mechanism, mechanism.dataset_size)
    return f"steps={mechanism.steps} below {needed:.6g}"


def _epochs_found(mechanism: NoisySGD) -> str:
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return f"epochs={mechanism.epochs:g}"
    return f"epochs={mechanism.epochs:g} below {crossing_time(mechanism, mechanism.batch_size):.6g}"


ENOUGH_STEPS = Assumption(
    "steps >= D n/(eta L) with L the gradient sensitivity",
    lambda m: enough_shifts(m, m.dataset_size, m.steps),
    _steps_found,
)
ENOUGH_EPOCHS = Assumption(
    "epochs >= D b/(eta L) with L the gradient sensitivity",
    lambda m: enough_shifts(m, m.batch_size, m.epochs * (1 + ROUNDING)),
    _epochs_found,
)
