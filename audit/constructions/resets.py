"""Pairs whose other records pull the iterate back and so remove old noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import (
    SAMPLERS,
    batched_process,
    check_position,
    random_position,
    random_start,
)
from audit.constructions.gradient_limits import (
    both_hold_record,
    check_curvature,
    check_holder,
    check_others,
    others_range,
    random_curvature,
    random_others,
    record_pushes,
    suggested_curvatures,
)
from audit.constructions.process import Process
from audit.constructions.registry import construction
from audit.constructions.updates import Affine, PiecewiseLinear, UpdateMap, gradient_step
from audit.mechanism import Choice, NoisySGD, Relation


def _random_cap(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    return abs(random_others(mechanism, rng))


@construction
@dataclass(frozen=True)
class ResetWalk(Construction):
    """Pair whose other records pull the iterate back to a centre, by Huber losses.

    Every other record has a loss of the given curvature near the centre and a gradient of at most
    ``cap`` away from it: convex, smooth and Lipschitz. At curvature 1/eta a batch of such records
    sends the iterate to the centre, whatever noise it has accumulated. The differing record is
    linear and pushes X to the right, and X' to the left (``REPLACE_ONE``) or not at all.

    Parameters
    ----------
    curvature : float, default: 1.0
        Curvature of the other records' losses near the centre, above 0.
    cap : float, default: 1.0
        Largest gradient of the other records, above 0.
    centre, start : float, default: 0.0
        Minimum of the other records' losses, and common start point.
    position : int, optional
        Batch of the cycle that holds the record, counted from 0, for cyclic batches. Defaults to
        the batch of the last step.

    Raises
    ------
    Inadmissible
        If the losses violate an assumption of the mechanism; the message names it.
    ValueError
        If a parameter is out of range.
    """

    curvature: float = field(default=1.0, metadata={"draw": random_curvature, **REQUIRED})
    cap: float = field(default=1.0, metadata={"draw": _random_cap, **REQUIRED})
    centre: float = 0.0
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; the other records have Huber losses"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive(curvature=self.curvature, cap=self.cap)
        validate.finite(centre=self.centre)
        if self.mechanism.strong_convexity > 0:
            raise Inadmissible(
                f"{self.name} needs strong_convexity = 0 because Huber losses are linear far out, "
                f"got strong_convexity={self.mechanism.strong_convexity!r}"
            )
        if self.mechanism.dataset_size == 1:
            raise Inadmissible(f"{self.name} needs another record, got dataset_size=1")
        check_curvature(self.name, self.mechanism, self.curvature)
        huber = PiecewiseLinear.clipped(self.curvature, self.centre, self.cap)
        check_holder(self.name, self.mechanism, huber)
        check_others(self.name, self.mechanism, -self.cap, self.cap)
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the curvature that resets in one step, and the largest, at the largest gradient."""
        low, high = others_range(mechanism)
        cap = min(-low, high)
        if math.isfinite(cap) and cap > 0:
            for curvature in suggested_curvatures(mechanism):
                if curvature > 0:
                    yield {"curvature": curvature, "cap": cap}

    def processes(self) -> tuple[Process, Process]:
        """Return the processes pushed right, and left (or not at all)."""
        push, push_prime = record_pushes(self.mechanism)
        return (
            self._process(push),
            self._process(push_prime, both_hold_record(self.mechanism)),
        )

    def _process(self, record: float, present: bool = True) -> Process:
        batch_size = self.mechanism.batch_size
        huber = PiecewiseLinear.clipped(self.curvature, self.centre, self.cap)

        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            shift = eta * record / batch_size if holds_record else 0.0
            if count == 0:
                return Affine(shift)
            return gradient_step([(-eta * count / batch_size, huber)], shift)

        return batched_process(self.mechanism, self.start, update, self.position, present)
