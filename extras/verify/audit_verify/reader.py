"""Reads a witness: strict JSON, checked against ``witness.schema.json``.

The schema is the table of fields, with their types and ranges. Lists that it calls ascending, which
JSON Schema does not know, must be so.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
from pathlib import Path
from typing import Any

from audit_verify.laws import NotAWitnessError, Plain

_SCHEMA: Plain = json.loads(Path(__file__).with_name("witness.schema.json").read_text("utf-8"))
_MAX_FILE = 32_000_000  # bytes
_LARGEST = 1e300
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float), "null": (type(None),),
}  # fmt: skip
_LIMITS = {
    "minimum": ("at least", operator.ge),
    "exclusiveMinimum": ("above", operator.gt),
    "maximum": ("at most", operator.le),
}
# where quantities are compared: at a delta, at an order, at an alpha
_PLACES = {
    "epsilon": ("in [0, 1) for a delta", lambda at: 0 <= at < 1),
    "Renyi divergence": ("above 1 for an order", lambda at: at > 1),
    "1 - beta": ("in (0, 1) for an alpha", lambda at: 0 < at < 1),
}


def read(path: Path) -> dict[str, Any]:
    """Return the content of a witness file; ``NotAWitnessError`` if it has another form."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        _require(len(data) <= _MAX_FILE, "file", f"at most {_MAX_FILE} bytes", len(data))
        content = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
        check(content)
    except OSError as error:
        raise NotAWitnessError(f"file must be readable: {error.strerror}") from None
    except NotAWitnessError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotAWitnessError(f"file must be JSON: {error}") from None
    return dict(content)


def check(content: Any) -> None:
    """Raise ``NotAWitnessError`` unless the content has the form of a witness."""
    _match(content, _SCHEMA, "witness")
    low, high = (math.inf if end in ("inf", None) else end for end in content["bracket"])
    _require(low <= high, "bracket", "ascending", content["bracket"])
    wanted, holds = _PLACES.get(content["quantity"], ("", lambda at: True))
    _require(holds(content["at"]), "at", wanted, content["at"])
    for name in ("pair", "partition") if content["evidence"] == "exact" else ("samples",):
        wanted = f"given for a refutation by {content['evidence']} evidence"
        _require(content[name] is not None, name, wanted, None)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotAWitnessError("names must be unique within an object")
    return found


def _match(value: Any, schema: Plain, name: str) -> None:
    """Check a value against the part of JSON Schema that ``witness.schema.json`` uses."""
    allowed = [_resolved(one) for one in _resolved(schema).get("anyOf", [schema])]
    wanted = " or ".join(_types(allowed[0])) if len(allowed) == 1 else "of a known kind"
    # one for each type of value, and for each kind of pair
    fitting = [one for one in allowed if _is_for(value, one)]
    _require(bool(fitting), name, wanted, value)
    schema = fitting[0]
    if choices := schema.get("enum"):
        _require(value in choices, name, "one of " + ", ".join(map(str, choices)), value)
    if isinstance(value, str):
        fits = re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL) is not None
        _require(fits, name, "text without control characters", value)
    elif isinstance(value, list):
        fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**6)
        _require(fits, name, "of an allowed length", value)
        for i, item in enumerate(value):
            _match(item, schema["items"], f"{name}[{i}]")
        if "ascending" in schema:
            given = [x for x in value if x is not None]
            fits = all(a < b for a, b in itertools.pairwise(given))
            _require(fits, name, "ascending", value)
    elif isinstance(value, dict):
        for key in schema.get("required", ()):
            _require(key in value, f"{name}.{key}", "given", None)
        for key, item in value.items():
            shown = f"{name}.{ascii(key)[1:-1][:40]}"
            _require(key in schema["properties"], shown, "left out", item)
            _match(item, schema["properties"][key], shown)
    elif type(value) in _TYPES["number"]:
        # it may be no number, or an integer of many digits
        _require(abs(value) < _LARGEST, name, "finite", value)
        for key, (words, allows) in _LIMITS.items():
            if key in schema:
                _require(allows(value, schema[key]), name, f"{words} {schema[key]:g}", value)
        whole = "number" not in _types(schema) or float(value) == value
        _require(whole, name, "a number that a double holds", value)


def _resolved(schema: Plain) -> Plain:
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    return _SCHEMA["$defs"][name] if name else schema


def _types(schema: Plain) -> list[str]:
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def _is_for(value: Any, schema: Plain) -> bool:
    """Return whether a value has the type of a schema and, as a pair, the kind."""
    kinds = schema.get("properties", {}).get("kind", {}).get("enum")
    known = kinds is None or not isinstance(value, dict) or value.get("kind", kinds[0]) in kinds
    return known and any(type(value) in _TYPES[name] for name in _types(schema))


def _require(holds: bool, name: str, requirement: str, value: Any) -> None:
    if not holds:
        shown = ascii(value)
        shown = shown if len(shown) < 60 else shown[:57] + "..."
        name = name.removeprefix("witness.")
        raise NotAWitnessError(f"{name} must be {requirement}, got {shown}")
