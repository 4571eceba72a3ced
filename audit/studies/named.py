"""Studies by name, with fields by name: what a scenario file says of a study."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from audit import validate
from audit.studies.findings import Study

# The class and the module that holds it; a module is read only where its study is asked for.
KINDS: Mapping[str, str] = {
    "AltschulerTalwarFigures": "audit.studies.figures_at22",
    "BokSuAltschulerFigures": "audit.studies.figures_bsa24",
    "ChienLiFigures": "audit.studies.figures_cl25",
    "SideStatements": "audit.studies.paper_statements",
    "IrisHolder": "audit.studies.iris",
    "NoisyCGDTraining": "audit.studies.noisy_cgd",
    "ClippedInDimensions": "audit.studies.clipped_dimensions",
    "ExponentialMechanismOfCones": "audit.studies.langevin_cones",
    "LangevinBetweenWalls": "audit.studies.langevin_walls",
    "LangevinOnQuadratics": "audit.studies.langevin",
    "ShiftedInterpolation": "audit.studies.shifted",
}


def named_study(kind: str, values: Mapping[str, Any]) -> Study:
    """Return the study of a kind.

    Parameters
    ----------
    kind
        A key of ``KINDS``.
    values
        Fields of the kind by name, as plain data: numbers, words, lists, mappings. Choices are
        given by the name of the member, paths as text, and nested values as mappings of fields.

    Raises
    ------
    ValueError
        If a field is not one of the kind's, is missing, or has a value that it cannot have.
    """
    validate.one_of(tuple(KINDS), kind=kind)
    made = getattr(importlib.import_module(KINDS[kind]), kind)
    study: Study = _built(made, values, "")
    return study


def _built(made: Any, values: Mapping[str, Any], prefix: str) -> Any:
    hints = get_type_hints(made)
    known = {field.name: field for field in dataclasses.fields(made) if field.init}
    for name, value in values.items():
        if name not in known:
            raise ValueError(
                f"{prefix}{name} must be left out for a {made.__name__}, got {value!r}"
            )
    for name, field in known.items():
        if name not in values and _needed(field):
            raise ValueError(f"{prefix}{name} must be given for a {made.__name__}, got None")
    read = {name: _read(prefix + name, hints[name], value) for name, value in values.items()}
    return made(**read)


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _read(name: str, hint: Any, value: Any) -> Any:
    """Return a plain value as what the field takes; ranges are checked by the study itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return _read_either(name, get_args(hint), value)
    if get_origin(hint) is tuple or hint is tuple:
        return _tuple(name, get_args(hint), value)
    if isinstance(hint, type):
        if issubclass(hint, enum.Enum):
            validate.one_of(tuple(hint.__members__), **{name: value})
            return hint[value]
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise validate.fail(name, "a mapping of fields", value)
            return _built(hint, value, f"{name}.")
        return _simple(name, hint, value)
    return value


def _read_either(name: str, hints: Sequence[Any], value: Any) -> Any:
    if value is None and type(None) in hints:
        return None
    refusals = []
    for hint in hints:
        if hint is type(None):
            continue
        try:
            return _read(name, hint, value)
        except ValueError as error:
            refusals.append(error)
    raise refusals[0]


def _tuple(name: str, hints: Sequence[Any], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise validate.fail(name, "a list", value)
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = [hints[0]] * len(value)
    elif hints and len(hints) != len(value):
        raise validate.fail(name, f"a list of {len(hints)}", value)
    hints = hints or [Any] * len(value)
    return tuple(
        _read(f"{name}[{i}]", hint, item)
        for i, (hint, item) in enumerate(zip(hints, value, strict=True))
    )


def _simple(name: str, hint: type, value: Any) -> Any:
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    is_truth = isinstance(value, bool)
    fits = isinstance(value, hint) and (is_truth == (hint is bool) or hint is object)
    if hint in _WORDS and not fits:
        raise validate.fail(name, _WORDS[hint], value)
    return value


_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    Path: "a path",
}
