"""Found pairs as small YAML files: the mechanism, the construction, and what it certifies."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import audit
from audit import constructions, exact
from audit.constructions import Construction, PiecewiseLinear
from audit.constructions.reading import read_parameters
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit.search.admissible import check_admissible
from audit.search.objectives import Bracket, Epsilon, Objective, RenyiDivergence
from audit.search.worst_case import Found

_ENUMS: dict[str, type[enum.Enum]] = {
    "batching": Batching,
    "relation": Relation,
    "release": Release,
}
_KEYS = ("mechanism", "pair", "objective", "bracket", "found_by")


@dataclass(frozen=True)
class StoredPair:
    """A pair read from a file; admissible, but not computed anew.

    ``bracket`` is what the file says that the ``objective`` is.
    """

    construction: Construction
    objective: Objective
    bracket: Bracket

    def recomputed(self) -> Bracket:
        """Compute the laws again and return the bracket of the objective."""
        return self.objective.bracket(exact.curve(self.construction))


def to_yaml(found: Found, objective: Epsilon | RenyiDivergence) -> str:
    """Return the text of a file that `read_found` reads."""
    pair = found.construction
    parameters = {
        f.name: _plain(getattr(pair, f.name))
        for f in dataclasses.fields(pair)
        if f.name != "mechanism" and getattr(pair, f.name) != f.default
    }
    content = {
        "mechanism": {
            f.name: _plain(getattr(pair.mechanism, f.name))
            for f in dataclasses.fields(NoisySGD)
            if getattr(pair.mechanism, f.name) != f.default
        },
        "pair": {"kind": pair.name, **parameters},
        "objective": (
            {"epsilon_at_delta": objective.delta}
            if isinstance(objective, Epsilon)
            else {"renyi_order": objective.alpha}
        ),
        "bracket": [float(end) for end in found.bracket],
        "found_by": {
            "version": audit.__version__,
            "seed": found.seed,
            "evaluations": found.evaluations,
        },
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def write_found(found: Found, objective: Epsilon | RenyiDivergence, path: Path) -> None:
    """Write a found pair to ``path``, whole or not at all.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(to_yaml(found, objective))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_found(path: Path) -> StoredPair:
    """Read a file of `write_found`, and check that its pair is admissible.

    Raises
    ------
    ValueError
        If the file is no such file, or its pair breaks an assumption; the message names the file.
    OSError
        If the file cannot be read.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, Mapping) or set(content) != set(_KEYS):
            raise ValueError(f"keys must be {', '.join(_KEYS)}")
        mechanism = NoisySGD(**_fields(content["mechanism"]))
        pair = _construction(mechanism, dict(content["pair"]))
        check_admissible(pair)
        low, high = (float(end) for end in content["bracket"])
        return StoredPair(pair, _objective(content["objective"]), (low, high))
    except (ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{path} must be a found pair: {message}") from error


def shipped(mechanism: NoisySGD) -> tuple[Construction, ...]:
    """Return the pairs that were found for this very mechanism and are shipped with the package."""
    return tuple(
        stored.construction
        for stored in _shipped_files()
        if stored.construction.mechanism == mechanism
    )


@functools.cache
def _shipped_files() -> tuple[StoredPair, ...]:
    package = Path(__file__).resolve().parents[1]
    bundled = package / "_scenarios"
    folder = bundled if bundled.is_dir() else package.parent / "scenarios"
    return tuple(read_found(path) for path in sorted((folder / "found").glob("*.yaml")))


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, PiecewiseLinear):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, float) else value


def _fields(written: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: (
            _ENUMS[name](value)
            if name in _ENUMS
            else tuple(value)
            if isinstance(value, list)
            else value
        )
        for name, value in written.items()
    }


def _construction(mechanism: NoisySGD, written: dict[str, Any]) -> Construction:
    kind = str(written.pop("kind"))
    made = getattr(constructions, kind, None)
    if not (inspect.isclass(made) and issubclass(made, Construction)) or inspect.isabstract(made):
        raise ValueError(f"kind must be a construction, got {kind!r}")
    pair: Construction = made(mechanism, **read_parameters(made, written))
    return pair


def _objective(written: Mapping[str, float]) -> Objective:
    ((name, value),) = written.items()
    if name == "epsilon_at_delta":
        return Epsilon(value)
    if name == "renyi_order":
        return RenyiDivergence(value)
    raise ValueError(f"objective must be epsilon_at_delta or renyi_order, got {name!r}")
