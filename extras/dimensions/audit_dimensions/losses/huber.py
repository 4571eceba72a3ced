"""Huber losses: quadratic near a centre, linear in the distance away from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit import validate
from audit_dimensions.domains import Domain
from audit_dimensions.losses.base import Encoded, Family, Floats, Loss


@dataclass(frozen=True)
class Huber(Loss):
    """Huber losses: gradients (x - a_i) min(curvature, cap/|x - a_i|).

    A record is its centre a_i: d numbers. The losses are convex, smooth and Lipschitz; in one
    dimension they are those of the other records of `audit.constructions.ResetWalk`.

    Parameters
    ----------
    curvature : float, default: 1.0
        Curvature near the centre, above 0.
    cap : float, default: 1.0
        Largest norm of a gradient, above 0.

    Raises
    ------
    ValueError
        If a parameter is not positive.
    """

    curvature: float = 1.0
    cap: float = 1.0

    def __post_init__(self) -> None:
        validate.positive(curvature=self.curvature, cap=self.cap)

    def dimension(self, records: Floats) -> int:
        """Return the width of the records."""
        return int(records.shape[1])

    def ridge(self, dimension: int) -> Floats:
        """Return zeros."""
        return np.zeros(dimension)

    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return the gradients, shape (m, n, d)."""
        apart = points[:, None, :] - records
        pull = self.curvature * np.linalg.norm(apart, axis=2, keepdims=True)
        return np.asarray(self.curvature * apart * (self.cap / np.maximum(pull, self.cap)))

    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return the cap, or what the farthest point of the domain has."""
        return np.asarray(np.minimum(self.cap, self.curvature * domain.farthest(records)))

    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return curvature |a_i - a'_i| or 2 cap, whichever is less."""
        apart = np.linalg.norm(first - second, axis=1)
        return np.asarray(np.minimum(2 * self.cap, self.curvature * apart))

    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return 0 and the curvature; the curvature for both where no gradient exceeds the cap."""
        uncapped = np.all(self.curvature * domain.farthest(records) <= self.cap)
        return (float(self.curvature) if uncapped else 0.0), float(self.curvature)

    def variation(self, records: Floats, domain: Domain) -> float:
        """Return 2 cap, or curvature times the diameter where that is less."""
        diameter = domain.diameter_in(records.shape[1])
        return float(min(2 * self.cap, self.curvature * diameter))

    def encoded(self, records: Floats) -> Encoded:
        """Return the centres, the curvature and the cap."""
        ridge = self.ridge(records.shape[1])
        return Encoded(Family.HUBER, records, ridge, float(self.curvature), float(self.cap))
