"""Reads a witness: strict JSON, checked against ``witness.schema.json``.

The schema is the table of fields, with their types and ranges. Lists that it calls ascending, which
JSON Schema does not know, must be so.
"""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from audit_verify.laws import NotAWitnessError, Plain

_LARGEST_FILE = 32_000_000  # bytes
_LARGEST = 1e300
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_LIMITS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("at least", operator.ge),
    "exclusiveMinimum": ("above", operator.gt),
    "maximum": ("at most", operator.le),
    "exclusiveMaximum": ("below", operator.lt),
}
# where quantities are compared: at a delta, at an order, at an alpha
_PLACES: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    "epsilon": ("in [0, 1) for a delta", lambda at: 0 <= at < 1),
    "Renyi divergence": ("above 1 for an order", lambda at: at > 1),
    "1 - beta": ("in (0, 1) for an alpha", lambda at: 0 < at < 1),
}


def read(path: Path) -> dict[str, Any]:
    """Return the content of a witness file; ``NotAWitnessError`` if it has another form."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise NotAWitnessError(f"file must be at most {_LARGEST_FILE} bytes")
        content = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise NotAWitnessError(f"file must be readable: {error.strerror}") from None
    except NotAWitnessError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotAWitnessError(f"file must be JSON: {error}") from None
    check(content)
    return dict(content)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotAWitnessError("names must be unique within an object")
    return found


def check(content: Any) -> None:
    """Raise ``NotAWitnessError`` unless the content has the form of a witness."""
    _match(content, _schema(), "witness")
    low, high = content["bracket"]
    if low != "inf" and high is not None and low > high:
        _fail("bracket", "ascending", [low, high])
    wanted, holds = _PLACES.get(content["quantity"], ("", lambda at: True))
    if not holds(content["at"]):
        _fail("at", wanted, content["at"])
    for name in ("pair", "partition") if content["evidence"] == "exact" else ("samples",):
        if content[name] is None:
            _fail(name, f"given for a refutation by {content['evidence']} evidence", None)


@cache
def _schema() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("witness.schema.json").read_text("utf-8")))


def _resolved(schema: Plain) -> Plain:
    name = schema.get("$ref", "").rpartition("/")[2]
    return dict(_schema()["$defs"][name]) if name else schema


def _match(value: Any, schema: Plain, name: str) -> None:
    """Check a value against the part of JSON Schema that ``witness.schema.json`` uses."""
    schema = _resolved(schema)
    if "anyOf" in schema:  # one for each type of value, and for each kind of pair
        schema = next((s for s in map(_resolved, schema["anyOf"]) if _is_for(value, s)), {})
        if not schema:
            _fail(name, "of a known kind", value)
    if not _is_for(value, schema):
        kinds = schema["type"]
        _fail(name, kinds if isinstance(kinds, str) else " or ".join(kinds), value)
    if "enum" in schema and value not in schema["enum"]:
        _fail(name, "one of " + ", ".join(map(str, schema["enum"])), value)
    if isinstance(value, str):
        if not re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL):
            _fail(name, "text without control characters", value)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**6):
            _fail(name, "of an allowed length", value)
        for i, item in enumerate(value):
            _match(item, schema["items"], f"{name}[{i}]")
        given = [x for x in value if isinstance(x, int | float)]
        if "ascending" in schema and not all(a < b for a, b in itertools.pairwise(given)):
            _fail(name, "ascending", value)
    elif isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                _fail(f"{name}.{key}", "given", None)
        for key, item in value.items():
            if key not in schema["properties"]:
                _fail(f"{name}.{key}", "left out", item)
            _match(item, schema["properties"][key], f"{name}.{key}")
    elif type(value) in _TYPES["number"]:
        for key, (words, allows) in _LIMITS.items():
            if key in schema and not allows(value, schema[key]):
                _fail(name, f"{words} {schema[key]:g}", value)
        if not abs(value) < _LARGEST:  # it may be no number, or an integer of many digits
            _fail(name, "finite", value)


def _is_for(value: Any, schema: Plain) -> bool:
    """Return whether a value has the type of a schema and, as a pair, the kind."""
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types = itertools.chain.from_iterable(_TYPES[name] for name in names)
    kinds = schema.get("properties", {}).get("kind", {}).get("enum")
    known = kinds is None or not isinstance(value, dict) or value.get("kind", kinds[0]) in kinds
    return type(value) in types and known


def _fail(name: str, requirement: str, value: Any) -> None:
    shown = repr(value)
    shown = shown if len(shown) < 60 else shown[:57] + "..."
    raise NotAWitnessError(f"{name.removeprefix('witness.')} must be {requirement}, got {shown}")
