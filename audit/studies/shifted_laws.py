"""Whether samples have a law: largest distances of distribution functions, with a known level.

The band of Dvoretzky, Kiefer and Wolfowitz, with Massart's constant, holds for every law, also
one with atoms: sup |F_n - F| exceeds sqrt(ln(2/a)/(2 n)) with probability at most a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_PLACES = 1999  # where distribution functions are compared


class Law(Protocol):
    """A law with a distribution function."""

    def cdf(self, x: ArrayLike) -> Array:
        """Probability of being at most ``x``, any shape."""
        ...


@dataclass(frozen=True)
class Compared:
    """The largest distance found, and the one that is allowed for."""

    distance: float
    allowed: float

    @property
    def differs(self) -> bool:
        """Whether the laws differ, but for the test's level."""
        return self.distance > self.allowed


def band(samples: int, level: float) -> float:
    """Return sqrt(ln(2/level)/(2 samples))."""
    return math.sqrt(math.log(2 / level) / (2 * samples))


def against_law(sample: Array, law: Law, level: float) -> Compared:
    """Compare a sample, shape (size,), with a law; errs with probability ``level`` at most."""
    places = _places(sample)
    found = np.abs(_shares(sample, places) - np.asarray(law.cdf(places)))
    return Compared(float(found.max()), band(sample.size, level))


def against_sample(sample: Array, other: Array, level: float) -> Compared:
    """Compare two independent samples; errs with probability ``level`` at most."""
    places = np.concatenate([_places(sample), _places(other)])
    found = np.abs(_shares(sample, places) - _shares(other, places))
    allowed = band(sample.size, level / 2) + band(other.size, level / 2)
    return Compared(float(found.max()), allowed)


def projections(points: Array) -> Array:
    """Return four numbers of each point: two coordinates, the diagonal and the norm; (4, points).

    In one dimension the point itself alone, shape (1, points).
    """
    dimensions = points.shape[1]
    if dimensions == 1:
        return points.T
    diagonal = points.sum(axis=1) / math.sqrt(dimensions)
    return np.stack([points[:, 0], points[:, 1], diagonal, np.linalg.norm(points, axis=1)])


def _places(sample: Array) -> Array:
    return np.unique(np.quantile(sample, np.linspace(0.0, 1.0, _PLACES)))


def _shares(sample: Array, places: Array) -> Array:
    return np.searchsorted(np.sort(sample), places, side="right") / sample.size
