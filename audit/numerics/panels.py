"""Gauss-Legendre panels on an interval."""

from __future__ import annotations

import decimal
import itertools
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache

import numpy as np

from audit.numerics.arrays import Array


@cache
def gauss_legendre(order: int) -> tuple[Array, Array]:
    """Nodes and weights of the Gauss-Legendre rule on [-1, 1], each within one rounding.

    NumPy's weights are computed at rounded nodes: of 24 they are off by up to 1e-13. Newton's
    method doubles the digits of NumPy's nodes, 14, in each of two steps.
    """
    nodes, weights = [], []
    with decimal.localcontext(prec=50):
        for near in np.polynomial.legendre.leggauss(order)[0].tolist():
            x = Decimal(near)
            for _ in range(3):
                value, slope = _legendre(order, x)
                weight = 2 / ((1 - x * x) * slope * slope)
                x -= value / slope
            nodes.append(float(x))
            weights.append(float(weight))
    return np.array(nodes), np.array(weights)


def _legendre(order: int, x: Decimal) -> tuple[Decimal, Decimal]:
    """Return the Legendre polynomial at a point inside of (-1, 1), and its derivative."""
    before, value = Decimal(1), x
    for k in range(2, order + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, order * (before - x * value) / (1 - x * x)


def ellipse(width: Array | float, rho: Array | float) -> tuple[Array, Array]:
    """Half-axes of the ellipse with foci at the ends of a panel: along the panel, and across."""
    return np.asarray(width * (rho + 1 / rho) / 4), np.asarray(width * (rho - 1 / rho) / 4)


def log_panel_error(order: int, width: Array | float, rho: Array | float, log_most: Array) -> Array:
    """Bound the log of the error of Gauss-Legendre quadrature with n nodes on a panel of width h.

    It is at most (h/2) (64/15) M rho^(-2n) / (1 - rho^-2) for every rho > 1, if the integrand is
    analytic and at most M = e^log_most in size on the `ellipse` (Trefethen 2008, Theorem 4.5).
    """
    rest = -2 * order * np.log(rho) - np.log1p(-1 / np.square(rho))
    return np.asarray(log_most + np.log(0.5 * width * 64 / 15) + rest)


@dataclass(frozen=True, eq=False)
class Panels:
    """Panels between ``edges`` (along the last axis), each with ``order`` Legendre nodes.

    ``nodes`` and ``weights`` have shape (..., panels, order).
    """

    edges: Array
    order: int
    nodes: Array = field(init=False)
    weights: Array = field(init=False)

    def __post_init__(self) -> None:
        points, weights = gauss_legendre(self.order)
        half = 0.5 * np.diff(self.edges)[..., None]
        middle = 0.5 * (self.edges[..., 1:] + self.edges[..., :-1])[..., None]
        object.__setattr__(self, "nodes", middle + half * points)
        object.__setattr__(self, "weights", half * weights)

    @classmethod
    def covering(
        cls, low: float, high: float, width: float, order: int, breaks: tuple[float, ...] = ()
    ) -> Panels:
        """Cover [low, high] by equal panels of at most ``width``, with edges at ``breaks``."""
        ends = [low, *sorted({b for b in breaks if low < b < high}), high]
        pieces = [
            np.linspace(a, b, max(1, int(np.ceil((b - a) / width * (1 - 1e-12)))) + 1)
            for a, b in itertools.pairwise(ends)
        ]
        edges = np.concatenate([pieces[0][:1], *(piece[1:] for piece in pieces)])
        return cls(edges, order)

    def __len__(self) -> int:
        return int(self.edges.shape[0]) - 1
