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

# Relative error of sums of probabilities and of the Gaussian profile, whose exponents reach 700.
# Measured against 60 digits: 4e-13 in the far tails, 2e-14 near 1.
PROBABILITY_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class DiscreteLaws:
    """Two laws on the same cells.

    Attributes
    ----------
    log_first, log_second
        Log probabilities of the cells under X and X', shape (cells,).
    relative_error
        Bound on the relative error of every probability, and so of every sum of them.
    """

    log_first: Array
    log_second: Array
    relative_error: float = PROBABILITY_ERROR

    @property
    def ratio_error(self) -> float:
        """Bound on the error of every log-likelihood ratio."""
        return math.log1p(self.relative_error) - math.log1p(-self.relative_error)

    def epsilon_bracket(self, delta: float, order: Order) -> tuple[float, float]:
        """Return (low, high) around the epsilon of the cells at ``delta``.

        The target moves by the error of the probabilities, so that the bracket is as wide as the
        conditioning of the root demands: epsilon is ill-conditioned near delta = 1.
        """
        r = self.relative_error
        least, most = delta / (1 + r), delta / (1 - r)
        low = 0.0 if most >= 1 else self.epsilon(most, order) - self.ratio_error
        return max(low, 0.0), self.epsilon(least, order) + self.ratio_error

    def renyi_bracket(self, alpha: float, order: Order) -> tuple[float, float]:
        """Return (low, high) around the Renyi divergence of the cells of order ``alpha``."""
        value = self.renyi(alpha, order)
        r = self.relative_error
        # the last term is the rounding of the logarithm of a sum near 1
        slack = (alpha * math.log1p(r) - (alpha - 1) * math.log1p(-r) + r) / (alpha - 1)
        return max(value - slack, 0.0), value + slack

    def power_bracket(self, alpha: float, order: Order) -> tuple[float, float]:
        """Return (low, high) around 1 - beta of the best test of the cells at ``alpha``."""
        r = self.relative_error
        low = self.power(alpha / (1 + r), order) * (1 - r)
        high = self.power(min(alpha / (1 - r), 1.0), order) * (1 + r)
        return low, min(high, 1.0)

    def mu_bound(self, epsilons: Array, order: Order) -> tuple[float, float]:
        """Return the largest mu that the cells prove, and the epsilon that proves it."""

        def delta_low(epsilon: float) -> float:
            log_delta = self.log_delta(epsilon + self.ratio_error, order)
            return math.exp(min(log_delta, 0.0)) * (1 - self.relative_error)

        return gaussian_mu(delta_low, epsilons)

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
    ``delta_low`` must be certified: every error of the pair's own delta is taken off already.
    """
    found = [(_mu_at(float(e), delta_low(float(e))), float(e)) for e in epsilons]
    mu, epsilon = max(found)
    return mu, epsilon


def _mu_at(epsilon: float, delta: float) -> float:
    if delta <= 0 or delta >= 1:
        return 0.0
    # near delta = 1 the root is ill-conditioned: an error of 1e-16 in delta is 1e-7 in mu, so the
    # error of the profile is taken off delta, not off mu
    goal = math.log(delta) + math.log1p(-PROBABILITY_ERROR)

    def gap(log_mu: float) -> float:
        value = float(gaussian_delta(np.array(epsilon), np.array(math.exp(log_mu))))
        return math.log(max(value, 1e-300)) - goal

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


def gaussian_power_bracket(mu: tuple[float, float], alpha: float) -> tuple[float, float]:
    """Return (low, high) around `gaussian_power` for every mu of an interval."""
    low = gaussian_power(mu[0], alpha * (1 - PROBABILITY_ERROR)) * (1 - PROBABILITY_ERROR)
    most = min(alpha * (1 + PROBABILITY_ERROR), 1.0)
    high = gaussian_power(mu[1], most) * (1 + PROBABILITY_ERROR)
    return low, min(high, 1.0)
