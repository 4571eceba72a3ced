"""Two finite laws, and what tells them apart.

A continuous pair is cut into cells: telling the cells apart is no easier than telling the points
apart (data processing), so every number of the cells is a lower bound for the pair, whatever the
cells are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr, ndtri

from audit.mechanism import Order
from audit.numerics.normal import gaussian_delta

Array = NDArray[np.float64]

_LARGEST_EPSILON = 1e9


@dataclass(frozen=True, eq=False)
class DiscreteLaws:
    """Logarithms of the probabilities of the same cells under X and X', both of shape (cells,)."""

    log_first: Array
    log_second: Array

    def log_delta(self, epsilon: float, order: Order) -> float:
        """Log of sup_S P(S) - e^epsilon Q(S)."""
        log_p, ratio = self._in_order(order)
        chosen = ratio > epsilon
        if not chosen.any():
            return -math.inf
        gain = np.log(-np.expm1(np.minimum(epsilon - ratio[chosen], -1e-300)))
        return float(logsumexp(log_p[chosen] + gain))

    def epsilon(self, delta: float, order: Order) -> float:
        """Return the least epsilon >= 0 with delta(epsilon) <= delta."""
        goal = math.log(delta)

        def gap(epsilon: float) -> float:
            return max(self.log_delta(epsilon, order) - goal, -1e300)

        if gap(0.0) <= 0:
            return 0.0
        high = 1.0
        while gap(high) > 0:
            high *= 2
            if high > _LARGEST_EPSILON:
                return math.inf
        return float(brentq(gap, 0.0, high, xtol=1e-13 * high, rtol=1e-14))

    def renyi(self, alpha: float, order: Order) -> float:
        """Renyi divergence of order ``alpha``, at least 0."""
        log_p, ratio = self._in_order(order)
        total = float(logsumexp(log_p + (alpha - 1) * ratio))
        return max(total / (alpha - 1), 0.0)

    def power(self, alpha: float, order: Order) -> float:
        """1 - beta of the best test of P against Q at type I error ``alpha``."""
        logs = self.log_first, self.log_second
        log_p, log_q = logs if order is Order.FORWARD else logs[::-1]
        with np.errstate(invalid="ignore"):
            rank = np.argsort(log_p - log_q, kind="stable")  # what speaks for Q comes first
        p, q = np.exp(log_p[rank]), np.exp(log_q[rank])
        spent = np.cumsum(p)
        inside = int(np.searchsorted(spent, alpha, side="right"))
        won = float(np.sum(q[:inside]))
        if inside < p.size and p[inside] > 0:
            left = alpha - (spent[inside - 1] if inside else 0.0)
            won += float(q[inside]) * min(max(left / float(p[inside]), 0.0), 1.0)
        return min(won, 1.0)

    @cached_property
    def _forward(self) -> tuple[Array, Array]:
        seen = np.isfinite(self.log_first)
        return self.log_first[seen], self.log_first[seen] - self.log_second[seen]

    @cached_property
    def _reverse(self) -> tuple[Array, Array]:
        seen = np.isfinite(self.log_second)
        return self.log_second[seen], self.log_second[seen] - self.log_first[seen]

    def _in_order(self, order: Order) -> tuple[Array, Array]:
        """Return log p and log p - log q of the cells that P meets."""
        return self._forward if order is Order.FORWARD else self._reverse


def gaussian_mu(delta_low: Callable[[float], float], epsilons: Array) -> tuple[float, float]:
    """Return the largest mu that ``delta_low`` proves, and the epsilon that proves it.

    A pair is mu-GDP only if its delta(epsilon) is at most that of N(0, 1) against N(mu, 1) at
    every epsilon (Dong, Roth and Su 2022, Corollary 2.13); a larger one refutes that mu.
    """
    found = [(_mu_at(float(e), delta_low(float(e))), float(e)) for e in epsilons]
    mu, epsilon = max(found)
    return mu, epsilon


def _mu_at(epsilon: float, delta: float) -> float:
    if delta <= 0 or delta >= 1:
        return 0.0

    def gap(log_mu: float) -> float:
        value = float(gaussian_delta(np.array(epsilon), np.array(math.exp(log_mu))))
        return math.log(max(value, 1e-300)) - math.log(delta)

    low, high = math.log(1e-9), math.log(1e4)
    if gap(low) > 0:
        return 0.0
    if gap(high) < 0:
        return math.exp(high)
    root = float(brentq(gap, low, high, xtol=1e-13, rtol=1e-14))
    return math.exp(root - 1e-11)


def gaussian_power(mu: float, alpha: float) -> float:
    """1 - beta of N(0, 1) against N(mu, 1) at type I error ``alpha``."""
    return float(ndtr(mu + ndtri(alpha)))
