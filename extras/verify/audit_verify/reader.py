"""Reads a witness: strict JSON, checked against ``witness.schema.json``."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flint import arb

from audit_verify.laws import probabilities
from audit_verify.runs import pieces
from audit_verify.walks import Chain, Map, Step
from audit_verify.walks import Path as Steps

Plain = Mapping[str, Any]
_LARGEST_FILE = 32_000_000  # bytes
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class NotAWitnessError(ValueError):
    """The file is not a witness; the message says why in one line."""


def read(path: Path) -> dict[str, Any]:
    """Return the content of a witness file after checking its form.

    Raises
    ------
    NotAWitnessError
        If it cannot be read or has another form.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise NotAWitnessError(f"file must be at most {_LARGEST_FILE} bytes")
        content = json.loads(
            path.read_text(encoding="utf-8"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
    except OSError as error:
        raise NotAWitnessError(f"file must be readable: {error.strerror}") from None
    except NotAWitnessError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotAWitnessError(f"file must be JSON: {error}") from None
    check(content)
    return dict(content)


def check(content: Any) -> None:
    """Raise ``NotAWitnessError`` unless the content has the form of a witness."""
    schema = json.loads(Path(__file__).with_name("witness.schema.json").read_text("utf-8"))
    _match(content, schema, "witness", schema["$defs"])
    low, high = content["bracket"]
    if low != "inf" and high is not None and low > high:
        raise NotAWitnessError(f"bracket must be ascending, got {[low, high]!r}")
    _check_place(content["quantity"], content["at"])
    exact = content["evidence"] == "exact"
    for name in ("pair", "partition") if exact else ("samples",):
        if content[name] is None:
            _fail(name, f"given for a refutation by {content['evidence']} evidence", None)
    if exact:
        _check_laws(content["pair"], content["partition"], content["mechanism"])


def _check_laws(pair: Plain, partition: Plain, mechanism: Any) -> None:
    """Check that laws and partition belong together."""
    product = pair["kind"] == "product"
    if product or pair["kind"] in ("run", "process"):
        several = isinstance(mechanism, list)
        if (pair["kind"] == "run") != isinstance(mechanism, dict) or (several and not product):
            _fail("mechanism", f"of the kind that {pair['kind']!r} needs", mechanism)
    if product:
        _same("partition.parts", partition.get("parts", []), pair["parts"])
        for part, own in zip(pair["parts"], partition["parts"], strict=True):
            _check_explicit(part, own, "modulus" in partition)
        if isinstance(mechanism, list):
            _same("mechanism", mechanism, pair["parts"])
        return
    _check_explicit(pair, partition, "modulus" in partition)


def _check_explicit(pair: Plain, partition: Plain, summed: bool) -> None:
    for name in ("cuts", "window"):
        _ascend(f"partition.{name}", [x for x in partition.get(name, []) if x is not None])
    needed = [] if pair["kind"] == "finite" else ["cuts"]
    for name in [*needed, *(["scores"] if summed else [])]:
        if name not in partition:
            _fail(f"partition.{name}", "given", None)
    if "scores" in partition and not summed:
        _fail("partition.modulus", "given", None)
    kind = pair["kind"]
    laws = [(f"pair.{name}", pair[name]) for name in ("first", "second") if name in pair]
    for name, law in laws:
        if kind == "process":
            _check_chain(law, name)
        elif kind in ("mixtures", "normalvectors"):
            _check_weights(law["weights"], f"{name}.weights")
            for key in law.keys() - {"weights"}:
                _same(f"{name}.{key}", law[key], law["weights"])
        elif kind in ("finite", "laplacemixtures"):
            _check_weights(law, name)
            _same(name, law, pair["first"] if kind == "finite" else pair["means"])
    if kind == "densities" and not pair["low"] < pair["high"]:
        raise NotAWitnessError(f"pair.low must be below pair.high, got {pair['low']!r}")


def chains_of(pair: Plain) -> tuple[Chain, Chain]:
    """Return the two chains of a process that is written out."""
    return _chain(pair["first"]), _chain(pair["second"])


def _chain(law: Plain) -> Chain:
    maps: dict[str, Map] = {}
    made: dict[str, Step] = {}
    steps = [s for path in law["paths"] for segment in path["segments"] for s in segment["steps"]]
    memories = 1 + max((phi.get("to", 0) for s in steps for phi in s["maps"]), default=0)

    def step(plain: Plain) -> Step:
        key = json.dumps(plain)
        if key not in made:
            moves: list[tuple[int, int, arb, Map]] = []
            for memory in range(memories):
                own = [phi for phi in plain["maps"] if phi.get("from", memory) == memory]
                for phi, weight in zip(own, probabilities([p["weight"] for p in own]), strict=True):
                    name = json.dumps(phi["pieces"])
                    maps.setdefault(name, pieces(phi["pieces"]))
                    moves.append((memory, phi.get("to", memory), weight, maps[name]))
            made[key] = Step(tuple(moves), arb(plain["noise_std"]))
        return made[key]

    chances = probabilities([path["probability"] for path in law["paths"]])
    paths = [
        Steps(chance, tuple((s["times"], tuple(map(step, s["steps"]))) for s in path["segments"]))
        for chance, path in zip(chances, law["paths"], strict=True)
    ]
    return Chain(law["start"], (law["lower"], law["upper"]), tuple(paths))


def _refuse_constant(name: str) -> None:
    raise NotAWitnessError(f"numbers must be finite, got {name}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotAWitnessError("names must be unique within an object")
    return found


def _match(value: Any, schema: Mapping[str, Any], name: str, defs: Mapping[str, Any]) -> None:
    """Check a value against the part of JSON Schema that ``witness.schema.json`` uses."""
    if "$ref" in schema:
        return _match(value, defs[schema["$ref"].rpartition("/")[2]], name, defs)
    if "anyOf" in schema:
        kind = value.get("kind") if isinstance(value, dict) else None
        options = [s for s in schema["anyOf"] if _kind(s, defs) in (None, kind)]
        fits = [option for option in options if _fits(value, option, name, defs)]
        if not fits:
            return (
                _match(value, options[0], name, defs)
                if options
                else _fail(name, "of a known kind", kind)
            )
        return None
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    allowed = tuple(itertools.chain.from_iterable(_TYPES[kind] for kind in kinds))
    if kinds and (
        not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)
    ):
        _fail(name, " or ".join(kinds), value)
    if "enum" in schema and value not in schema["enum"]:
        _fail(name, "one of " + ", ".join(map(str, schema["enum"])), value)
    if isinstance(value, str):
        if not re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL):
            _fail(name, "text without control characters", value)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**6):
            _fail(name, "of an allowed length", value)
        for i, item in enumerate(value):
            _match(item, schema["items"], f"{name}[{i}]", defs)
    elif isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                _fail(f"{name}.{key}", "given", None)
        for key, item in value.items():
            if key not in schema["properties"]:
                _fail(f"{name}.{key}", "left out", item)
            _match(item, schema["properties"][key], f"{name}.{key}", defs)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _match_number(value, schema, name)
    return None


