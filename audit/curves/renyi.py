"""Privacy curves given by a bound on Renyi divergences only."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.numerics.arrays import Array

# Points inside an interval that is narrowed; many for few targets, where each round costs the same.
_INNER, _MANY_INNER, _FEW_TARGETS = 8, 184, 4


def _linear(alpha: Array, rho: float) -> Array:
    return alpha * rho


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders alpha by ``logs`` of alpha - 1, with what the conversions take from them.

    ``log_share`` is the log of alpha/(alpha - 1).
    """

    logs: Array
    gaps: Array
    alphas: Array
    log_alphas: Array
    log_share: Array

    @classmethod
    def at(cls, logs: Array) -> Orders:
        """Return the orders with the given log of alpha - 1."""
        gaps = np.exp(logs)
        return cls(logs, gaps, 1 + gaps, np.log1p(gaps), np.log1p(1 / gaps))

    def epsilons(self, divergence: Array, log_delta: Array) -> Array:
        """Return epsilon at a delta from the divergence of each order."""
        return divergence - self.log_share - (log_delta + self.log_alphas) / self.gaps

    def log_deltas(self, divergence: Array, epsilon: Array) -> Array:
        """Return log delta at an epsilon from the divergence of each order."""
        return self.gaps * (divergence - epsilon - self.log_share) - self.log_alphas


@functools.lru_cache(maxsize=64)
def _grid(low: float, high: float, points: int) -> Orders:
    """Return orders that are spaced evenly in log(alpha - 1)."""
    return Orders.at(np.linspace(low, high, points))


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
    (Bretagnolle and Huber) are used as well; they help where delta is large. The exact
    conversion of one order (Asoodeh et al. 2021) also helps there, by 12% for D_alpha = alpha/800
    at delta = 0.01, but is slower and not used.

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
        if not callable(self.divergence):
            raise validate.fail("divergence", "a function of orders", self.divergence)
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
    def _orders(self) -> tuple[Orders, Array]:
        """The orders from which the search starts, and the bound at each."""
        low = max(self.search[0], self.lowest - 1)
        high = max(min(self.search[1], self.highest - 1), low)
        orders = _grid(math.log(low), math.log(high), self.points)
        # the ends must not leave the allowed range by rounding
        alphas = np.minimum(np.maximum(orders.alphas, np.nextafter(1, 2)), self.highest)
        return orders, self._bound(alphas)

    def _bound(self, alpha: Array) -> Array:
        inside = np.minimum(np.maximum(alpha, self.lowest), self.highest)
        values = np.asarray(self.divergence(inside), dtype=np.float64)
        if not (values >= 0).all():
            bad = int(np.flatnonzero(~(values >= 0))[0])
            raise ValueError(
                f"divergence must be at least 0, got {values[bad]} at order {inside[bad]}"
            )
        return values if math.isinf(self.highest) else np.where(inside < alpha, np.inf, values)

    @cached_property
    def _total_variation(self) -> float:
        smallest = float(np.min(self._orders[1]))
        return min(math.sqrt(smallest / 2), math.sqrt(-math.expm1(-smallest)))

    def _best_order(self, objective: Callable[[Orders, Array], Array], size: int) -> Array:
        """Minimise ``objective(orders, D)`` for ``size`` targets at once.

        The objective maps orders of shape (size, k), or broadcastable to it, to values of that
        shape.
        """
        orders, bounds = self._orders
        logs = orders.logs
        values = objective(orders, bounds)
        place = np.argmin(values, axis=1)
        rows = np.arange(size)
        best = values[rows, place]
        low, high = logs[np.maximum(place - 1, 0)], logs[np.minimum(place + 1, logs.size - 1)]

        inner, rounds = _INNER, self.refinements
        if self._cheap and size <= _FEW_TARGETS:
            inner = _MANY_INNER
            rounds = math.ceil(rounds * math.log((_INNER + 1) / 2) / math.log((inner + 1) / 2))
        fractions = np.arange(1, inner + 1) / (inner + 1)
        for _ in range(rounds):
            points = low[:, None] + (high - low)[:, None] * fractions
            orders = Orders.at(points)
            values = objective(orders, self._bound(orders.alphas.ravel()).reshape(points.shape))
            place = np.argmin(values, axis=1)
            best = np.minimum(best, values[rows, place])
            low, high = (
                np.where(place == 0, low, points[rows, np.maximum(place - 1, 0)]),
                np.where(place == inner - 1, high, points[rows, np.minimum(place + 1, inner - 1)]),
            )
        return np.asarray(best)

    @property
    def _cheap(self) -> bool:
        """Whether a divergence costs no more than a few operations an order."""
        return True

    def _epsilon(self, delta: Array, order: Order) -> Array:
        target = np.log(delta)[:, None]
        best = self._best_order(lambda orders, d: orders.epsilons(d, target), delta.size)
        return np.where(delta >= self._total_variation, 0.0, np.maximum(best, 0.0))

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        target = size[:, None]
        logs = self._best_order(lambda orders, d: orders.log_deltas(d, target), size.size)
        best = np.minimum(np.exp(np.minimum(logs, 0.0)), self._total_variation)
        # for any pair, delta of one order at -epsilon follows from the other order at epsilon
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

    @property
    def _cheap(self) -> bool:
        return False

    @cached_property
    def _on_a_grid(self) -> RenyiCurve:
        points = 4 * self.points - 3
        return RenyiCurve(self.divergence, self.lowest, self.highest, self.search, points, 0)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return self._on_a_grid._beta(alpha, order)
