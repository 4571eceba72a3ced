"""Results as JSON, and the JSON Schema of stored results."""

from __future__ import annotations

import dataclasses
import functools
import json
import keyword
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit import codec, validate
from audit.codec.schemas import Schemas, about, json_text
from audit.constructions import Construction, Process, decode_pair, encode_pair, kinds
from audit.mechanism import NoisySGD, decode_mechanism
from audit.results.result import VERSION, PairResult, Result

# The schema that ships with the package, as `schema` returns it.
SCHEMA_FILE = Path(__file__).with_name("result.schema.json")


def to_json(result: Result) -> str:
    """Return a result as JSON text.

    Parameters
    ----------
    result : Result
        The result.

    Returns
    -------
    str
        The JSON text. Infinite numbers become the texts "inf" and "-inf".

    Examples
    --------
    >>> from audit import results
    >>> study = results.StudyResult(
    ...     name="study",
    ...     title="A study",
    ...     summary="",
    ...     seed=0,
    ...     wall_seconds=None,
    ...     function="module:function",
    ...     parameters={},
    ...     findings=results.Findings(statements=()),
    ... )
    >>> result = results.Result(
    ...     scenario=results.ScenarioHeading(name="one", title="One", summary="", reference=""),
    ...     provenance=results.Provenance(version="1", seed=0, command="audit", environment=None),
    ...     confidence=0.95,
    ...     settings=(study,),
    ... )
    >>> results.from_json(results.to_json(result)) == result
    True
    """
    plain = codec.encode(result)
    for setting, stored in zip(result.settings, plain["settings"], strict=True):
        if isinstance(setting, PairResult):
            stored["pair"] = encode_pair(setting.pair)
            for other, one in zip(setting.other_pairs, stored["other_pairs"], strict=True):
                one["pair"] = encode_pair(other.pair)
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


# the example is that of `to_json`
def from_json(text: str) -> Result:  # numpydoc ignore=EX01
    """Read a result from JSON text.

    A pair whose construction is not registered in this program keeps its name and parameters, so
    that it can be reported; its processes are not known.

    Parameters
    ----------
    text : str
        The text of a ``result.json``.

    Returns
    -------
    Result
        The result.

    Raises
    ------
    ValueError
        If the text is not JSON, is a result of another version, or has an invalid value; the
        message is one line.
    """
    try:
        plain = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"result must be JSON: {error}") from None
    if not isinstance(plain, dict):
        raise validate.fail("result", "a JSON object", plain)
    version = plain.get("version", plain.get("format"))
    if version != VERSION:
        raise ValueError(f"version must be {VERSION}, got {version!r}; run the scenario again")
    settings = plain.get("settings")
    for i, setting in enumerate(settings if isinstance(settings, list) else ()):
        if isinstance(setting, dict) and setting.get("kind") == PairResult.kind:
            _read_pairs(setting, f"settings[{i}]")
    result: Result = codec.decode(Result, plain)
    return result


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``result.json``, generated from the types.

    Pairs of constructions from outside the package only need a kind.

    Returns
    -------
    dict
        The schema.

    Examples
    --------
    >>> schema()["title"]
    'Result of a Noisy-SGD audit'
    """
    schemas = Schemas(exact=True)
    package = Result.__module__.partition(".")[0]  # also if this file runs as __main__
    ours = {kind: cls for kind, cls in kinds().items() if cls.__module__.startswith(f"{package}.")}
    pairs = [
        schemas.defined(kind, {"description": about(cls), **schemas.of_fields(cls, ("mechanism",))})
        for kind, cls in ours.items()
    ]
    other = {
        "type": "object",
        "properties": {"kind": {"type": "string", "not": {"enum": list(ours)}}},
        "required": ["kind"],
    }
    about_pairs = "A neighbouring pair for the setting's mechanism."
    schemas.ready(Construction, {"description": about_pairs, "anyOf": [*pairs, other]})
    title, id = "Result of a Noisy-SGD audit", f"result-{VERSION}.schema.json"
    return schemas.document(schemas.of(Result), title=title, id=id)


def _read_pairs(setting: dict[str, Any], name: str) -> None:
    """Replace the mechanism and the pairs of plain data by their values; pairs need a mechanism."""
    mechanism = decode_mechanism(setting.get("mechanism"), f"{name}.mechanism")
    setting["mechanism"] = mechanism
    places: dict[str, Any] = {name: setting}
    others = setting.get("other_pairs")
    if isinstance(others, list):
        places |= {f"{name}.other_pairs[{i}]": other for i, other in enumerate(others)}
    for place, one in places.items():
        if isinstance(one, dict) and "pair" in one:
            one["pair"] = _pair(one["pair"], mechanism, f"{place}.pair")


def _pair(plain: Any, mechanism: NoisySGD, name: str) -> Construction:
    """Return a pair; an unregistered construction keeps its parameters only."""
    kind = plain.get("kind") if isinstance(plain, Mapping) else None
    if not isinstance(kind, str) or not kind.isidentifier() or kind in kinds():
        return decode_pair(plain, mechanism, name)
    parameters = {str(key): item for key, item in plain.items() if key != "kind"}
    for key in parameters:
        known = key == "mechanism" or hasattr(Construction, key)
        if known or not key.isidentifier() or keyword.iskeyword(key):
            raise validate.fail(f"{name}.{key!a}", "left out", parameters[key])
    made: Construction = _unregistered(kind, tuple(parameters))(mechanism, **parameters)
    return made


@functools.cache
def _unregistered(kind: str, parameters: tuple[str, ...]) -> type[Construction]:
    """Return a class for an unregistered construction, with parameters but without processes."""

    def processes(self: Construction) -> tuple[Process, Process]:
        raise ValueError(f"pair.kind must be a registered construction, got {kind!r}")

    return dataclasses.make_dataclass(
        kind,
        [(name, Any) for name in parameters],
        bases=(Construction,),
        namespace={"processes": processes, "citation": "a construction of another program"},
        frozen=True,
    )


def _finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"numbers must be finite, got {text}")


if __name__ == "__main__":
    # writes the schema that ships with the package: python -m audit.results.json_codec
    SCHEMA_FILE.write_text(json_text(schema()), encoding="utf-8")
