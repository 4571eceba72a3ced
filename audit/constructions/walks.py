"""Clamped random walks: every record's loss is linear.

The displacement of a linear loss does not depend on the state, so the iterates are random walks
projected onto an interval. They are admissible for convex and non-convex losses of any smoothness,
but not for strongly convex ones.
"""

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
    SAMPLERS,
    random_position,
    random_start,
    suggested_starts,
)
from audit.constructions.gradient_limits import SLACK, others_range, random_others
from audit.constructions.positioned import PositionedPair
from audit.constructions.registry import construction
from audit.constructions.sampling import BatchUpdate
from audit.constructions.updates import Affine
from audit.mechanism import Batching, Choice, NoisySGD, Relation, Release

# Suggested drifts, as shares of the largest one, and in multiples of the one that crosses the
# domain once within the run.
_SHARES = (1.0, 0.25, 0.5)
_CROSSINGS = (1.0, 0.5, 1.5, 0.75, 2.0, 3.0)


def _drift_per_gradient(mechanism: NoisySGD) -> float:
    """Return the displacement of the first step by other records of negative gradient 1."""
    m = mechanism
    share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
    return float(m.step_sizes[0]) * share


def _random_drift(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    return random_others(mechanism, rng) * _drift_per_gradient(mechanism)


def _may_stop_early(mechanism: NoisySGD) -> bool:
    """Return True if a run may be shorter than a cycle: only the first record is always used."""
    stops = mechanism.release is not Release.LAST_ITERATE
    return stops and mechanism.batching is Batching.CYCLIC


def _plain_walks(mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
    for start in suggested_starts(mechanism):
        yield {"start": start}
    if _may_stop_early(mechanism):
        yield {"position": 0}


def linear_update(mechanism: NoisySGD, record: float, others: float) -> BatchUpdate:
    """Return the update of linear losses with the given negative gradients (positive: right)."""

    def update(eta: float, holds_record: bool, count: int) -> Affine:
        push = (record if holds_record else 0.0) + count * others
        return Affine(shift=eta * push / mechanism.batch_size)

    return update


class _LinearPair(PositionedPair):
    """Pair of linear losses: the displacement of a batch does not depend on the state."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_no_strong_convexity("its losses are linear")

    @property
    def _others(self) -> float:
        """Negative gradient of every other record."""
        return 0.0

    def _update(self, record: float) -> BatchUpdate:
        return linear_update(self.mechanism, record, self._others)


@construction
@dataclass(frozen=True)
class BiasedWalk(_LinearPair):
    """Symmetric clamped walk (X) against a biased one (X').

    The pair of Altschuler and Talwar 2022, section 4: all losses are zero, except that the
    differing record of the second dataset has a linear loss of slope L. X' jumps by ``step_size * L
    / batch_size`` if the record is in the batch, away from the nearer end of the domain: to the
    right for ``start <= 0`` and to the left for ``start > 0``.

    Parameters
    ----------
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.
    """

    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "Altschuler and Talwar 2022, section 4"
    covers: ClassVar[tuple[Choice, ...]] = SAMPLERS

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield starts in the middle and at the left end, where `TwoSidedWalk` is refused.

        Where it is not, its records push twice as far apart.
        """
        if mechanism.relation is not Relation.REPLACE_ONE:
            yield from _plain_walks(mechanism)

    @property
    def direction(self) -> float:
        """+1 if X' jumps to the right, -1 if it jumps to the left."""
        return 1.0 if self.start <= 0 else -1.0

    def _records(self) -> tuple[float, float]:
        return 0.0, self.direction * self.mechanism.steepest_gradient


@construction
@dataclass(frozen=True)
class TwoSidedWalk(_LinearPair):
    """Clamped walk pushed to the right (X) against one pushed to the left (X').

    The differing record has linear losses of opposite slopes. If it is in the batch, X moves by
    ``+step_size * L / batch_size`` and X' by the opposite, twice the difference of `BiasedWalk`.
    Not admissible for ``ZERO_OUT``, where one of the two losses is zero.

    Parameters
    ----------
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=10, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5,
    ...                    lipschitz=1.0, smoothness=1.0, diameter=1.0)
    >>> audit.exact.curve(TwoSidedWalk(m)).epsilon(1e-5) < audit.bounds.best(m, delta=1e-5).epsilon
    True
    """

    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; linear losses of opposite slopes"
    covers: ClassVar[tuple[Choice, ...]] = SAMPLERS

    def __post_init__(self) -> None:
        super().__post_init__()
        relation = self.mechanism.relation
        wanted = "relation='replace one' because both of its losses are nonzero"
        self._require(relation is Relation.REPLACE_ONE, wanted, relation=relation.value)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield starts in the middle and at the left end."""
        yield from _plain_walks(mechanism)


@construction
@dataclass(frozen=True)
class DriftedWalk(_LinearPair):
    """Two clamped walks with a common drift caused by the other records.

    A drift from one end of the domain toward the other, with a start near the end that it leaves,
    makes the pair far easier to distinguish. The differing record pushes X to the right with slope
    L, and X' to the left with slope L (``REPLACE_ONE``) or not at all (``ZERO_OUT``,
    ``ADD_REMOVE``).

    Parameters
    ----------
    drift : float, default: 0.0
        Displacement per step by the other records alone, positive to the right: by all n - 1 of
        them for full batches, by a batch of them for smaller batches (a batch that holds the
        differing record has one of them fewer). For a step-size schedule, the displacement of the
        first step.
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
    """

    drift: float = field(default=0.0, metadata={"draw": _random_drift, **REQUIRED})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; the other records share a linear drift"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.finite(drift=self.drift)
        size, low_and_high = self.mechanism.dataset_size, others_range(self.mechanism)
        drifts = not self.drift or size > 1
        self._require(drifts, "another record to drift", dataset_size=size, drift=self.drift)
        scale = _drift_per_gradient(self.mechanism)
        low, high = (end * scale for end in low_and_high)
        self._require(
            low_and_high[0] * SLACK <= self._others <= low_and_high[1] * SLACK,
            f"drift in [{low:.6g}, {high:.6g}], which the Lipschitz constant and the gradient "
            "sensitivity allow",
            drift=self.drift,
        )

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield drifts that cross the domain, or as large as allowed, from the end that they leave.

        The other records push against the record first: in batches drawn at random its presence
        then shows most. Only where X' holds its mirror image does the sign not matter.
        """
        drifts = cls._suggested_drifts(mechanism)
        yield from itertools.islice(drifts, 1)
        if mechanism.relation is Relation.ADD_REMOVE:  # no other walk is admissible
            yield from ({"drift": 0.0, "start": start} for start in suggested_starts(mechanism))
        yield from drifts

    @staticmethod
    def _suggested_drifts(m: NoisySGD) -> Iterator[dict[str, Any]]:
        low, high = others_range(m)
        if m.dataset_size == 1 or not math.isfinite(high):
            return
        scale = _drift_per_gradient(m)
        stops = m.release is not Release.LAST_ITERATE
        if _may_stop_early(m):
            yield {"drift": scale * high, "position": 0}
        half = None if m.diameter is None else m.diameter / 2
        if half is None and m.batching in (Batching.FULL, Batching.CYCLIC) and not stops:
            return  # both laws would move by the same distance
        drifts: list[float | None] = [scale * high * share for share in _SHARES]
        if half is not None:
            crossing = 2 * half / m.steps
            moderate = [crossing * part for part in _CROSSINGS if crossing * part < scale * high]
            turns = itertools.zip_longest(moderate, drifts)
            drifts = list(itertools.chain.from_iterable(turns))
        signs = (1.0,) if m.relation is Relation.REPLACE_ONE else (-1.0, 1.0)
        for drift, sign in itertools.product(drifts, signs):
            if drift is not None and low <= sign * drift / scale <= high:
                for start in (0.0,) if half is None else (-sign * half, 0.0):
                    yield {"drift": sign * drift, "start": start}

    @property
    def _others(self) -> float:
        return self.drift / _drift_per_gradient(self.mechanism) if self.drift else 0.0
