"""JSON Schemas of neighbouring pairs in input files, from the registry of constructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from audit.codec.schemas import Schemas, about, by_value, one_of
from audit.constructions.explicit import ExplicitPair
from audit.constructions.registry import kind_in_words

_OWN = {"type": "string", "pattern": ":"}  # package.module:Class


def of_pairs(
    schemas: Schemas, classes: Mapping[str, type], *, filled: bool = False
) -> dict[str, Any]:
    """Return the schema of a pair: a kind, or a mapping of a kind and its own fields."""
    known = one_of({kind: about(cls) for kind, cls in classes.items()})
    kind = {"description": "The kind of the pair.", "anyOf": [*known, schemas.open(_OWN)]}
    fields = {name: _fields(schemas, cls, filled) for name, cls in classes.items()}
    whole = {
        "type": "object",
        "properties": {"kind": kind},
        "required": ["kind"],
        **by_value("kind", fields),
    }
    return {"anyOf": [*kind["anyOf"], whole]}


def of_laws(schemas: Schemas, classes: Mapping[str, type]) -> dict[str, Any]:
    """Return the schema of explicit laws, ``{laplace: {scale: 2, ...}}``; see `decode_laws`."""
    laws = {
        kind_in_words(kind): cls
        for kind, cls in classes.items()
        if issubclass(cls, ExplicitPair) and "mechanism" not in cls.__dataclass_fields__
    }
    fields = {words: _fields(schemas, cls, filled=True) for words, cls in laws.items()}
    kinds = "|".join(map(_loosely_spelt, laws))
    return {
        "type": "object",
        "properties": {words: {"description": about(cls)} for words, cls in laws.items()},
        "if": {"required": ["kind"]},
        "then": {
            "properties": {"kind": {"type": "string", "pattern": kinds}},
            "allOf": [
                {"if": {"properties": {"kind": {"pattern": _loosely_spelt(words)}}}, "then": own}
                for words, own in fields.items()
            ],
        },
        "else": {
            "patternProperties": {_loosely_spelt(words): own for words, own in fields.items()},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    }


def _fields(schemas: Schemas, cls: type, filled: bool) -> dict[str, Any]:
    """Define the fields of a kind; return a reference to them."""
    described = schemas.of_fields(cls, ("mechanism",))
    del described["properties"]["kind"]  # it chose the definition
    described["patternProperties"] = {"^kind$": {}}
    if filled:
        described["required"] = [
            name
            for name in described["required"]
            if not cls.__dataclass_fields__[name].metadata.get("required")  # type: ignore[attr-defined]
        ]
    return schemas.defined(cls.__name__, described)


def _loosely_spelt(words: str) -> str:
    """Return the regular expression of a kind written with or without spaces."""
    signs = (f"[{sign.upper()}{sign}]" for sign in re.sub(r"\W", "", words))
    gap = r"[\s_-]*"
    return f"^{gap}{gap.join(signs)}{gap}$"
