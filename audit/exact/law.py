"""The law of a one-dimensional iterate: a mixture of normals between two ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.exact.tables import UNIT, Normals, edge_table, log_tail
from audit.numerics.normal import log_interval

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Law(Normals):
    """Law of an iterate: normals, whose mass beyond the two ends is projected onto them.

    After the last step of noise the law is a mixture of normals around the images of the nodes of
    the state before, clamped to the domain. Its true density is within the factor e^(+-error) of
    the computed one, with the error of `error_at`, up to a lost mass.

    Attributes
    ----------
    means, stds, log_masses : ndarray
        The normals, in the order of their means, shape ``(k,)`` each.
    lower, upper : float
        Ends of the domain; infinite for none.
    log_stuck : tuple of (float, float)
        Log masses that earlier steps left at absorbing ends.
    quadrature, rounding : float
        Bounds on the relative errors of quadrature and of rounding, everywhere.
    depth_rounding : float
        Bound on the relative error of rounding for each unit of -log density besides.
    log_lost : float
        Log of a bound on the mass that was left out.
    estimated : bool
        Whether ``quadrature`` is only an estimate, from which nothing is certified.
    exact_means : bool
        Whether means and deviations are given numbers, rather than rounded ones.
    slip : float
        Bound on the errors of means, in deviations, and on relative errors of deviations.
    """

    lower: float = -math.inf
    upper: float = math.inf
    log_stuck: tuple[float, float] = (-math.inf, -math.inf)
    quadrature: float = 0.0
    rounding: float = 0.0
    depth_rounding: float = 0.0
    log_lost: float = -math.inf
    estimated: bool = False
    slip: float = 0.0

    @classmethod
    def of(cls, means: Array, stds: Array, log_masses: Array, **others: object) -> Law:
        """Return the law of normals in any order; those without mass are left out.

        Parameters
        ----------
        means, stds, log_masses : ndarray
            The normals, shape ``(k,)`` each.
        **others : object
            Other attributes.

        Returns
        -------
        Law
            The law.
        """
        kept = np.flatnonzero(log_masses > -np.inf)
        rank = kept[np.argsort(means[kept], kind="stable")]
        return cls(means[rank], stds[rank], log_masses[rank], **others)  # type: ignore[arg-type]

    @property
    def exact(self) -> bool:
        """Whether the law is that of its normals, on a line, but for relative errors of weights."""
        on_line = self.lower == -math.inf and self.upper == math.inf
        errors = self.quadrature, self.depth_rounding, self.slip, math.exp(self.log_lost)
        return on_line and self.means.size > 0 and max(errors) == 0

    @property
    def lost_mass(self) -> float:
        """Bound on the mass that was left out."""
        return math.exp(self.log_lost)

    def error_at(self, log_density: Array, square: Array | float = 0.0) -> Array:
        """Bound the error of log densities at points, and of log masses around them.

        Parameters
        ----------
        log_density : ndarray
            Log densities, or log masses, shape ``(n,)``.
        square : array_like, default: 0.0
            Mean squared distance from the means that lead there, in standard deviations.

        Returns
        -------
        ndarray
            Bounds, shape ``(n,)``.
        """
        depth = self.depth_rounding * np.maximum(-log_density, 0.0)
        own = UNIT * (32 + 3 * np.asarray(square) + 2 * np.abs(log_density))
        own = own + self.position_error * (1 + np.sqrt(square))
        own = own + 2 * self.slip * (1 + np.sqrt(square) + square)
        return np.asarray(self.quadrature + self.rounding + np.where(depth < 1, depth, 1.0) + own)

    @cached_property
    def log_atoms(self) -> tuple[float, float]:
        """Logarithms of the probabilities of the two ends."""
        low, high = log_tail(self, self.lower, -1), log_tail(self, self.upper, 1)
        stuck = self.log_stuck
        return float(np.logaddexp(low, stuck[0])), float(np.logaddexp(high, stuck[1]))

    @property
    def atoms(self) -> tuple[float, float]:
        """Probabilities of the lower and the upper end of the domain."""
        low, high = self.log_atoms
        return math.exp(low), math.exp(high)

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
        result = np.full(flat.shape, -np.inf)
        if self.means.size:
            rank = np.argsort(flat)
            result[rank] = edge_table(self, flat[rank], tails=False).log_density
        outside = (flat < self.lower) | (flat > self.upper)
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
        if low > high:
            return -math.inf
        parts = [
            atom
            for end, atom in zip((self.lower, self.upper), self.log_atoms, strict=True)
            if low <= end <= high
        ]
        a, b = max(low, self.lower), min(high, self.upper)
        if a < b and self.means.size:
            logs = log_interval((a - self.means) / self.stds, (b - self.means) / self.stds)
            parts.append(float(np.logaddexp.reduce(self.log_masses + logs)))
        return float(np.logaddexp.reduce(parts)) if parts else -math.inf

    def probability(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Return the probability of the closed interval [low, high].

        Parameters
        ----------
        low : float, default: -inf
            Lower end of the interval.
        high : float, default: inf
            Upper end of the interval.

        Returns
        -------
        float
            The probability.
        """
        return math.exp(self.log_probability(low, high))

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
        values = [self.probability(high=point) for point in points.ravel().tolist()]
        return np.array(values).reshape(points.shape)
