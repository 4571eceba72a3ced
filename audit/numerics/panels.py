"""Gauss-Legendre panels on an interval: quadrature, and interpolation in log space."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from audit.numerics.arrays import Array

# Ratio of the last coefficients of an interpolant to those before, as far as it is believed.
_FASTEST, _SLOWEST = 0.05, 0.9
_ROUNDING = 2.0**-52  # of interpolated values, relative to the largest
_SAFETY = 16.0  # errors are up to 11 times what such series give


@cache
def gauss_legendre(order: int) -> tuple[Array, Array]:
    """Nodes and weights of the Gauss-Legendre rule on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


@cache
def _barycentric_weights(order: int) -> Array:
    """Weights of barycentric interpolation at Legendre nodes (Wang and Xiang 2012)."""
    nodes, weights = gauss_legendre(order)
    signs = (-1.0) ** np.arange(order)
    return np.asarray(signs * np.sqrt((1 - nodes**2) * weights))


def interpolate(values: Array, points: Array) -> Array:
    """Value at ``points`` in [-1, 1] of the polynomial through ``values`` at Legendre nodes.

    ``values`` has shape (n,), ``points`` any shape; barycentric form, stable for n in the tens.
    """
    order = values.shape[0]
    nodes, _ = gauss_legendre(order)
    gaps = points[..., None] - nodes
    hit = gaps == 0
    terms = _barycentric_weights(order) / np.where(hit, 1.0, gaps)
    result = (terms @ values) / terms.sum(axis=-1)
    return np.asarray(np.where(hit.any(axis=-1), hit @ values, result))


def interpolate_log(logs: Array, points: Array) -> Array:
    """Interpolate a positive function that is given by its logarithms at Legendre nodes.

    ``logs`` has shape (n,), ``points`` any shape; see `LogInterpolants`.
    """
    at = LogInterpolants(logs[None])
    found = at(np.zeros(1, dtype=np.intp), points.reshape(1, -1))
    return np.asarray(found.reshape(points.shape))


class LogInterpolants:
    """Interpolants of positive functions that are given by their logarithms at Legendre nodes.

    Each function is divided by an exponential through its end nodes before, and multiplied after:
    polynomials then keep the relative accuracy where the function falls by many orders over a
    panel. (Its logarithm itself may have singularities close by, so it is not interpolated.)

    Parameters
    ----------
    logs
        The logarithms, shape (..., functions, n); -inf where a function vanishes.

    Attributes
    ----------
    factors
        What is left of the functions at the nodes, of which the largest is 1; shape of ``logs``.
    slopes, tops
        Of the logarithm of what was divided by, ``tops + slopes * x`` on [-1, 1], shape (...,
        functions).
    """

    def __init__(self, logs: Array) -> None:
        nodes, _ = gauss_legendre(logs.shape[-1])
        finite = np.isfinite(logs)
        some = finite.any(axis=-1)
        ends = np.stack([finite.argmax(-1), nodes.size - 1 - finite[..., ::-1].argmax(-1)], axis=-1)
        run = np.diff(nodes[ends], axis=-1)[..., 0]
        with np.errstate(invalid="ignore"):  # of functions that vanish everywhere
            rise = np.diff(np.take_along_axis(logs, ends, axis=-1), axis=-1)[..., 0]
            self.slopes = np.where(some & (run > 0), rise / np.where(run > 0, run, 1.0), 0.0)
            tilted = logs - self.slopes[..., None] * nodes
        self.tops = tilted.max(axis=-1)
        self.factors = np.exp(tilted - np.where(some, self.tops, 0.0)[..., None])

    @property
    def errors(self) -> Array:
        """Estimated bounds on errors of the factors between nodes, shape (..., functions).

        The Legendre coefficients beyond the last are taken to fall like a geometric series, by the
        slower of the ratios between the last three pairs of them. The smallest errors are those of
        rounding. No error of sums of normal densities was above this in 12,000 random settings.
        """
        order = self.factors.shape[-1]
        nodes, weights = gauss_legendre(order)
        basis = np.polynomial.legendre.legvander(nodes, order - 1)
        sizes = np.abs(self.factors @ (basis * weights[:, None] * (np.arange(order) + 0.5)))
        first, second, last = (
            sizes[..., max(order - k, 0) : order - k + 2].sum(axis=-1) for k in (6, 4, 2)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.fmax(second / first, last / second)
        ratio = np.clip(np.nan_to_num(ratio, nan=_SLOWEST), _FASTEST, _SLOWEST)
        rest = np.maximum(last, ratio * second) * ratio / (1 - ratio)
        return np.asarray(_SAFETY * (rest + _ROUNDING))

    def __call__(self, functions: NDArray[np.intp], points: Array) -> Array:
        """Return logarithms, shape (..., s, k).

        Parameters
        ----------
        functions
            Which functions, shape (s,).
        points
            Where in [-1, 1] each of them is taken, shape (s, k).
        """
        order = self.factors.shape[-1]
        nodes, _ = gauss_legendre(order)
        gaps = points[..., None] - nodes
        hit = gaps == 0
        terms = _barycentric_weights(order) / np.where(hit, 1.0, gaps)
        factors = self.factors[..., functions, :]
        values = (terms @ factors[..., None])[..., 0] / terms.sum(axis=-1)
        if hit.any():
            at_node = (hit @ factors[..., None])[..., 0]
            values = np.where(hit.any(axis=-1), at_node, values)
        tops, slopes = self.tops[..., functions, None], self.slopes[..., functions, None]
        # an interpolant may dip below zero only where the function is lost in rounding
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(values, 0.0)) + tops + slopes * points)


@dataclass(frozen=True, eq=False)
class Panels:
    """Panels between ``edges``, each with ``order`` Legendre nodes.

    ``nodes`` and ``weights`` have shape (panels, order).
    """

    edges: Array
    order: int
    nodes: Array = field(init=False)
    weights: Array = field(init=False)

    def __post_init__(self) -> None:
        points, weights = gauss_legendre(self.order)
        half = 0.5 * np.diff(self.edges)[:, None]
        middle = 0.5 * (self.edges[1:] + self.edges[:-1])[:, None]
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

    def locate(self, x: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the panel of each point, and its place in that panel as a number in [-1, 1]."""
        index = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self) - 1)
        low, high = self.edges[index], self.edges[index + 1]
        return index, np.clip((2 * x - low - high) / (high - low), -1, 1)
