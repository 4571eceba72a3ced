"""Bok, Su and Altschuler (2024), "Shifted interpolation for differential privacy" (paper 004).

Full batches (section 4.1), and the entries of the whole paper. What L means, and what is passed
for it, is said in `audit.bounds.bsa24_shared`.
"""

from __future__ import annotations

import math

from audit.bounds import bsa24_cyclic, bsa24_langevin, bsa24_meta, bsa24_stochastic
from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FULL_BATCHES,
    LAST_ITERATE,
    STRICTLY_CONTRACTIVE_STEPS,
    STRONGLY_CONVEX,
    UNCLIPPED,
)
from audit.bounds.bsa24_shared import (
    ENOUGH_STEPS,
    cite,
    contraction_gap,
    crossing_time,
    family_sensitivity,
)
from audit.bounds.registry import Entry, Status
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD

__all__ = [
    "ENTRIES",
    "family_sensitivity",
    "theorem_4_1",
    "theorem_4_2",
    "theorem_4_3",
    "threshold_4_3",
]


def theorem_4_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition for full batches (Theorem 4.1): G(S sqrt(t)/(n sigma)).

    The ratio of shift and noise of a step does not depend on the step size, so schedules are
    covered; neither convexity nor smoothness is used.
    """
    ratio = mechanism.sensitivity / (mechanism.dataset_size * mechanism.noise_std)
    return GaussianCurve(ratio * math.sqrt(mechanism.steps))


def theorem_4_2(mechanism: NoisySGD) -> PrivacyCurve:
    """Strongly convex losses, full batches (Theorem 4.2).

    G(mu) with mu = sqrt((1 - c^t)/(1 + c^t) * (1 + c)/(1 - c)) S/(n sigma); the root covers both
    fractions. For eta <= 2/(M + m) quadratics of curvature m reach it. Projections are
    contractive and post-processing, so a bounded domain changes nothing in the proof.
    """
    gap = contraction_gap(mechanism)
    # (1 - c^t)/(1 + c^t) = tanh(t log(1/c)/2)
    rate = math.inf if gap == 1 else -math.log1p(-gap)
    square = math.tanh(mechanism.steps * rate / 2) * (2 - gap) / gap
    ratio = mechanism.sensitivity / (mechanism.dataset_size * mechanism.noise_std)
    return GaussianCurve(ratio * math.sqrt(square))


def theorem_4_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Convex losses on a bounded domain, full batches (Theorem 4.3).

    G(mu) with mu = (1/sigma) sqrt(3 S D/(eta n) + (S/n)^2 ceil(D n/(eta S))), for at least
    D n/(eta S) steps.
    """
    assert mechanism.diameter is not None  # an assumption of the entry
    ratio = mechanism.sensitivity / mechanism.dataset_size
    ceiling = math.ceil(crossing_time(mechanism, mechanism.dataset_size))
    square = 3 * ratio * mechanism.diameter / mechanism.constant_step_size + ratio**2 * ceiling
    return GaussianCurve(math.sqrt(square) / mechanism.noise_std)


def threshold_4_3(mechanism: NoisySGD) -> float:
    """Return the number of steps, 4 D n/(eta S), after which Theorem 4.3 is below Theorem 4.1.

    Named after Theorem 4.3 of the paper. Up to the ceiling: exact where D n/(eta S) is whole.
    """
    for assumption in (BOUNDED_DOMAIN, CONSTANT_STEP_SIZE):
        assumption.require(mechanism, "bsa24.threshold_4_3")
    return 4 * crossing_time(mechanism, mechanism.dataset_size)


ENTRIES: tuple[Entry, ...] = (
    Entry(
        id="bsa24.theorem_4_1",
        cite=cite("Theorem 4.1"),
        statement="full batches, composition: mu-GDP with mu = (L/(n sigma)) sqrt(t)",
        assumptions=(LAST_ITERATE, FULL_BATCHES),
        status=Status.AS_PRINTED,
        function=theorem_4_1,
    ),
    Entry(
        id="bsa24.theorem_4_2",
        cite=cite("Theorem 4.2"),
        statement=(
            "full batches, strongly convex losses: mu-GDP with mu = (L/(n sigma)) "
            "sqrt((1 - c^t)/(1 + c^t) (1 + c)/(1 - c)), c = max(|1 - eta m|, |1 - eta M|)"
        ),
        assumptions=(
            LAST_ITERATE,
            FULL_BATCHES,
            STRONGLY_CONVEX,
            UNCLIPPED,
            STRICTLY_CONTRACTIVE_STEPS,
            CONSTANT_STEP_SIZE,
        ),
        status=Status.AS_PRINTED,
        function=theorem_4_2,
    ),
    Entry(
        id="bsa24.theorem_4_3",
        cite=cite("Theorem 4.3"),
        statement=(
            "full batches, convex losses on a bounded domain: mu-GDP with "
            "mu = (1/sigma) sqrt(3 L D/(eta n) + (L/n)^2 ceil(D n/(eta L)))"
        ),
        assumptions=(
            LAST_ITERATE,
            FULL_BATCHES,
            CONVEX,
            UNCLIPPED,
            CONTRACTIVE_STEPS,
            BOUNDED_DOMAIN,
            CONSTANT_STEP_SIZE,
            ENOUGH_STEPS,
        ),
        status=Status.AS_PRINTED,
        function=theorem_4_3,
    ),
    *bsa24_cyclic.ENTRIES,
    *bsa24_stochastic.ENTRIES,
    *bsa24_meta.ENTRIES,
    *bsa24_langevin.ENTRIES,
)
