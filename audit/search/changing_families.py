"""Families of pairs whose losses change over time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.constructions import ChangingPair, Construction, GradientPair, Phase
from audit.constructions.changing import refusal
from audit.mechanism import Batching, NoisySGD
from audit.search.families import KICKS, Family, families

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChangingFamily(Family):
    """Pairs of linear losses whose common drift changes at a few fixed times.

    The first stage adds a trend to the drift and the start: the difference of the last phase's
    drift from the first one's, on the scale of the drift. The second stage adds one coordinate for
    each later phase, the difference of its drift from the trend.
    """

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of steps of each phase; on an unbounded domain, times are shares of the run."""
        m = self.mechanism
        steps = m.steps
        crossing = steps if m.diameter is None else (m.diameter / (self._eta * m.noise_std)) ** 2
        marks = {round(share * crossing) for share in ChangingPair.TIMES} | {1}
        ends = sorted({0, steps, *(mark for mark in marks if 0 < mark < steps)}, reverse=True)
        return tuple(a - b for a, b in itertools.pairwise(ends))

    @cached_property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Names of the coordinates that each stage adds."""
        first = tuple(name for name in super().stages[0] if name not in KICKS)
        later = range(1, len(self.lengths))
        if "drift" not in first or not later:
            return first, (), ()
        return (*first, "trend"), tuple(f"change {k}" for k in later), ()

    @property
    def _leans(self) -> bool:
        return False

    def _neutral(self, name: str) -> float:
        return 0.5 if name == "trend" or name.startswith("change") else super()._neutral(name)

    def pair(self, point: Array, stage: int) -> Construction:
        """Return the pair at a point of the unit cube of ``stage``."""
        u = dict(zip(self.names(stage), np.clip(point, 0, 1).tolist(), strict=True))
        base = super().pair(point, stage)
        assert isinstance(base, GradientPair)
        if "trend" not in u:
            return base
        phases = []
        for k, length in enumerate(self.lengths):
            trend = (2 * u["trend"] - 1) * k / (len(self.lengths) - 1)
            drift = u["drift"] + trend + 2 * u.get(f"change {k}", 0.5) - 1
            moved = {"drift": min(max(drift, 0.0), 1.0)}
            others = self._others(moved, "drift", "curvature", 0.0, 0.0, 0.0)
            phases.append(Phase(length, others, base.record, base.record_prime))
        return ChangingPair(
            self.mechanism, tuple(phases), base.shared, base.start, position=base.position
        )


def all_families(mechanism: NoisySGD, *, many_dimensions: bool = False) -> Iterator[Family]:
    """Yield the families of a mechanism, with losses that change if the mechanism allows them.

    For cyclic batches they change in the last batch's family only, beside the fixed ones.
    """
    found = list(families(mechanism, many_dimensions=many_dimensions))
    if refusal(mechanism) is None:
        changing = ChangingFamily(mechanism, found[0].position)
        found = [changing, *found] if mechanism.batching is Batching.CYCLIC else [changing]
    yield from found
