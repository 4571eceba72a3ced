"""Transfer operators of noisy maps on an interval with a wall at each end.

A state is a density on panels and an atom at each end of the interval. One step maps it by one of
a few maps, adds Gaussian noise and projects what leaves the interval onto its ends. On the Legendre
nodes of panels that are a few noise standard deviations wide this is a matrix with positive
entries, accurate to rounding, so that even the far tails keep their relative accuracy.

Two forms: `DenseOperator` (plain doubles; powers by repeated squaring) for short intervals, and
`audit.numerics.banded.BandedOperator` for long ones and deep tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_sum
from audit.numerics.normal import log_density
from audit.numerics.panels import Panels

Map = Callable[[Array], Array]

# Relative; less than the rounding that two steps are counted with in the laws' error bounds.
EQUAL = 2.0**-48
# Logarithm of the ratio of two starts' laws: farther apart, it is cheaper to square once more.
_FARTHEST = 3.0


@dataclass(frozen=True)
class NoisyMap:
    """Map i with probability ``weights[i]``, then Gaussian noise of standard deviation ``std``."""

    maps: tuple[Map, ...]
    weights: tuple[float, ...]
    std: float

    def log_kernel(self, target: Array, source: Array) -> Array:
        """Log density of landing at ``target`` from ``source`` (broadcast against each other)."""
        terms = [
            np.log(weight / self.std) + log_density((target - phi(source)) / self.std)
            for phi, weight in zip(self.maps, self.weights, strict=True)
            if weight > 0
        ]
        return terms[0] if len(terms) == 1 else log_sum(np.stack(terms, axis=-1))

    def kernel(self, target: Array, source: Array) -> Array:
        """Density of landing at ``target`` from ``source``."""
        total = np.zeros(np.broadcast_shapes(target.shape, source.shape))
        for phi, weight in zip(self.maps, self.weights, strict=True):
            total += (weight / self.std) * np.exp(log_density((target - phi(source)) / self.std))
        return total

    def log_beyond(self, end: float, side: int, source: Array) -> Array:
        """Log probability of landing at or beyond ``end``: above it (side 1) or below (-1)."""
        terms = [
            np.log(weight) + log_ndtr(side * (phi(source) - end) / self.std)
            for phi, weight in zip(self.maps, self.weights, strict=True)
            if weight > 0
        ]
        return terms[0] if len(terms) == 1 else log_sum(np.stack(terms, axis=-1))


@dataclass(frozen=True, eq=False)
class State:
    """Logarithms of a density at the nodes, shape (panels, order), and of the atoms (low, high)."""

    log_values: Array
    log_atoms: Array

    def log_mass(self, panels: Panels) -> float:
        """Log of the total mass."""
        parts = np.concatenate([(self.log_values + np.log(panels.weights)).ravel(), self.log_atoms])
        return float(log_sum(parts))

    def shifted(self, amount: float) -> State:
        """Multiply everything by e^amount."""
        return State(self.log_values + amount, self.log_atoms + amount)


def mixture(states: Sequence[State], weights: Sequence[float]) -> State:
    """Mix states on the same panels with the given probabilities."""
    if len(states) == 1:
        return states[0]
    parts = [s.shifted(float(np.log(w))) for s, w in zip(states, weights, strict=True) if w > 0]
    with np.errstate(divide="ignore"):
        return State(
            np.logaddexp.reduce([part.log_values for part in parts]),
            np.logaddexp.reduce([part.log_atoms for part in parts]),
        )


def first_step(step: NoisyMap, panels: Panels, start: float) -> State:
    """State after one step from a point: exact, in log space."""
    point = np.array(start)
    low, high = panels.edges[0], panels.edges[-1]
    atoms = [float(step.log_beyond(low, -1, point)), float(step.log_beyond(high, 1, point))]
    return State(step.log_kernel(panels.nodes, point), np.array(atoms))


class DenseOperator:
    """Some ``steps`` as a stochastic matrix on masses: the low atom, the nodes, the high atom.

    Column sums (the target is first) are made exactly 1 (they are 1 but for quadrature and
    rounding), here and after every multiplication: repeated squaring would lose mass otherwise.
    Sums are taken panel by panel, of ``order`` nodes, which rounds less.
    """

    def __init__(self, matrix: Array, order: int, steps: int = 1) -> None:
        self.matrix, self.order, self.steps = matrix, order, steps
        blocks = matrix[1:-1].reshape(-1, order, matrix.shape[1]).sum(axis=1)
        self.matrix /= matrix[0] + matrix[-1] + blocks.sum(axis=0)

    @property
    def terms(self) -> int:
        """Largest number of roundings of a sum over sources, here and in a column."""
        return 2 * (self.order + (len(self.matrix) - 2) // self.order + 3)

    @classmethod
    def of(cls, step: NoisyMap, panels: Panels, absorbing: tuple[bool, bool]) -> DenseOperator:
        """Build the operator of one step; ``absorbing`` says which atoms (low, high) never move."""
        low, high = panels.edges[0], panels.edges[-1]
        places = np.concatenate([[low], panels.nodes.ravel(), [high]])
        matrix = np.empty((places.size, places.size))
        matrix[1:-1] = panels.weights.reshape(-1, 1) * step.kernel(places[1:-1, None], places)
        matrix[0] = np.exp(step.log_beyond(low, -1, places))
        matrix[-1] = np.exp(step.log_beyond(high, 1, places))
        for index, stays in zip((0, -1), absorbing, strict=True):
            if stays:
                matrix[:, index] = 0
                matrix[index, index] = 1
        return cls(matrix, panels.order)

    def __matmul__(self, other: DenseOperator) -> DenseOperator:
        return DenseOperator(self.on(other.matrix), self.order, self.steps + other.steps)

    def on(self, masses: Array) -> Array:
        """Return the product with masses, shape (places,) or (places, k), summed by panels."""
        columns = masses if masses.ndim == 2 else masses[:, None]
        inner = self._blocks @ columns[1:-1].reshape(-1, self.order, columns.shape[1])
        total = inner.sum(axis=0)
        total += self.matrix[:, :1] * columns[:1] + self.matrix[:, -1:] * columns[-1:]
        return np.asarray(total.reshape((-1, *masses.shape[1:])))

    @cached_property
    def _blocks(self) -> Array:
        """The columns of each panel, shape (panels, places, order)."""
        inner = self.matrix[:, 1:-1].reshape(self.matrix.shape[0], -1, self.order)
        return np.ascontiguousarray(inner.transpose(1, 0, 2))

    def power(self, times: int) -> DenseOperator:
        """Apply the step ``times`` times (at least once), by repeated squaring.

        It ends early where the starting place is forgotten: further steps change nothing then.
        """
        result: DenseOperator | None = None
        square = self
        while True:
            if times & 1:
                result = square if result is None else square @ result
            times >>= 1
            if times == 0:
                assert result is not None
                return result
            square = square @ square
            if square.is_stationary:
                return square

    @property
    def is_stationary(self) -> bool:
        """True if all columns are one but for rounding, so that no further step matters."""
        one, other = float(self.matrix[0, 0]), float(self.matrix[0, -1])
        if abs(other - one) > EQUAL * one:
            return False  # the farthest starts differ, as they do in most cases
        first = self.matrix[:, :1]
        return bool(np.all(np.abs(self.matrix - first) <= EQUAL * first))

    @cached_property
    def contraction(self) -> float:
        """Factor by which the matrix brings laws closer in Hilbert's metric; 1 if unknown.

        If no row's largest entry is above rho times its smallest, it is (rho - 1)/(rho + 1) at most
        (Birkhoff 1957), and any two laws are at a distance of 2 log(rho) afterwards. Laws closer
        than d are the same up to factors e^d.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            apart = np.abs(np.log(self.matrix[:, 0] / self.matrix[:, -1])).max()
            if not apart <= _FARTHEST:  # as the farthest starts are in most cases
                return 1.0
            rho = float(np.max(self.matrix.max(axis=1) / self.matrix.min(axis=1)))
        return (rho - 1) / (rho + 1) if rho < math.inf else 1.0

    def memory(self) -> float:
        """Return the number of applications after which the start is forgotten but for rounding.

        Infinite where it is not known.
        """
        factor = self.contraction
        if factor >= 1:
            return math.inf
        # two laws, each as far from the stationary one
        left = 4 * math.log((1 + factor) / (1 - factor))
        if left <= EQUAL:
            return 1
        return 1 + math.ceil(math.log(EQUAL / left) / math.log(factor))

    def apply(self, state: State, panels: Panels, times: int = 1) -> State:
        """Apply the matrix to a state ``times`` times."""
        return state_of(self.moved(masses_of(state, panels), times, lambda _: False)[0], panels)

    def moved(
        self, masses: Array, times: int, squares: Callable[[int], bool]
    ) -> tuple[Array, float]:
        """Apply the matrix to masses ``times`` times."""
        operator, counted = self, float(times * self.steps)
        while squares(times):
            if times & 1:
                masses = operator.on(masses)
            times >>= 1
            operator = operator @ operator
            if operator.contraction < 1:
                # d <= contraction d + 2 (errors of one application), as a geometric series
                factor = operator.contraction
                fresh = 2 * operator.steps / (1 - factor)
                counted = min(counted, fresh + counted * factor**times)
            times = int(min(times, operator.memory()))  # more change nothing
        for _ in range(times):
            masses = operator.on(masses)
        return masses, counted


def masses_of(state: State, panels: Panels) -> Array:
    """Return the masses that a `DenseOperator` works on: the low atom, the nodes, the high atom."""
    return np.concatenate(
        [
            [np.exp(state.log_atoms[0])],
            np.exp(state.log_values).ravel() * panels.weights.ravel(),
            [np.exp(state.log_atoms[1])],
        ]
    )


def state_of(masses: Array, panels: Panels) -> State:
    """Return the state of which `masses_of` are the masses."""
    with np.errstate(divide="ignore"):
        logs = np.log(masses)
    values = logs[1:-1].reshape(panels.nodes.shape) - np.log(panels.weights)
    return State(values, logs[[0, -1]])
