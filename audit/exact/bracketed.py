"""Curves of pairs with certified brackets, and what a pair proves about Gaussian privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.numerics.normal import gaussian_delta
from audit.numerics.roots import bracketed_root

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
    """

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

    def may_exceed(self, epsilon: float, delta: float, order: Order) -> bool:
        """Whether epsilon at ``delta`` can be above ``epsilon``: False is certain, and quick."""
        return True


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
    root = bracketed_root(gap, low, high, xtol=1e-13, rtol=1e-14)
    return math.exp(root - 1e-11)
