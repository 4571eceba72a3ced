"""Meeting times of two copies of one chain under maximal reflection coupling.

The probability that two chains with the same c-Lipschitz updates, from points at most r apart, have
not met after k steps is at most h_k(r): h_0(r) = 1 for r > 0, and h_(k+1)(r) = E h_k(c r + 2 s Z)
with h_k extended to an odd function that is constant beyond D (Lemma 1 of "Our own theorems" in the
documentation). It is the law of a walk that is killed at 0 and held at D; two walks clamped to an
interval of length D, started from its two ends, attain it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from audit.bounds.accounting.shift_allocation import geometric
from audit.numerics.arrays import Array
from audit.numerics.normal import log_density
from audit.numerics.panels import Panels

_WIDTH = 3.0  # width of a panel, in deviations of the walk
_ORDERS = (12, 11)  # nodes of a panel; four per deviation leave only rounding errors
_LONGEST = 50.0  # steps are merged on a domain of more deviations
_LOST = 12.0  # deviations of the stationary walk beyond which two chains count as never meeting
_UNIT = 2.0**-52
_SMALLEST = 1e-290


@dataclass(frozen=True)
class KilledWalk:
    """Walk of the distance: multiplied by c, plus 2 s Z, killed at 0.

    contraction: Contraction c of one step, in [0, 1].
    deviation: Standard deviation 2 s.
    top: Distance at which the walk is held.
    absorbed: Whether chains at that distance count as never meeting.
    """

    contraction: float
    deviation: float
    top: float
    absorbed: bool = False

    def merged(self, count: int) -> KilledWalk:
        """Return ``count`` steps as one, held at the top only after the last of them.

        This increases the distance, and so the survival probability.
        """
        c = self.contraction
        spread = float(geometric(2 * math.log(c), count)) if c > 0 else 1.0
        deviation = self.deviation * math.sqrt(spread)
        return KilledWalk(c**count, deviation, self.top, self.absorbed)

    def rows(self, distance: Array, panels: Panels) -> Array:
        """Return the weights of each node, and of the top, from each distance, one row each."""
        nodes, weights = panels.nodes.ravel(), panels.weights.ravel()
        rho = self.contraction * distance[:, None]
        scale = self.deviation
        # N(r'; rho) - N(r'; -rho) without cancellation
        density = np.exp(log_density((nodes - rho) / scale)) / scale
        density *= -np.expm1(-2 * rho * nodes / scale**2)
        x = (self.top - rho[:, 0]) / scale
        upper = ndtr(-x)
        with np.errstate(divide="ignore"):
            other = log_ndtr(-(self.top + rho[:, 0]) / scale) - log_ndtr(-x)
        upper = upper * -np.expm1(np.minimum(other, 0.0))
        return np.concatenate([density * weights, upper[:, None]], axis=1)

    def _operator(self, order: int) -> tuple[Array, Array, Panels]:
        """Return the walk's operator on nodes and the top, these points, and the nodes' panels."""
        panels = Panels.covering(0.0, self.top, _WIDTH * self.deviation, order)
        places = np.append(panels.nodes.ravel(), self.top)
        operator = self.rows(places, panels)
        if self.absorbed:
            operator[-1] = 0.0
            operator[-1, -1] = 1.0
        return operator, places, panels

    def survival(self, distances: Array, order: int) -> Array:
        """Return the survival probability after 1, 2, ... steps, each from its own distance."""
        operator, places, panels = self._operator(order)
        count = distances.size
        size = max(math.isqrt(count), 1)
        leap = np.linalg.matrix_power(operator, size)
        # survival after 0, size, 2 size, ... steps, from every point
        alive = np.ones((places.size, -(-count // size)))
        for j in range(1, alive.shape[1]):
            alive[:, j] = leap @ alive[:, j - 1]
        # from one distance: the same row, after 0..size - 1 more steps
        row = np.empty((size, places.size))
        row[0] = self.rows(distances[:1], panels)[0]
        for i in range(1, size):
            row[i] = row[i - 1] @ operator
        result = (row @ alive).T.ravel()[:count]
        others = np.flatnonzero(distances != distances[0])
        first = int(others[0]) // size * size if others.size else count
        # blocks of ``size`` numbers of steps, all blocks side by side
        starts = np.arange(first, count, size)
        states = np.ascontiguousarray(alive[:, starts // size])
        for i in range(size if starts.size else 0):
            at = starts[starts + i < count] + i
            rows = self.rows(distances[at], panels)
            result[at] = np.einsum("ij,ji->i", rows, states[:, : at.size])
            states = operator @ states
        return np.asarray(result)

    def bounds(self, distances: Array) -> Array:
        """Return upper bounds on `survival`, each from its own distance.

        The difference between two numbers of nodes is added, and a bound on rounding: all terms are
        positive, so each step adds a relative error of some units per node.
        """
        fine, coarse = (self.survival(distances, order) for order in _ORDERS)
        nodes = (self.top / (_WIDTH * self.deviation) + 1) * _ORDERS[0]
        rounding = 4 * _UNIT * (nodes + 64) * np.arange(1, distances.size + 1)
        result = np.maximum(fine, coarse) + np.abs(fine - coarse)
        return np.asarray(np.minimum(result * (1 + rounding) + _SMALLEST, 1.0))

    def chances(self, distances: Array, stride: int, count: int) -> Array:
        """Return upper bounds on the survival probability after stride, 2 stride, ... steps.

        Shape (count, distances); like `bounds`, for all starts at once.
        """
        fine, coarse = (self._chances(distances, stride, count, order) for order in _ORDERS)
        nodes = (self.top / (_WIDTH * self.deviation) + 1) * _ORDERS[0]
        rounding = 4 * _UNIT * (nodes + 64) * stride * np.arange(1, count + 1)[:, None]
        result = np.maximum(fine, coarse) + np.abs(fine - coarse)
        return np.asarray(np.minimum(result * (1 + rounding) + _SMALLEST, 1.0))

    def _chances(self, distances: Array, stride: int, count: int, order: int) -> Array:
        operator, places, panels = self._operator(order)
        first = self.rows(np.minimum(distances, self.top), panels)
        leap = np.linalg.matrix_power(operator, stride)
        state = np.linalg.matrix_power(operator, stride - 1) @ np.ones(places.size)
        result = np.empty((count, distances.size))
        for j in range(count):
            result[j] = first @ state
            state = leap @ state
        return result


def walk_of(contraction: float, noise: float, diameter: float, start: float) -> KilledWalk:
    """Return the walk of the distance of two chains that start at most ``start`` apart.

    If the domain is unbounded or large, the walk ends well beyond its typical range.
    """
    deviation = 2 * noise
    top = diameter
    if contraction < 1:
        spread = deviation / math.sqrt((1 - contraction) * (1 + contraction))
        top = min(top, start + _LOST * spread)
    return KilledWalk(contraction, deviation, top, absorbed=top < diameter)


def merge_count(walk: KilledWalk) -> int:
    """Return the number of steps to merge, so that the domain is at most 50 deviations wide."""
    return max(int((walk.top / walk.deviation / _LONGEST) ** 2), 1)


def forgotten_after(walk: KilledWalk, smallest: float) -> int:
    """Return about how many steps reduce the survival probability below ``smallest``."""
    width = walk.top / walk.deviation + 0.5
    rate = math.pi**2 / 8 / width**2
    if walk.contraction < 1:
        rate = max(rate, -math.log(max(walk.contraction, 1e-300)))
    return math.ceil(-math.log(smallest) / min(rate, 40.0)) + 8
