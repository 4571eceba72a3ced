"""Densities of a process on panels, step by step through transfer operators.

There is one for each memory that batches have of earlier ones. Each carries the probability of its
memory, so that their sum is the law of the iterate.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audit.constructions.process import DependentStep, Path, Process, Segment, Step, Wall, split
from audit.constructions.updates import Affine, UpdateMap
from audit.numerics.panels import Panels
from audit.numerics.transfer import (
    DenseOperator,
    NoisyMap,
    State,
    first_step,
    masses_of,
    mixture,
    state_of,
)

if TYPE_CHECKING:
    from audit.numerics.banded import BandedOperator, ScaledState

Array = NDArray[np.float64]
Taken = list[tuple[int, int, float]]  # (memory before, memory after, weight)


def after_first_step(step: Step, panels: Panels, start: float) -> dict[int, State]:
    """Return the density of each memory after one step from a point, in memory 0."""
    found: dict[int, list[tuple[UpdateMap, float]]] = {}
    for alone, taken in _by_map(step).items():
        for before, after, weight in taken:
            if before == 0:
                found.setdefault(after, []).append((alone.maps[0], weight))
    states = {}
    for after, chosen in found.items():
        maps, weights = zip(*chosen, strict=True)
        states[after] = first_step(NoisyMap(maps, weights, step.noise_std), panels, start)
    return states


class DenseMemories:
    """Masses at the nodes, a column for each memory.

    ``operator`` returns the operator of a step without memory, and ``squares`` says for which
    numbers of steps it is to be squared.
    """

    def __init__(
        self,
        states: Mapping[int, State],
        memories: int,
        panels: Panels,
        operator: Callable[[Step], DenseOperator],
        squares: Callable[[int], bool],
    ) -> None:
        self.panels, self.operator, self.squares = panels, operator, squares
        self.masses = np.zeros((panels.nodes.size + 2, memories))
        for memory, state in states.items():
            self.masses[:, memory] = masses_of(state, panels)

    def move(self, operator: DenseOperator, times: int) -> float:
        """Apply an operator, and return how many errors of its steps remain."""
        self.masses, counted = operator.moved(self.masses, times, self.squares)
        return counted

    def take(self, step: Step, times: int) -> float:
        """Take a step some times, and return how many of their errors remain."""
        if not isinstance(step, DependentStep):
            return self.move(self.operator(step), times)
        for _ in range(times):
            moved = np.zeros_like(self.masses)
            for alone, taken in _by_map(step).items():
                before = sorted({move[0] for move in taken})
                columns = self.operator(alone).on(self.masses[:, before])
                for source, target, weight in taken:
                    moved[:, target] += weight * columns[:, before.index(source)]
            self.masses = moved
        return float(times)

    def states(self) -> dict[int, State]:
        """Return the density of each memory."""
        columns = enumerate(self.masses.T)
        return {memory: state_of(column, self.panels) for memory, column in columns}


class BandedMemories:
    """Densities with an exponent for each panel, by memory; ``operator`` as above."""

    def __init__(
        self, states: Mapping[int, State], operator: Callable[[Step], BandedOperator]
    ) -> None:
        from audit.numerics.banded import ScaledState  # Numba loads only where it is needed

        self.operator, self.sum = operator, ScaledState.total
        self.parts = {memory: ScaledState.of(state) for memory, state in states.items()}

    def take(self, step: Step, times: int) -> float:
        """Take a step some times, and return how many of their errors remain."""
        if not isinstance(step, DependentStep):
            operator = self.operator(step)
            self.parts = {memory: operator.step(part, times) for memory, part in self.parts.items()}
            return float(times)
        for _ in range(times):
            moved: dict[int, list[tuple[float, ScaledState]]] = {}
            for alone, taken in _by_map(step).items():
                operator = self.operator(alone)
                images = {
                    before: operator.step(self.parts[before])
                    for before in {move[0] for move in taken}
                    if before in self.parts
                }
                for before, after, weight in taken:
                    if before in images:
                        moved.setdefault(after, []).append((weight, images[before]))
            self.parts = {memory: self.sum(parts) for memory, parts in moved.items()}
        return float(times)

    def states(self) -> dict[int, State]:
        """Return the density of each memory."""
        return {memory: part.state() for memory, part in self.parts.items()}


@lru_cache(maxsize=4096)
def _by_map(step: Step) -> dict[Step, Taken]:
    """Return each map of a step as a step of its own, and what it is taken for."""
    moves = step.moves if isinstance(step, DependentStep) else ((0, 0),) * len(step.maps)
    found: dict[UpdateMap, Taken] = {}
    for phi, weight, (before, after) in zip(step.maps, step.weights, moves, strict=True):
        if weight > 0:
            found.setdefault(phi, []).append((before, after, weight))
    return {Step((phi,), (1.0,), step.noise_std): taken for phi, taken in found.items()}


if TYPE_CHECKING:
    from audit.numerics.banded import BandedOperator

# Beyond this many nodes the band structure beats dense matrices at any length.
LARGEST_DENSE = 1000
# Measured costs in seconds of a multiply-add in a matrix product and in a product with a vector, of
# a matrix entry in scaling and comparing columns, and of calling for either.
_PRODUCT_COST, _VECTOR_COST, _ENTRY_COST = 3.6e-11, 1.1e-10, 8e-10
_PRODUCT_CALL, _VECTOR_CALL = 1e-5, 1e-6
# Steps of a band between two progress reports.
_CHUNK = 250

Progress = Callable[[int, int], None]


def domain_ends(processes: Sequence[Process], tail: float) -> tuple[float, float]:
    """Return the ends of a domain that processes share; a line is cut where it is all but empty.

    ``tail`` is how many standard deviations of the iterate are kept beyond the range that the
    noiseless process can reach.
    """
    check_domain(processes)
    lower, upper = processes[0].lower, processes[0].upper
    if math.isinf(lower) or math.isinf(upper):
        ranges = [_range(process, tail) for process in processes]
        lower = min(r[0] for r in ranges) if math.isinf(lower) else lower
        upper = max(r[1] for r in ranges) if math.isinf(upper) else upper
    return lower, upper


def check_domain(processes: Sequence[Process]) -> None:
    """Raise ``ValueError`` unless the processes live on one domain."""
    if len({(p.lower, p.upper) for p in processes}) != 1:
        domains = ", ".join(f"[{p.lower:g}, {p.upper:g}]" for p in processes)
        raise ValueError(f"processes must share one domain, got {domains}")


def steepest(processes: Sequence[Process], lower: float, upper: float) -> float:
    """Return the largest slope of an update map between the ends."""
    steps = dict.fromkeys(itertools.chain(*(p.distinct_steps() for p in processes)))
    maps = dict.fromkeys(phi for step in steps for phi in step.maps)
    return max(_steepest(phi, lower, upper) for phi in maps)


@dataclass(frozen=True, eq=False)
class Reached:
    """Densities before a step, by memory of the batches."""

    states: dict[int, State]
    counted: float  # number of steps whose relative errors they hold

    def total(self) -> State:
        """Return the density whatever the memory."""
        states = list(self.states.values())
        return mixture(states, [1.0] * len(states))


def squaring_pays(times: int, size: int) -> bool:
    """Whether to square a matrix costs less than half of the steps that are left."""
    return times / 2 * _vector_cost(size) > _product_cost(size)


def _vector_cost(size: int) -> float:
    return size**2 * _VECTOR_COST + _VECTOR_CALL


def _product_cost(size: int) -> float:
    return size**2 * (size * _PRODUCT_COST + _ENTRY_COST) + _PRODUCT_CALL


class Counter:
    """Counts steps for a progress report."""

    def __init__(self, report: Progress | None, total: int) -> None:
        self.report, self.total, self.done = report, total, 0

    def add(self, steps: int) -> None:
        """Count steps that were taken."""
        self.done += steps
        if self.report is not None:
            self.report(self.done, self.total)


class Runner:
    """Runs the paths of one process; operators are built once for each distinct step.

    On long intervals noise is followed for ``reach`` standard deviations; with ``banded`` they have
    panels with exponents of their own even where plain doubles look sufficient.
    """

    def __init__(
        self, process: Process, panels: Panels, reach: float, banded: bool, counter: Counter
    ) -> None:
        self.process, self.panels, self.reach = process, panels, reach
        self.absorbing = (
            process.lower_wall is Wall.ABSORB or math.isinf(process.lower),
            process.upper_wall is Wall.ABSORB or math.isinf(process.upper),
        )
        ends = (process.lower, process.upper)
        self.stuck = [a and process.start == e for a, e in zip(self.absorbing, ends, strict=True)]
        self.size = panels.nodes.size + 2
        self.dense = not banded and self.size <= LARGEST_DENSE
        self.counter = counter
        kept = max(8, process.memories + 2)  # a followed record has a map for each memory
        self.dense_operator = lru_cache(maxsize=kept)(self._dense_operator)
        self.banded_operator = lru_cache(maxsize=kept)(self._banded_operator)
        self.terms = 0  # largest number of roundings of a sum of a step
        self.underflows = False  # whether products of dense operators may

    def run(self, path: Path, wanted: Sequence[int]) -> list[Reached]:
        """Return the densities after numbers of steps of a path, rising, each at least 1."""
        if any(self.stuck):
            nothing = np.full(self.panels.nodes.shape, -np.inf)
            state = State(nothing, np.where(self.stuck, 0.0, -np.inf))
            return [Reached({0: state}, 0.0)] * len(wanted)
        head, rest = split(path.segments, 1)  # the first step starts from a point, not a density
        begun = after_first_step(head[0].steps[0], self.panels, self.process.start)
        self.counter.add(1)
        carried = self._carried(begun)
        found, done, counted = [], 1, 1.0
        for steps in wanted:
            now, rest = split(rest, steps - done)
            counted += sum(self._segment(segment, carried) for segment in now)
            done = steps
            # one step is held in logarithms: plain doubles may underflow
            found.append(Reached(begun if steps == 1 else carried.states(), counted))
        return found

    def _carried(self, states: dict[int, State]) -> DenseMemories | BandedMemories:
        if not self.dense:
            return BandedMemories(states, self.banded_operator)
        memories = self.process.memories
        return DenseMemories(states, memories, self.panels, self.dense_operator, self._squares)

    def _segment(self, segment: Segment, carried: DenseMemories | BandedMemories) -> float:
        """Take the steps of a segment, and return how many of their errors remain."""
        runs = [(step, len(list(group))) for step, group in itertools.groupby(segment.steps)]
        times = segment.times
        if len(runs) == 1:
            runs, times = [(runs[0][0], runs[0][1] * times)], min(times, 1)
        if isinstance(carried, DenseMemories) and self._period_pays(runs, times):
            powers = [self.dense_operator(step).power(count) for step, count in runs]
            period = functools.reduce(lambda before, after: after @ before, powers)
            self.counter.add(len(segment))
            return carried.move(period, times)
        counted = 0.0
        for _ in range(times):
            for step, count in runs:
                chunk = count if self.dense else _CHUNK
                for done in range(0, count, chunk):
                    now = min(chunk, count - done)
                    counted += carried.take(step, now)
                    self.counter.add(now)
        return counted

    def _squares(self, times: int) -> bool:
        return squaring_pays(times, self.size)

    def _period_pays(self, runs: list[tuple[Step, int]], times: int) -> bool:
        """Whether to make one operator of a period of steps, to be squared in its turn."""
        if self.process.memories > 1:
            return False
        products = sum(2 * count.bit_length() for _, count in runs)
        together = products * _product_cost(self.size) + self._moving_cost(times)
        return together < times * sum(self._moving_cost(count) for _, count in runs)

    def _moving_cost(self, times: int) -> float:
        cost = 0.0
        while self._squares(times):
            cost += _product_cost(self.size) + _vector_cost(self.size)
            times //= 2
        return cost + times * _vector_cost(self.size)

    def _dense_operator(self, step: Step) -> DenseOperator:
        operator = DenseOperator.of(noisy(step), self.panels, self.absorbing)
        self.terms = max(self.terms, operator.terms)
        inner = operator.matrix[:, 1:-1]
        self.underflows |= bool(inner.min() ** 2 < np.finfo(np.float64).tiny)
        return operator

    def _banded_operator(self, step: Step) -> BandedOperator:
        from audit.numerics.banded import BandedOperator  # Numba loads only where it is needed

        operator = BandedOperator.of(noisy(step), self.panels, self.absorbing, self.reach)
        self.terms = max(self.terms, operator.terms)
        return operator


def noisy(step: Step) -> NoisyMap:
    """Return a step as a noisy map."""
    return NoisyMap(step.maps, step.weights, step.noise_std)


def _steepest(phi: UpdateMap, lower: float, upper: float) -> float:
    if isinstance(phi, Affine):
        return abs(phi.slope)
    x = np.linspace(lower, upper, 4097)
    return float(np.max(np.abs(np.diff(phi(x))) / np.diff(x)))


def _range(process: Process, tail: float) -> tuple[float, float]:
    """Interval that holds the iterate of an unbounded process, but for its far tails."""
    lowest = highest = process.start
    for path in process.paths:
        ranges = {0: (process.start, process.start)}  # by memory
        variance = 0.0
        for step in path.steps():
            images: dict[int, list[tuple[float, float]]] = {}
            slope = 0.0
            for phi, before, after in _moves(step, ranges):
                low, high = ranges[before]
                spread = max(high - low, step.noise_std)
                image_low, image_high, steepness = _image(phi, low, high, spread)
                images.setdefault(after, []).append((image_low, image_high))
                slope = max(slope, steepness)
            ranges = {
                memory: (
                    min(max(min(image[0] for image in found), process.lower), process.upper),
                    max(min(max(image[1] for image in found), process.upper), process.lower),
                )
                for memory, found in images.items()
            }
            variance = slope**2 * variance + step.noise_std**2
            reach = tail * math.sqrt(variance)
            lowest = min(lowest, min(low for low, _ in ranges.values()) - reach)
            highest = max(highest, max(high for _, high in ranges.values()) + reach)
    return lowest, highest


def _moves(step: Step, memories: Iterable[int]) -> Iterator[tuple[UpdateMap, int, int]]:
    """Yield each map with the memory before and after it."""
    if isinstance(step, DependentStep):
        for phi, (before, after) in zip(step.maps, step.moves, strict=True):
            if before in memories:
                yield phi, before, after
    else:
        for memory in memories:
            yield from ((phi, memory, memory) for phi in step.maps)


def _image(phi: UpdateMap, low: float, high: float, spread: float) -> tuple[float, float, float]:
    """Range of a map on [low, high], and how steep it is there and ``spread`` around it."""
    if isinstance(phi, Affine):
        ends = phi.slope * low + phi.shift, phi.slope * high + phi.shift
        return min(ends), max(ends), abs(phi.slope)
    image = phi(np.linspace(low, high, 33))
    slope = _steepest(phi, low - spread, high + spread)
    return float(image.min()), float(image.max()), slope
