"""Meeting times of two copies of one chain under maximal reflection coupling.

The probability that two chains with the same c-Lipschitz updates, from points at most r apart, have
not met after k steps is at most h_k(r): h_0(r) = 1 for r > 0, and h_(k+1)(r) = E h_k(c r + 2 s Z)
with h_k extended to an odd function that is constant beyond D (Lemma 1 of "Our own theorems" in the
documentation). It is the law of a walk that is killed at 0 and held at D; two walks clamped to an
interval of length D, started from its two ends, attain it.

Quadrature. The means of h_k are integrals of F(r') = (N(r'; rho) - N(r'; -rho)) h_k(r'). Both
factors are Gaussian averages, of weights and of values of at most 1, so that with d = 2 s
|F(r' + i t)| <= 2 e^((1 + c^2) t^2/2d^2)/(d sqrt(2 pi)). By Trefethen (2008, Theorem 4.5),
Gauss-Legendre quadrature with n nodes on a panel of width w errs, for every rho > 1, by at most

    (w/2) (64/15) 2 e^((1 + c^2) b^2/2d^2)/(d sqrt(2 pi)) rho^(-2n)/(1 - rho^-2),

with b = w (rho - 1/rho)/4. Weights are positive and sum to at most 1 but for that, so that errors
of steps add up. Rounding is relative: all terms are positive.
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
_ORDERS = range(12, 42, 2)  # nodes of a panel that are tried
_ERROR = 1e-18  # of the quadratures of all steps, that they are chosen for
_RHOS = np.geomspace(1.5, 30.0, 60)
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
        """Return upper bounds on `survival`, each from its own distance."""
        order, error = self._order(distances.size)
        steps = np.arange(1.0, distances.size + 1)
        return self._raised(self.survival(distances, order), order, error, steps)

    def chances(self, distances: Array, stride: int, count: int) -> Array:
        """Return upper bounds on the survival probability after stride, 2 stride, ... steps.

        Shape (count, distances); like `bounds`, for all starts at once.
        """
        order, error = self._order(stride * count)
        operator, places, panels = self._operator(order)
        first = self.rows(np.minimum(distances, self.top), panels)
        leap = np.linalg.matrix_power(operator, stride)
        state = np.linalg.matrix_power(operator, stride - 1) @ np.ones(places.size)
        result = np.empty((count, distances.size))
        for j in range(count):
            result[j] = first @ state
            state = leap @ state
        steps = stride * np.arange(1.0, count + 1)[:, None]
        return self._raised(result, order, error, steps)

    def _order(self, steps: int) -> tuple[int, float]:
        """Return the number of nodes of a panel, and a bound on the error of a step."""
        b = _WIDTH * (_RHOS - 1 / _RHOS) / 4
        growth = (1 + self.contraction**2) * b**2 / 2 - np.log1p(-(_RHOS**-2))
        count = self.top / (_WIDTH * self.deviation) + 1
        for order in _ORDERS:
            rate = math.exp(float(np.min(growth - 2 * order * np.log(_RHOS))))
            # panels may be wider by a share of 1e-12
            error = 1.001 * count * _WIDTH * 64 / 15 * rate / math.sqrt(2 * math.pi)
            if steps * error <= _ERROR:
                break
        return order, error

    def _raised(self, values: Array, order: int, error: float, steps: Array) -> Array:
        """Return computed probabilities with what quadrature and rounding may have taken."""
        nodes = (self.top / (_WIDTH * self.deviation) + 1) * order
        result = values * (1 + 4 * _UNIT * (nodes + 64) * steps) + steps * error + _SMALLEST
        return np.asarray(np.minimum(result, 1.0))


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
