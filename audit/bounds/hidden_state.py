"""Hidden iterates: Kong and Ribero (2024), Sun et al. (2024) and Liang et al. (2026).

Kong and Ribero bound the last step of cyclic batches with weakly convex losses.

Liang et al. take sampled batches on a bounded domain, without convexity. The formulas are those of
the authors' code for their Figure 1, which names them Theorem 3.4, and agree with the orders of
magnitude in a summary of the paper; its text could not be read. The paper's C is the bound on a
record's gradient and D the diameter of the domain. (A summary calls D the radius, which would make
the claims larger where D enters; the first term has no D.)

Sun, Shen and Tao take federated learning by Noisy-FedAvg and Noisy-FedProx. A round of m clients is
update (1) with full batches: the clients are the n records, V is the bound on a record's gradient,
and the server's mean of m noises of standard deviation sigma moves the iterate by
``step_std = sigma/sqrt(m)``. Neighbours differ in one sample of one client, whose clipped gradient
changes by at most 2V. The paper assumes no projection. The K local steps of a round of linear
losses add up to one step. ``step_size`` is the size of that step: the sum of the local learning
rates, and for Noisy-FedProx (1 - (1 - eta a)^K)/a. So pairs of linear losses, such as
`TwoSidedWalk`, are pairs of K local steps for every K, and reach what one round can tell: clipped
gradients move a client by at most 2V times that size. Other losses have other rounds: a pair with
curvature is one of K = 1 only. The formulas are those of the text of the ICLR version. Theorem 3
(c) and (d), whose learning rates decay from round to round under a constant noise, are no mechanism
of update (1); they hold by composition.
"""

from __future__ import annotations

import math

from audit import validate
from audit.bounds.assumptions import ROUNDING, Assumption, fields, known
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD

# -------------------------------------------------------------------------- Kong and Ribero (2024)


def weak_convexity(mechanism: NoisySGD) -> float:
    """Return the m for which the losses plus (m/2) |x|^2 are convex."""
    return 0.0 if mechanism.convex else known(mechanism.smoothness)


SHORT_STEPS = Assumption(
    "eta <= 1/(M + m) with M the smoothness and m the weak convexity",
    lambda m: (
        m.smoothness is not None
        and m.constant_step_size * (m.smoothness + weak_convexity(m)) <= 1 + ROUNDING
    ),
    fields("step_size", "smoothness", "convex"),
)


@bound("kong24.theorem_2_2", short_steps=SHORT_STEPS)
def theorem_2_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the domain (Theorem 2.2).

    It holds for steps of at most 1/(M+m). The Hessian of a batch's loss has eigenvalues h in [-m,
    M], and max((1 + eta m)^2, (1 - eta M)^2) <= 1 + 2 eta m + eta m^2/(M+m) = C^2. So two iterates
    of the domain are at most C D + eta S/b apart after the last noiseless update, and the normal
    noise of that step hides such a distance, given any values of the two iterates. The Renyi
    divergence of mixtures with shared weights is at most the largest of the components'.

    Only the abstract and two restatements of the paper could be read. Both restatements give this
    formula; the range of the step sizes is that of the proof above.
    """
    eta, weak = mechanism.constant_step_size, weak_convexity(mechanism)
    growth = math.sqrt(1 + 2 * eta * weak * (1 + weak / (2 * (known(mechanism.smoothness) + weak))))
    moved = eta * mechanism.sensitivity / mechanism.batch_size
    apart = known(mechanism.diameter) * growth + moved
    return RenyiCurve.linear((apart / mechanism.step_std) ** 2 / 2)


# ----------------------------------------------------------------------------- Liang et al. (2026)


def saturated_rate(mechanism: NoisySGD) -> float:
    """Return the second term of Theorem 3.4 over alpha, at the best split of the noise.

    The least value of p/x + q/(1 - x) over x in (0, 1) is (sqrt(p) + sqrt(q))^2.
    """
    record = math.sqrt(mechanism.sampling_rate) / mechanism.noise_multiplier
    return (_spread(mechanism) + record) ** 2 / 2


def _spread(mechanism: NoisySGD) -> float:
    """Return the largest distance of two iterates after a shared update, over the noise."""
    growth = 1 + mechanism.constant_step_size * known(mechanism.smoothness)
    return growth * known(mechanism.diameter) / mechanism.step_std


@bound("liang26.theorem_3_4")
def theorem_3_4(mechanism: NoisySGD) -> PrivacyCurve:
    """Claim a convergent Renyi divergence for smooth losses and sampled batches (Theorem 3.4).

    Renyi divergences of order above 1 are not convex, so averaging them over the batches is no
    bound. At one step with n = 8, b = 2, C = 2, sigma = 4 and order 16 it claims .5; a record at +C
    against -C, with the others at -C, has .60823, and at order 32 2.5703 against 1.
    """
    composed = mechanism.steps * mechanism.sampling_rate / (2 * mechanism.noise_multiplier**2)
    return RenyiCurve.linear(min(composed, saturated_rate(mechanism)))


@bound("liang26.theorem_3_4_saturated")
def theorem_3_4_saturated(mechanism: NoisySGD) -> PrivacyCurve:
    r"""Claim the second term of Theorem 3.4 alone, for any number of steps.

    The share of the record is averaged over the batches here, too. With n = 50, b = 5, C = 1,
    eta = .1, sigma = .04, M = 1 and D = .012, the others at -C push into the wall in every step; a
    batch that holds the record pushes less, and order 2 has 80.33 after 5 or 20 steps against the
    41.76 claimed.
    """
    return RenyiCurve.linear(saturated_rate(mechanism))


@bound("liang26.theorem_3_4_corrected")
def theorem_3_4_corrected(mechanism: NoisySGD) -> PrivacyCurve:
    """Compare the noise of the last step with the domain, for the batch that tells most.

    Let both runs draw the same indices. Clipping is a projection onto a ball, so clipped gradients
    of an M-smooth loss are M-Lipschitz, too, and one record of the batch differs by at most S.
    Tradeoff functions are jointly convex, so the bound holds for the mixture over batches and
    iterates.
    """
    return GaussianCurve(_spread(mechanism) + 1 / mechanism.noise_multiplier)


# ------------------------------------------------------------------------ Sun, Shen and Tao (2024)


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

    A round has K local steps of rate eta = ``step_size``/K. Linear losses, which are smooth with
    any M, compose: their last iterates are exactly sqrt(T) rounds apart, whatever K. For K = 1 the
    formula is the value of quadratics whose curvature is -M, so expanding as fast as allowed is not
    the worst case. The proof puts shifts outside of [0, 1], where the distance of the two processes
    is no longer what it bounds.

    local_steps: Number K of local steps of a round.
    """
    validate.integer(1, local_steps=local_steps)
    rate = mechanism.constant_step_size / local_steps
    return _rounds(mechanism, local_steps * math.log1p(rate * known(mechanism.smoothness)))


@bound("sun24.theorem_3_b")
def theorem_3_b(mechanism: NoisySGD) -> PrivacyCurve:
    r"""Claim the same for local learning rates that decay within a round (Theorem 3b).

    The paper writes :math:`c \eta \ln(K+1)` for the sum s of a round, with a constant c between 1
    and 1.543 that makes it equal; the factor eta is missing in front of the printed root. False
    from T = 2 on for the reason given there.
    """
    return _rounds(mechanism, mechanism.constant_step_size * known(mechanism.smoothness))


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
    smoothness, eta = known(mechanism.smoothness), mechanism.constant_step_size
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
