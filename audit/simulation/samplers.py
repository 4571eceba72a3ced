"""The walks of a block: compiled loops where they know all update maps, NumPy otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.constructions import Construction, Process, Step, UpdateMap
from audit.constructions.process import Path
from audit.numerics.arrays import Array
from audit.simulation.blocks import MAX_WALKS, Block, Stream, block_size
from audit.simulation.fingerprint import described, digest_of
from audit.simulation.program import GENERAL, Tables, compiled, is_compilable

DIVERGED = "update map must return finite numbers, got walks that grow beyond all doubles"
_MAX_ROUNDING = 2.0**-30  # of the start, in standard deviations of a step
_MAX_DRIFT = 2.0**-10  # by the rounding of all steps, in standard deviations of their noise


@dataclass(frozen=True)
class Walks:
    """Processes in one dimension, as a program of `Samples`; ``pair`` is for the description."""

    processes: tuple[Process, ...]
    streams: tuple[Stream, ...] = (Stream.X, Stream.X_PRIME)
    pair: Construction | None = None

    point = ()

    def __post_init__(self) -> None:
        for process, least in zip(self.processes, self._least_stds, strict=True):
            if math.ulp(process.start) > _MAX_ROUNDING * least:  # walks would round what they move
                raise ValueError(
                    f"start must be within {2.0**52 * _MAX_ROUNDING:.2g} standard deviations of a "
                    f"step ({least:g}) for samples, got {process.start!r}"
                )

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Number of steps of the longest path of each process."""
        return tuple(len(process) for process in self.processes)

    @cached_property
    def block_size(self) -> int:
        """Number of walks in a full block."""
        return block_size(max(self.steps), MAX_WALKS)

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data that fix every walk but for its seed."""
        # a pair's fields say nothing of the code that makes its walks
        walks = digest_of(tuple(zip(self.processes, self.streams, strict=True)))
        return {"pair": described(self.pair), "walks": walks}

    def values(self, side: int, block: Block, seed: int) -> Array:
        """Return the final iterates of a block of walks, shape (trials,)."""
        program, stream = self._programs[side], self.streams[side]
        if program is not None:
            return self.checked(side, _walk(program, block, seed, stream))
        x = _by_numpy(block.generator(seed, stream), self.processes[side], len(block))
        return self.checked(side, x)

    def checked(self, side: int, x: Array) -> Array:
        """Return final iterates of a process, unless they are too large for doubles."""
        check_rounding(np.abs(x).max(), self.steps[side], self._least_stds[side])
        return x

    @cached_property
    def _least_stds(self) -> tuple[float, ...]:
        return tuple(min(s.noise_std for s in p.distinct_steps()) for p in self.processes)

    @cached_property
    def _programs(self) -> tuple[Tables | None, ...]:
        """Tables of each process; None where NumPy samples it."""
        return tuple(compiled(p) if is_compilable(p) else None for p in self.processes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields alone: what they are made ready into may hold functions."""
        return Walks, (self.processes, self.streams, self.pair)


def check_rounding(farthest: float, steps: int, std: float) -> None:
    """Refuse walks whose doubles are so large that they round steps with this noise off."""
    limit = _MAX_DRIFT * std / math.sqrt(steps)
    if not math.ulp(farthest) <= limit:
        raise ValueError(
            f"iterates must be within {2.0**52 * limit / std:.2g} standard deviations of a step "
            f"({std:g}) for samples of {steps} steps, got {float(farthest):g}"
        )


def _walk(program: Tables, block: Block, seed: int, stream: Stream) -> Array:
    from audit.simulation import kernels, rng  # imports Numba, so not before it is needed

    words = rng.seeded(block.sequence(seed, stream))
    trials = len(block)
    paths = np.zeros(trials, dtype=np.int64)
    order = np.arange(trials)
    if program.paths_below.size:
        kernels.draw_paths(words, program.paths_below, paths)
        order = np.argsort(paths, kind="stable")
        paths = paths[order]
    x = np.empty(trials)
    walk = kernels.walk if np.any(program.kind == GENERAL) else kernels.walk_lines
    if not walk(program, kernels.scratch(words), paths, order, x):
        raise ValueError(DIVERGED)
    return x


def _by_numpy(rng: np.random.Generator, process: Process, trials: int) -> Array:
    """Return final iterates of a process with any maps, shape (trials,)."""
    found = np.empty(trials)
    chosen = _pick(rng, [path.probability for path in process.paths], trials)
    for k, path in enumerate(process.paths):
        here = chosen == k
        if np.any(here):
            found[here] = _follow(rng, process, path, int(np.count_nonzero(here)))
    return found


def _pick(rng: np.random.Generator, weights: list[float], size: int) -> NDArray[np.intp]:
    if len(weights) == 1:
        return np.zeros(size, dtype=np.intp)
    shares = np.cumsum(weights) / math.fsum(weights)
    return np.searchsorted(shares[:-1], rng.random(size), side="right")


def _follow(rng: np.random.Generator, process: Process, path: Path, size: int) -> Array:
    x = np.full(size, float(process.start))
    memory = np.zeros(size, dtype=np.int64)
    low, high = process.absorbing
    for step in path.steps():
        moved = _applied(rng, step, x, memory) + step.noise_std * rng.standard_normal(size)
        np.clip(moved, process.lower, process.upper, out=moved)
        x = np.where((x <= low) | (x >= high), x, moved)
    return x


def _applied(rng: np.random.Generator, step: Step, x: Array, memory: NDArray[np.int64]) -> Array:
    """Apply each walk's map, and set its memory."""
    moved, before = np.empty_like(x), memory.copy()
    for state in np.unique(before).tolist():
        here, taken = np.flatnonzero(before == state), tuple(step.transitions(state))
        chosen = _pick(rng, [weight for _, weight, _ in taken], here.size)
        for k, (update, _, after) in enumerate(taken):
            walks = here[chosen == k]
            if walks.size:
                moved[walks], memory[walks] = _checked(update, x[walks]), after
    return moved


def _checked(update: UpdateMap, given: Array) -> Array:
    result = np.asarray(update(given), dtype=np.float64)
    if result.shape != given.shape:
        raise ValueError(
            f"update map must return the shape it is given {given.shape}, got {result.shape}"
        )
    if not np.all(np.isfinite(result)):
        bad = int(np.flatnonzero(~np.isfinite(result))[0])
        raise ValueError(
            f"update map must return finite numbers, got {result[bad]} at x = {given[bad]}"
        )
    return result
