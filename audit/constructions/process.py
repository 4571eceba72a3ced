"""One-dimensional Markov processes, which `exact` computes and `simulation` samples.

A process starts at a point and takes steps. A step draws one of a few update maps, applies it, adds
Gaussian noise and applies the walls of the domain. Batches are mixtures of maps (sampling),
sequences of maps (cyclic batches), mixtures of sequences (an unknown position), or mixtures of maps
that depend on earlier batches (a new order in every epoch).
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from audit import validate
from audit.constructions.updates import PiecewiseLinear, UpdateMap


class Wall(enum.Enum):
    """Behaviour at an end of the domain."""

    CLAMP = "clamp"  # projection onto the domain
    ABSORB = "absorb"  # the state remains at the end forever


@dataclass(frozen=True)
class Step:
    """One noisy update: map i with probability ``weights[i]``, then N(0, noise_std^2) noise.

    Parameters
    ----------
    maps : tuple of UpdateMap
        Noiseless updates.
    weights : tuple of float
        Their probabilities, which sum to 1.
    noise_std : float
        Standard deviation of the noise of the iterate, at least 0.

    Raises
    ------
    ValueError
        If the numbers of maps and weights differ, the weights do not sum to 1, or a number is out
        of range.
    """

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

    def transitions(self, memory: int = 0) -> Iterator[tuple[UpdateMap, float, int]]:
        """Yield the maps that apply in a memory state of the batches.

        Parameters
        ----------
        memory : int, default: 0
            The state before the step.

        Yields
        ------
        tuple of (UpdateMap, float, int)
            Map, its probability, and the state after the step.
        """
        for phi, weight in zip(self.maps, self.weights, strict=True):
            yield phi, weight, memory


@dataclass(frozen=True)
class DependentStep(Step):
    """Step whose batch depends on earlier batches, through a memory with few states.

    A process starts in memory state 0, and a `Step` leaves the memory unchanged. Map i applies in
    state ``moves[i][0]`` with probability ``weights[i]`` and leads to state ``moves[i][1]``.
    """

    moves: tuple[tuple[int, int], ...] = ()

    def _check_sums(self) -> None:
        if len(self.moves) != len(self.maps):
            raise ValueError(
                f"moves must be one for each of the {len(self.maps)} maps, got {len(self.moves)}"
            )
        for before, after in self.moves:
            validate.integer(0, before=before, after=after)
        for taken in self._by_memory.values():
            total = math.fsum(weight for _, weight, _ in taken)
            if abs(total - 1) > 1e-12:
                raise ValueError(f"weights must sum to 1 in every memory, got {total!r}")

    def transitions(self, memory: int = 0) -> Iterator[tuple[UpdateMap, float, int]]:
        """Yield the maps that apply in a memory state of the batches."""
        yield from self._by_memory.get(memory, ())

    def entered(self, memories: frozenset[int]) -> frozenset[int]:
        """Return the memory states to which the step leads from any of ``memories``."""
        if not memories <= self._by_memory.keys():
            lacking = min(memories - self._by_memory.keys())
            raise ValueError(f"moves must be given for each memory reached, got none for {lacking}")
        moves = zip(self.moves, self.weights, strict=True)
        return frozenset(b for (a, b), weight in moves if a in memories and weight > 0)

    @cached_property
    def _by_memory(self) -> dict[int, list[tuple[UpdateMap, float, int]]]:
        found: dict[int, list[tuple[UpdateMap, float, int]]] = {}
        for phi, weight, (before, after) in zip(self.maps, self.weights, self.moves, strict=True):
            found.setdefault(before, []).append((phi, weight, after))
        return found


@dataclass(frozen=True)
class Segment:
    """Sequence of steps, repeated ``times`` times."""

    steps: tuple[Step, ...]
    times: int = 1

    def __post_init__(self) -> None:
        validate.integer(0, times=self.times)

    def __len__(self) -> int:
        return len(self.steps) * self.times


def _memories_after(states: frozenset[int], segment: Segment) -> frozenset[int]:
    """Return the memory states after a segment; each that is reached must have moves."""
    met: list[frozenset[int]] = []
    while states not in met and len(met) < segment.times:
        met.append(states)
        for step in segment.steps:
            states = step.entered(states) if isinstance(step, DependentStep) else states
    if len(met) < segment.times:  # they repeat
        start = met.index(states)
        states = met[start + (segment.times - start) % (len(met) - start)]
    return states


def split(
    segments: tuple[Segment, ...], count: int
) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Split a sequence of segments after its first ``count`` steps."""
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
    """One possible sequence of steps, with its probability."""

    probability: float
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        validate.closed_unit(probability=self.probability)

    def steps(self) -> Iterator[Step]:
        """Yield every step in order."""
        for segment in self.segments:
            for _ in range(segment.times):
                yield from segment.steps

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)


