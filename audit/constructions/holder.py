"""Pairs whose other records have Hoelder continuous gradients, infinitely steep at the origin."""

from __future__ import annotations

import enum
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
    SLACK,
    both_hold_record,
    check_others,
    others_range,
    record_pushes,
)
from audit.constructions.process import Process
from audit.constructions.registry import construction
from audit.constructions.updates import Affine, UpdateMap
from audit.mechanism import Choice, NoisySGD, Relation
from audit.numerics.arrays import Array

_GRADING = 8.0  # ratio of successive panel edges toward the singular point
_EDGES = 11  # the innermost panel is 8^-11 of the domain; it contributes below 1e-12 to an integral


class HolderForm(enum.Enum):
    """Gradients of Chien and Li 2025, appendix A.14, for an order p below 1."""

    ABSOLUTE = "absolute"  # |x|^p: constant 1; its loss is not convex
    SIGNED = "signed"  # sign(x) |x|^p: constant 2^(1 - p); its loss is convex

    def constant(self, order: float) -> float:
        """Return the least constant C with |g(x) - g(y)| <= C |x - y|^order."""
        return 1.0 if self is HolderForm.ABSOLUTE else 2.0 ** (1 - order)


def _largest_scale(mechanism: NoisySGD, form: HolderForm) -> float:
    """Return the largest scale that the Hoelder constant and the other records' range allow."""
    if mechanism.holder is None or mechanism.diameter is None:
        return 1.0  # refused anyway
    constant, order = mechanism.holder
    low, high = others_range(mechanism)
    steepest: float = min(-low, high) / (mechanism.diameter / 2) ** order
    return min(constant / form.constant(order), steepest)


def _random_scale(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    share = float(rng.choice([-1.0, 1.0, rng.uniform(-1, 1)]))
    return share * _largest_scale(mechanism, HolderForm.SIGNED)


def _random_form(mechanism: NoisySGD, rng: np.random.Generator) -> HolderForm:
    return HolderForm.SIGNED if rng.random() < 0.5 else HolderForm.ABSOLUTE


@dataclass(frozen=True)
class HolderUpdate(UpdateMap):
    """Update x -> x + shift - weight g(x) for a gradient g of given form and order.

    ``half`` is half the diameter of the domain.
    """

    shift: float
    weight: float
    order: float
    form: HolderForm
    half: float

    def __call__(self, x: Array) -> Array:
        """Apply the map elementwise to an array of states."""
        states = np.asarray(x, dtype=np.float64)
        power = np.abs(states) ** self.order
        if self.form is HolderForm.SIGNED:
            power = np.copysign(power, states)
        return states + self.shift - self.weight * power

    @property
    def kinks(self) -> tuple[float, ...]:
        """The singular point, and panel edges graded toward it."""
        edges = [self.half * _GRADING**-k for k in range(1, _EDGES + 1)]
        return (*(-edge for edge in edges), 0.0, *reversed(edges))


@construction
@dataclass(frozen=True)
class HolderPair(Construction):
    """Pair whose other records have the gradient ``scale`` times |x|^p or sign(x) |x|^p.

    The differing record is linear and pushes X to the right, and X' to the left (``REPLACE_ONE``)
    or not at all. A negative scale of the signed form repels the iterates from the origin,
    infinitely steeply at the origin itself.

    The mechanism must have a Hoelder constant and order, and a bounded domain, on which the
    gradients are bounded by |scale| (D/2)^p.

    Parameters
    ----------
    scale : float, default: 1.0
        Factor of the gradient.
    form : HolderForm, default: HolderForm.SIGNED
        Form of the gradient.
    start : float, default: 0.0
        Common start point.
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

    scale: float = field(default=1.0, metadata={"draw": _random_scale, **REQUIRED})
    form: HolderForm = field(default=HolderForm.SIGNED, metadata={"draw": _random_form, **REQUIRED})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "Chien and Li 2025, appendix A.14, as losses of the other records"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.finite(scale=self.scale)
        validate.instance(HolderForm, form=self.form)
        m = self.mechanism
        if m.holder is None or m.diameter is None:
            missing = "holder" if m.holder is None else "diameter"
            raise Inadmissible(f"{self.name} needs holder and diameter, got {missing}=None")
        constant, order = m.holder
        if not 0 < order < 1:
            raise Inadmissible(f"{self.name} needs a Hoelder order in (0, 1), got {order!r}")
        used = abs(self.scale) * self.form.constant(order)
        if used > constant * SLACK:
            raise Inadmissible(
                f"{self.name} needs |scale| times {self.form.constant(order):.6g} to be at most "
                f"the Hoelder constant {constant:g}, got scale={self.scale!r}"
            )
        if m.smoothness is not None or m.strong_convexity > 0:
            raise Inadmissible(
                f"{self.name} needs smoothness=None and strong_convexity = 0 because its slopes "
                f"are unbounded, got smoothness={m.smoothness!r}, "
                f"strong_convexity={m.strong_convexity!r}"
            )
        if m.convex and (self.form is HolderForm.ABSOLUTE or self.scale < 0):
            raise Inadmissible(
                f"{self.name} needs convex=False for form={self.form.value!r}, "
                f"scale={self.scale:g}, got convex=True"
            )
        if m.dataset_size == 1:
            raise Inadmissible(f"{self.name} needs another record, got dataset_size=1")
        steepest = abs(self.scale) * (m.diameter / 2) ** order
        check_others(self.name, m, -steepest, steepest)
        checked_start(m, self.start)
        check_position(m, self.position)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the largest scale of each form, attracting and, unless losses are convex, not."""
        for form in reversed(HolderForm):
            for sign in (1, -1):
                yield {"scale": sign * _largest_scale(mechanism, form), "form": form}

    def processes(self) -> tuple[Process, Process]:
        """Return the processes pushed right, and left (or not at all)."""
        push, push_prime = record_pushes(self.mechanism)
        return (
            self._process(push),
            self._process(push_prime, both_hold_record(self.mechanism)),
        )

    def _process(self, record: float, present: bool = True) -> Process:
        m = self.mechanism
        assert m.holder is not None  # both were checked at construction
        assert m.diameter is not None
        order, half = float(m.holder[1]), m.diameter / 2

        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            shift = eta * record / m.batch_size if holds_record else 0.0
            weight = eta * count * self.scale / m.batch_size
            if weight == 0:
                return Affine(shift)
            return HolderUpdate(shift, weight, order, self.form, half)

        return batched_process(m, self.start, update, self.position, present)
