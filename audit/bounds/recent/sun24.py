"""Sun, Shen and Tao (2024): federated learning by Noisy-FedAvg and Noisy-FedProx.

A round of m clients that take K = 1 local step each is update (1) with full batches: the clients
are the n records, V is the bound on a record's gradient, and the server's mean of m noises of
standard deviation sigma moves the iterate by ``step_std = sigma/sqrt(m)``. Neighbours differ in
one sample of one client, whose clipped gradient changes by at most 2V. The paper assumes no
projection.
"""

from __future__ import annotations

import math

from audit.bounds.assumptions import (
    CONSTANT_STEP_SIZE,
    FULL_BATCHES,
    LAST_ITERATE,
    SMOOTH,
    Assumption,
)
from audit.bounds.registry import Status, bound
from audit.bounds.sources import SUN24
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD

UNCONSTRAINED = Assumption(
    "iterates without a domain", lambda m: m.diameter is None, lambda m: f"diameter={m.diameter}"
)

_ROUNDS = (FULL_BATCHES, LAST_ITERATE, CONSTANT_STEP_SIZE, SMOOTH, UNCONSTRAINED)


def _one_round(mechanism: NoisySGD) -> float:
    """Return the Gaussian parameter of one round, 2 eta V/(sqrt(m) sigma)."""
    moved = mechanism.constant_step_size * mechanism.sensitivity / mechanism.dataset_size
    return moved / mechanism.step_std


def _saturation(log_growth: float, rounds: int) -> float:
    """Return (c+1)/(c-1) (c^T-1)/(c^T+1) for c = e^log_growth."""
    return math.tanh(rounds * log_growth / 2) / math.tanh(log_growth / 2)


@bound(
    id="sun24.theorem_3_a",
    source=SUN24.at("Theorem 3 (a), one local step"),
    statement=(
        "Noisy-FedAvg, K = 1, smooth losses, T rounds: mu-GDP with mu = (2 eta V/(sqrt(m) sigma)) "
        "sqrt((c+1)/(c-1) (c^T-1)/(c^T+1)), c = 1 + eta M"
    ),
    assumes=_ROUNDS,
    status=Status.REFUTED,
)
def theorem_3_a(mechanism: NoisySGD) -> PrivacyCurve:
    r"""Claim that rounds of smooth, non-convex losses have a convergent privacy loss (Theorem 3a).

    :math:`\mu = \frac{2\eta V}{\sqrt m \sigma}
    \sqrt{\frac{c+1}{c-1}\,\frac{c^T-1}{c^T+1}}` with :math:`c = 1 + \eta M`, for one local step.

    It stays below sqrt((2 + eta M)/(eta M)) rounds, but linear losses, which are smooth with any
    M, compose: their last iterates are exactly sqrt(T) rounds apart. False from T = 2 on. The
    formula is the value of quadratics whose curvature is -M, so expanding as fast as allowed is
    not the worst case. The proof puts shifts outside of [0, 1], where the distance of the two
    processes is no longer what it bounds.
    """
    assert mechanism.smoothness is not None  # an assumption of the entry
    growth = math.log1p(mechanism.constant_step_size * mechanism.smoothness)
    return GaussianCurve(_one_round(mechanism) * math.sqrt(_saturation(growth, mechanism.steps)))


@bound(
    id="sun24.theorem_4",
    source=SUN24.at("Theorem 4, one local step"),
    statement=(
        "Noisy-FedProx, K = 1, smooth losses, proximal weight a > M, T rounds: mu-GDP with "
        "mu = (2V/(sqrt(m) a sigma)) sqrt((2a-M)/M) (1 - 2/((a/(a-M))^T + 1))"
    ),
    assumes=_ROUNDS,
    status=Status.REFUTED,
)
def theorem_4(mechanism: NoisySGD, *, proximal: float | None = None) -> PrivacyCurve:
    r"""Claim that a proximal term makes the privacy loss converge (Theorem 4).

    :math:`\mu = \frac{2V}{\sqrt m a \sigma} \sqrt{\frac{2a-M}{M}}
    \left(1 - \frac{2}{(a/(a-M))^T + 1}\right)` for a proximal weight a > M and local steps
    eta < 1/(a - M). The proximal term has no gradient at the start of a round, so for one local
    step the round is that of Noisy-FedAvg.

    False from T = 1 on: the last factor should be under the root. For eta = 1/a one round of linear
    losses is exactly sqrt((2a-M)/M) times the claim. With the root it is still false from T = 2 on,
    as Theorem 3a is.

    Parameters
    ----------
    mechanism : NoisySGD
        Public parameters of the run.
    proximal : float, optional
        The weight a, above M and below M + 1/eta. Default: M + 1/(2 eta).
    """
    assert mechanism.smoothness is not None  # an assumption of the entry
    smoothness, eta = mechanism.smoothness, mechanism.constant_step_size
    weight = smoothness + 1 / (2 * eta) if proximal is None else float(proximal)
    if not smoothness < weight < smoothness + 1 / eta:
        raise ValueError(
            f"proximal must be above {smoothness:g} (M) and below {smoothness + 1 / eta:g} "
            f"(M + 1/eta), got {weight:g}"
        )
    growth = -math.log1p(-smoothness / weight)
    push = mechanism.sensitivity / (mechanism.dataset_size * weight * mechanism.step_std)
    saturated = math.tanh(mechanism.steps * growth / 2)
    return GaussianCurve(push * math.sqrt((2 * weight - smoothness) / smoothness) * saturated)
