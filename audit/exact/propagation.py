"""Densities of a process on panels, step by step through transfer operators.

There is one for each memory that batches have of earlier ones. Each carries the probability of its
memory, so that their sum is the law of the iterate.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from audit.constructions.process import DependentStep, Path, Process, Segment, Step, Wall, split
from audit.constructions.updates import Affine, PiecewiseLinear, UpdateMap
from audit.exact.transfer import DenseOperator, State, first_step, mixture, squaring_pays
from audit.numerics.panels import Panels

Parts = dict[int, Any]  # densities by memory, in the form of an operator

# Beyond this many nodes the band structure beats dense matrices at any length.
MAX_DENSE = 1000
# Steps of a band between two progress reports.
_CHUNK = 250

Progress = Callable[[int, int], None]
Count = Callable[[int], object]


def domain_ends(processes: Sequence[Process], tail: float) -> tuple[float, float]:
    """Return the ends of a domain that processes share; a line is cut where it is all but empty.

    ``tail`` is how many standard deviations of the iterate are kept beyond the range that the
    noiseless process can reach.
    """
    check_domain(processes)
    lower, upper = processes[0].lower, processes[0].upper
    if math.isinf(lower) or math.isinf(upper):
        # maps are as steep as where the iterate is, or as far out but for what bends them
        ways = [[_range(process, tail, far) for process in processes] for far in (False, True)]
        if math.isinf(lower):
            lower = max(min(low for low, _ in ranges) for ranges in ways)
        if math.isinf(upper):
            upper = min(max(high for _, high in ranges) for ranges in ways)
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


class Runner:
    """Runs the paths of one process; operators are built once for each distinct step.

    On long intervals noise is followed for ``reach`` standard deviations; with ``banded`` they have
    panels with exponents of their own even where plain doubles look sufficient. ``count`` is called
    with numbers of steps that were taken.
    """

    def __init__(
        self, process: Process, panels: Panels, reach: float, banded: bool, count: Count
    ) -> None:
        self.process, self.panels, self.reach = process, panels, reach
        self.absorbing = (
            process.lower_wall is Wall.ABSORB or math.isinf(process.lower),
            process.upper_wall is Wall.ABSORB or math.isinf(process.upper),
        )
        ends = (process.lower, process.upper)
        self.stuck = [a and process.start == e for a, e in zip(self.absorbing, ends, strict=True)]
        self.size = panels.nodes.size + 2
        self.dense = not banded and self.size <= MAX_DENSE
        self.count = count
        self.form: Any = DenseOperator
        if not self.dense:
            from audit.exact.banded import BandedOperator  # loads Numba

            self.form = BandedOperator
        # a followed record has a map for each memory
        self.operator = lru_cache(maxsize=max(8, process.memories + 2))(self._operator)
        self.terms = 0  # largest number of roundings of a sum of a step
        self.underflows = False  # whether products of dense operators may

    def run(self, path: Path, wanted: Sequence[int]) -> list[Reached]:
        """Return the densities after numbers of steps of a path, rising, each at least 1."""
        if any(self.stuck):
            nothing = np.full(self.panels.nodes.shape, -np.inf)
            state = State(nothing, np.where(self.stuck, 0.0, -np.inf))
            return [Reached({0: state}, 0.0)] * len(wanted)
        head, rest = split(path.segments, 1)  # the first step starts from a point, not a density
        begun = self._begun(head[0].steps[0])
        self.count(1)
        parts = {memory: self.form.load(state, self.panels) for memory, state in begun.items()}
        found, done, counted = [], 1, 1.0
        for steps in wanted:
            now, rest = split(rest, steps - done)
            for segment in now:
                parts, more = self._segment(segment, parts)
                counted += more
            done = steps
            # one step is held in logarithms: plain doubles may underflow
            if steps > 1:
                begun = {m: self.form.unload(part, self.panels) for m, part in parts.items()}
            found.append(Reached(begun, counted))
        return found

    def _begun(self, step: Step) -> dict[int, State]:
        """Return the density of each memory after one step from the start, in memory 0."""
        found: dict[int, list[tuple[State, float]]] = {}
        for alone, taken in _moves(step, (0,)).items():
            state = first_step(alone, self.panels, self.process.start)
            for _, weight, after in taken:
                found.setdefault(after, []).append((state, weight))
        return {after: mixture(*zip(*chosen, strict=True)) for after, chosen in found.items()}

    def _segment(self, segment: Segment, parts: Parts) -> tuple[Parts, float]:
        """Take the steps of a segment, and return how many of their errors remain."""
        runs = [(step, len(list(group))) for step, group in itertools.groupby(segment.steps)]
        times = segment.times
        if len(runs) == 1:
            runs, times = [(runs[0][0], runs[0][1] * times)], min(times, 1)
        products = sum(2 * count.bit_length() - 1 for _, count in runs)
        if (
            self.dense
            and self.process.memories == 1
            and squaring_pays(len(segment) // products, self.size)
        ):  # the operator of a whole period is squared in its turn
            powers = [self.operator(step).power(count) for step, count in runs]
            period = functools.reduce(lambda before, after: after @ before, powers)
            self.count(len(segment))
            parts, counted = period.carry(parts, times)
            return parts, counted
        counted = 0.0
        for _ in range(times):
            for step, count in runs:
                chunk = count if self.dense else _CHUNK
                for done in range(0, count, chunk):
                    now = min(chunk, count - done)
                    parts, more = self._taken(step, parts, now)
                    counted += more
                    self.count(now)
        return parts, counted

    def _taken(self, step: Step, parts: Parts, times: int) -> tuple[Parts, float]:
        """Take a step some times, and return how many of their errors remain."""
        if not isinstance(step, DependentStep):
            parts, counted = self.operator(step).carry(parts, times)
            return parts, counted
        for _ in range(times):
            moved: dict[int, list[tuple[float, Any]]] = {}
            for alone, taken in _moves(step, tuple(parts)).items():
                sources = {before: parts[before] for before, *_ in taken}
                images, _ = self.operator(alone).carry(sources, 1)
                for before, weight, after in taken:
                    moved.setdefault(after, []).append((weight, images[before]))
            parts = {memory: self.form.total(each) for memory, each in moved.items()}
        return parts, float(times)

    def _operator(self, step: Step) -> Any:
        operator: Any
        if self.dense:
            operator = DenseOperator.of(step, self.panels, self.absorbing)
            least = float(operator.matrix[:, 1:-1].min())
            self.underflows |= least**2 < float(np.finfo(np.float64).tiny)
        else:
            operator = self.form.of(step, self.panels, self.absorbing, self.reach)
        self.terms = max(self.terms, operator.terms)
        return operator


@lru_cache(maxsize=4096)
def _moves(step: Step, memories: tuple[int, ...]) -> dict[Step, list[tuple[int, float, int]]]:
    """Return (memory before, weight, memory after) of each map of a step, as a step of its own."""
    found: dict[UpdateMap, list[tuple[int, float, int]]] = {}
    for before in memories:
        for phi, weight, after in step.transitions(before):
            if weight > 0:
                found.setdefault(phi, []).append((before, weight, after))
    return {Step((phi,), (1.0,), step.noise_std): taken for phi, taken in found.items()}


def _steepest(phi: UpdateMap, lower: float, upper: float) -> float:
    if isinstance(phi, Affine):
        return abs(phi.slope)
    x = np.linspace(lower, upper, 4097)
    return float(np.max(np.abs(np.diff(phi(x))) / np.diff(x)))


def _range(process: Process, tail: float, far: bool) -> tuple[float, float]:
    """Interval that holds the iterate of an unbounded process, but for its far tails."""
    lowest = highest = process.start
    for path in process.paths:
        ranges = {0: (process.start, process.start)}  # by memory
        variance = 0.0
        for step in path.steps():
            images: dict[int, list[tuple[float, float]]] = {}
            slope = 0.0
            moves = [(*ends, *move) for b, ends in ranges.items() for move in step.transitions(b)]
            for low, high, phi, _, after in moves:
                spread = max(high - low, step.noise_std)
                image_low, image_high, steepness = _image(phi, low, high, spread, far)
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


def _image(
    phi: UpdateMap, low: float, high: float, spread: float, far: bool
) -> tuple[float, float, float]:
    """Range of a map on [low, high], and how steep it is there and ``spread`` around it.

    With ``far``, a map that is a line but for a bounded term is as steep as the line, and its range
    as wide as the term may make it.
    """
    bends = np.zeros(1)
    if far and isinstance(phi, PiecewiseLinear) and phi.slopes[0] == phi.slopes[1]:
        bends = np.array(phi.values) - phi.slopes[0] * np.array(phi.points)
        phi = Affine(slope=phi.slopes[0])
    if isinstance(phi, Affine):
        ends = phi.slope * low + phi.shift, phi.slope * high + phi.shift
        return min(ends) + float(bends.min()), max(ends) + float(bends.max()), abs(phi.slope)
    image = phi(np.linspace(low, high, 33))
    slope = _steepest(phi, low - spread, high + spread)
    return float(image.min()), float(image.max()), slope
