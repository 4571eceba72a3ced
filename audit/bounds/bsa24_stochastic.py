"""Bok, Su and Altschuler (2024), section 4.3: batches drawn without replacement (NoisySGD).

The three theorems take the sensitivity of the whole family: see
`audit.bounds.bsa24_shared.family_sensitivity`.
"""

from __future__ import annotations

import math

from audit import validate
from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    LAST_ITERATE,
    STRICTLY_CONTRACTIVE_STEPS,
    STRONGLY_CONVEX,
    UNCLIPPED,
    WITHOUT_REPLACEMENT,
    Assumption,
)
from audit.bounds.bsa24_shared import cite, contraction_gap, family_sensitivity
from audit.bounds.composition import compose
from audit.bounds.interpolation import ContractionCurve, InterpolationCurve
from audit.bounds.registry import Entry, Status
from audit.bounds.subsampling import SubsampledGaussian
from audit.curves.base import PrivacyCurve
from audit.mechanism import NoisySGD

TWO_STEPS = Assumption(
    "two steps or more, so that 1 <= tau <= t - 1",
    lambda m: m.steps >= 2,
    lambda m: f"steps={m.steps}",
)


def theorem_4_8(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for batches drawn without replacement (Theorem 4.8).

    C_{b/n}(G(S/(b sigma))) composed t times, S the family sensitivity. Neither convexity nor
    smoothness is used, and step-size schedules are covered.
    """
    ratio = family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std)
    return compose(SubsampledGaussian(mechanism.sampling_rate, ratio), mechanism.steps)


def theorem_4_9(mechanism: NoisySGD, *, tau: int | None = None) -> PrivacyCurve:
    """Strongly convex losses, batches drawn without replacement (Theorem 4.9).

    With S the family sensitivity and r = 2 sqrt(2) S/(b sigma), G(r (c^(t-tau+1) - c^t)/(1 - c))
    composed with C_{b/n}(G(r)) and with t - tau times C_{b/n}(G(r/sqrt(2))). Printed for
    tau = 0, ..., t - 1; for tau = 0 the Gaussian parameter would be negative. Projections are
    contractive and post-processing, so bounded domains are covered.

    Parameters
    ----------
    mechanism
        The public parameters.
    tau
        The intermediate time, 1 to t - 1. By default the best for each question asked of the
        curve; any choice gives a valid bound.

    Raises
    ------
    ValueError
        If ``tau`` is out of its range.
    """
    ratio = 2 * family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std)
    rate = mechanism.sampling_rate
    family = ContractionCurve(
        SubsampledGaussian(rate, ratio),
        mechanism.steps - 1,
        SubsampledGaussian(rate, math.sqrt(2) * ratio),
        math.sqrt(2) * ratio,
        contraction_gap(mechanism),
    )
    if tau is None:
        return family
    validate.integer(1, tau=tau)
    _below_steps(tau, mechanism)
    return family.member(mechanism.steps - tau)


def theorem_4_10(mechanism: NoisySGD, *, tau: int | None = None) -> PrivacyCurve:
    """Convex losses on a bounded domain, batches drawn without replacement (Theorem 4.10).

    G(sqrt(2) D/(eta sigma sqrt(t - tau))) composed with t - tau times
    C_{b/n}(G(2 sqrt(2) S/(b sigma))), S the family sensitivity.

    Parameters
    ----------
    mechanism
        The public parameters.
    tau
        The intermediate time, 0 to t - 1. By default the best for each question asked of the
        curve; any choice gives a valid bound.

    Raises
    ------
    ValueError
        If ``tau`` is out of its range.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    scale = 2 * math.sqrt(2) / (mechanism.batch_size * mechanism.noise_std)
    step = SubsampledGaussian(mechanism.sampling_rate, scale * family_sensitivity(mechanism))
    crossing = math.sqrt(2) * mechanism.diameter / mechanism.step_std
    if tau is None:
        return InterpolationCurve(step, mechanism.steps, crossing)
    validate.integer(0, tau=tau)
    _below_steps(tau, mechanism)
    length = mechanism.steps - tau
    return compose(step, length, crossing / math.sqrt(length))


def _below_steps(tau: int, mechanism: NoisySGD) -> None:
    if tau >= mechanism.steps:
        raise ValueError(f"tau must be at most steps - 1 ({mechanism.steps - 1}), got {tau!r}")


ENTRIES = (
    Entry(
        id="bsa24.theorem_4_8",
        cite=cite("Theorem 4.8"),
        statement=(
            "batches drawn without replacement, composition: f-DP with "
            "f = C_{b/n}(G(L/(b sigma))) composed t times"
        ),
        assumptions=(LAST_ITERATE, WITHOUT_REPLACEMENT),
        status=Status.AS_PRINTED,
        function=theorem_4_8,
    ),
    Entry(
        id="bsa24.theorem_4_9",
        cite=cite("Theorem 4.9"),
        statement=(
            "batches drawn without replacement, strongly convex losses: f-DP with f = "
            "G(r (c^(t-tau+1) - c^t)/(1 - c)) composed with C_{b/n}(G(r)) and C_{b/n}(G(r/sqrt(2)))"
            " composed t - tau times, r = 2 sqrt(2) L/(b sigma), any tau from 1 to t - 1"
        ),
        assumptions=(
            LAST_ITERATE,
            WITHOUT_REPLACEMENT,
            STRONGLY_CONVEX,
            UNCLIPPED,
            STRICTLY_CONTRACTIVE_STEPS,
            CONSTANT_STEP_SIZE,
            TWO_STEPS,
        ),
        status=Status.AS_PRINTED,
        function=theorem_4_9,
    ),
    Entry(
        id="bsa24.theorem_4_10",
        cite=cite("Theorem 4.10"),
        statement=(
            "batches drawn without replacement, convex losses on a bounded domain: f-DP with "
            "f = G(sqrt(2) D/(eta sigma sqrt(t - tau))) composed with "
            "C_{b/n}(G(2 sqrt(2) L/(b sigma))) composed t - tau times, any tau < t"
        ),
        assumptions=(
            LAST_ITERATE,
            WITHOUT_REPLACEMENT,
            CONVEX,
            UNCLIPPED,
            CONTRACTIVE_STEPS,
            BOUNDED_DOMAIN,
            CONSTANT_STEP_SIZE,
        ),
        status=Status.AS_PRINTED,
        function=theorem_4_10,
    ),
)
