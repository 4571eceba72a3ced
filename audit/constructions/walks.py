"""Clamped random walks: every record's loss is linear.

The displacement of a linear loss does not depend on the state, so the iterates are random walks
that are projected onto an interval. They are admissible for convex and non-convex mechanisms,
smooth to any degree, and for no strongly convex one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from audit import validate
from audit.codec import REQUIRED
from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import SAMPLERS, batched_process, check_position
from audit.constructions.gradient_limits import (
    SLACK,
    both_hold_record,
    others_range,
    record_pushes,
)
from audit.constructions.process import Process
from audit.constructions.registry import construction
from audit.constructions.updates import Affine
from audit.mechanism import Batching, Choice, NoisySGD, Relation


def _refuse_strong_convexity(name: str, mechanism: NoisySGD) -> None:
    if mechanism.strong_convexity > 0:
        raise Inadmissible(
            f"{name} needs strong_convexity = 0 because its losses are linear, "
            f"got strong_convexity={mechanism.strong_convexity!r}"
        )


def _linear_process(
    mechanism: NoisySGD,
    start: float,
    record: float,
    others: float,
    position: int | None,
    present: bool = True,
) -> Process:
    """Return the process of linear losses.

    ``record`` and ``others`` are negative gradients: what pushes to the right. ``present`` says
    whether the dataset holds the differing record.
    """

    def update(eta: float, holds_record: bool, count: int) -> Affine:
        push = (record if holds_record else 0.0) + count * others
        return Affine(shift=eta * push / mechanism.batch_size)

    return batched_process(mechanism, start, update, position, present)


@construction
@dataclass(frozen=True)
class BiasedWalk(Construction):
    """A symmetric clamped walk (X) against one that is biased (X').

    The pair of Altschuler and Talwar 2022, section 4: all losses are zero, except that the
    differing record of the second dataset has a linear loss of slope L. X' jumps by
    ``step_size * L / batch_size`` where the record is in the batch, away from the nearer end of the
    domain: to the right for ``start <= 0``, mirrored to the left for ``start > 0``.

    Parameters
    ----------
    start : float, default: 0.0
        The common start point.
    position : int, optional
        The batch of the cycle that holds the record, for cyclic batches.
    """

    start: float = 0.0
    position: int | None = None

    citation: ClassVar[str] = "Altschuler and Talwar 2022, section 4"
    covers: ClassVar[tuple[Choice, ...]] = SAMPLERS

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_strong_convexity(self.name, self.mechanism)
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)

    @property
    def direction(self) -> float:
        """+1 where X' jumps to the right, -1 where it jumps to the left."""
        return 1.0 if self.start <= 0 else -1.0

    def processes(self) -> tuple[Process, Process]:
        """Return the symmetric and the biased walk."""
        push = self.direction * self.mechanism.steepest_gradient
        return (
            _linear_process(self.mechanism, self.start, 0.0, 0.0, self.position),
            _linear_process(self.mechanism, self.start, push, 0.0, self.position),
        )


@construction
@dataclass(frozen=True)
class TwoSidedWalk(Construction):
    """A clamped walk pushed to the right (X) against one pushed to the left (X').

    The differing record has a linear loss in both datasets, with opposite slopes: X moves by
    ``+step_size * L / batch_size`` and X' by the opposite where the record is in the batch, twice
    the difference of `BiasedWalk`. Not possible where one of the two losses is zero.

    Parameters
    ----------
    start : float, default: 0.0
        The common start point.
    position : int, optional
        The batch of the cycle that holds the record, for cyclic batches.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=10, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5,
    ...                    lipschitz=1.0, smoothness=1.0, diameter=1.0)
    >>> audit.exact.curve(TwoSidedWalk(m)).epsilon(1e-5) < audit.bounds.best(m, delta=1e-5).epsilon
    True
    """

    start: float = 0.0
    position: int | None = None

    citation: ClassVar[str] = "this package; linear losses of opposite slopes"
    covers: ClassVar[tuple[Choice, ...]] = SAMPLERS

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_strong_convexity(self.name, self.mechanism)
        if self.mechanism.relation is Relation.ZERO_OUT:
            raise Inadmissible(
                "TwoSidedWalk needs relation='replace one' because both of its losses differ from "
                "zero, got relation='zero out'"
            )
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)

    def processes(self) -> tuple[Process, Process]:
        """Return the walks pushed right and left."""
        push = self.mechanism.sensitivity / 2
        return (
            _linear_process(self.mechanism, self.start, push, 0.0, self.position),
            _linear_process(self.mechanism, self.start, -push, 0.0, self.position),
        )


@construction
@dataclass(frozen=True)
class DriftedWalk(Construction):
    """Two clamped walks with a common drift, caused by the other records.

    A drift toward one end of the domain, from a start near the end that it leaves, makes the pair
    far easier to distinguish than without it. The differing record pushes X to the right with slope
    L, and X' to the left with slope L (``REPLACE_ONE``) or not at all (``ZERO_OUT``,
    ``ADD_REMOVE``).

    Parameters
    ----------
    drift : float, default: 0.0
        The displacement of a step by the other records alone, positive to the right: by all n - 1
        of them for full batches, by a batch that they fill for smaller ones (a batch that holds
        the differing record has one of them fewer). For a step-size schedule, at its first step.
    start : float, default: 0.0
        The common start point.
    position : int, optional
        The batch of the cycle that holds the record, for cyclic batches.
    """

    drift: float = field(default=0.0, metadata=REQUIRED)
    start: float = 0.0
    position: int | None = None

    citation: ClassVar[str] = "this package; the other records share a linear drift"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_strong_convexity(self.name, self.mechanism)
        validate.finite(drift=self.drift)
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)
        if self.drift and self.mechanism.dataset_size == 1:
            raise Inadmissible(
                "DriftedWalk needs another record to drift, got dataset_size=1, "
                f"drift={self.drift!r}"
            )
        low, high = others_range(self.mechanism)
        if not low * SLACK <= self._others <= high * SLACK:
            per_gradient = self._drift_per_gradient
            raise Inadmissible(
                f"DriftedWalk needs drift in [{low * per_gradient:.6g}, {high * per_gradient:.6g}],"
                " where every record keeps the Lipschitz constant and the gradient sensitivity, "
                f"got drift={self.drift!r}"
            )

    @property
    def _drift_per_gradient(self) -> float:
        m = self.mechanism
        share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
        return float(m.step_sizes[0]) * share

    @property
    def _others(self) -> float:
        """The negative gradient that every other record must have."""
        return self.drift / self._drift_per_gradient if self.drift else 0.0

    def processes(self) -> tuple[Process, Process]:
        """Return the walks whose record pushes right, and left (or not at all)."""
        push, push_prime = record_pushes(self.mechanism)
        m, others = self.mechanism, self._others
        return (
            _linear_process(m, self.start, push, others, self.position),
            _linear_process(m, self.start, push_prime, others, self.position, both_hold_record(m)),
        )
