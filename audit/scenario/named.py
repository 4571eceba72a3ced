"""Constructions by name, with parameters by name: what a scenario file says of a pair."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from audit import constructions, validate
from audit.constructions import Construction
from audit.constructions.reading import read_parameters
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
    allowed = {f.name for f in dataclasses.fields(made)} - {"mechanism"}
    for name, value in parameters.items():
        if name not in allowed:
            raise ValueError(f"{name} must be left out for a {kind}, got {value!r}")
    for name in _NEEDED.get(kind, ()):
        if name not in parameters:
            raise ValueError(f"{name} must be given for a {kind}, got None")
    return made(mechanism, **read_parameters(made, parameters))
