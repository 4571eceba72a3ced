"""Sun, Shen and Tao (2024): federated learning by Noisy-FedAvg and Noisy-FedProx.

A round of m clients is update (1) with full batches: the clients are the n records, V is the bound
on a record's gradient, and the server's mean of m noises of standard deviation sigma moves the
iterate by ``step_std = sigma/sqrt(m)``. Neighbours differ in one sample of one client, whose
clipped gradient changes by at most 2V. The paper assumes no projection.

The K local steps of a round of linear losses add up to one step. ``step_size`` is the size of that
step: the sum of the local learning rates, and for Noisy-FedProx (1 - (1 - eta a)^K)/a. So pairs of
linear losses, such as `TwoSidedWalk`, are pairs of K local steps for every K, and reach what one
round can tell: clipped gradients move a client by at most 2V times that size. Other losses have
other rounds: a pair with curvature is one of K = 1 only.

The formulas are those of the text of the ICLR version. Theorem 3 (c) and (d), whose learning rates
decay from round to round under a constant noise, are no mechanism of update (1); they hold by
composition.
"""

from __future__ import annotations

import math

from audit import validate
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD


def _rounds(mechanism: NoisySGD, log_growth: float) -> PrivacyCurve:
    """Return mu = mu_1 sqrt((c+1)/(c-1) (c^T-1)/(c^T+1)) for c = e^log_growth.

    mu_1 = 2 eta V/(sqrt(m) sigma) is that of one round.
    """
    moved = mechanism.constant_step_size * mechanism.sensitivity / mechanism.dataset_size
    half = log_growth / 2
    saturation = math.tanh(mechanism.steps * half) / math.tanh(half)
    return GaussianCurve(moved / mechanism.step_std * math.sqrt(saturation))


@bound("sun24.theorem_3_a")
def theorem_3_a(mechanism: NoisySGD, *, local_steps: int = 1) -> PrivacyCurve:
    """Claim that rounds of smooth, non-convex losses have a convergent privacy loss (Theorem 3a).

    A round has K local steps of rate eta = ``step_size``/K. The claim stays below sqrt((c + 1)/(c -
    1)) rounds, but linear losses, which are smooth with any M, compose: their last iterates are
    exactly sqrt(T) rounds apart, whatever K. Exact for T = 1, and false from T = 2 on. For K = 1
    the formula is the value of quadratics whose curvature is -M, so expanding as fast as allowed is
    not the worst case. The proof puts shifts outside of [0, 1], where the distance of the two
    processes is no longer what it bounds.

    local_steps: Number K of local steps of a round.
    """
    assert mechanism.smoothness is not None  # an assumption of the entry
    validate.integer(1, local_steps=local_steps)
    rate = mechanism.constant_step_size / local_steps
    return _rounds(mechanism, local_steps * math.log1p(rate * mechanism.smoothness))


@bound("sun24.theorem_3_b")
def theorem_3_b(mechanism: NoisySGD) -> PrivacyCurve:
    r"""Claim the same for local learning rates that decay within a round (Theorem 3b).

    The paper writes :math:`c \eta \ln(K+1)` for the sum s of a round, with a constant c between 1
    and 1.543 that makes it equal; the factor eta is missing in front of the printed root. With s
    the claim depends on K through s only, and is the limit of Theorem 3a for many local steps.
    Exact for T = 1, and false from T = 2 on for the reason given there.
    """
    assert mechanism.smoothness is not None  # an assumption of the entry
    return _rounds(mechanism, mechanism.constant_step_size * mechanism.smoothness)


@bound("sun24.theorem_4")
def theorem_4(mechanism: NoisySGD, *, proximal: float | None = None) -> PrivacyCurve:
    """Claim that a proximal term makes the privacy loss converge (Theorem 4).

    Local steps are below 1/(a - M); their number K does not occur. Linear losses move a client by
    (1 - (1 - eta a)^K)/a times their gradients, the ``step_size`` of the round. Up to 1/a it is
    that of some eta for every K; above 1/a, which the range of eta allows, for an odd K such as 1.

    False from T = 1 on: the last factor should be under the root. At a step size of 1/a (K = 1 and
    eta = 1/a, or any eta < 2/a and many local steps) one round of linear losses is exactly
    sqrt((2a-M)/M) times the claim. With the root it is still false from T = 2 on, as Theorem 3a is.

    proximal: The weight a, above M and below M + 1/eta, with eta the step size: the range of K = 1.
        Default: M + 1/(2 eta).
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
