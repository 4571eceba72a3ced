"""From a process to flat tables that a compiled loop can walk through.

Only affine update maps have such tables; other maps are sampled by `audit.simulation.mapped`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.constructions import Affine, Process, Step, Wall

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Program(NamedTuple):
    """A process whose maps are all affine, as flat arrays.

    Maps of step ``s`` are ``first_map[s]`` (its most probable one, which it usually takes) to
    ``first_map[s + 1] - 1``. A step departs from its usual map with probability
    ``1 - exp(-hazard[s])``. Departures are found by one exponential clock for the whole walk,
    which runs down by the hazard of each step: without memory, as departures are, and at the cost
    of a subtraction where they are rare. ``below[m]`` is the probability that a departure goes to
    map m or an earlier one.

    Path ``p`` consists of segments ``first_segment[p]`` to ``first_segment[p + 1] - 1``; segment g
    runs through ``sequence[first_place[g] : first_place[g + 1]]``, ``times[g]`` times.
    """

    start: float
    lower: float
    upper: float
    absorb_lower: float  # -inf where the lower end does not absorb
    absorb_upper: float  # +inf where the upper end does not absorb
    slope: Floats  # by map
    shift: Floats
    below: Floats
    first_map: Integers  # by step, and one more
    hazard: Floats
    noise_std: Floats
    sequence: Integers  # distinct steps
    first_place: Integers  # by segment, and one more
    times: Integers
    first_segment: Integers  # by path, and one more
    paths_below: Floats  # cumulative probabilities of the paths
    departs: bool  # whether any step has a second map


def is_affine(process: Process) -> bool:
    """Whether every update map of the process is affine."""
    return all(isinstance(m, Affine) for step in process.distinct_steps() for m in step.maps)


def compiled(process: Process) -> Program:
    """Return the tables of a process whose maps are all `Affine`."""
    steps = process.distinct_steps()
    index = {step: s for s, step in enumerate(steps)}
    tables = [_step_tables(step) for step in steps]
    segments = [[g for g in path.segments if len(g)] for path in process.paths]
    flat = list(itertools.chain.from_iterable(segments))
    absorbing = Wall.ABSORB
    return Program(
        start=float(process.start),
        lower=float(process.lower),
        upper=float(process.upper),
        absorb_lower=float(process.lower) if process.lower_wall is absorbing else -math.inf,
        absorb_upper=float(process.upper) if process.upper_wall is absorbing else math.inf,
        slope=_floats(m.slope for maps, _, _ in tables for m in maps),
        shift=_floats(m.shift for maps, _, _ in tables for m in maps),
        below=_floats(b for _, below, _ in tables for b in below),
        first_map=_offsets(len(maps) for maps, _, _ in tables),
        hazard=_floats(hazard for _, _, hazard in tables),
        noise_std=_floats(step.noise_std for step in steps),
        sequence=np.array([index[step] for g in flat for step in g.steps], dtype=np.int64),
        first_place=_offsets(len(g.steps) for g in flat),
        times=np.array([g.times for g in flat], dtype=np.int64),
        first_segment=_offsets(len(part) for part in segments),
        paths_below=cumulative([path.probability for path in process.paths]),
        departs=any(hazard > 0 for _, _, hazard in tables),
    )


def cumulative(weights: list[float]) -> Floats:
    """Return the cumulative shares of ``weights``; the last one is 1, which no uniform reaches."""
    sums = np.cumsum(weights, dtype=np.float64) / math.fsum(weights)
    sums[-1] = 1.0
    return sums


def _step_tables(step: Step) -> tuple[list[Affine], list[float], float]:
    """Return a step's maps (the most probable one first), ``below`` of each, and its hazard."""
    pairs = [(m, w) for m, w in zip(step.maps, step.weights, strict=True) if w > 0]
    usual = max(range(len(pairs)), key=lambda k: pairs[k][1])
    pairs.insert(0, pairs.pop(usual))
    others = [weight for _, weight in pairs[1:]]
    below = [0.0, *cumulative(others)] if others else [0.0]
    # from the others' weights, so that a departure of probability 1e-9 keeps its digits
    hazard = -math.log1p(-math.fsum(others)) if others else 0.0
    return [m for m, _ in pairs if isinstance(m, Affine)], below, hazard


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _offsets(lengths: Iterable[int]) -> Integers:
    return np.array([0, *itertools.accumulate(lengths)], dtype=np.int64)
