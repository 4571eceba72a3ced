"""Laws of processes on a line whose maps are constant between jumps: finite chains.

After a map the state is one of finitely many points, so that the law before the last step is a
vector, and the law after it a mixture of normals. What lands beyond the last jumps, where the maps
are not constant, is counted as lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from audit.constructions.process import Path, Process, Step
from audit.constructions.updates import Staircase
from audit.exact.law import UNIT, Law
from audit.numerics.arrays import Array

Masses = dict[int, Array]  # on the stairs, by memory of the batches
Sources = list[tuple[int, tuple[float, ...], Array]]  # memory, points, masses there

_TAIL = 38.0  # standard deviations: beyond, less than 1e-300
_TINY = float(np.finfo(np.float64).tiny)


def is_staircase(process: Process) -> bool:
    """Whether every map of a process on the whole line is a staircase."""
    return (
        math.isinf(process.lower)
        and math.isinf(process.upper)
        and all(isinstance(phi, Staircase) for s in process.distinct_steps() for phi in s.maps)
    )


def staircase_laws(process: Process, wanted: Sequence[int]) -> list[Law]:
    """Compute the laws of a process after numbers of steps, which rise."""
    chain = _Chain(process)
    runs = [chain.run(path, wanted) for path in process.paths]
    laws = []
    for k, steps in enumerate(wanted):
        normals: dict[tuple[float, float], float] = {}
        lost = 0.0
        for path, run in zip(process.paths, runs, strict=True):
            sources, std, own_lost = run[k]
            lost += path.probability * own_lost
            for _, points, weights in sources:
                for point, weight in zip(points, weights.tolist(), strict=True):
                    mass = path.probability * weight
                    normals[point, std] = normals.get((point, std), 0.0) + mass
        places = np.array(list(normals))
        with np.errstate(divide="ignore"):
            logs = np.log(np.array(list(normals.values())))
        log_lost = math.log(max(lost, _TINY))
        rounding = steps * chain.step_error
        laws.append(Law.of(places[:, 0], places[:, 1], logs, rounding=rounding, log_lost=log_lost))
    return laws


class _Chain:
    """The chain between the stairs: the intervals between all jumps of all maps."""

    def __init__(self, process: Process) -> None:
        self.process = process
        steps = process.distinct_steps()
        maps = list(dict.fromkeys(phi for step in steps for phi in step.maps))
        self.edges = np.unique(np.concatenate([phi.kinks for phi in maps]))
        low, high = self.edges[[0, -1]].tolist()
        one_end = all((phi.kinks[0], phi.kinks[-1]) == (low, high) for phi in maps)
        if not one_end or not low <= process.start < high:
            raise ValueError(
                "staircases must end at the same places, and the process start in "
                f"[{low:g}, {high:g}), got {process.start:g}"
            )
        self.middles = (self.edges[1:] + self.edges[:-1]) / 2
        std = min(step.noise_std for step in steps)
        shortest = float(np.min(np.diff(self.edges))) / std
        farthest = float(np.max(np.abs(self.edges))) / std
        # differences of distribution functions over a stair, and positions that are rounded
        self.step_error = UNIT * (64 + 32 / min(shortest, 1.0) + 4 * _TAIL * farthest)
        self.kernel = lru_cache(maxsize=64)(self._kernel)
        self.values = lru_cache(maxsize=64)(self._values)

    def run(self, path: Path, wanted: Sequence[int]) -> list[tuple[Sources, float, float]]:
        """Return the points before the noise, its deviation and the lost mass, for each number.

        A path that is shorter ends with its last step.
        """
        start = np.zeros(self.middles.size)
        start[np.searchsorted(self.edges, self.process.start, side="right") - 1] = 1.0
        masses: Masses = {0: start}
        ends = [min(n, len(path)) for n in wanted]
        lost, found = 0.0, {}
        for done, step in enumerate(path.steps(), start=1):
            sources = self._sources(step, masses)
            if done in ends:
                found[done] = sources, step.noise_std, lost
                if done == ends[-1]:
                    break
            masses = {}
            for after, points, weights in sources:
                kernel, beyond = self.kernel(points, step.noise_std)
                lost += float(beyond @ weights)
                image = kernel @ weights
                masses[after] = masses[after] + image if after in masses else image
        return [found[end] for end in ends]

    def _sources(self, step: Step, masses: Masses) -> Sources:
        """Return (memory afterwards, points that the maps lead to, masses there)."""
        sources: Sources = []
        for memory, mass in masses.items():
            for phi, weight, after in step.transitions(memory):
                if weight > 0:
                    points, index = self.values(phi)
                    gathered = np.bincount(index, weight * mass, len(points))
                    sources.append((after, points, gathered.astype(np.float64)))
        return sources

    def _values(self, phi: Staircase) -> tuple[tuple[float, ...], NDArray[np.intp]]:
        points, index = np.unique(phi(self.middles), return_inverse=True)
        return tuple(points.tolist()), index.reshape(-1)

    def _kernel(self, points: tuple[float, ...], std: float) -> tuple[sparse.csr_array, Array]:
        """Return the probabilities of each stair from each point, and of landing beyond them."""
        at = np.array(points)
        beyond = ndtr((self.edges[0] - at) / std) + ndtr((at - self.edges[-1]) / std)
        rows, columns, values = [], [], []
        for column, point in enumerate(at):
            low = max(int(np.searchsorted(self.edges, point - _TAIL * std)) - 1, 0)
            high = min(int(np.searchsorted(self.edges, point + _TAIL * std)) + 1, self.edges.size)
            z = (self.edges[low:high] - point) / std
            a, b = z[:-1], z[1:]
            right = a > 0  # the side where the tail is short keeps the relative accuracy
            p = np.where(right, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
            rows.append(np.arange(low, low + p.size))
            columns.append(np.full(p.size, column))
            values.append(p)
        shape = (self.middles.size, at.size)
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return sparse.csr_array(entries, shape=shape), beyond
