"""Pairs with a common start, whose differing record is in a given batch of cyclic batches."""

from __future__ import annotations

from typing import Any

from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import (
    batched_process,
    check_position,
    cyclic_process,
    last_position,
)
from audit.constructions.gradient_limits import both_hold_record, record_pushes
from audit.constructions.process import Process
from audit.constructions.sampling import BatchUpdate


class PositionedPair(Construction):
    """Pair whose datasets have the same updates but for the differing record.

    A subclass is a dataclass with the fields ``start`` and ``position``.
    """

    start: float
    position: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_batching()
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)

    def _check_batching(self) -> None:
        """Raise `Inadmissible` for batches that the pair is not for."""

    def _require(self, holds: bool, wanted: str, **got: object) -> None:
        """Raise `Inadmissible` unless something holds that the pair needs."""
        if not holds:
            found = ", ".join(f"{name}={value!r}" for name, value in got.items())
            raise Inadmissible(f"{self.name} needs {wanted}, got {found}")

    def _require_no_strong_convexity(self, losses: str) -> None:
        curvature = self.mechanism.strong_convexity
        wanted = f"strong_convexity = 0 because {losses}"
        self._require(curvature == 0, wanted, strong_convexity=curvature)

    def _records(self) -> tuple[Any, Any]:
        """Return the record in X and in X': by default negative gradients, farthest apart."""
        return record_pushes(self.mechanism)

    def _update(self, record: Any) -> BatchUpdate:
        """Return the update of a dataset's batches, if all batches have the same."""
        raise NotImplementedError

    def _updates(self, record: Any) -> tuple[BatchUpdate, ...]:
        """Return the updates of the batches of a cycle; one if all batches have the same."""
        return (self._update(record),)

    def _process(self, record: Any, present: bool) -> Process:
        m, updates = self.mechanism, self._updates(record)
        if len(updates) > 1:
            position = last_position(m) if self.position is None else self.position
            return cyclic_process(m, self.start, updates, position)
        return batched_process(m, self.start, updates[0], self.position, present)

    def processes(self) -> tuple[Process, Process]:
        """Return the processes X and X', whose record may be missing."""
        first, second = self._records()
        return self._process(first, True), self._process(second, both_hold_record(self.mechanism))
