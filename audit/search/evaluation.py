"""Fast evaluation of candidates: coarse laws, and divergences as sums over their nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import legvander

from audit.constructions.base import Construction
from audit.constructions.process import Process
from audit.exact.normal_laws import gaussian_pair, normal_law
from audit.exact.propagation import MAX_DENSE, Runner, domain_ends, steepest
from audit.exact.staircases import is_staircase, staircase_laws
from audit.exact.transfer import State, mixture
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_sum
from audit.numerics.panels import Panels, gauss_legendre
from audit.search.families import families
from audit.search.objectives import Epsilon, Objective
from audit.search.quick_laws import quick_states

# Three to four nodes per standard deviation: an error of about 1e-5, in milliseconds. Certificates
# are computed from finer laws. Noise is followed this far, and as far as pushes lie apart, up to
# where products within a block of an operator underflow.
_ORDER, _WIDTH, _REACH, _MAX_REACH = 14, 4.0, 9.0, 92.0
_PIECES, _FINE_ORDER = 32, 4  # cells of a panel; the event of a test may end inside one
_TYPICAL_DELTA = 1e-5
# Measured seconds per kernel value and per product, and the number of nodes that a node reaches.
_PER_KERNEL, _PER_PRODUCT, _REACHED_NODES = 2e-8, 4e-10, 100
_SAME_MASS = 1e-3
_MAX_NODES = 1e6  # beyond, a law takes gigabytes
_MAX_STEPS = 10_000  # most steps of a candidate that are computed one by one


class OutOfTime(Exception):
    """A computation was stopped at its time limit."""


@dataclass(frozen=True)
class Clock:
    """Measures the seconds since its creation against a limit, infinite for none."""

    limit: float = math.inf
    begun: float = field(default_factory=time.perf_counter)

    @property
    def is_limited(self) -> bool:
        """True if there is a limit."""
        return math.isfinite(self.limit)

    @property
    def spent(self) -> float:
        """Seconds since the clock was created."""
        return time.perf_counter() - self.begun

    @property
    def left(self) -> float:
        """Seconds until the limit, negative after it."""
        return self.limit - self.spent

    def up_to(self, share: float) -> Clock:
        """Return a clock that ends when ``share`` of the remaining time is spent."""
        if not self.is_limited:
            return self
        return Clock(self.spent + share * max(self.left, 0.0), self.begun)

    def check(self, *_: object) -> None:
        """Raise `OutOfTime` after the limit; the arguments of a progress report are ignored."""
        if self.left < 0:
            raise OutOfTime(f"budget must be larger than {self.limit:g} s for this mechanism")


_ENDLESS = Clock()


def quick_value(pair: Construction, objective: Objective, clock: Clock = _ENDLESS) -> float:
    """Return an approximate value of the objective for a pair."""
    clock.check()
    processes = pair.processes()
    first, second = (normal_law(process) for process in processes)
    if first is not None and second is not None:
        closed = gaussian_pair(first, second)
        if closed is not None:
            return objective.bracket(closed)[0]
    panels = _panels(processes, objective.tail)
    states = quick_states(processes, panels, clock.check)
    if states is not None:
        value = objective.quick(*_log_masses(states, panels))
        if math.isfinite(value):
            return value
    reach = min(_REACH + _push_apart(processes, panels), _MAX_REACH)
    value = math.nan
    for banded in (False, True):
        if banded and (math.isfinite(value) or len(processes[0]) > _MAX_STEPS):
            break  # else doubles underflowed in a relevant region
        states = [_state(process, panels, reach, banded, clock) for process in processes]
        value = objective.quick(*_log_masses(states, panels))
    return value


def _panels(processes: Sequence[Process], tail: float) -> Panels:
    """Cover the domain of processes, or the part of a line that is not all but empty."""
    if all(is_staircase(process) for process in processes):
        laws = [law for process in processes for law in staircase_laws(process, [len(process)])]
        std = min(law.narrowest for law in laws)
        low = min(float(law.means[0]) for law in laws) - tail * std
        high = max(float(law.means[-1]) for law in laws) + tail * std
        return Panels.covering(low, high, _WIDTH * std, _ORDER)
    lower, upper = domain_ends(processes, tail)
    steps = [step for process in processes for step in process.distinct_steps()]
    slope = max(1.0, steepest(processes, lower, upper))
    width = _WIDTH * min(step.noise_std for step in steps) / slope
    if (upper - lower) / width * _ORDER > _MAX_NODES:
        raise ValueError(
            f"noise_std must be larger for a computed law: the domain [{lower:g}, {upper:g}] is "
            f"too long, got a step with {min(step.noise_std for step in steps):g}"
        )
    breaks = tuple(kink for step in steps for phi in step.maps for kink in phi.kinks)
    return Panels.covering(lower, upper, width, _ORDER, breaks)


def _push_apart(processes: Sequence[Process], panels: Panels) -> float:
    """Largest distance between the mean updates of two steps, in noise standard deviations."""
    steps = [step for process in processes for step in process.distinct_steps()]
    means = [
        np.sum([w * phi(panels.edges) for phi, w, _ in taken], axis=0)
        for step in steps
        for memory in range(max(process.memories for process in processes))
        if (taken := list(step.transitions(memory)))
    ]
    spread = np.max(np.max(means, axis=0) - np.min(means, axis=0))
    return float(spread) / min(step.noise_std for step in steps)


def _state(process: Process, panels: Panels, reach: float, banded: bool, clock: Clock) -> State:
    """Return the law of a process at the nodes of panels."""
    if is_staircase(process):
        [law] = staircase_laws(process, [len(process)])
        return State(law.log_density(panels.nodes), np.full(2, -np.inf))
    runner = Runner(process, panels, reach, banded, clock.check)
    runs = [runner.run(path, [len(process)])[0].total() for path in process.paths]
    state = mixture(runs, [path.probability for path in process.paths])
    state = state.shifted(-state.log_mass(panels))
    cut = np.isinf([process.lower, process.upper])
    return State(state.log_values, np.where(cut, -np.inf, state.log_atoms))


def quick_seconds(mechanism: NoisySGD) -> float:
    """Estimate the duration of `quick_value` for a pair of a mechanism; infinite if impossible.

    The estimate depends on sizes, not on a clock, so it is the same on every machine.
    """
    try:
        family = next(families(mechanism))
        pair = family.pair(family.neutral(0), 0)
        processes = pair.processes()
        nodes = _panels(processes, Epsilon(_TYPICAL_DELTA).tail).nodes.size
    except (ValueError, MemoryError, StopIteration):
        return math.inf
    steps = max(len(path) for process in processes for path in process.paths)
    paths = sum(len(process.paths) for process in processes)
    kernels = sum(len(step.maps) for process in processes for step in process.distinct_steps())
    if nodes > MAX_DENSE:
        return paths * steps * nodes * _REACHED_NODES * _PER_PRODUCT
    moving = min(steps * nodes**2, 2 * steps.bit_length() * nodes**3 / 6)
    return kernels * nodes**2 * _PER_KERNEL + paths * moving * _PER_PRODUCT


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
    # polynomials of each degree at the fine points, and their coefficients by the nodes' own rule
    nodes, node_weights = gauss_legendre(order)
    coefficients = legvander(nodes, order - 1).T * node_weights
    values = legvander(fine, order - 1) * (np.arange(order) + 0.5) @ coefficients
    return values, np.outer(half, weights).ravel()
