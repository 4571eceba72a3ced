"""Files of found pairs: the mechanism, the construction and its certified value, as YAML."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import audit
from audit import codec, exact
from audit.codec.atomic import write_atomic
from audit.codec.yaml_text import read_yaml
from audit.constructions import Construction, decode_pair, encode_pair
from audit.mechanism import Composition, NoisySGD
from audit.numerics.display import ShortRepr
from audit.search.admissible import check_admissible
from audit.search.objectives import Bracket, Epsilon, Objective, RenyiDivergence
from audit.search.optimizer import Found


@dataclass(frozen=True)
class StoredPair(ShortRepr):
    """A pair read from a file; it is admissible, but its laws were not recomputed.

    ``bracket`` is that of the ``objective`` that the search maximised, as stored in the file.
    """

    construction: Construction
    objective: Objective
    bracket: Bracket

    def recomputed(self) -> Bracket:
        """Compute the laws again and return the bracket of the objective."""
        return self.objective.bracket(exact.curve(self.construction))


@dataclass(frozen=True)
class FoundObjective:
    """The objective in a file; exactly one of the two is given."""

    epsilon_at_delta: float | None = None
    renyi_order: float | None = None

    def objective(self) -> Epsilon | RenyiDivergence:
        """Return the objective that was maximised."""
        if self.epsilon_at_delta is not None and self.renyi_order is None:
            return Epsilon(self.epsilon_at_delta)
        if self.renyi_order is not None and self.epsilon_at_delta is None:
            return RenyiDivergence(self.renyi_order)
        raise ValueError("objective must be epsilon_at_delta or renyi_order")


@dataclass(frozen=True)
class SearchRun:
    """The search that found a pair."""

    version: str
    seed: int
    evaluations: int


@dataclass(frozen=True)
class FoundFile:
    """The content of a file; ``pair`` is decoded once the mechanism is known."""

    mechanism: NoisySGD
    pair: Mapping[str, Any]
    objective: FoundObjective
    bracket: tuple[float, float]
    found_by: SearchRun


def to_yaml(found: Found, objective: Epsilon | RenyiDivergence) -> str:
    """Return the text of a file that `read_found` reads."""
    content = FoundFile(
        mechanism=found.construction.mechanism,
        pair=encode_pair(found.construction),
        objective=FoundObjective(
            epsilon_at_delta=objective.delta if isinstance(objective, Epsilon) else None,
            renyi_order=None if isinstance(objective, Epsilon) else objective.alpha,
        ),
        bracket=found.bracket,
        found_by=SearchRun(audit.__version__, found.seed, found.evaluations),
    )
    plain = codec.encode(content, defaults=False)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def write_found(found: Found, objective: Epsilon | RenyiDivergence, path: Path) -> None:
    """Write a found pair to a file, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, to_yaml(found, objective).encode("utf-8"))


def read_found(path: Path) -> StoredPair:
    """Read a file of `write_found`, and check that its pair is admissible."""
    try:
        plain, _ = read_yaml(path.read_text(encoding="utf-8"))
        content: FoundFile = codec.decode(FoundFile, plain)
        pair = decode_pair(content.pair, content.mechanism)
        check_admissible(pair)
        return StoredPair(pair, content.objective.objective(), content.bracket)
    except ValueError as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{path} must be a found pair: {message}") from error


def shipped(mechanism: NoisySGD | Composition) -> tuple[Construction, ...]:
    """Return the pairs that were found for exactly this mechanism and ship with the package."""
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
