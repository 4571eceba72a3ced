"""Pairs whose other records pull the iterate back and so remove old noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.batches import SAMPLERS, random_position, random_start
from audit.constructions.gradient_limits import (
    check_curvature,
    check_holder,
    check_others,
    others_range,
    random_curvature,
    random_others,
    suggested_curvatures,
)
from audit.constructions.positioned import PositionedPair
from audit.constructions.registry import construction
from audit.constructions.sampling import BatchUpdate
from audit.constructions.updates import Affine, PiecewiseLinear, UpdateMap, gradient_step
from audit.mechanism import Choice, NoisySGD, Relation


def _random_cap(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    return abs(random_others(mechanism, rng))


@construction
@dataclass(frozen=True)
class ResetWalk(PositionedPair):
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
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
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
        self._require_no_strong_convexity("Huber losses are linear far out")
        self._require(self.mechanism.dataset_size > 1, "another record", dataset_size=1)
        check_curvature(self.name, self.mechanism, self.curvature)
        check_holder(self.name, self.mechanism, self._huber)
        check_others(self.name, self.mechanism, -self.cap, self.cap)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the curvature that resets in one step, and the largest, at the largest gradient."""
        low, high = others_range(mechanism)
        cap = min(-low, high)
        if math.isfinite(cap) and cap > 0:
            for curvature in suggested_curvatures(mechanism):
                if curvature > 0:
                    yield {"curvature": curvature, "cap": cap}

    @property
    def _huber(self) -> PiecewiseLinear:
        return PiecewiseLinear.clipped(self.curvature, self.centre, self.cap)

    def _update(self, record: float) -> BatchUpdate:
        batch_size, huber = self.mechanism.batch_size, self._huber

        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            shift = eta * record / batch_size if holds_record else 0.0
            if count == 0:
                return Affine(shift)
            return gradient_step([(-eta * count / batch_size, huber)], shift)

        return update
