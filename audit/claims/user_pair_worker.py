"""Judge a claim on a user-defined pair; runs in a worker of `audit.claims.judge`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from audit.claims.claim import Claim
from audit.claims.error_shares import ErrorShare
from audit.claims.judge import Shared, judge
from audit.codec import decode, encode
from audit.constructions import all_kinds, decode_any_pair
from audit.isolation import UserCodeError
from audit.mechanism import Composition
from audit.results import Verdict
from audit.validate import shown


def judged(
    cls: Any,
    reference: str,
    fields: Mapping[str, Any],
    plain: Mapping[str, Any],
    error: Mapping[str, float],
    exhaustive: bool,
) -> dict[str, Any]:
    """Judge a claim on a pair of a user-defined class, and return the judgement as plain data."""
    if cls not in all_kinds().values():
        wrong = f"pair.kind must name a registered construction, got {shown(reference)}"
        raise UserCodeError(wrong)
    claim = decode(Claim, plain)
    assert not isinstance(claim.mechanism, Composition)  # which claims files refuse beside a pair
    try:
        pair = decode_any_pair({**fields, "kind": cls.__name__}, claim.mechanism)
    except ValueError as reason:  # the fields are invalid
        raise UserCodeError(" ".join(str(reason).split())) from None
    claim = dataclasses.replace(claim, pair=pair)
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
