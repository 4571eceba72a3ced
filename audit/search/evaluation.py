"""Fast evaluation of candidates: coarse laws, and divergences as sums over their nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from audit import exact
from audit.constructions.base import Construction
from audit.exact import GaussianPairCurve, LawCurve
from audit.exact.from_pair import TAIL, laws_after
from audit.exact.noise_reach import LARGEST_REACH, push_apart
from audit.exact.normal_laws import gaussian_pair, normal_law
from audit.exact.propagation import (
    LARGEST_DENSE,
    STANDARD,
    Resolution,
    domain_panels,
    laws_on,
)
from audit.mechanism import NoisySGD
from audit.numerics.log_sums import log_sum
from audit.numerics.panels import Panels, gauss_legendre, interpolate
from audit.numerics.transfer import State
from audit.search.clock import Clock
from audit.search.families import families
from audit.search.objectives import Epsilon, Objective
from audit.search.quick_laws import quick_states

Array = NDArray[np.float64]

# Three to four nodes per standard deviation: an error of about 1e-5, in milliseconds. Certificates
# are computed from finer laws.
COARSE = Resolution(order=14, width=4.0, reach=9.0)
_PIECES, _FINE_ORDER = 32, 4  # cells of a panel; the event of a test may end inside one
# For certificates under a time limit: a bracket of about 1e-6. The orders differ, since the
# distance between the two bounds the discretisation error.
_AFFORDABLE = (Resolution(order=14, reach=11.0), Resolution(order=10, reach=9.0))
_ENDLESS = Clock()
_TYPICAL_DELTA = 1e-5
# Measured seconds per kernel value and per product, and the number of nodes that a node reaches.
_PER_KERNEL, _PER_PRODUCT, _REACHED_NODES = 2e-8, 4e-10, 100
_SAME_MASS = 1e-3
_CURVE_PER_QUICK = 12.0  # times that a curve's four laws take as long, work for work
_MOST_STEPS = 10_000  # most steps of a candidate that are computed one by one


def quick_value(pair: Construction, objective: Objective, clock: Clock = _ENDLESS) -> float:
    """Return an approximate value of the objective for a pair.

    Raises
    ------
    ValueError
        If the laws cannot be computed; the message says why.
    OutOfTime
        If the time limit is reached first.
    """
    clock.check()
    processes = pair.processes()
    first, second = (normal_law(process) for process in processes)
    if first is not None and second is not None:
        closed = gaussian_pair(first, second)
        if closed is not None:
            return objective.bracket(closed)[0]
    panels = domain_panels(processes, COARSE, objective.tail)
    states = quick_states(processes, panels, clock.check)
    if states is not None:
        value = objective.quick(*_log_masses(states, panels))
        if math.isfinite(value):
            return value
    reach = min(COARSE.reach + push_apart(processes, panels), LARGEST_REACH)
    resolution = Resolution(COARSE.order, COARSE.width, reach)
    laws = [laws_on(process, panels, resolution, progress=clock.check)[0] for process in processes]
    value = objective.quick(*_log_masses([law.state for law in laws], panels))
    if not math.isfinite(value) and len(processes[0]) <= _MOST_STEPS:
        # doubles underflowed in a relevant region
        laws = [
            laws_after(process, panels, resolution, [len(process)], clock.check)[0]
            for process in processes
        ]
        value = objective.quick(*_log_masses([law.state for law in laws], panels))
    return value


def fine_law(
    pair: Construction, objective: Objective, clock: Clock = _ENDLESS, quick: float = 0.0
) -> LawCurve | GaussianPairCurve:
    """Return the exact law of a pair, as fine as the time allows.

    ``quick`` is the duration of `quick_value` in seconds. Raises ``ValueError`` if there is no law,
    and `OutOfTime` if it takes too long.
    """
    processes = pair.processes()
    if clock.is_limited and any(normal_law(process) is None for process in processes):
        unit = 2 * _work(pair, COARSE, objective.tail)
        share = _work(pair, STANDARD[0], TAIL) / unit
        if _CURVE_PER_QUICK * share * quick > clock.left / 2:
            return exact.curve(
                pair, resolutions=_AFFORDABLE, tail=objective.tail, progress=clock.check
            )
    return exact.curve(pair, progress=clock.check)


def quick_seconds(mechanism: NoisySGD) -> float:
    """Estimate the duration of `quick_value` for a pair of a mechanism; infinite if impossible.

    The estimate depends on sizes, not on a clock, so it is the same on every machine.
    """
    try:
        family = next(families(mechanism))
        pair = family.pair(family.neutral(0), 0)
        processes = pair.processes()
        nodes = domain_panels(processes, COARSE, Epsilon(_TYPICAL_DELTA).tail).nodes.size
    except (ValueError, MemoryError, StopIteration):
        return math.inf
    steps = max(len(path) for process in processes for path in process.paths)
    paths = sum(len(process.paths) for process in processes)
    kernels = sum(len(step.maps) for process in processes for step in process.distinct_steps())
    if nodes > LARGEST_DENSE:
        return paths * steps * nodes * _REACHED_NODES * _PER_PRODUCT
    moving = min(steps * nodes**2, 2 * steps.bit_length() * nodes**3 / 6)
    return kernels * nodes**2 * _PER_KERNEL + paths * moving * _PER_PRODUCT


def _work(pair: Construction, resolution: Resolution, tail: float) -> float:
    """Return the cost of a law: its nodes times the number of nodes that each one reaches."""
    nodes = domain_panels(pair.processes(), resolution, tail).nodes.size
    if nodes <= LARGEST_DENSE:
        return float(nodes**2)
    return nodes * (2 * resolution.reach / resolution.width + 2) * resolution.order


def _log_masses(states: Sequence[State], panels: Panels) -> list[Array]:
    """Return the log masses of two laws in the same cells.

    The event of the best test ends between two nodes. Densities are therefore interpolated on a
    grid nine times as fine, by the polynomial through the logs of a panel's nodes. If a law has
    zeros, or the polynomial has another mass than the nodes, the nodes themselves are used.
    """
    followed, weights = _finer(panels.order)
    half = 0.5 * np.diff(panels.edges)[:, None]
    values = np.stack([state.log_values for state in states])
    nodes = values + np.log(panels.weights)
    with np.errstate(invalid="ignore"):
        fine = values @ followed.T + np.log(half * weights)
        smooth = np.all(np.abs(log_sum(fine) - log_sum(nodes)) <= _SAME_MASS, axis=0)
    return [
        np.concatenate([atoms[:1], a[smooth].ravel(), b[~smooth].ravel(), atoms[1:]])
        for atoms, a, b in zip((state.log_atoms for state in states), fine, nodes, strict=True)
    ]


@lru_cache(maxsize=4)
def _finer(order: int) -> tuple[Array, Array]:
    """Return the map from values at a panel's nodes to those on a finer grid, and its weights."""
    points, weights = gauss_legendre(_FINE_ORDER)
    edges = np.linspace(-1, 1, _PIECES + 1)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    fine = (middle[:, None] + half[:, None] * points).ravel()
    values = [interpolate(unit, fine) for unit in np.eye(order)]
    return np.stack(values, axis=1), np.outer(half, weights).ravel()
