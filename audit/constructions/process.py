"""One-dimensional Markov processes: what `exact` computes and `simulation` samples.

A process starts at a point and takes steps. A step draws one of a few update maps, applies it,
adds Gaussian noise, and meets the walls of the domain. Batches are mixtures of maps (sampling),
sequences of maps (cyclic batches) or mixtures of sequences (an unknown position).
"""

from __future__ import annotations

import enum
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit import validate

Array = NDArray[np.float64]


class UpdateMap(ABC):
    """A noiseless update x -> phi(x) of a one-dimensional state; hashable."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """Apply the map to an array of states, entry by entry."""

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map is not smooth."""
        return ()


@dataclass(frozen=True)
class Affine(UpdateMap):
    """x -> slope x + shift."""

    shift: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        validate.finite(shift=self.shift, slope=self.slope)

    def __call__(self, x: Array) -> Array:
        """Apply the map to an array of states, entry by entry."""
        return self.slope * x + self.shift


@dataclass(frozen=True)
class Mapped(UpdateMap):
    """Any vectorised function of the state, smooth between the ``kink_points``."""

    function: Callable[[Array], Array]
    kink_points: tuple[float, ...] = ()

    def __call__(self, x: Array) -> Array:
        """Apply the map to an array of states, entry by entry."""
        return self.function(x)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map is not smooth."""
        return self.kink_points


@dataclass(frozen=True)
class PiecewiseLinear(UpdateMap):
    """The broken line through ``(points[i], values[i])``.

    Also what the gradient of a loss is made of, before it becomes an update.

    Attributes
    ----------
    points
        Where the line bends, ascending; one or more.
    values
        The values there.
    slopes
        To the left of the first point, and to the right of the last one.
    """

    points: tuple[float, ...]
    values: tuple[float, ...]
    slopes: tuple[float, float]

    def __post_init__(self) -> None:
        for name in ("points", "values", "slopes"):
            numbers = tuple(float(number) for number in getattr(self, name))
            validate.finite(**{f"{name}_{i}": number for i, number in enumerate(numbers)})
            object.__setattr__(self, name, numbers)
        if not self.points or len(self.points) != len(self.values) or len(self.slopes) != 2:
            raise ValueError(
                "points and values must be one or more pairs, and slopes two, "
                f"got {len(self.points)}, {len(self.values)} and {len(self.slopes)}"
            )
        if any(a >= b for a, b in itertools.pairwise(self.points)):
            raise ValueError(f"points must ascend, got {self.points}")

    @staticmethod
    def constant(value: float) -> PiecewiseLinear:
        """Return the line that has one value everywhere."""
        return PiecewiseLinear((0.0,), (value,), (0.0, 0.0))

    @staticmethod
    def clipped(slope: float, centre: float, cap: float) -> PiecewiseLinear:
        """Return ``slope (x - centre)``, cut off at ``-cap`` and ``cap``: a Huber loss's gradient.

        ``slope`` and ``cap`` must be above 0.
        """
        validate.positive(slope=slope, cap=cap)
        reach = cap / slope
        return PiecewiseLinear((centre - reach, centre + reach), (-cap, cap), (0.0, 0.0))

    @staticmethod
    def total(lines: Iterable[tuple[float, PiecewiseLinear]]) -> PiecewiseLinear:
        """Return the sum of the lines, each times its weight: ``(weight, line)``."""
        weighted = tuple(lines)
        points = np.array(sorted({x for _, line in weighted for x in line.points}))
        values = np.sum([weight * line(points) for weight, line in weighted], axis=0)
        left = math.fsum(weight * line.slopes[0] for weight, line in weighted)
        right = math.fsum(weight * line.slopes[1] for weight, line in weighted)
        return PiecewiseLinear(tuple(points), tuple(values), (left, right))

    def __call__(self, x: Array) -> Array:
        """Apply the map to an array of states, entry by entry."""
        states = np.asarray(x, dtype=np.float64)
        inside = np.interp(states, self.points, self.values)
        left, right = self.slopes
        below = np.minimum(states - self.points[0], 0.0)
        above = np.maximum(states - self.points[-1], 0.0)
        return np.asarray(inside + left * below + right * above)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points where the map is not smooth."""
        return self.points

    @property
    def is_straight(self) -> bool:
        """Whether the line is made of one piece."""
        return len(self.points) == 1 and self.slopes[0] == self.slopes[1]

    def slope_range(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
        """Return the least and the largest slope between ``low`` and ``high``."""
        inner = np.diff(self.values) / np.diff(self.points)
        slopes = [self.slopes[0], *inner.tolist(), self.slopes[1]]
        ends = [-math.inf, *self.points, math.inf]
        met = [
            s for s, a, b in zip(slopes, ends[:-1], ends[1:], strict=True) if a < high and b > low
        ]
        return min(met), max(met)

    def value_range(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the largest value between ``low`` and ``high`` (may be infinite)."""
        bends = [x for x in self.points if low <= x <= high]
        values = [float(v) for v in self(np.array(bends))]
        for end, slope, sign in ((low, self.slopes[0], -1.0), (high, self.slopes[1], 1.0)):
            if math.isfinite(end):
                values.append(float(self(np.array(end))))
            elif slope:
                values.append(sign * slope * math.inf)
        return min(values), max(values)


class Wall(enum.Enum):
    """What happens at an end of the domain."""

    CLAMP = "clamp"  # projection: the state is set to the end and goes on from there
    ABSORB = "absorb"  # the state stays at the end for ever


@dataclass(frozen=True)
class Step:
    """One noisy update: map i with probability ``weights[i]``, then N(0, noise_std^2) noise."""

    maps: tuple[UpdateMap, ...]
    weights: tuple[float, ...]
    noise_std: float

    def __post_init__(self) -> None:
        validate.positive(noise_std=self.noise_std)
        if len(self.maps) != len(self.weights) or not self.maps:
            raise ValueError(
                f"weights must be one for each of the {len(self.maps)} maps, "
                f"got {len(self.weights)}"
            )
        validate.closed_unit(**{f"weights_{i}": w for i, w in enumerate(self.weights)})
        if abs(math.fsum(self.weights) - 1) > 1e-12:
            raise ValueError(f"weights must sum to 1, got {math.fsum(self.weights)!r}")


@dataclass(frozen=True)
class Segment:
    """A tuple of steps, run through ``times`` times."""

    steps: tuple[Step, ...]
    times: int = 1

    def __post_init__(self) -> None:
        validate.integer(0, times=self.times)

    def __len__(self) -> int:
        return len(self.steps) * self.times


def split(
    segments: tuple[Segment, ...], count: int
) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Cut a sequence of segments after its first ``count`` steps."""
    before: list[Segment] = []
    after: list[Segment] = []
    for segment in segments:
        taken = min(count, len(segment))
        count -= taken
        periods, rest = divmod(taken, max(1, len(segment.steps)))
        before += [Segment(segment.steps, periods), Segment(segment.steps[:rest])]
        if rest:
            after.append(Segment(segment.steps[rest:]))
        after.append(Segment(segment.steps, segment.times - periods - bool(rest)))
    return tuple(s for s in before if len(s)), tuple(s for s in after if len(s))


@dataclass(frozen=True)
class Path:
    """One possible sequence of steps, and how probable it is."""

    probability: float
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        validate.closed_unit(probability=self.probability)

    def steps(self) -> Iterator[Step]:
        """Every step in the order in which it happens."""
        for segment in self.segments:
            for _ in range(segment.times):
                yield from segment.steps

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)


@dataclass(frozen=True)
class Process:
    """A start point, the domain, and a mixture of paths.

    ``lower`` and ``upper`` are the ends of the domain (infinite where there is none). Paths differ
    in length where the run stops at random; the length of the process is that of the longest.
    """

    start: float
    paths: tuple[Path, ...]
    lower: float = -math.inf
    upper: float = math.inf
    lower_wall: Wall = Wall.CLAMP
    upper_wall: Wall = Wall.CLAMP

    def __post_init__(self) -> None:
        validate.finite(start=self.start)
        if not self.lower <= self.start <= self.upper:
            raise ValueError(
                f"start must be in the domain [{self.lower:g}, {self.upper:g}], got {self.start!r}"
            )
        if not self.lower < self.upper:
            raise ValueError(f"lower must be below upper ({self.upper:g}), got {self.lower!r}")
        lengths = [len(path) for path in self.paths]
        if not lengths or min(lengths) == 0:
            raise ValueError(f"paths must have one step or more each, got lengths {lengths}")
        total = math.fsum(path.probability for path in self.paths)
        if abs(total - 1) > 1e-12:
            raise ValueError(f"paths must have probabilities that sum to 1, got {total!r}")

    def __len__(self) -> int:
        return max(len(path) for path in self.paths)

    def truncated(self, steps: int) -> Process:
        """Return the process that ends after its first ``steps`` steps."""
        validate.integer(1, steps=steps)
        if steps > len(self):
            raise ValueError(f"steps must be at most the process's {len(self)}, got {steps}")
        paths = tuple(Path(p.probability, split(p.segments, steps)[0]) for p in self.paths)
        return replace(self, paths=paths)

    def distinct_steps(self) -> tuple[Step, ...]:
        """Every different step, in order of first appearance."""
        seen: dict[Step, None] = {}
        for path in self.paths:
            for segment in path.segments:
                if segment.times:
                    seen.update(dict.fromkeys(segment.steps))
        return tuple(seen)