@dataclass(frozen=True)
class BatchMaps:
    """Updates of the batches that the steps of a process were made of, at one step size.

    Where batches have a random size: those of an empty batch, and of batches of one record.
    """

    steps: int
    step_size: float
    position: int  # batch of the cycle that holds the differing record; 0 where batches are drawn
    # numbers of consecutive batches of the cycle, and their update without the differing record
    others: tuple[tuple[int, UpdateMap], ...]
    record: UpdateMap | None  # map of the record's batch; None if the dataset lacks the record
    empty: UpdateMap | None  # None unless batches have a random size
    # where known, the gradients that all records share, of the differing one, and of the others of
    # each run of batches: updates are rounded, by more than one record's part of a large batch
    gradients: tuple[PiecewiseLinear, ...] = ()


@dataclass(frozen=True)
class Process:
    """Start point, domain, and mixture of paths.

    Paths differ in length if the run stops at random; the length of the process is that of the
    longest path.

    Parameters
    ----------
    start : float
        Start point, in the domain.
    paths : tuple of Path
        Possible sequences of steps, whose probabilities sum to 1.
    lower : float, default: -math.inf
        Lower end of the domain; infinite by default.
    upper : float, default: math.inf
        Upper end of the domain; infinite by default.
    lower_wall, upper_wall : Wall, default: Wall.CLAMP
        Behaviour at the ends.
    batches : tuple of BatchMaps, default: ()
        The updates that consecutive steps were made of, for witnesses; empty if they are unknown.

    Raises
    ------
    ValueError
        If the start is outside the domain, the domain is empty, a path has no step, or the
        probabilities do not sum to 1.

    Examples
    --------
    >>> from audit.constructions import Affine, Process, Segment, Step
    >>> from audit.constructions.process import Path
    >>> step = Step(maps=(Affine(shift=0.1),), weights=(1.0,), noise_std=1.0)
    >>> len(Process(0.0, (Path(1.0, (Segment((step,), times=10),)),)))
    10
    """

    start: float
    paths: tuple[Path, ...]
    lower: float = -math.inf
    upper: float = math.inf
    lower_wall: Wall = Wall.CLAMP
    upper_wall: Wall = Wall.CLAMP
    batches: tuple[BatchMaps, ...] = field(default=(), compare=False, repr=False)

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
        if self.memories > 1:
            for path in self.paths:
                functools.reduce(_memories_after, path.segments, frozenset({0}))

    def __len__(self) -> int:
        return max(len(path) for path in self.paths)

    def truncated(self, steps: int) -> Process:
        """Return the process that ends after its first ``steps`` steps.

        Parameters
        ----------
        steps : int
            Number of steps, at least 1 and at most the length.

        Returns
        -------
        Process
            The shorter process.

        Raises
        ------
        ValueError
            If ``steps`` is out of range.
        """
        validate.integer(1, steps=steps)
        if steps > len(self):
            raise ValueError(f"steps must be at most the process's {len(self)}, got {steps}")
        paths = tuple(Path(p.probability, split(p.segments, steps)[0]) for p in self.paths)
        return replace(self, paths=paths, batches=())

    @property
    def absorbing(self) -> tuple[float, float]:
        """Ends at which the state remains; infinite where it does not."""
        low = self.lower if self.lower_wall is Wall.ABSORB else -math.inf
        return low, self.upper if self.upper_wall is Wall.ABSORB else math.inf

    @functools.cached_property
    def memories(self) -> int:
        """Number of memory states of the batches; 1 if no step depends on earlier batches."""
        ends = [
            max(move)
            for step in self.distinct_steps()
            if isinstance(step, DependentStep)
            for move in step.moves
        ]
        return 1 + max(ends, default=0)

    def distinct_steps(self) -> tuple[Step, ...]:
        """Return the distinct steps, in order of first appearance.

        Returns
        -------
        tuple of Step
            The steps.
        """
        return self._distinct

    @functools.cached_property
    def _distinct(self) -> tuple[Step, ...]:
        seen: dict[Step, None] = {}
        for path in self.paths:
            for segment in path.segments:
                if segment.times:
                    seen.update(dict.fromkeys(segment.steps))
        return tuple(seen)
