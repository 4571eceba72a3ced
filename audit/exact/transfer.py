"""Transfer operators of steps on an interval with a wall at each end.

A state is a density on panels and an atom at each end of the interval. One step maps it by one of
a few maps, adds Gaussian noise and projects what leaves the interval onto its ends. On the Legendre
nodes of panels that are a few noise standard deviations wide this is a matrix with positive
entries, accurate to rounding, so that even the far tails keep their relative accuracy.

Two forms: `DenseOperator` (plain doubles; powers by repeated squaring) for short intervals, and
`audit.exact.banded.BandedOperator` for long ones and deep tails. Each moves states in its own form,
which ``load`` and ``unload`` convert and ``total`` adds up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from audit.constructions.process import Step
from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_sum
from audit.numerics.normal import log_density
from audit.numerics.panels import Panels

# Relative; less than the rounding that two steps are counted with in the laws' error bounds.
MEMORY_ERROR = 2.0**-48
# Logarithm of the ratio of two starts' laws: farther apart, it is cheaper to square once more.
_MAX_LOG_RATIO = 3.0
# Measured costs in seconds of a multiply-add in a matrix product and in a product with a vector, of
# a matrix entry in scaling and comparing columns, and of calling for either.
_PRODUCT_COST, _VECTOR_COST, _ENTRY_COST = 3.6e-11, 1.1e-10, 8e-10
_PRODUCT_CALL, _VECTOR_CALL = 1e-5, 1e-6


def log_kernel(step: Step, target: Array, source: Array) -> Array:
    """Log density of landing at ``target`` from ``source`` (broadcast against each other)."""
    std = step.noise_std
    terms = [
        np.log(weight / std) + log_density((target - phi(source)) / std)
        for phi, weight in zip(step.maps, step.weights, strict=True)
        if weight > 0
    ]
    return terms[0] if len(terms) == 1 else log_sum(np.stack(terms, axis=-1))


def log_beyond(step: Step, end: float, side: int, source: Array) -> Array:
    """Log probability of landing at or beyond ``end``: above it (side 1) or below (-1)."""
    terms = [
        np.log(weight) + log_ndtr(side * (phi(source) - end) / step.noise_std)
        for phi, weight in zip(step.maps, step.weights, strict=True)
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
    parts = [s.shifted(float(np.log(w))) for s, w in zip(states, weights, strict=True) if w > 0]
    with np.errstate(divide="ignore"):
        return State(
            np.logaddexp.reduce([part.log_values for part in parts]),
            np.logaddexp.reduce([part.log_atoms for part in parts]),
        )


def first_step(step: Step, panels: Panels, start: float) -> State:
    """State after one step from a point: exact, in log space."""
    point = np.array(start)
    ends = zip(panels.edges[[0, -1]].tolist(), (-1, 1), strict=True)
    atoms = [float(log_beyond(step, end, side, point)) for end, side in ends]
    return State(log_kernel(step, panels.nodes, point), np.array(atoms))


def squaring_pays(times: int, size: int) -> bool:
    """Whether to square a matrix costs less than half of the steps that are left."""
    product = size**2 * (size * _PRODUCT_COST + _ENTRY_COST) + _PRODUCT_CALL
    return times / 2 * (size**2 * _VECTOR_COST + _VECTOR_CALL) > product


class DenseOperator:
    """A stochastic matrix on masses: the low atom, the nodes, the high atom.

    It has the relative errors of so many ``steps``.

    Column sums (the target is first) are made exactly 1 (they are 1 but for quadrature and
    rounding), here and after every multiplication: repeated squaring would lose mass otherwise.
    Sums are taken panel by panel, of ``order`` nodes, which rounds less.
    """

    def __init__(self, matrix: Array, order: int, steps: float = 1.0) -> None:
        blocks = matrix[1:-1].reshape(-1, order, matrix.shape[1]).sum(axis=1)
        self.matrix = matrix / (matrix[0] + matrix[-1] + blocks.sum(axis=0))
        self.order, self.steps = order, steps

    @property
    def terms(self) -> int:
        """Largest number of roundings of a sum over sources, here and in a column."""
        return 2 * (self.order + (len(self.matrix) - 2) // self.order + 3)

    @classmethod
    def of(cls, step: Step, panels: Panels, absorbing: tuple[bool, bool]) -> DenseOperator:
        """Build the operator of one step; ``absorbing`` says which atoms (low, high) never move."""
        low, high = panels.edges[0], panels.edges[-1]
        places = np.concatenate([[low], panels.nodes.ravel(), [high]])
        matrix = np.zeros((places.size, places.size))
        for phi, weight in zip(step.maps, step.weights, strict=True):
            z = (places[1:-1, None] - phi(places)) / step.noise_std
            matrix[1:-1] += (weight / step.noise_std) * np.exp(log_density(z))
        matrix[1:-1] *= panels.weights.reshape(-1, 1)
        matrix[0] = np.exp(log_beyond(step, low, -1, places))
        matrix[-1] = np.exp(log_beyond(step, high, 1, places))
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
        """Apply the step ``times`` times (at least once)."""
        matrix, steps = self.moved(self.matrix, times - 1)
        return DenseOperator(matrix, self.order, steps + self.steps)

    @cached_property
    def contraction(self) -> float:
        """Factor by which the matrix brings laws closer in Hilbert's metric; 1 if unknown.

        If no row's largest entry is above rho times its smallest, it is (rho - 1)/(rho + 1) at most
        (Birkhoff 1957), and any two laws are at a distance of 2 log(rho) afterwards. Laws closer
        than d are the same up to factors e^d.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            apart = np.abs(np.log(self.matrix[:, 0] / self.matrix[:, -1])).max()
            if not apart <= _MAX_LOG_RATIO:  # as the farthest starts are in most cases
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
        if left <= MEMORY_ERROR:
            return 1
        return 1 + math.ceil(math.log(MEMORY_ERROR / left) / math.log(factor))

    def moved(self, masses: Array, times: int) -> tuple[Array, float]:
        """Apply the matrix to masses ``times`` times; return how many errors of steps remain."""
        operator, counted = self, times * self.steps
        columns = masses[:1].size
        while times > 1 and squaring_pays(times * columns, len(self.matrix)):
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

    def carry(self, parts: Mapping[int, Array], times: int) -> tuple[dict[int, Array], float]:
        """Apply the matrix to the masses of each memory, as `moved`."""
        columns, counted = self.moved(np.stack(list(parts.values()), axis=1), times)
        return dict(zip(parts, columns.T, strict=True)), counted

    @staticmethod
    def load(state: State, panels: Panels) -> Array:
        """Return the masses of a state."""
        inner = np.exp(state.log_values).ravel() * panels.weights.ravel()
        low, high = np.exp(state.log_atoms)
        return np.concatenate([[low], inner, [high]])

    @staticmethod
    def unload(masses: Array, panels: Panels) -> State:
        """Return the state of masses."""
        with np.errstate(divide="ignore"):
            logs = np.log(masses)
        values = logs[1:-1].reshape(panels.nodes.shape) - np.log(panels.weights)
        return State(values, logs[[0, -1]])

    @staticmethod
    def total(parts: Sequence[tuple[float, Array]]) -> Array:
        """Return the sum of masses, each times its weight."""
        return np.asarray(np.sum([weight * masses for weight, masses in parts], axis=0))
