"""Constructions by name, with parameters by name: what a scenario file says of a pair."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, get_type_hints

from audit import constructions, validate
from audit.constructions import Construction, HolderForm, PiecewiseLinear
from audit.mechanism import NoisySGD

KINDS: Mapping[str, type[Construction]] = {
    kind.__name__: kind
    for kind in (
        constructions.BiasedWalk,
        constructions.TwoSidedWalk,
        constructions.DriftedWalk,
        constructions.ResetWalk,
        constructions.WallPinnedWalk,
        constructions.QuadraticPair,
        constructions.CyclicQuadraticPair,
        constructions.GradientPair,
        constructions.HolderPair,
    )
}
# Without these the pair is another, simpler one: leaving them out is a slip.
_NEEDED = {
    "DriftedWalk": ("drift",),
    "ResetWalk": ("curvature", "cap"),
    "WallPinnedWalk": ("before", "after"),
    "HolderPair": ("scale", "form"),
}
_LINE_KEYS = ("points", "values", "slopes")


def named_pair(kind: str, mechanism: NoisySGD, parameters: Mapping[str, Any]) -> Construction:
    """Return the construction of a kind.

    Parameters
    ----------
    kind
        A key of ``KINDS``.
    mechanism
        Its mechanism.
    parameters
        Fields of the kind by name. A piecewise linear gradient is a number (a constant) or a
        mapping of ``points``, ``values`` and ``slopes``.

    Raises
    ------
    ValueError
        If a parameter is not one of the kind's, is missing, or is not admissible.
    """
    validate.one_of(tuple(KINDS), kind=kind)
    made = KINDS[kind]
    hints = get_type_hints(made)
    allowed = {f.name for f in dataclasses.fields(made)} - {"mechanism"}
    for name, value in parameters.items():
        if name not in allowed:
            raise ValueError(f"{name} must be left out for a {kind}, got {value!r}")
    for name in _NEEDED.get(kind, ()):
        if name not in parameters:
            raise ValueError(f"{name} must be given for a {kind}, got None")
    read = {name: _read(name, hints[name], value) for name, value in parameters.items()}
    return made(mechanism, **read)


def _read(name: str, hint: Any, value: Any) -> Any:
    if hint in (PiecewiseLinear, PiecewiseLinear | None):
        return _line(name, value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        validate.one_of(tuple(HolderForm.__members__), **{name: value})
        return HolderForm[value]
    return value


def _line(name: str, value: Any) -> PiecewiseLinear:
    if not isinstance(value, Mapping):
        validate.finite(**{name: value})
        return PiecewiseLinear.constant(float(value))
    if set(value) != set(_LINE_KEYS):
        raise ValueError(
            f"{name} must be a number or hold {', '.join(_LINE_KEYS)}, got {', '.join(value)}"
        )
    try:
        points, values, slopes = (tuple(value[key]) for key in _LINE_KEYS)
        return PiecewiseLinear(points, values, slopes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a broken line: {error}") from None
