"""Curves given by a privacy profile that bounds both orders of a pair."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.numerics.arrays import Array

_SMALLEST_DELTA = 1e-13  # of the points that define a tradeoff function


class SymmetricProfileCurve(PrivacyCurve):
    """Curve whose two orders have one bound on delta.

    ``beta`` is the largest tradeoff function consistent with the profile.
    """

    @property
    def symmetric(self) -> bool:
        """True: both orders have the same bound."""
        return True

    @abstractmethod
    def _profile(self, epsilon: Array) -> Array:
        """Return the bound on delta at each ``epsilon >= 0``; above 1 it is cut."""

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        profile = np.minimum(self._profile(size), 1.0)
        # both orders have the profile, and each is the other's at -epsilon
        return np.where(epsilon >= 0, profile, 1 - np.exp(-size) * (1 - profile))

    def _beta(self, alpha: Array, order: Order) -> Array:
        points = profile_points(float(self._epsilon(np.array([_SMALLEST_DELTA]), order)[0]))
        return tradeoff_from_profile(alpha, points, self._delta(points, order))
