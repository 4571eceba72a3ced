"""Domains of the iterates: the whole space, a ball, or a box, centred at the origin."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate

Floats = NDArray[np.float64]


class Domain(ABC):
    """Convex set that is symmetric about the origin, in any number of dimensions.

    It consists of the points whose Euclidean norm is at most ``radius`` and whose coordinates are
    at most ``half_side`` in absolute value; either may be infinite.
    """

    @property
    def radius(self) -> float:
        """Bound on the norm of a point; infinite if there is none."""
        return math.inf

    @property
    def half_side(self) -> float:
        """Bound on the absolute coordinates; infinite if there is none."""
        return math.inf

    @abstractmethod
    def diameter_in(self, dimension: int) -> float:
        """Return the diameter of the domain.

        Parameters
        ----------
        dimension : int
            Number of coordinates d.

        Returns
        -------
        float
            Largest distance of two points; infinite for the whole space.
        """

    @abstractmethod
    def project(self, points: Floats) -> Floats:
        """Return the nearest points of the domain.

        Parameters
        ----------
        points : ndarray
            Points, shape ``(..., d)``.

        Returns
        -------
        ndarray
            Projections, shape of ``points``.
        """

    @abstractmethod
    def farthest(self, centres: Floats) -> Floats:
        """Return sup |x - a| over the domain for each centre a.

        Parameters
        ----------
        centres : ndarray
            Centres, shape ``(k, d)``.

        Returns
        -------
        ndarray
            Distances, shape ``(k,)``.
        """

    @abstractmethod
    def support(self, directions: Floats) -> Floats:
        """Return sup <u, x> over the domain for each direction u.

        Parameters
        ----------
        directions : ndarray
            Directions, shape ``(k, d)``.

        Returns
        -------
        ndarray
            Values of the support function, shape ``(k,)``.
        """

    def contains(self, point: Floats) -> bool:
        """Return whether a point is in the domain.

        Parameters
        ----------
        point : ndarray
            A point, shape ``(d,)``.

        Returns
        -------
        bool
            Whether it is.
        """
        inside = np.linalg.norm(point) <= self.radius and np.all(np.abs(point) <= self.half_side)
        return bool(inside)


@dataclass(frozen=True)
class WholeSpace(Domain):
    """The whole space: no constraint."""

    def diameter_in(self, dimension: int) -> float:
        """Infinite."""
        return math.inf

    def project(self, points: Floats) -> Floats:
        """Return the points as they are."""
        return points

    def farthest(self, centres: Floats) -> Floats:
        """Infinite for every row."""
        return np.full(len(centres), math.inf)

    def support(self, directions: Floats) -> Floats:
        """Infinite for every row but zero."""
        return np.where(np.any(directions != 0, axis=1), math.inf, 0.0)


@dataclass(frozen=True)
class Ball(Domain):
    """Euclidean ball.

    Parameters
    ----------
    diameter : float
        Diameter, above 0.

    Raises
    ------
    ValueError
        If ``diameter`` is not positive.
    """

    diameter: float

    def __post_init__(self) -> None:
        validate.positive(diameter=self.diameter)

    @property
    def radius(self) -> float:
        """Half of the diameter."""
        return float(self.diameter) / 2

    def diameter_in(self, dimension: int) -> float:
        """Return the diameter, the same in every dimension."""
        return float(self.diameter)

    def project(self, points: Floats) -> Floats:
        """Scale points outside back to the sphere."""
        if points.shape[-1] == 1:  # onto its two points exactly
            return np.asarray(np.clip(points, -self.radius, self.radius))
        norms = np.linalg.norm(points, axis=-1, keepdims=True)
        return np.where(
            norms > self.radius, points * (self.radius / np.fmax(norms, 1e-300)), points
        )

    def farthest(self, centres: Floats) -> Floats:
        """Return |a| + radius."""
        return np.asarray(np.linalg.norm(centres, axis=1) + self.radius)

    def support(self, directions: Floats) -> Floats:
        """Return |u| radius."""
        return np.asarray(np.linalg.norm(directions, axis=1) * self.radius)


@dataclass(frozen=True)
class Box(Domain):
    """Cube [-side/2, side/2]^d, of diameter side sqrt(d).

    Parameters
    ----------
    side : float
        Side, above 0.

    Raises
    ------
    ValueError
        If ``side`` is not positive.
    """

    side: float

    def __post_init__(self) -> None:
        validate.positive(side=self.side)

    @property
    def half_side(self) -> float:
        """Half of the side."""
        return float(self.side) / 2

    def diameter_in(self, dimension: int) -> float:
        """Return side sqrt(d)."""
        return float(self.side) * math.sqrt(dimension)

    def project(self, points: Floats) -> Floats:
        """Clamp every coordinate."""
        return np.asarray(np.clip(points, -self.half_side, self.half_side))

    def farthest(self, centres: Floats) -> Floats:
        """Return the distance of the farthest corner."""
        return np.asarray(np.linalg.norm(np.abs(centres) + self.half_side, axis=1))

    def support(self, directions: Floats) -> Floats:
        """Return the sum of |u_j| side/2."""
        return np.asarray(np.sum(np.abs(directions), axis=1) * self.half_side)
