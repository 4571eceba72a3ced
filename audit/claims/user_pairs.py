"""Judge claims on pairs of user-defined classes in a worker, which returns plain data.

A pair is evaluated thousands of times, so the whole claim is judged in the process of the pair.
This process never imports the class.
"""

from __future__ import annotations

from audit.claims.claim import Claim, UserPair, encode_claim
from audit.claims.error_shares import ErrorShare
from audit.claims.judgement import Judgement
from audit.claims.sources import InvalidClaim
from audit.codec import decode, encode
from audit.isolation import Limits, UserCodeError, Workers

_SEARCHED = 60.0  # limit on a search, in seconds


def judge_in_worker(
    claim: Claim, pair: UserPair, error: ErrorShare, *, exhaustive: bool, workers: Workers
) -> Judgement:
    """Judge a claim in the worker of its pair's module.

    The judgement may take the budget's ``callable_seconds`` in addition to its ``seconds``, and its
    ``callable_gigabytes`` of memory.
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
            found: Judgement = decode(
                Judgement,
                judged(pair.kind, plain, encode(error), exhaustive),
                given={"claim": claim},
            )
    except UserCodeError as reason:
        raise InvalidClaim(str(reason)) from None
    return found
