"""Altschuler and Talwar (2022), "Privacy of noisy stochastic gradient descent" (paper 000).

The paper's update is the package's: ``noise_std`` is its sigma. Its 2L is the sensitivity of the
differing record, `NoisySGD.sensitivity`, which is L for zero-out neighbours (Remark B.2). Here are
the bounds for fixed batches; `at22_iteration` has amplification by iteration by itself,
`at22_sampled` and `at22_small_batches` what uses sampling, `at22_rates` rates without constants.
"""

from __future__ import annotations

import math

from audit import validate
from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FIXED_ORDER,
    FULL_BATCHES,
    LAST_ITERATE,
    UNCLIPPED,
    WHOLE_EPOCHS,
)
from audit.bounds.registry import Citation, Entry, Status
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import Batching, NoisySGD

CONVEX_ITERATION = (CONVEX, UNCLIPPED, CONTRACTIVE_STEPS, LAST_ITERATE)
"""What makes the iterates a contractive noisy iteration of which only the end is seen."""


def cite(place: str) -> Citation:
    """Cite a place in the paper."""
    return Citation(
        "Altschuler, Talwar",
        2022,
        "Privacy of Noisy Stochastic Gradient Descent: More Iterations without More Privacy Loss",
        place,
    )


def b_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Full-batch Noisy-SGD with convex losses on a bounded domain (Appendix B.1, equation (B.1)).

    With s = eta S/n the shift of one step (S the sensitivity: 2L, or L for zero-out) and
    D~ = D + s, the Renyi divergence of order alpha is at most

        alpha/(2 eta^2 sigma^2) min{ T s^2, min over T~ in 1..T of T~ (D~/T~ + s)^2 }.

    The proof uses L through S only, so losses with a shared regulariser are covered. The inner
    minimum is taken at the exact best integer: (D~ + s T~)^2/T~ falls until T~ = D~/s and rises
    after it. Its first branch is composition and needs none of the assumptions; it is entered by
    itself as ``bsa24.theorem_4_1``.
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


def _position(mechanism: NoisySGD, index: int | None) -> tuple[int, int]:
    """Return how many batches follow in its cycle from the record's batch on, and the cycle."""
    period = mechanism.dataset_size // mechanism.batch_size
    if index is None:
        return 1, period
    validate.integer(1, index=index)
    if index > mechanism.dataset_size:
        raise ValueError(
            f"index must be at most dataset_size ({mechanism.dataset_size}), got {index!r}"
        )
    return period - (index - 1) // mechanism.batch_size, period


def cycle_cost(mechanism: NoisySGD, index: int | None) -> float:
    """Return the best sum a_t^2/std^2 over all steps, for a constant step size.

    A record that is visited V times, the last time r steps before the end (itself counted), costs
    s^2 ((V - 1)/l + 1/r) over cycles of l batches. By default it is in the last batch.
    """
    steps, b = mechanism.steps, mechanism.batch_size
    square = (mechanism.sensitivity / (b * mechanism.noise_std)) ** 2
    if mechanism.batching not in (Batching.CYCLIC, Batching.SHUFFLED):
        return steps * square
    period = mechanism.dataset_size // b
    last = (steps - 1) % period + 1 if index is None else (index - 1) // b + 1
    visits = (steps - last) // period + 1
    if visits < 1:
        return 0.0  # never seen
    remaining = steps - last - (visits - 1) * period + 1
    return ((visits - 1) / period + 1 / remaining) * square


def eq_5_4(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Batches in fixed order, any number of steps (equation (5.4), with its constant).

    D_alpha <= alpha S^2/(2 b^2 sigma^2) ((V - 1) b/n + 1/r) for a record that is visited V times,
    and r steps before the end (itself counted) for the last time: the proof of Theorem 35 of
    Feldman et al. (2018) with a_t spread evenly from visit to visit.

    Parameters
    ----------
    mechanism
        The public parameters.
    index
        The record, from 1; by default the worst, in the batch of the last step.
    """
    _position(mechanism, index)  # the range of the index
    return RenyiCurve.linear(cycle_cost(mechanism, index) / 2)


def theorem_5_6(
    mechanism: NoisySGD, *, index: int | None = None, length: int | None = None
) -> PrivacyCurve:
    """Cyclic batches on a bounded domain (Theorem 5.6, the sum before (5.6) is simplified).

    With s = eta S/b, D~ = D + s, l = n/b batches, the record in batch p and T~ = k l steps,

        sum a_t^2 = D~^2/T~ + 2 D~ s/l + (k - 1) s^2/l + s^2/(l - p + 1),

    and D_alpha <= alpha/(2 eta^2 sigma^2) times the smallest over T~ <= T, or times the sum of
    (5.4), whichever is smaller. The best k is next to D~/s.

    Parameters
    ----------
    mechanism
        The public parameters; n/b must divide T.
    index
        The record, from 1; by default the worst, in the last batch.
    length
        T~, a multiple of n/b; by default the best.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    rest, period = _position(mechanism, index)
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


ENTRIES = (
    Entry(
        id="at22.b_1",
        cite=cite("Appendix B.1, equation (B.1)"),
        statement=(
            "full batches, convex losses on a bounded domain, Renyi: D_alpha <= alpha/(2 eta^2 "
            "sigma^2) min{T s^2, min over T~ <= T of T~ ((D + s)/T~ + s)^2}, s = 2 eta L/n"
        ),
        assumptions=(FULL_BATCHES, *CONVEX_ITERATION, BOUNDED_DOMAIN, CONSTANT_STEP_SIZE),
        status=Status.AS_PRINTED,
        function=b_1,
    ),
    Entry(
        id="at22.eq_5_4",
        cite=cite("section 5.2, equation (5.4)"),
        statement=(
            "fixed batches in fixed order, convex losses, Renyi: D_alpha <= (2 alpha L^2/(b^2 "
            "sigma^2)) ((V - 1) b/n + 1/r), V visits, r steps from the last one to the end"
        ),
        assumptions=(FIXED_ORDER, *CONVEX_ITERATION, CONSTANT_STEP_SIZE),
        status=Status.CORRECTED,
        function=eq_5_4,
    ),
    Entry(
        id="at22.theorem_5_6",
        cite=cite("Theorem 5.6, the sum before the simplification of (5.6)"),
        statement=(
            "fixed batches in fixed order, convex losses on a bounded domain, Renyi: D_alpha <= "
            "alpha/(2 eta^2 sigma^2) min over k of (D + s)^2/(k l) + 2 (D + s) s/l + (k - 1) s^2/l "
            "+ s^2/(l - p + 1), s = 2 eta L/b, l = n/b, p the record's batch"
        ),
        assumptions=(
            FIXED_ORDER,
            *CONVEX_ITERATION,
            BOUNDED_DOMAIN,
            CONSTANT_STEP_SIZE,
            WHOLE_EPOCHS,
        ),
        status=Status.AS_PRINTED,
        function=theorem_5_6,
    ),
)
