"""Curves given by upper bounds on delta at epsilons of at least 0."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from audit.curves.base import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.numerics.arrays import Array


class ProfileCurve(PrivacyCurve):
    """Curve of a privacy profile, of both orders or of each.

    ``beta`` is the largest tradeoff function consistent with points of the profile; any points give
    a valid one.
    """

    points: ClassVar[int] = 1024

    @property
    def symmetric(self) -> bool:
        """Whether both orders have one profile; true unless a class says otherwise."""
        return True

    @abstractmethod
    def _profile(self, epsilon: Array, order: Order) -> Array:
        """Return the bound on delta at each ``epsilon >= 0``; above 1 it is cut."""

    def _last_point(self, order: Order) -> float:
        """Return the largest epsilon at which ``beta`` looks at the profile."""
        return float(self._epsilon(np.array([1e-13]), order)[0])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        profile = np.clip(self._profile(size, order), 0.0, 1.0)
        other = profile if self.symmetric else np.clip(self._profile(size, order.other), 0.0, 1.0)
        # each order is the other one at -epsilon
        return np.where(epsilon >= 0, profile, 1 - np.exp(-size) * (1 - other))

    def _beta(self, alpha: Array, order: Order) -> Array:
        points = profile_points(self._last_point(order), self.points)
        deltas = self._delta(points, order)
        if not self.symmetric:
            deltas = np.maximum(deltas, self._delta(points, order.other))
        return tradeoff_from_profile(alpha, points, deltas)
