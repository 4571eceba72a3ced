"""Judge a claim on a user-defined pair; runs in a worker of `audit.claims.judge`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from audit.claims.claim import Budget, Search, decode_claim
from audit.claims.error_shares import ErrorShare
from audit.claims.judge import Shared, judge
from audit.codec import decode, encode
from audit.constructions import all_kinds
from audit.isolation import UserCodeError
from audit.results import Verdict
from audit.validate import shown


def judged(
    cls: Any,
    reference: str,
    plain: Mapping[str, Any],
    error: Mapping[str, float],
    exhaustive: bool,
) -> dict[str, Any]:
    """Judge a claim on a pair of a user-defined class, and return the judgement as plain data."""
    if cls not in all_kinds().values():
        wrong = f"pair.kind must name a registered construction, got {shown(reference)}"
        raise UserCodeError(wrong)
    fields = {**plain["pair"], "kind": cls.__name__}
    try:
        claim = decode_claim({**plain, "pair": fields}, plain["id"])
    except ValueError as reason:  # the fields are invalid
        raise UserCodeError(" ".join(str(reason).split())) from None
    claim = dataclasses.replace(
        claim,
        citation=plain["citation"],
        budget=decode(Budget, plain["budget"]),
        search=decode(Search | None, plain["search"]),
    )
    share = decode(ErrorShare, error)
    found = judge(claim, error=share.spent, planned_error=share.planned, shared=_shared(exhaustive))
    if found.verdict is Verdict.ERROR:
        raise UserCodeError(found.message)
    names = (field.name for field in dataclasses.fields(found) if field.name != "claim")
    return {name: encode(getattr(found, name)) for name in names}


@functools.cache
def _shared(exhaustive: bool) -> Shared:
    """Return the resources that the claims of this worker share."""
    return Shared(exhaustive=exhaustive)
