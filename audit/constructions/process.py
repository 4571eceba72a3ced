"""One-dimensional Markov processes: what `exact` computes and `simulation` samples.

A process starts at a point and takes steps. A step draws one of a few update maps, applies it,
adds Gaussian noise, and meets the walls of the domain. Batches are mixtures of maps (sampling),
sequences of maps (cyclic batches), mixtures of sequences (an unknown position), or mixtures of maps
that depend on the batches before (an order that is drawn anew in every epoch).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from audit import validate
from audit.constructions.updates import UpdateMap


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
        self._check_sums()

    def _check_sums(self) -> None:
        if abs(math.fsum(self.weights) - 1) > 1e-12:
            raise ValueError(f"weights must sum to 1, got {math.fsum(self.weights)!r}")

    def mixtures(self) -> Iterator[tuple[tuple[UpdateMap, float], ...]]:
        """Yield the maps with their weights, for each memory that they depend on."""
        yield tuple(zip(self.maps, self.weights, strict=True))


@dataclass(frozen=True)
class DependentStep(Step):
    """A step whose batch depends on the batches before it, through a memory with few states.

    The memory is a Markov chain that nobody sees: whether the differing record was met in this
    epoch, for example. A process begins in memory 0, and a `Step` leaves the memory as it is. Map i
    is taken in memory ``moves[i][0]`` with probability ``weights[i]``, and the memory is
    ``moves[i][1]`` afterwards. The weights sum to 1 for each memory that is left.
    """

    moves: tuple[tuple[int, int], ...] = ()

    def _check_sums(self) -> None:
        if len(self.moves) != len(self.maps):
            raise ValueError(
                f"moves must be one for each of the {len(self.maps)} maps, got {len(self.moves)}"
            )
        for before, after in self.moves:
            validate.integer(0, before=before, after=after)
        for mixture in self.mixtures():
            total = math.fsum(weight for _, weight in mixture)
            if abs(total - 1) > 1e-12:
                raise ValueError(f"weights must sum to 1 in every memory, got {total!r}")

    def mixtures(self) -> Iterator[tuple[tuple[UpdateMap, float], ...]]:
        """Yield the maps with their weights, for each memory that they depend on."""
        for memory in dict.fromkeys(before for before, _ in self.moves):
            yield tuple(
                (phi, weight)
                for phi, weight, (before, _) in zip(
                    self.maps, self.weights, self.moves, strict=True
                )
                if before == memory
            )


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

    @property
    def memories(self) -> int:
        """How many states the memory of the batches has: 1 where no step depends on it."""
        ends = [
            max(move)
            for step in self.distinct_steps()
            if isinstance(step, DependentStep)
            for move in step.moves
        ]
        return 1 + max(ends, default=0)

    def distinct_steps(self) -> tuple[Step, ...]:
        """Every different step, in order of first appearance."""
        seen: dict[Step, None] = {}
        for path in self.paths:
            for segment in path.segments:
                if segment.times:
                    seen.update(dict.fromkeys(segment.steps))
        return tuple(seen)
