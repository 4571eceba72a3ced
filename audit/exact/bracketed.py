"""Curves of pairs with certified brackets, and what a pair proves about Gaussian privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.numerics.normal import gaussian_delta
from audit.numerics.roots import decreasing_root

Array = NDArray[np.float64]
Bracket = tuple[float, float]

# Relative error of sums of probabilities and of the Gaussian profile, whose exponents reach 700.
# Measured against 60 digits: 4e-13 in the far tails, 2e-14 near 1.
PROBABILITY_ERROR = 1e-12

# Where a Gaussian parameter is looked for: epsilon on both sides of 0, finer where it is small.
EPSILONS = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 36)])


@dataclass(frozen=True)
class MuBracket:
    """The least mu for which a pair is mu-GDP lies in [low, high].

    ``epsilon`` is where the pair's delta proves ``low``.
    """

    low: float
    high: float
    epsilon: float


class BracketedCurve(PrivacyCurve):
    """The privacy curve of one pair of laws, with brackets (low, high) around the truth.

    Every numerical error is taken into the brackets: ``low`` is a certified lower bound. So is
    ``high`` from above, unless the curve's class says otherwise.

    Attributes
    ----------
    many_at_once
        Whether brackets at many places together take much less time than one after the other.
    """

    many_at_once: ClassVar[bool] = False

    @abstractmethod
    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around the true epsilon at ``delta``.

        Parameters
        ----------
        delta
            In [0, 1).
        order
            Of the pair; None for the worse of both.
        """

    @abstractmethod
    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around the true delta at ``epsilon``.

        Parameters
        ----------
        epsilon
            Any real number.
        order
            Of the pair; None for the worse of both.
        """

    @abstractmethod
    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around the true Renyi divergence of order ``alpha``.

        Parameters
        ----------
        alpha
            The Renyi order, above 1.
        order
            Of the pair; None for the worse of both.
        """

    @abstractmethod
    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return (low, high) around the power 1 - beta of the best test at ``alpha``.

        Parameters
        ----------
        alpha
            Type I error, in (0, 1).
        order
            Of the pair; ``FORWARD`` takes the first law as the null hypothesis.
        """

    @abstractmethod
    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu for which the pair is mu-GDP, in one order.

        Parameters
        ----------
        order
            Of the pair.
        """

    def epsilon_brackets(self, deltas: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around the true epsilons at many deltas, shape (n,)."""
        return _each(self.epsilon_bracket, deltas, order)

    def renyi_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around the true Renyi divergences of many orders, shape (n,)."""
        return _each(self.renyi_bracket, alphas, order)

    def power_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return (lows, highs) around the powers of the best tests at many alphas, shape (n,)."""
        return _each(self.power_bracket, alphas, order)

    def epsilon_may_exceed(self, epsilons: Array, deltas: Array, order: Order) -> NDArray[np.bool_]:
        """Whether epsilon at each delta can be above a number: False is certain."""
        found = [self.delta_bracket(float(epsilon), order)[1] for epsilon in epsilons]
        return np.array(found) > deltas

    def power_may_exceed(self, powers: Array, alphas: Array, order: Order) -> NDArray[np.bool_]:
        """Whether the power at each alpha can be above a number: False is certain."""
        return self.power_brackets(alphas, order)[1] > powers


def _each(
    bracket: Callable[[float, Order], Bracket], places: Array, order: Order
) -> tuple[Array, Array]:
    lows, highs = np.array([bracket(float(at), order) for at in places]).reshape(-1, 2).T
    return lows, highs


def gaussian_mu(deltas: Array, epsilons: Array) -> tuple[float, float]:
    """Return the largest mu that deltas at ``epsilons`` prove, and the epsilon that proves it.

    A pair is mu-GDP only if its delta(epsilon) is at most that of N(0, 1) against N(mu, 1) at
    every epsilon (Dong, Roth and Su 2022, Corollary 2.13); a larger one refutes that mu.
    ``deltas`` must be certified: every error of the pair's own delta is taken off already.
    """
    proven = np.where((deltas <= 0) | (deltas >= 1), 0.0, _mus_at(epsilons, deltas))
    mu = float(proven.max())
    return mu, float(epsilons[proven == mu].max())


def _mus_at(epsilons: Array, deltas: Array) -> Array:
    # near delta = 1 the root is ill-conditioned: an error of 1e-16 in delta is 1e-7 in mu, so the
    # error of the profile is taken off delta, not off mu
    goals = np.log(np.clip(deltas, 1e-300, 1.0)) + math.log1p(-PROBABILITY_ERROR)

    def lack(log_mus: Array) -> Array:
        values = gaussian_delta(epsilons, np.exp(log_mus))
        return goals - np.log(np.maximum(values, 1e-300))

    low = np.full(epsilons.shape, math.log(1e-9))
    high = np.full(epsilons.shape, math.log(1e4))
    root = decreasing_root(lack, low, high, xtol=1e-13)
    proven = np.where(lack(high) > 0, math.exp(high[0]), np.exp(root - 1e-11))
    return np.where(lack(low) < 0, 0.0, proven)
