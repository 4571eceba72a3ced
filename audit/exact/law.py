"""The law of a one-dimensional iterate: a density between two ends, and an atom at each end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from audit.numerics.panels import Panels, gauss_legendre, interpolate_log
from audit.numerics.transfer import State

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Law:
    """Computed law of an iterate.

    Attributes
    ----------
    panels : Panels
        Panels on which the density is stored.
    state : State
        Log densities on the panels, and log masses of the atoms at the two ends.
    lost_mass : float
        Upper bound on the probability outside of a truncated line; 0 on a bounded domain.
    relative_error : float
        Bound on the relative rounding error of every value.
    reach : float, default: np.inf
        Noise beyond this number of standard deviations of a step was neglected; infinite if none
        was.
    followed : ndarray of bool, optional
        Whether the noise was computed as far as the values on each panel need; None if so on all.
        Values elsewhere, in the farthest tails, are too small by unknown factors.
    """

    panels: Panels
    state: State
    lost_mass: float
    relative_error: float
    reach: float = np.inf
    followed: NDArray[np.bool_] | None = None

    @property
    def atoms(self) -> tuple[float, float]:
        """Probabilities of the lower and the upper end of the domain."""
        low, high = np.exp(self.state.log_atoms)
        return float(low), float(high)

    @property
    def least(self) -> float:
        """Logarithm of the smallest mass at a node or an end where the domain has one."""
        masses = float(np.min(self.state.log_values + np.log(self.panels.weights)))
        atoms = [a for a in self.log_atoms if a > -np.inf or self.lost_mass == 0]
        return min([masses, *atoms])

    @property
    def log_atoms(self) -> tuple[float, float]:
        """Logarithms of the atoms, for atoms too small for a double."""
        return float(self.state.log_atoms[0]), float(self.state.log_atoms[1])

    def log_density(self, x: ArrayLike) -> Array:
        """Return the log density.

        It is -inf outside of the domain, and does not include the atoms.

        Parameters
        ----------
        x : array_like
            Points, of any shape.

        Returns
        -------
        ndarray
            Values, shape of ``x``.
        """
        points = np.asarray(x, dtype=np.float64)
        flat = points.ravel()
        index, place = self.panels.locate(flat)
        result = np.empty(flat.shape)
        for panel in np.unique(index):
            chosen = index == panel
            result[chosen] = interpolate_log(self.state.log_values[panel], place[chosen])
        outside = (flat < self.panels.edges[0]) | (flat > self.panels.edges[-1])
        return np.where(outside, -np.inf, result).reshape(points.shape)

    def density(self, x: ArrayLike) -> Array:
        """Return the density.

        Parameters
        ----------
        x : array_like
            Points, of any shape.

        Returns
        -------
        ndarray
            Values, shape of ``x``.
        """
        return np.asarray(np.exp(self.log_density(x)))

    def log_probability(self, low: float, high: float) -> float:
        """Return the log probability of the closed interval [low, high].

        It is relatively accurate in the tails.

        Parameters
        ----------
        low, high : float
            Ends of the interval.

        Returns
        -------
        float
            The log probability.
        """
        edges = self.panels.edges
        a, b = max(low, float(edges[0])), min(high, float(edges[-1]))
        if a > b:
            return -np.inf
        parts = []
        for end, log_atom in zip(edges[[0, -1]], self.state.log_atoms, strict=True):
            if low <= end <= high:
                parts.append(np.array([log_atom]))
        inside = (edges[:-1] >= a) & (edges[1:] <= b)
        logs = self.state.log_values + np.log(self.panels.weights)
        parts.append(logs[inside].ravel())
        partly = ~inside & (edges[1:] > a) & (edges[:-1] < b)
        nodes, weights = gauss_legendre(self.panels.order)
        for panel in np.flatnonzero(partly):
            left, right = max(a, edges[panel]), min(b, edges[panel + 1])
            half = 0.5 * (right - left)
            points = 0.5 * (left + right) + half * nodes
            parts.append(self.log_density(points) + np.log(half * weights))
        joined = np.concatenate(parts)
        return float(logsumexp(joined)) if joined.size else -np.inf

    def probability(self, low: float = -np.inf, high: float = np.inf) -> float:
        """Return the probability of the closed interval [low, high].

        Parameters
        ----------
        low : float, default: -np.inf
            Lower end of the interval.
        high : float, default: np.inf
            Upper end of the interval.

        Returns
        -------
        float
            The probability.
        """
        return float(np.exp(self.log_probability(low, high)))

    def cdf(self, x: ArrayLike) -> Array:
        """Return the probability of being at most ``x``.

        Parameters
        ----------
        x : array_like
            Points, of any shape.

        Returns
        -------
        ndarray
            Values, shape of ``x``.
        """
        points = np.asarray(x, dtype=np.float64)
        values = [self.probability(high=float(point)) for point in points.ravel()]
        return np.array(values).reshape(points.shape)
