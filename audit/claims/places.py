"""Which records a statement speaks about: pairs that differ elsewhere say nothing about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from audit.claims.claim import CatalogueBound, Statement
from audit.claims.pairs import Pair
from audit.claims.points import BadClaim
from audit.constructions.base import Construction
from audit.mechanism import Batching, NoisySGD

# Options that say what the two runs are, beyond the mechanism: no pair here is made to fit them.
_OTHER_RUNS = ("distance", "shifts", "allocations")


def positions(statement: Statement, mechanism: NoisySGD) -> range | None:
    """Return the batches of the cycle that may hold the differing record, from 0; None for any.

    A bound may be asked for one record (``index``), for the records of one batch (``position``,
    ``batch``), or for those that are not public. Theorem 1 of paper 001 is about the first record.
    """
    if not isinstance(statement, CatalogueBound) or mechanism.batching is not Batching.CYCLIC:
        return None
    options, size = statement.options, mechanism.batch_size
    if statement.id == "fmtt18.theorem_1":
        return range(1)
    if "index" in options:
        return _only((int(options["index"]) - 1) // size)
    if "position" in options:
        return _only(int(options["position"]))
    if "batch" in options:
        return _only(int(options["batch"]) - 1)
    if "public" in options:
        return range((mechanism.dataset_size - int(options["public"])) // size)
    return None


def placed(pair: Pair, allowed: range | None) -> Pair | None:
    """Return the pair with its record in one of the allowed batches; None where it is not.

    A pair whose position is left open takes the last one that is allowed.
    """
    if allowed is None or not isinstance(pair, Construction):
        return pair
    position: int | None = getattr(pair, "position", None)
    if position is None:
        return replace(pair, position=allowed[-1])  # type: ignore[call-arg]
    return pair if position in allowed else None


def check_named(statement: Statement, kind: str, parameters: Mapping[str, object]) -> None:
    """Raise `BadClaim` where a named pair cannot speak about a statement.

    ``Repeated`` is what the tasks of Theorem 32 of paper 001 release; no other statement covers
    several runs.
    """
    if kind != "Repeated":
        return
    tasks = statement.options.get("tasks", 1) if isinstance(statement, CatalogueBound) else 1
    times = parameters.get("times")
    if not isinstance(times, int) or times > tasks:
        raise BadClaim(f"Repeated needs a bound on at least {times!r} tasks, got tasks={tasks!r}")


def check_runs(statement: Statement) -> None:
    """Raise `BadClaim` where a statement is about runs that only the claim's author can name."""
    if isinstance(statement, CatalogueBound):
        for name in _OTHER_RUNS:
            if name in statement.options:
                raise BadClaim(f"pair must be named for a bound with the option {name!r}")


def _only(position: int) -> range:
    return range(position, position + 1)
