"""What a claim says about what, as plain data for JSON files."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from audit.claims.claim import Claim
from audit.mechanism import NoisySGD


def settings(claim: Claim) -> dict[str, Any]:
    """Return the mechanism, the statement and the pair of a claim.

    Fields of the mechanism with their default values are left out, enums are written by their
    words.
    """
    statement = claim.statement
    return {
        "mechanism": None if claim.mechanism is None else _mechanism(claim.mechanism),
        "statement": {
            "form": type(statement).__name__,
            **{f.name: plain(getattr(statement, f.name)) for f in dataclasses.fields(statement)},
        },
        "pair": None if claim.pair is None else {"kind": claim.pair[0], **plain(claim.pair[1])},
    }


def _mechanism(mechanism: NoisySGD) -> dict[str, Any]:
    return {
        field.name: plain(getattr(mechanism, field.name))
        for field in dataclasses.fields(mechanism)
        if getattr(mechanism, field.name) != field.default
    }


def plain(value: Any) -> Any:
    """Return a value with tuples as lists, enums as words and mappings as dictionaries."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value
