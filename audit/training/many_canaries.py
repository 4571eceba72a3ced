"""Many canaries in one training: what their scores and coins certify, and the verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.estimation import Canaries, audit_one_run
from audit.results import (
    Findings,
    FoundTable,
    Statement,
    UserClaim,
    Verdict,
    judge_upper_bound,
)
from audit.training.useless import useless

Array = NDArray[np.float64]

ASSUMED = {
    Canaries.ARBITRARY: "Nothing is assumed of how canaries depend on each other.",
    Canaries.INDEPENDENT: (
        "These numbers assume that canaries are independent: what is seen of one depends on its "
        "own coin and on noise of its own, and on no other's. For a mechanism of which that is not "
        "true they are no bounds."
    ),
}


def one_run_findings(
    scores: ArrayLike,
    coins: ArrayLike,
    claims: Sequence[UserClaim],
    *,
    canaries: Canaries,
    delta: float | None,
    confidence: float,
    seed: int,
) -> Findings:
    """Return the bounds from scores and coins of canaries, and the verdicts on claims.

    Parameters
    ----------
    scores, coins
        One entry a canary; see `audit.estimation.audit_one_run`.
    claims
        What is claimed of one canary in or out.
    canaries
        What is assumed of how they depend on each other.
    delta
        Where the guesses are chosen to be sharp; by default the delta of the first claim.
    confidence, seed
        As for `audit_one_run`.
    """
    planned = claims[0].delta if delta is None else delta
    audited = audit_one_run(
        scores, coins, delta=planned, confidence=confidence, seed=seed, canaries=canaries
    )
    deltas = dict.fromkeys(claim.delta for claim in claims)
    bounds = {delta: audited.evidence(delta) for delta in deltas}
    limits = {delta: bound.sampling_limit for delta, bound in bounds.items()}
    seen, tossed = np.asarray(scores, dtype=np.float64), np.asarray(coins, dtype=np.bool_)
    sides = seen[tossed], seen[~tossed]
    certifies = any(bound.value > 0 for bound in bounds.values())
    why = ""
    if all(side.size for side in sides):
        why = useless(*sides, directed=True, certifies=certifies)

    def verdict(claim: UserClaim) -> Verdict:
        found = judge_upper_bound(claim.epsilon, bounds[claim.delta].value, limits[claim.delta])
        return Verdict.INCONCLUSIVE if why and found is Verdict.CONSISTENT else found

    independent = canaries is Canaries.INDEPENDENT
    quantity = "epsilon of independent canaries" if independent else "epsilon"
    return Findings(
        statements=tuple(
            Statement(
                claim=in_words(claim, quantity),
                citation="claimed by the mechanism's author",
                expected=claim.epsilon,
                found=rounded_down(bounds[claim.delta].value),
                verdict=verdict(claim),
            )
            for claim in claims
        ),
        tables=(
            FoundTable(
                caption="What the guesses certify",
                columns=(
                    "delta",
                    "Certified lower bound on epsilon",
                    "Right guesses",
                    "Guesses",
                    "Canaries",
                    "Error spent",
                    "Most so many guesses could certify",
                ),
                rows=tuple(
                    (
                        delta,
                        rounded_down(bound.value),
                        bound.correct,
                        bound.guesses,
                        bound.canaries,
                        1 - bound.confidence,
                        bound.sampling_limit,
                    )
                    for delta, bound in bounds.items()
                ),
            ),
        ),
        notes=(
            ASSUMED[canaries],
            f"The coins of {audited.canaries} canaries are guessed from their scores; "
            f"{audited.pilot} others chose how many are. What is found is a certified lower "
            "bound, and a claim below it is refuted.",
            *([why] if why else []),
        ),
        numbers={"canaries": canaries.value, "mu_lower": audited.mu_lower()},
    )


def in_words(claim: UserClaim, quantity: str) -> str:
    """Return what a claim is about, after its name if it has one."""
    name = f"{claim.name}: " if claim.name else ""
    return f"{name}{quantity} at delta {claim.delta:g}"


def rounded_down(value: float) -> float:
    """Round a lower bound so that it is still one when it is printed."""
    return math.floor(value * 1e5) / 1e5
