"""Privacy curves given by a bound on Renyi divergences only."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile

Array = NDArray[np.float64]

_INNER = 8  # points inside an interval that is narrowed
_FRACTIONS = np.arange(1, _INNER + 1) / (_INNER + 1)


def _linear(alpha: Array, rho: float) -> Array:
    return alpha * rho


@dataclass(frozen=True)
class RenyiCurve(PrivacyCurve):
    """Bound D_alpha <= divergence(alpha) that holds in both orders of the pair.

    ``epsilon`` and ``delta`` are upper bounds and ``beta`` is a lower bound, converted at the best
    order found. The conversions lose: the curve of a Gaussian pair is not recovered from its Renyi
    divergences. Any order gives a valid bound, so a search that misses the best order gives a
    looser bound, never a wrong one.

    Parameters
    ----------
    divergence : callable
        Maps an array of orders, shape ``(k,)``, to bounds in nats of the same shape. Values may be
        infinite.
    lowest, highest : float
        Range of orders at which ``divergence`` may be evaluated, 1 to infinity by default. Below
        ``lowest`` the value at ``lowest`` is used, since Renyi divergences increase with the order;
        above ``highest`` the bound is infinite.
    search : tuple of (float, float), optional
        Range of alpha - 1 in which the conversions look for the best order.
    points : int, default: 601
        Number of orders, spaced evenly in log(alpha - 1), from which the search starts.
    refinements : int, default: 9
        Number of times the interval around the best order is narrowed, by a factor of 4.5 each; 0
        for costly divergences.

    Raises
    ------
    ValueError
        If the range of orders is empty. Conversions raise it if a divergence is negative or NaN.

    Notes
    -----
    The main conversion is

        delta(epsilon) <= e^((alpha - 1)(D_alpha - epsilon)) (1 - 1/alpha)^(alpha - 1) / alpha

    (Canonne, Kamath and Steinke 2020, Proposition 12; equivalently Balle et al. 2020, Theorem 21).
    At every order it improves on epsilon = D + log(1/delta)/(alpha - 1) (Mironov 2017, Proposition
    3; Altschuler and Talwar 2022, Lemma 2.5), and for D = alpha rho on Bun and Steinke (2016, Lemma
    3.6). The total variation bounds delta <= sqrt(D/2) (Pinsker) and delta <= sqrt(1 - e^-D)
    (Bretagnolle and Huber) are used as well; they help where delta is large. So does the exact
    conversion of Asoodeh et al. 2021, which is slower: `audit.curves.conversions.best_epsilon`.

    Examples
    --------
    >>> from audit.curves import RenyiCurve
    >>> curve = RenyiCurve.linear(0.5)
    >>> round(curve.epsilon(1e-5), 4), curve.renyi(4.0)
    (4.7284, 2.0)
    """

    divergence: Callable[[Array], Array]
    lowest: float = 1.0
    highest: float = math.inf
    search: tuple[float, float] = (1e-10, 1e10)
    points: int = 601
    refinements: int = 9

    def __post_init__(self) -> None:
        if not 1 <= self.lowest < self.highest:
            raise ValueError(
                f"lowest must be at least 1 and below highest, got {self.lowest!r} and "
                f"{self.highest!r}"
            )
        if not 0 < self.search[0] < self.search[1] < math.inf:
            raise ValueError(f"search must be an increasing pair above 0, got {self.search!r}")

    @classmethod
    def linear(cls, rho: float) -> RenyiCurve:
        """Return the curve of D_alpha <= alpha rho (concentrated differential privacy).

        Parameters
        ----------
        rho : float
            At least 0; mu^2/2 for a Gaussian pair at distance mu.

        Returns
        -------
        RenyiCurve
            The curve.

        Raises
        ------
        ValueError
            If ``rho`` is negative or not finite.
        """
        validate.nonnegative(rho=rho)
        return cls(functools.partial(_linear, rho=float(rho)))

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values; the bound holds in both."""
        return True

    @cached_property
    def _orders(self) -> tuple[Array, Array]:
        """Log of (alpha - 1), and the bound, at the orders from which the search starts."""
        low = max(self.search[0], self.lowest - 1)
        high = max(min(self.search[1], self.highest - 1), low)
        logs = np.linspace(math.log(low), math.log(high), self.points)
        # the ends must not leave the allowed range by rounding
        alphas = np.clip(1 + np.exp(logs), np.nextafter(1, 2), self.highest)
        return logs, self._bound(alphas)

    def _bound(self, alpha: Array) -> Array:
        inside = np.clip(alpha, self.lowest, self.highest)
        values = np.asarray(self.divergence(inside), dtype=np.float64)
        if np.any(np.isnan(values) | (values < 0)):
            bad = int(np.flatnonzero(np.isnan(values) | (values < 0))[0])
            raise ValueError(
                f"divergence must be at least 0, got {values[bad]} at order {inside[bad]}"
            )
        return np.where(alpha > self.highest, np.inf, values)

    @cached_property
    def _total_variation(self) -> float:
        smallest = float(np.min(self._orders[1]))
        return min(math.sqrt(smallest / 2), math.sqrt(-math.expm1(-smallest)))

    def _best_order(self, objective: Callable[[Array, Array], Array], size: int) -> Array:
        """Minimise ``objective(log(alpha - 1), D)`` for ``size`` targets at once.

        The objective takes arrays that broadcast to shape (size, k) and returns values of shape
        (size, k).
        """
        logs, bounds = self._orders
        values = objective(logs[None, :], bounds[None, :])
        place = np.argmin(values, axis=1)
        best = values[np.arange(size), place]
        low, high = logs[np.maximum(place - 1, 0)], logs[np.minimum(place + 1, logs.size - 1)]

        for _ in range(self.refinements):
            inner = low[:, None] + (high - low)[:, None] * _FRACTIONS
            values = objective(inner, self._bound(1 + np.exp(inner.ravel())).reshape(inner.shape))
            place = np.argmin(values, axis=1)
            rows = np.arange(size)
            best = np.minimum(best, values[rows, place])
            low, high = (
                np.where(place == 0, low, inner[rows, np.maximum(place - 1, 0)]),
                np.where(place == _INNER - 1, high, inner[rows, np.minimum(place + 1, _INNER - 1)]),
            )
        return np.asarray(best)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        target = np.log(delta)[:, None]

        def epsilon_at(log: Array, bound: Array) -> Array:
            gap = np.exp(log)  # alpha - 1
            return bound - np.log1p(np.exp(-log)) - (target + np.log1p(gap)) / gap

        best = np.maximum(self._best_order(epsilon_at, delta.size), 0.0)
        return np.where(delta >= self._total_variation, 0.0, best)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        target = size[:, None]

        def log_delta_at(log: Array, bound: Array) -> Array:
            gap = np.exp(log)
            value = gap * (bound - target - np.log1p(np.exp(-log))) - np.log1p(gap)
            return np.asarray(value)

        best = np.exp(np.minimum(self._best_order(log_delta_at, epsilon.size), 0.0))
        best = np.minimum(best, self._total_variation)
        # the profile at -epsilon follows from that of the other order at epsilon
        return np.where(epsilon >= 0, best, 1 - np.exp(-size) * (1 - best))

    def _beta(self, alpha: Array, order: Order) -> Array:
        largest = float(self._epsilon(np.array([1e-12]), order)[0])
        points = profile_points(largest)
        return tradeoff_from_profile(alpha, points, self._delta(points, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self._bound(alpha)


@dataclass(frozen=True)
class CostlyRenyiCurve(RenyiCurve):
    """`RenyiCurve` whose divergences cost an integral or a search for each order.

    A tradeoff function needs delta at two thousand points, and refining the best order for each
    would evaluate tens of thousands of divergences. Here the orders come from one fixed grid, four
    times as fine as the starting grid of other conversions. Any order gives a valid bound.
    """

    @cached_property
    def _on_a_grid(self) -> RenyiCurve:
        points = 4 * self.points - 3
        return RenyiCurve(self.divergence, self.lowest, self.highest, self.search, points, 0)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return self._on_a_grid._beta(alpha, order)
