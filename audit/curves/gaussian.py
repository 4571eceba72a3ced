"""N(0, 1) against N(mu, 1), in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.numerics.normal import (
    gaussian_delta,
    log_density,
    mills_difference,
    mills_ratio,
)

Array = NDArray[np.float64]

_MOST_STEPS = 60
_DIGITS = 2.0**-50


@dataclass(frozen=True)
class GaussianCurve(PrivacyCurve):
    """Curve of N(0, 1) against N(mu, 1): mu-GDP (Dong, Roth and Su 2022).

    ``epsilon`` and ``delta`` are inverses of each other to a relative error of 1e-10 in delta, for
    mu from 1e-6 to 40 and delta from 1e-12.

    Parameters
    ----------
    mu : float
        Distance of the means in standard deviations, at least 0; 0 is perfect privacy.

    Raises
    ------
    ValueError
        If ``mu`` is negative or not finite.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> round(GaussianCurve(1.0).epsilon(1e-5), 4)
    4.3772
    """

    mu: float

    def __post_init__(self) -> None:
        validate.nonnegative(mu=self.mu)

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values; true by reflection."""
        return True

    def _delta(self, epsilon: Array, order: Order) -> Array:
        if self.mu == 0:
            return -np.expm1(np.minimum(epsilon, 0.0))
        return gaussian_delta(epsilon, np.array(self.mu))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        if self.mu == 0:
            return np.zeros_like(delta)
        mu = self.mu
        # delta(epsilon) <= Phi(-x) with x = epsilon/mu - mu/2 gives an upper bound on the root
        nothing = math.erf(mu / math.sqrt(8)) <= delta
        epsilon = np.where(nothing, 0.0, np.maximum(mu * (mu / 2 - ndtri(delta)), 0.0))
        target = np.log(delta)
        widths = np.full_like(epsilon, mu)
        for _ in range(_MOST_STEPS):
            # x is below -9 only where nothing is left to find
            x = np.maximum(epsilon / mu - mu / 2, -30.0)
            # delta = phi(x) (M(x) - M(x + mu)), minus its derivative phi(x) M(x + mu)
            part = mills_difference(x, widths)
            with np.errstate(divide="ignore", invalid="ignore"):
                log_delta = log_density(x) + np.log(part)
                if mu >= 1 and np.any(x < -5):  # where delta is near 1 logarithms cancel
                    log_delta = np.log(gaussian_delta(epsilon, widths))
                step = (target - log_delta) * part / mills_ratio(x + mu)
                step = np.where(nothing | (part == 0), 0.0, step)
            # log delta is concave, so its tangents lead to points where delta is not above
            epsilon = np.maximum(epsilon - step, 0.0)
            if np.all(np.abs(step) <= _DIGITS * epsilon):
                break
        return epsilon * (1 + _DIGITS)

    def _pure_epsilon(self, order: Order) -> float:
        return 0.0 if self.mu == 0 else math.inf

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(ndtr(-ndtri(alpha) - self.mu))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return alpha * (self.mu * self.mu / 2)
