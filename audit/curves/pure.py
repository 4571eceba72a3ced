"""(epsilon, 0)-DP as a privacy curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves.base import Order, PrivacyCurve

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PureCurve(PrivacyCurve):
    """Curve of ``bound``-DP: randomised response (Kairouz, Oh and Viswanath 2017).

    Every pair with ``|log(P/Q)| <= bound`` is a post-processing of the two laws (e^b, 1)/(1 + e^b)
    and (1, e^b)/(1 + e^b), so every conversion of this curve is exact.

    Parameters
    ----------
    bound : float
        Largest privacy loss, at least 0.

    Raises
    ------
    ValueError
        If ``bound`` is negative or not finite.

    Examples
    --------
    >>> from audit.curves import PureCurve
    >>> PureCurve(1.0).epsilon(0.0), round(PureCurve(1.0).delta(0.5), 4)
    (1.0, 0.2876)
    """

    bound: float

    def __post_init__(self) -> None:
        validate.nonnegative(bound=self.bound)

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values; true by reflection."""
        return True

    def _delta(self, epsilon: Array, order: Order) -> Array:
        b = self.bound
        inside = np.clip(epsilon, -b, b)
        # (e^b - e^epsilon)/(1 + e^b), without overflow
        between = -np.expm1(inside - b) / (1 + np.exp(-b))
        with np.errstate(over="ignore"):
            below = -np.expm1(np.minimum(epsilon, 0.0))
        return np.where(epsilon < -b, below, between)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        b = self.bound
        with np.errstate(divide="ignore", invalid="ignore"):
            root = b + np.log1p(-delta * (1 + np.exp(-b)))
        return np.where(np.isnan(root), 0.0, np.maximum(root, 0.0))

    def _pure_epsilon(self, order: Order) -> float:
        return self.bound

    def _beta(self, alpha: Array, order: Order) -> Array:
        small = np.exp(-self.bound)
        with np.errstate(over="ignore", invalid="ignore"):
            steep = np.where(alpha > 0, 1 - alpha / small if small > 0 else -np.inf, 1.0)
        return np.asarray(np.maximum(np.maximum(steep, small * (1 - alpha)), 0.0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        # log(cosh((alpha - 1/2) b) / cosh(b/2)) / (alpha - 1), in two forms without cancellation
        b, gap = self.bound, alpha - 1
        far = gap * b + np.log1p(np.exp(-(2 * alpha - 1) * b)) - np.log1p(np.exp(-b))
        near = np.minimum(alpha * b, 1.0)
        product = np.sinh(near / 2) * np.sinh(np.minimum(gap * b, 1.0) / 2)
        close = np.log1p(2 * product / math.cosh(min(b, 1.0) / 2))
        return np.asarray(np.minimum(np.where(alpha * b < 1, close, far) / gap, b))
