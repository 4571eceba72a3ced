"""Curves of bounded losses: (epsilon, 0)-DP and the Laplace mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.numerics.arrays import Array


@dataclass(frozen=True)
class _BoundedLoss(PrivacyCurve):
    """Curve of a pair whose losses are between -bound and bound, and reach both."""

    bound: float

    def __post_init__(self) -> None:
        validate.nonnegative(bound=self.bound)

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values; true by reflection."""
        return True

    def _pure_epsilon(self, order: Order) -> float:
        return self.bound


@dataclass(frozen=True)
class PureCurve(_BoundedLoss):
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


_SERIES_BELOW = 0.05  # order times bound; below it the closed form of the Renyi divergence cancels
_TERMS = 10


@dataclass(frozen=True)
class LaplaceCurve(_BoundedLoss):
    """Laplace mechanism: the curve of Lap(0, 1) against Lap(bound, 1), in closed form.

    The log-likelihood ratio covers [-bound, bound], with atoms at both ends.

    Parameters
    ----------
    bound : float
        Sensitivity over scale, at least 0. This is epsilon at delta = 0.

    Raises
    ------
    ValueError
        If ``bound`` is negative or not finite.

    Examples
    --------
    >>> from audit.curves import LaplaceCurve
    >>> LaplaceCurve(1.0).epsilon(0.0)
    1.0
    """

    def _delta(self, epsilon: Array, order: Order) -> Array:
        between = -np.expm1(0.5 * (np.clip(epsilon, -self.bound, self.bound) - self.bound))
        below = -np.expm1(np.minimum(epsilon, 0.0))
        return np.where(epsilon < -self.bound, below, between)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.asarray(np.maximum(self.bound + 2 * np.log1p(-delta), 0.0))

    def _beta(self, alpha: Array, order: Order) -> Array:
        # threshold beyond the second centre, between the two, before the first
        edge = 0.5 * math.exp(-self.bound)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            beyond = 1 - alpha * np.exp(self.bound)
            between = 0.5 * edge / alpha
        before = 2 * edge * (1 - alpha)
        inner = np.where(alpha <= 0.5, between, before)
        return np.where(alpha > 0, np.where(alpha < edge, beyond, inner), 1.0)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        """Return the divergence of Mironov 2017, Proposition 6."""
        b, gap = self.bound, alpha - 1
        first, second = alpha / (2 * alpha - 1), gap / (2 * alpha - 1)
        far = gap * b + np.log(first) + np.log1p(second / first * np.exp(-(alpha + gap) * b))
        near = np.zeros_like(alpha)  # the terms of order 1 cancel
        small = np.minimum(alpha * b, _SERIES_BELOW)
        share = np.where(alpha > 0, gap / alpha, 0.0)
        factorial = 1.0
        for k in range(2, _TERMS):
            factorial *= k
            near += small**k / factorial * (first * share**k + second * (-1) ** k)
        return np.asarray(np.where(alpha * b < _SERIES_BELOW, np.log1p(near), far) / gap)
