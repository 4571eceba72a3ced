"""Points and rows of the tightness map: mechanisms ordered by how far the record can push.

With v the mean distance by which one step moves the two datasets apart, s the noise of a step and D
the diameter: A = v D/s^2, the burn-in time T-bar = D/v, and T = x T-bar.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from audit.mechanism import Batching, NoisySGD

RECORDS = 1000
CYCLE = 10  # batches of a cycle, and 1 / the sampling rate
STRONG_CONVEXITY = 0.05


class Kind(Enum):
    """The four mechanisms of the map, all with D = 1, eta = 1 and smoothness 1."""

    CONVEX = "convex, full batch"
    STRONGLY_CONVEX = "strongly convex, full batch"
    CYCLIC = "cyclic batches"
    SAMPLED = "batches without replacement"


STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # A
TIMES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # x
NOISES = (0.05, 0.2, 0.01)  # s/D; the last one begins where the first one ended
# Standard deviations that one step may push the two datasets apart: epsilon is near 1000 then.
FARTHEST = 40.0


@dataclass(frozen=True)
class Point:
    """One mechanism of the map."""

    kind: Kind
    strength: float
    time: float
    noise: float

    @property
    def name(self) -> str:
        """A name for files and tables."""
        return f"{self.kind.name.lower()} A={self.strength:g} x={self.time:g} s={self.noise:g}"

    @property
    def mechanism(self) -> NoisySGD:
        """The mechanism: 1000 records, so that the others have room for a drift of 500 v."""
        apart = self.strength * self.noise**2  # v
        steps = max(1, round(self.time / apart))
        full = NoisySGD(
            steps=steps,
            dataset_size=RECORDS,
            batch_size=RECORDS,
            step_size=1.0,
            noise_std=self.noise,
            lipschitz=RECORDS / 2 * apart,
            smoothness=1.0,
            diameter=1.0,
        )
        if self.kind is Kind.CONVEX:
            return full
        if self.kind is Kind.STRONGLY_CONVEX:
            return dataclasses.replace(
                full,
                lipschitz=None,
                gradient_sensitivity=RECORDS * apart,
                strong_convexity=STRONG_CONVEXITY,
            )
        cyclic = self.kind is Kind.CYCLIC
        return dataclasses.replace(
            full,
            batch_size=RECORDS // CYCLE,
            # whole cycles, which the theorems for cyclic batches ask for
            steps=CYCLE * max(1, round(steps / CYCLE)) if cyclic else steps,
            batching=Batching.CYCLIC if cyclic else Batching.WITHOUT_REPLACEMENT,
        )

    @property
    def push(self) -> float:
        """Distance by which a step with the record moves the datasets apart, in deviations."""
        batches = 1 if self.kind in (Kind.CONVEX, Kind.STRONGLY_CONVEX) else CYCLE
        return self.strength * self.noise * batches


def points() -> tuple[Point, ...]:
    """Return all points; those from which others begin come first.

    Points at which a single step tells the datasets apart beyond all doubt are left out.
    """
    every = (
        Point(kind, strength, time, noise)
        for noise, kind, strength, time in itertools.product(NOISES, Kind, STRENGTHS, TIMES)
    )
    return tuple(point for point in every if point.push <= FARTHEST)


@dataclass(frozen=True, kw_only=True)
class Lower:
    """The lower side of a point: what a search certifies.

    Attributes
    ----------
    lower, lower_high
        The bracket of the found pair's epsilon.
    one_dimension
        The lower bound by the best pair on an interval; smaller where a domain in many dimensions
        cancels a gradient of all records.
    pair
        Its construction; "by batch" if the batches of a cycle have drifts of their own.
    drift, start, curvature
        Of the other records, in most batches of a cycle: in s^2/D a step, positive to the right;
        where the walks start; the curvature.
    lean
        How far the other records lean to one of the record's two gradients, from -1 to 1.
    evaluations, seconds
        Of all searches.
    construction
        The pair itself, by `audit.constructions.encode_pair`.
    """

    lower: float
    lower_high: float
    one_dimension: float
    pair: str
    drift: float
    start: float
    curvature: float
    lean: float
    evaluations: int
    seconds: float
    construction: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Upper:
    """The upper side of a point: epsilons of bounds, and the ids of the smallest ones.

    Attributes
    ----------
    published, published_theorem
        The smallest of the papers' bounds.
    forgetting, coupling
        Those of this package; None where they do not apply or were not asked for.
    upper, theorem
        The smallest of all.
    """

    published: float
    published_theorem: str
    forgetting: float | None
    coupling: float | None
    upper: float
    theorem: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A point of the map with both sides; see `Point`, `Lower` and `Upper`."""

    kind: str
    strength: float
    time: float
    noise: float
    steps: int
    lower: float
    lower_high: float
    one_dimension: float
    published: float
    published_theorem: str
    forgetting: float | None
    coupling: float | None
    upper: float
    theorem: str
    pair: str
    drift: float
    start: float
    curvature: float
    lean: float
    evaluations: int
    seconds: float
    construction: Mapping[str, Any]

    @property
    def point(self) -> Point:
        """The point of the row."""
        return Point(Kind(self.kind), self.strength, self.time, self.noise)

    @classmethod
    def joined(cls, point: Point, lower: Lower, upper: Upper) -> Row:
        """Return the row of a point."""
        return cls(
            kind=point.kind.value,
            strength=point.strength,
            time=point.time,
            noise=point.noise,
            steps=point.mechanism.steps,
            **vars(lower),
            **vars(upper),
        )