def _match_number(value: float, schema: Mapping[str, Any], name: str) -> None:
    limits = (
        ("minimum", "at least", value >= schema.get("minimum", -math.inf)),
        ("exclusiveMinimum", "above", value > schema.get("exclusiveMinimum", -math.inf)),
        ("maximum", "at most", value <= schema.get("maximum", math.inf)),
        ("exclusiveMaximum", "below", value < schema.get("exclusiveMaximum", math.inf)),
    )
    for key, words, holds in limits:
        if key in schema and not holds:
            _fail(name, f"{words} {schema[key]:g}", value)
    if not math.isfinite(float(value) if abs(value) < 10**300 else math.inf):
        _fail(name, "finite", value)


def _kind(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str | None:
    """Return the kind that a schema of a pair is for; None for other schemas."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    kinds = schema.get("properties", {}).get("kind", {}).get("enum")
    return None if kinds is None else str(kinds[0])


def _fits(value: Any, schema: Mapping[str, Any], name: str, defs: Mapping[str, Any]) -> bool:
    try:
        _match(value, schema, name, defs)
    except NotAWitnessError:
        return False
    return True


def _fail(name: str, requirement: str, value: Any) -> None:
    shown = repr(value)
    shown = shown if len(shown) < 60 else shown[:57] + "..."
    raise NotAWitnessError(f"{name.removeprefix('witness.')} must be {requirement}, got {shown}")


def _check_place(quantity: str, at: float) -> None:
    if quantity == "epsilon" and not 0 <= at < 1:
        _fail("at", "in [0, 1) for a delta", at)
    if quantity == "Renyi divergence" and not at > 1:
        _fail("at", "above 1 for an order", at)
    if quantity == "1 - beta" and not 0 < at < 1:
        _fail("at", "in (0, 1) for an alpha", at)


def _check_chain(law: Mapping[str, Any], name: str) -> None:
    low, high, start = law["lower"], law["upper"], law["start"]
    ends = [-math.inf if low is None else low, math.inf if high is None else high]
    if not ends[0] < ends[1] or not ends[0] <= start <= ends[1]:
        _fail(f"{name}.start", "between the walls", start)
    _check_weights([path["probability"] for path in law["paths"]], f"{name}.paths")
    for path in law["paths"]:
        if not any(s["times"] and s["steps"] for s in path["segments"]):
            _fail(f"{name}.paths", "of one step or more each", [])
        for step in itertools.chain.from_iterable(s["steps"] for s in path["segments"]):
            _check_step(step, name)


def _check_step(step: Mapping[str, Any], name: str) -> None:
    maps = step["maps"]
    memories = {phi.get("from") for phi in maps}
    if None in memories and len(memories) > 1:
        _fail(f"{name}.maps", "all with a memory or all without", "both")
    for memory in memories:
        own = [phi["weight"] for phi in maps if phi.get("from") == memory]
        _check_weights(own, f"{name}.maps.weight")


def _check_weights(weights: Sequence[float], name: str) -> None:
    if abs(math.fsum(weights) - 1) > 1e-12:
        _fail(name, "probabilities that sum to 1", math.fsum(weights))


def _ascend(name: str, numbers: Sequence[float]) -> None:
    if any(not a < b for a, b in itertools.pairwise(numbers)):
        _fail(name, "ascending", list(numbers))


def _same(name: str, values: Sequence[Any], others: Sequence[Any]) -> None:
    if len(values) != len(others):
        _fail(name, f"of length {len(others)}", len(values))
