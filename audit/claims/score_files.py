"""Judge claims about samples: scores of both laws that a user recorded."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit import estimation  # Numba is imported where samples are judged
from audit.claims.claim import Claim, Samples
from audit.claims.error_shares import ErrorShare
from audit.claims.judgement import Evidence, Judgement, Verdict
from audit.claims.sources import InvalidClaim
from audit.claims.witness import witness_of
from audit.curves.quantities import ClaimedNumber

Array = NDArray[np.float64]


def judge_by_samples(
    claim: Claim, samples: Samples, numbers: Sequence[ClaimedNumber], error: ErrorShare
) -> Judgement:
    """Return the judgement on a claim about samples.

    A false refutation has probability at most ``error.spent``.
    """
    try:
        given = samples.source.draw(claim.budget.seed)
        judged = estimation.judge_scores(
            given,
            numbers,
            confidence=1 - error.spent,
            planned_confidence=1 - error.planned,
            seed=claim.budget.seed,
            favours=samples.favours,
            columns=samples.columns,
            group_size=samples.group_size,
        )
    except (ImportError, ValueError) as reason:
        raise InvalidClaim(f"samples: {' '.join(str(reason).split())}") from None
    digests = f"scores {_digest(given[0])} and {_digest(given[1])}"
    number, closest = min(
        zip(numbers, judged, strict=True),
        key=lambda one: (one[1].verdict is not Verdict.REFUTED, one[0].ratio(one[1].certified)),
    )
    refuted = closest.verdict is Verdict.REFUTED
    # one number within reach is enough to judge the claim
    verdict = Verdict.CONSISTENT if Verdict.CONSISTENT in judged.verdicts else closest.verdict
    if claim.statement.exceeded:
        verdict = Verdict.CONSISTENT if refuted else Verdict.INCONCLUSIVE
    elif refuted:
        verdict = Verdict.REFUTED
    why = f"{closest.reason}; " if verdict is Verdict.INCONCLUSIVE and closest.reason else ""
    witness = None
    if verdict is Verdict.REFUTED and isinstance(judged.audit, estimation.Audit):
        witness = witness_of(
            claim,
            number,
            pair=None,
            order=closest.order,
            bracket=(closest.certified, math.inf),
            evidence=Evidence.SAMPLED,
            audit=judged.audit,
            construction=digests,
        )
    says = "exceed" if refuted else "do not exceed"
    how, combined = "", judged.columns
    if combined is not None:
        how = f", {combined.number} columns by {combined.choice.kind}"
        if any(combined.choosing):
            used = f"{combined.choosing[0]} and {combined.choosing[1]} rows"
            how += f" (chosen with {used}, which certify nothing)"
    kind = "scores" if combined is None else "rows"
    sizes = f"samples of {len(given[0])} and {len(given[1])} {kind}"
    name, group = number.quantity.name, samples.group_size
    if group > 1:
        sizes += f" that differ in {group} records"
        name += " of one record"
        how += f", from a pair that differs in {group} records"
    return Judgement(
        claim=claim,
        verdict=verdict,
        claimed=number.value,
        certified=closest.certified,
        quantity=number.quantity,
        order=closest.order,
        pair=sizes,
        evidence=Evidence.SAMPLED,
        error=error.spent,
        numbers=tuple(numbers),
        witness=witness,
        message=(
            f"{why}the samples {says} it at confidence {1 - error.spent:g}: {name} "
            f"at least {closest.certified:.6g}{number.quantity.at_where}, "
            f"claimed {number.value:.6g}{how}; {digests}"
        ),
    )


def _digest(values: Array) -> str:
    """Return the beginning of the SHA-256 of the scores, which identifies them."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]
