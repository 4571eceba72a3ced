"""Exponential mechanisms in closed form: linear losses on an interval and on a cone.

The law of density proportional to u^(d-1) e^(-x u) on [0, 1] is that of the height, in units of the
cone's, under a loss that rises linearly from the apex; d = 1 is an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import hyp1f1

from audit import validate

Array = NDArray[np.float64]


def log_integral(dimensions: int, rate: float, top: float) -> float:
    """Return the log of the integral of d u^(d-1) e^(-rate u) over [0, top], top in (0, 1].

    It is top^d e^(-rate top) M(1, d + 1, rate top), M Kummer's function.
    """
    z = rate * top
    series = float(hyp1f1(1, dimensions + 1, z))
    return dimensions * math.log(top) - z + math.log(series)


@dataclass(frozen=True)
class LinearPair:
    """pi proportional to e^(-x u), pi' to e^(x u), for u^(d-1) du on [0, 1].

    The log-likelihood ratio falls in u: it is ``at_apex`` at 0, and 2 x less at 1.

    Parameters
    ----------
    dimensions
        d, the cone's dimension.
    rate
        x, the Lipschitz constant times the height.
    """

    dimensions: int
    rate: float

    def __post_init__(self) -> None:
        validate.integer(1, dimensions=self.dimensions)
        validate.positive(rate=self.rate)

    @property
    def at_apex(self) -> float:
        """Log of pi/pi' at the apex, the ratio of the normalising integrals."""
        d = self.dimensions
        return log_integral(d, -self.rate, 1.0) - log_integral(d, self.rate, 1.0)

    @property
    def pure_epsilon(self) -> float:
        """The largest absolute log-likelihood ratio."""
        return max(self.at_apex, 2 * self.rate - self.at_apex)

    def delta(self, epsilon: float) -> float:
        """Return the exact delta at ``epsilon`` >= 0, the worse of both orders."""
        return max(self._forward(epsilon), self._reverse(epsilon), 0.0)

    def _shares(self, top: float) -> tuple[float, float]:
        """Probabilities of [0, top] under pi and under pi'."""
        if top <= 0:
            return 0.0, 0.0
        if top >= 1:
            return 1.0, 1.0
        d, x = self.dimensions, self.rate
        first, second = (
            math.exp(log_integral(d, rate, top) - log_integral(d, rate, 1.0)) for rate in (x, -x)
        )
        return first, second

    def _forward(self, epsilon: float) -> float:
        first, second = self._shares((self.at_apex - epsilon) / (2 * self.rate))
        return first - math.exp(epsilon) * second

    def _reverse(self, epsilon: float) -> float:
        first, second = self._shares((self.at_apex + epsilon) / (2 * self.rate))
        return (1 - second) - math.exp(epsilon) * (1 - first)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon at ``delta``."""
        validate.open_unit(delta=delta)
        if self.delta(0.0) <= delta:
            return 0.0
        return float(
            brentq(lambda e: self.delta(e) - delta, 0.0, self.pure_epsilon, xtol=1e-13, rtol=1e-14)
        )


@dataclass(frozen=True)
class TruncatedExponential:
    """The law of density proportional to e^(rate x) on [-half, half].

    Parameters
    ----------
    rate
        Of either sign, not 0.
    half
        Half the length of the interval.
    """

    rate: float
    half: float

    def density(self, x: ArrayLike) -> Array:
        """Return the density at ``x`` inside the interval, any shape."""
        scale = 2 * math.sinh(self.rate * self.half) / self.rate
        return np.asarray(np.exp(self.rate * np.asarray(x, dtype=np.float64)) / scale)

    def cdf(self, x: ArrayLike) -> Array:
        """Return the probability of being at most ``x``, any shape."""
        place = np.clip(np.asarray(x, dtype=np.float64), -self.half, self.half)
        below = np.expm1(self.rate * (place + self.half))
        return np.asarray(below / math.expm1(2 * self.rate * self.half))
