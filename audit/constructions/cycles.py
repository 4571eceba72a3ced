"""Constructions for cyclic batches whose records differ between batches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.batches import (
    cycle_length,
    last_position,
    random_position,
    random_start,
)
from audit.constructions.gradient_limits import (
    check_curvature,
    check_holder,
    check_others,
    check_unclipped,
    check_whole_gradients,
    others_range,
    random_curvature,
    random_others,
    suggested_curvatures,
)
from audit.constructions.positioned import PositionedPair
from audit.constructions.registry import construction
from audit.constructions.sampling import BatchUpdate
from audit.constructions.updates import Affine, PiecewiseLinear
from audit.constructions.walks import linear_update
from audit.mechanism import Batching, NoisySGD

_CURVATURES = 9  # of the record's batch that are suggested, from the smallest to the largest


class _CyclicPair(PositionedPair):
    """Pair whose updates depend on where a batch is in the cycle."""

    def _check_batching(self) -> None:
        batching = self.mechanism.batching
        wanted = "batching='cyclic' because its records' positions matter"
        self._require(batching is Batching.CYCLIC, wanted, batching=batching.value)

    @property
    def _places(self) -> tuple[int, ...]:
        """Batches of the cycle, counted from the one that holds the record."""
        m = self.mechanism
        held = last_position(m) if self.position is None else self.position
        return tuple(k - held for k in range(cycle_length(m)))


@construction
@dataclass(frozen=True)
class WallPinnedWalk(_CyclicPair):
    """Walks whose earlier records push the iterate into a wall and later ones push it away.

    All losses are linear. At the wall an iterate forgets the noise that it has accumulated, so the
    step of the differing record is exposed; a push away from the wall afterwards keeps its effect
    from being clamped. Without walls this is a drifted walk. The differing record pushes X to the
    right with slope L, and X' to the left with slope L (``REPLACE_ONE``) or not at all
    (``ZERO_OUT``).

    Parameters
    ----------
    before, after : float, default: 0.0
        Negative gradients (positive: to the right) of the other records, in the batches of the
        cycle up to and including the record's, and in later ones.
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
    """

    before: float = field(default=0.0, metadata={"draw": random_others, **REQUIRED})
    after: float = field(default=0.0, metadata={"draw": random_others, **REQUIRED})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; linear losses that push into the wall and away"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.finite(before=self.before, after=self.after)
        self._require_no_strong_convexity("its losses are linear")
        least, most = sorted((self.before, self.after))
        check_others(self.name, self.mechanism, least, most)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the largest pushes into a wall and away from it, before and after the record."""
        low, high = others_range(mechanism)
        if math.isfinite(high):
            for before, after in ((high, low), (low, high), (high, high), (high, 0.0)):
                yield {"before": before, "after": after}

    def _updates(self, record: float) -> tuple[BatchUpdate, ...]:
        before, after = (
            linear_update(self.mechanism, record, others) for others in (self.before, self.after)
        )
        return tuple(before if place <= 0 else after for place in self._places)


@construction
@dataclass(frozen=True)
class CyclicQuadraticPair(_CyclicPair):
    """Quadratic losses with one curvature in the record's batch and another elsewhere.

    Record i has the loss f_i(x) = k_i/2 x^2 - p_i x, with k_i = ``batch_curvature`` in the batch
    that holds the differing record and ``curvature`` elsewhere. p_i is 0 except for the differing
    record: +S/2 in X and -S/2 in X' (``REPLACE_ONE``), or L and 0 (``ZERO_OUT``). Curvature 1/eta
    in the record's batch removes all earlier noise, which exposes the last step; small curvature
    keeps what earlier epochs leaked.

    The two gradients of the differing record differ by S everywhere, as the bounds for cyclic
    batches assume. Gradients of records in different batches may differ by more.

    Parameters
    ----------
    curvature, batch_curvature : float, default: 0.0
        From the strong convexity to the smoothness; from minus the smoothness to the smoothness if
        losses need not be convex.
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
    """

    curvature: float = field(default=0.0, metadata={"draw": random_curvature})
    batch_curvature: float = field(default=0.0, metadata={"draw": random_curvature})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; attacks Theorem 4.5 of Bok, Su and Altschuler 2024"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.finite(curvature=self.curvature, batch_curvature=self.batch_curvature)
        m, curvatures = self.mechanism, (self.curvature, self.batch_curvature)
        for curvature in curvatures:
            check_unclipped(self.name, m, curvature)
            check_curvature(self.name, m, curvature)
        check_holder(self.name, m, *map(PiecewiseLinear.linear, curvatures))
        self._require(
            self.curvature == self.batch_curvature or m.lipschitz is None,
            "lipschitz=None if its curvatures differ, because no shared regulariser has two",
            lipschitz=m.lipschitz,
        )
        check_whole_gradients(self.name, m, self.curvature)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield a reset in the record's batch first, then other pairs of curvatures.

        The best curvature of the record's batch may lie between the smallest and the largest.
        """
        m = mechanism
        least, most = m.strong_convexity, m.smoothness
        curvatures = suggested_curvatures(m)
        resetting = min(1 / float(np.max(m.step_sizes)), math.inf if most is None else most)
        pairs = [(least, resetting), *itertools.permutations(curvatures, 2)]
        if most is not None:
            pairs += [(least, float(k)) for k in np.linspace(least, most, _CURVATURES)]
        for curvature, batch_curvature in dict.fromkeys(pairs):
            if curvature != batch_curvature:
                yield {"curvature": curvature, "batch_curvature": batch_curvature}

    def _updates(self, record: float) -> tuple[BatchUpdate, ...]:
        def update(curvature: float) -> BatchUpdate:
            def moved(eta: float, holds_record: bool, count: int) -> Affine:
                shift = eta * record / self.mechanism.batch_size if holds_record else 0.0
                return Affine(shift, 1 - eta * curvature)

            return moved

        other, own = update(self.curvature), update(self.batch_curvature)
        return tuple(other if place else own for place in self._places)
