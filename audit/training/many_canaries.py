"""Findings of an audit with many canaries: certified bounds and verdicts."""

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
    Canaries.ARBITRARY: "No assumption is made on the dependence between canaries.",
    Canaries.INDEPENDENT: (
        "These numbers assume that canaries are independent: the score of a canary depends on its "
        "own coin and its own noise only. For a mechanism without this property they are not "
        "bounds."
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
        One entry per canary; see `audit.estimation.audit_one_run`.
    claims
        The claims about adding or removing one canary.
    canaries
        The assumption about the dependence between canaries.
    delta
        The delta for which the number of guesses is chosen; by default that of the first claim.
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
                claim=labelled(claim, quantity),
                citation="claimed by the mechanism's author",
                expected=claim.epsilon,
                found=rounded_down(bounds[claim.delta].value),
                verdict=verdict(claim),
            )
            for claim in claims
        ),
        tables=(
            FoundTable(
                caption="Certified lower bounds from the guesses",
                columns=(
                    "delta",
                    "Certified lower bound on epsilon",
                    "Right guesses",
                    "Guesses",
                    "Canaries",
                    "Error spent",
                    "Largest bound that this many guesses can certify",
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
            f"The inclusion of {audited.canaries} canaries is guessed from their scores; "
            f"{audited.pilot} other canaries were used to choose the number of guesses. The bound "
            "is a certified lower bound, and a claim below it is refuted.",
            *([why] if why else []),
        ),
        numbers={"canaries": canaries.value, "mu_lower": audited.mu_lower()},
    )


def labelled(claim: UserClaim, quantity: str) -> str:
    """Return the quantity that a claim bounds, after the claim's name if it has one."""
    name = f"{claim.name}: " if claim.name else ""
    return f"{name}{quantity} at delta {claim.delta:g}"


def rounded_down(value: float) -> float:
    """Round a lower bound down to five decimals, so that the printed value is still a bound."""
    return math.floor(value * 1e5) / 1e5
