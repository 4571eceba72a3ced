"""Any update map: NumPy over the walks of a block, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audit.constructions import Process, Step, Wall
from audit.constructions.process import Path
from audit.simulation.program import Floats, cumulative


def fill(rng: np.random.Generator, process: Process, out: Floats) -> None:
    """Fill ``out``, shape (trials,), with final iterates of the process.

    Raises
    ------
    ValueError
        If an update map returns another shape than it was given, or numbers that are not finite.
    """
    chosen = _pick(rng, [path.probability for path in process.paths], out.size)
    for k, path in enumerate(process.paths):
        here = chosen == k
        if np.any(here):
            out[here] = _follow(rng, process, path, int(np.count_nonzero(here)))


def _pick(rng: np.random.Generator, weights: list[float], size: int) -> NDArray[np.intp]:
    if len(weights) == 1:
        return np.zeros(size, dtype=np.intp)
    return np.searchsorted(cumulative(weights), rng.random(size), side="right")


def _follow(rng: np.random.Generator, process: Process, path: Path, size: int) -> Floats:
    x = np.full(size, float(process.start))
    for step in path.steps():
        moved = _applied(rng, step, x) + step.noise_std * rng.standard_normal(size)
        np.clip(moved, process.lower, process.upper, out=moved)
        x = np.where(_absorbed(process, x), x, moved)
    return x


def _absorbed(process: Process, x: Floats) -> NDArray[np.bool_]:
    gone = np.zeros(x.size, dtype=np.bool_)
    if process.lower_wall is Wall.ABSORB:
        gone |= x <= process.lower
    if process.upper_wall is Wall.ABSORB:
        gone |= x >= process.upper
    return gone


def _applied(rng: np.random.Generator, step: Step, x: Floats) -> Floats:
    moved = np.empty_like(x)
    chosen = _pick(rng, list(step.weights), x.size)
    for k, update in enumerate(step.maps):
        here = chosen == k
        if not np.any(here):
            continue
        given = x[here]
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
        moved[here] = result
    return moved
