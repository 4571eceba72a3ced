"""N(0, 1) against N(mu, 1), in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from audit import validate
from audit.curves.base import PrivacyCurve
from audit.mechanism import Order
from audit.numerics.normal import gaussian_delta
from audit.numerics.roots import decreasing_root

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianCurve(PrivacyCurve):
    """mu-GDP (Dong, Roth, Su 2022): the curve of N(0, 1) against N(mu, 1).

    ``epsilon`` and ``delta`` are inverses of each other to 1e-10 relative in delta, for mu from
    1e-6 to 40 and delta from 1e-12. ``mu = 0`` is perfect privacy.
    """

    mu: float

    def __post_init__(self) -> None:
        validate.nonnegative(mu=self.mu)

    @property
    def symmetric(self) -> bool:
        """Both orders are the same by reflection."""
        return True

    def _delta(self, epsilon: Array, order: Order) -> Array:
        if self.mu == 0:
            return -np.expm1(np.minimum(epsilon, 0.0))
        return gaussian_delta(epsilon, np.array(self.mu))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        if self.mu == 0:
            return np.zeros_like(delta)
        nothing = self._delta(np.zeros(1), order) <= delta
        # delta(epsilon) <= Phi(-x) with x = epsilon/mu - mu/2 bounds the root from above
        high = np.maximum(self.mu * (self.mu / 2 - ndtri(delta)), 0.0)
        target = np.log(delta)

        def excess(epsilon: Array) -> Array:  # nearly quadratic, where delta itself is not
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(gaussian_delta(epsilon, np.array(self.mu))) - target)

        return decreasing_root(excess, np.zeros_like(delta), np.where(nothing, 0.0, high))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(ndtr(-ndtri(alpha) - self.mu))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return alpha * (self.mu * self.mu / 2)
