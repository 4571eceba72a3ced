"""Pairs whose other records have Hoelder continuous gradients, infinitely steep at the origin."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.base import (
    SLACK,
    Inadmissible,
    PositionedPair,
    others_range,
    random_position,
    random_start,
)
from audit.constructions.batches import BatchUpdate
from audit.constructions.registry import construction
from audit.constructions.updates import Affine, UpdateMap
from audit.mechanism import NoisySGD
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
class HolderPair(PositionedPair):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.instance(HolderForm, form=self.form)
        m = self.mechanism
        if m.holder is None or m.diameter is None:
            missing = "holder" if m.holder is None else "diameter"
            raise Inadmissible(f"{self.name} needs holder and diameter, got {missing}=None")
        constant, order = m.holder
        if not 0 < order < 1:
            raise Inadmissible(f"{self.name} needs a Hoelder order in (0, 1), got {order!r}")
        factor = self.form.constant(order)
        self._require(
            abs(self.scale) * factor <= constant * SLACK,
            f"|scale| times {factor:.6g} to be at most the Hoelder constant {constant:g}",
            f"scale={self.scale!r}",
        )
        self._require(
            m.smoothness is None and m.strong_convexity == 0,
            "smoothness=None and strong_convexity = 0 because its slopes are unbounded",
            f"smoothness={m.smoothness!r}, strong_convexity={m.strong_convexity!r}",
        )
        self._require(
            not m.convex or (self.form is HolderForm.SIGNED and self.scale >= 0),
            f"convex=False for form={self.form.value!r}, scale={self.scale:g}",
            "convex=True",
        )
        self._require_others()
        steepest = abs(self.scale) * (m.diameter / 2) ** order
        self._check_others(-steepest, steepest)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the largest scale of each form, attracting and, unless losses are convex, not."""
        for form in reversed(HolderForm):
            for sign in (1, -1):
                yield {"scale": sign * _largest_scale(mechanism, form), "form": form}

    def _updates(self, record: float) -> BatchUpdate:
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

        return update
