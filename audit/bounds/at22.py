"""Altschuler and Talwar (2022), "Privacy of noisy stochastic gradient descent" (paper 000).

The paper's update is the package's: ``noise_std`` is its sigma. Its 2L is the sensitivity of the
differing record, `NoisySGD.sensitivity`, which is L for zero-out neighbours (Remark B.2).
"""

from __future__ import annotations

import math

from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FULL_BATCHES,
)
from audit.bounds.registry import Citation, Entry, Status
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD


def _cite(place: str) -> Citation:
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


ENTRIES = (
    Entry(
        id="at22.b_1",
        cite=_cite("Appendix B.1, equation (B.1)"),
        statement=(
            "full batches, convex losses on a bounded domain, Renyi: D_alpha <= alpha/(2 eta^2 "
            "sigma^2) min{T s^2, min over T~ <= T of T~ ((D + s)/T~ + s)^2}, s = 2 eta L/n"
        ),
        assumptions=(
            FULL_BATCHES,
            CONVEX,
            CONTRACTIVE_STEPS,
            BOUNDED_DOMAIN,
            CONSTANT_STEP_SIZE,
        ),
        status=Status.AS_PRINTED,
        function=b_1,
    ),
)
