"""Bok, Su and Altschuler (2024), "Shifted interpolation for differential privacy" (paper 004).

The paper's update is the package's. Its L is a gradient sensitivity (Definition 2.10), written S
here: for full batches that of the differing record (`NoisySGD.sensitivity`: 2L for L-Lipschitz
losses, L for zero-out), for sampled batches that of the whole family, because the differing record
takes the place of another one: see `family_sensitivity`.
"""

from __future__ import annotations

import math

from audit import validate
from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FULL_BATCHES,
    ROUNDING,
    WITHOUT_REPLACEMENT,
    Assumption,
    constant_step_size,
)
from audit.bounds.composition import compose
from audit.bounds.interpolation import InterpolationCurve
from audit.bounds.registry import Citation, Entry, Status
from audit.bounds.subsampling import SubsampledGaussian
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD, Relation


def _cite(place: str) -> Citation:
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


def _crossing_steps(mechanism: NoisySGD) -> float:
    """D n/(eta S): the steps in which the shift crosses the domain."""
    assert mechanism.diameter is not None  # an assumption of the entries that use it
    shift = mechanism.constant_step_size * mechanism.sensitivity / mechanism.dataset_size
    ratio = mechanism.diameter / shift
    whole = round(ratio)
    # decimals in double precision: 3.0000000000000004 steps are 3
    return float(whole) if whole and abs(ratio / whole - 1) <= ROUNDING else ratio


def _crosses(mechanism: NoisySGD) -> bool:
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return False
    return mechanism.steps >= _crossing_steps(mechanism)


def _steps_found(mechanism: NoisySGD) -> str:
    if mechanism.diameter is None or not constant_step_size(mechanism):
        return f"steps={mechanism.steps}"
    return f"steps={mechanism.steps} below {_crossing_steps(mechanism):.6g}"


ENOUGH_STEPS = Assumption(
    "steps >= D n/(eta L) with L the gradient sensitivity", _crosses, _steps_found
)


def theorem_4_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for full batches (Theorem 4.1): G(S sqrt(t)/(n sigma)).

    The ratio of shift and noise of a step does not depend on the step size, so schedules are
    covered; neither convexity nor smoothness is used.
    """
    ratio = mechanism.sensitivity / (mechanism.dataset_size * mechanism.noise_std)
    return GaussianCurve(ratio * math.sqrt(mechanism.steps))


def theorem_4_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Convex losses on a bounded domain, full batches (Theorem 4.3).

    G(mu) with mu = (1/sigma) sqrt(3 S D/(eta n) + (S/n)^2 ceil(D n/(eta S))), for at least
    D n/(eta S) steps.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    ratio = mechanism.sensitivity / mechanism.dataset_size
    ceiling = math.ceil(_crossing_steps(mechanism))
    square = 3 * ratio * mechanism.diameter / mechanism.constant_step_size + ratio**2 * ceiling
    return GaussianCurve(math.sqrt(square) / mechanism.noise_std)


def theorem_4_8(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for batches drawn without replacement (Theorem 4.8).

    C_{b/n}(G(S/(b sigma))) composed t times, S the family sensitivity. Neither convexity nor
    smoothness is used, and step-size schedules are covered.
    """
    ratio = family_sensitivity(mechanism) / (mechanism.batch_size * mechanism.noise_std)
    return compose(SubsampledGaussian(mechanism.sampling_rate, ratio), mechanism.steps)


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
        return InterpolationCurve(step, crossing, mechanism.steps)
    validate.integer(0, tau=tau)
    if tau >= mechanism.steps:
        raise ValueError(f"tau must be at most steps - 1 ({mechanism.steps - 1}), got {tau!r}")
    length = mechanism.steps - tau
    return compose(step, length, crossing / math.sqrt(length))


ENTRIES = (
    Entry(
        id="bsa24.theorem_4_1",
        cite=_cite("Theorem 4.1"),
        statement="full batches, composition: mu-GDP with mu = (L/(n sigma)) sqrt(t)",
        assumptions=(FULL_BATCHES,),
        status=Status.AS_PRINTED,
        function=theorem_4_1,
    ),
    Entry(
        id="bsa24.theorem_4_3",
        cite=_cite("Theorem 4.3"),
        statement=(
            "full batches, convex losses on a bounded domain: mu-GDP with "
            "mu = (1/sigma) sqrt(3 L D/(eta n) + (L/n)^2 ceil(D n/(eta L)))"
        ),
        assumptions=(
            FULL_BATCHES,
            CONVEX,
            CONTRACTIVE_STEPS,
            BOUNDED_DOMAIN,
            CONSTANT_STEP_SIZE,
            ENOUGH_STEPS,
        ),
        status=Status.AS_PRINTED,
        function=theorem_4_3,
    ),
    Entry(
        id="bsa24.theorem_4_8",
        cite=_cite("Theorem 4.8"),
        statement=(
            "batches drawn without replacement, composition: f-DP with "
            "f = C_{b/n}(G(L/(b sigma))) composed t times"
        ),
        assumptions=(WITHOUT_REPLACEMENT,),
        status=Status.AS_PRINTED,
        function=theorem_4_8,
    ),
    Entry(
        id="bsa24.theorem_4_10",
        cite=_cite("Theorem 4.10"),
        statement=(
            "batches drawn without replacement, convex losses on a bounded domain: f-DP with "
            "f = G(sqrt(2) D/(eta sigma sqrt(t - tau))) composed with "
            "C_{b/n}(G(2 sqrt(2) L/(b sigma))) composed t - tau times, any tau < t"
        ),
        assumptions=(
            WITHOUT_REPLACEMENT,
            CONVEX,
            CONTRACTIVE_STEPS,
            BOUNDED_DOMAIN,
            CONSTANT_STEP_SIZE,
        ),
        status=Status.AS_PRINTED,
        function=theorem_4_10,
    ),
)
