"""Laws of candidates on few nodes, for ranking only.

The density before the last step is followed on about two Gauss-Legendre nodes for each standard
deviation of the noise, on pieces as wide as the kinks of the maps allow. The last step leads to the
nodes of panels, where the density is as accurate as before: it is an integral of a normal density.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr

from audit.constructions.process import Process, Segment, Step, Wall, split
from audit.exact.propagation import MAX_DENSE, steepest
from audit.exact.transfer import State, first_step, squaring_pays
from audit.numerics.arrays import Array
from audit.numerics.panels import Panels, gauss_legendre

# Measured: 1e-6 of an epsilon, where a later step's density is as wide as one step's noise.
_NODES_PER_DEVIATION, _NODES_AT_ENDS = 1.25, 6
_MAX_PIECE = 40.0  # standard deviations of a piece
_LEFT = 1e-15  # remaining influence of the start, below the rounding of squarings
_SQRT_TWO_PI = math.sqrt(2 * math.pi)


def quick_states(
    processes: Sequence[Process], panels: Panels, check: Callable[[], None]
) -> list[State] | None:
    """Return the laws of processes at the nodes of ``panels``, or None for other processes.

    These are processes of one path on a short interval, with batches that do not depend on earlier
    ones. ``check`` is called now and then, and may raise an error to end the computation.
    """
    for process in processes:
        walls = process.lower_wall, process.upper_wall
        finite = math.isfinite(process.lower) and math.isfinite(process.upper)
        if len(process.paths) > 1 or process.memories > 1 or Wall.ABSORB in walls or not finite:
            return None
    places, weights = _nodes(processes)
    if places.size > MAX_DENSE:
        return None
    return [_Run(process, places, weights, panels, check).law() for process in processes]


def _nodes(processes: Sequence[Process]) -> tuple[Array, Array]:
    """Return the lower end, nodes, and the upper end; and the nodes' weights, 1 for the ends."""
    lower, upper = processes[0].lower, processes[0].upper
    steps = dict.fromkeys(itertools.chain(*(p.distinct_steps() for p in processes)))
    std = min(step.noise_std for step in steps)
    scale = max(1.0, steepest(processes, lower, upper)) / std
    kinks = {kink for step in steps for phi in step.maps for kink in phi.kinks}
    ends = [lower, *sorted(kink for kink in kinks if lower < kink < upper), upper]
    places, weights = [np.array([lower])], [np.ones(1)]
    for low, high in itertools.pairwise(ends):
        parts = max(1, math.ceil((high - low) * scale / _MAX_PIECE))
        half = 0.5 * (high - low) / parts
        # even orders, of which few are different
        order = _NODES_AT_ENDS + 2 * math.ceil(_NODES_PER_DEVIATION * half * scale)
        nodes, own = gauss_legendre(order)
        middles = low + half * (2 * np.arange(parts) + 1)
        places.append((middles[:, None] + half * nodes).ravel())
        weights.append(np.tile(half * own, parts))
    return np.concatenate([*places, [upper]]), np.concatenate([*weights, [1.0]])


class _Run:
    """One process: its matrices, and the masses at the places of the grid."""

    def __init__(
        self,
        process: Process,
        places: Array,
        weights: Array,
        panels: Panels,
        check: Callable[[], None],
    ) -> None:
        self.process, self.panels, self.check = process, panels, check
        self.places, self.weights = places, weights
        self.matrices: dict[Step, Array] = {}

    def law(self) -> State:
        """Return the law of the last iterate."""
        [path] = self.process.paths
        head, rest = split(path.segments, 1)
        first = head[0].steps[0]
        if not rest:
            return first_step(first, self.panels, self.process.start)
        most, last = split(rest, len(path) - 2)
        start = np.array([self.process.start])
        masses = self._densities(first, start, self.places)[:, 0] * self.weights
        masses[[0, -1]] = self._beyond(first, start)[:, 0]
        for segment in most:
            self.check()
            masses = self._moved(segment, masses / masses.sum())
        end = last[0].steps[0]
        masses /= masses.sum()
        density = self._densities(end, self.places, self.panels.nodes.ravel()) @ masses
        with np.errstate(divide="ignore"):
            logs = np.log(density).reshape(self.panels.nodes.shape)
            return State(logs, np.log(self.matrix(end)[[0, -1]] @ masses))

    def _moved(self, segment: Segment, masses: Array) -> Array:
        runs = [(step, len(list(group))) for step, group in itertools.groupby(segment.steps)]
        if len(runs) == 1:
            [(step, count)] = runs
            return _powered(self.matrix(step), masses, count * segment.times)
        if not squaring_pays(len(segment), masses.size):
            for _ in range(segment.times):
                self.check()
                for step, count in runs:
                    for _ in range(count):
                        masses = self.matrix(step) @ masses
            return masses
        powers = [np.linalg.matrix_power(self.matrix(step), count) for step, count in runs]
        period = functools.reduce(lambda before, after: after @ before, powers)
        return _powered(period, masses, segment.times)

    def matrix(self, step: Step) -> Array:
        """Return the stochastic matrix of a step."""
        if step in self.matrices:
            return self.matrices[step]
        matrix = self._densities(step, self.places, self.places)
        matrix *= self.weights[:, None]
        matrix[[0, -1]] = self._beyond(step, self.places)
        matrix /= matrix.sum(axis=0)
        self.matrices[step] = matrix
        return matrix

    def _densities(self, step: Step, sources: Array, targets: Array) -> Array:
        """Return the densities of landing at targets, shape (targets, sources)."""
        total = np.zeros((targets.size, sources.size))
        scaled = targets / step.noise_std
        for phi, weight in zip(step.maps, step.weights, strict=True):
            part = np.subtract.outer(scaled, phi(sources) / step.noise_std)
            part *= part
            part *= -0.5
            np.exp(part, out=part)
            part *= weight / (step.noise_std * _SQRT_TWO_PI)
            total += part
        return total

    def _beyond(self, step: Step, sources: Array) -> Array:
        """Return the probabilities of the lower and of the upper end, shape (2, sources)."""
        low, high = self.places[[0, -1]]
        total = np.zeros((2, sources.size))
        for phi, weight in zip(step.maps, step.weights, strict=True):
            image = phi(sources)
            total += weight * ndtr(np.stack([low - image, image - high]) / step.noise_std)
        return total


def _powered(matrix: Array, masses: Array, times: int) -> Array:
    """Apply a matrix to masses ``times`` times."""
    while squaring_pays(times, masses.size):
        if times & 1:
            masses = matrix @ masses
        times >>= 1
        matrix = matrix @ matrix
        # total variation distance of the runs from both ends of the interval
        apart = 0.5 * float(np.abs(matrix[:, 0] - matrix[:, -1]).sum())
        if apart < 0.3:  # share of the starting point's effect that each application leaves
            times = min(times, math.ceil(math.log(_LEFT) / math.log(max(apart, _LEFT))))
            break
    for _ in range(times):
        masses = matrix @ masses
    return masses
