"""Densities of a process, one for each memory that its batches have of earlier ones.

Each carries the probability of its memory, so that their sum is the law of the iterate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audit.constructions.process import DependentStep, Step
from audit.constructions.updates import UpdateMap
from audit.numerics.panels import Panels
from audit.numerics.transfer import (
    DenseOperator,
    NoisyMap,
    State,
    first_step,
    masses_of,
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
