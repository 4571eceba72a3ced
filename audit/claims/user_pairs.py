"""Judge claims on pairs of user-defined classes in a worker, which returns plain data.

A pair is evaluated thousands of times, so the whole claim is judged in the process of the pair.
This process never imports the class.
"""

from __future__ import annotations

from dataclasses import dataclass

from audit.claims.claim import Claim, UserPair, encode_claim
from audit.claims.error_shares import ErrorShare
from audit.claims.judgement import Evidence, Judgement
from audit.claims.sources import InvalidClaim
from audit.claims.witness import Witness
from audit.codec import decode, encode
from audit.curves import Order
from audit.curves.quantities import ClaimedNumber
from audit.isolation import Limits, UserCodeError, Workers
from audit.results import Verdict

_SEARCHED = 60.0  # limit on a search, in seconds


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A `Judgement` as plain data, without its claim; ``closest`` is an index into ``numbers``."""

    verdict: Verdict
    numbers: tuple[ClaimedNumber, ...]
    closest: int | None
    certified: float | None
    order: Order | None
    pair: str
    pairs_tried: int
    pairs_left: int
    evidence: Evidence | None
    error: float
    witness: str | None
    message: str


def judge_apart(
    claim: Claim, pair: UserPair, error: ErrorShare, *, exhaustive: bool, workers: Workers
) -> Judgement:
    """Judge a claim in the worker of its pair's module.

    The judgement may take the budget's ``callable_seconds`` in addition to its ``seconds``, and its
    ``callable_gigabytes`` of memory.

    Raises
    ------
    InvalidClaim
        If the class cannot be loaded, the pair cannot be constructed, or the worker hangs, dies or
        exceeds its memory limit.
    """
    budget = claim.budget
    seconds = budget.callable_seconds + 3 * budget.seconds + _SEARCHED * (claim.search is not None)
    plain = {
        **encode_claim(claim),
        "id": claim.id,
        "citation": claim.citation,
        "budget": encode(budget),
        "search": None if claim.search is None else encode(claim.search),
    }
    try:
        with workers.function(
            pair.kind,
            task=f"{__package__}.user_pair_worker:judged",
            limits=Limits(seconds=seconds, gigabytes=budget.callable_gigabytes),
            name="pair.kind",
        ) as judged:
            outcome: Outcome = decode(Outcome, judged(pair.kind, plain, encode(error), exhaustive))
    except UserCodeError as reason:
        raise InvalidClaim(str(reason)) from None
    numbers = outcome.numbers
    closest = None if outcome.closest is None else numbers[outcome.closest]
    return Judgement(
        claim=claim,
        verdict=outcome.verdict,
        claimed=None if closest is None else closest.value,
        certified=outcome.certified,
        quantity=None if closest is None else closest.quantity,
        order=outcome.order,
        pair=outcome.pair,
        pairs_tried=outcome.pairs_tried,
        pairs_left=outcome.pairs_left,
        evidence=outcome.evidence,
        error=outcome.error,
        numbers=numbers,
        witness=None if outcome.witness is None else Witness.from_json(outcome.witness),
        message=outcome.message,
    )
