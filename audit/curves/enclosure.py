"""Two finite pairs around a pair of laws: brackets of every divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves.brackets import TINY, Bracket
from audit.curves.finite_pair import FinitePair

Array = NDArray[np.float64]

# Rounding of what follows a sum.
_ULP = 2.0**-50


@dataclass(frozen=True)
class Enclosure:
    """Two finite pairs between which a pair of laws (P, Q) lies, in Blackwell's order.

    Every divergence that obeys data processing is at least that of ``lower``, but for what is lost,
    and at most that of ``upper``; after composition and mixing, too. Brackets are the values of the
    two ends, with the rounding of their sums.

    Parameters
    ----------
    lower, upper : FinitePair
        The pair with less information, and the one with more.
    log_lost_p, log_lost_q : float, default: -inf
        Log of a bound on the mass of each law that ``lower`` lacks.

    Examples
    --------
    >>> coarse = FinitePair.of(np.log([0.75, 0.25]), np.log([0.25, 0.75]))
    >>> fine = FinitePair.of(np.log([0.75, 0.2, 0.05]), np.log([0.25, 0.15, 0.6]))
    >>> low, high = Enclosure(coarse, fine).delta(np.array([0.0, 0.5]))
    >>> low.round(3), high.round(3)
    (array([0.5  , 0.338]), array([0.55 , 0.338]))
    """

    lower: FinitePair
    upper: FinitePair
    log_lost_p: float = -math.inf
    log_lost_q: float = -math.inf

    def epsilon(self, deltas: Array) -> tuple[Array, Array]:
        """Return brackets of the least epsilon >= 0 with delta(epsilon) at most each delta.

        Parameters
        ----------
        deltas : ndarray
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``deltas`` each.
        """
        lower, upper = self.lower, self.upper
        most = deltas * (1 + lower.rounding)
        low = lower.epsilon(most)
        if self.log_lost_q > -np.inf:
            with np.errstate(over="ignore"):
                low = lower.epsilon(most + np.exp(low + self.log_lost_q))
        high = upper.epsilon(deltas * (1 - upper.rounding))
        return low * (1 - _ULP), high * (1 + _ULP)

    def delta(self, epsilons: Array) -> tuple[Array, Array]:
        """Return brackets of sup_S P(S) - e^epsilon Q(S).

        Parameters
        ----------
        epsilons : ndarray
            Any real numbers.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``epsilons`` each.
        """
        lower, upper = self.lower, self.upper
        with np.errstate(over="ignore"):
            lost = np.exp(epsilons + self.log_lost_q)
        beside = np.abs(epsilons) * _ULP
        low = lower.delta(epsilons + beside) / (1 + lower.rounding + 4 * _ULP) - lost - TINY
        high = upper.delta(epsilons - beside) * (1 + upper.rounding + 4 * _ULP)
        high = np.where(epsilons - beside < upper.largest_loss, high + TINY, high)
        return np.maximum(low, 0.0), np.minimum(high, 1.0)

    def power(self, alphas: Array) -> tuple[Array, Array]:
        """Return brackets of the largest P(S) over tests S with Q(S) at most each alpha.

        Parameters
        ----------
        alphas : ndarray
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``alphas`` each.
        """
        lower, upper = self.lower, self.upper
        low = lower.power(self._spent(alphas)) / (1 + lower.rounding)
        high = upper.power(alphas * (1 + upper.rounding)) * (1 + upper.rounding)
        return low, np.minimum(high, 1.0)

    def beta(self, alphas: Array) -> tuple[Array, Array]:
        """Return brackets of the least mass of P outside of tests S with Q(S) at most each alpha.

        Of the enclosure of complements: relatively accurate where they are small.

        Parameters
        ----------
        alphas : ndarray
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``alphas`` each.
        """
        lower, upper = self.lower, self.upper
        high = lower.beta(self._spent(alphas)) * (1 + lower.rounding) + math.exp(self.log_lost_p)
        low = upper.beta(alphas * (1 + upper.rounding)) / (1 + upper.rounding)
        return low, np.minimum(high, 1.0)

    def _spent(self, alphas: Array) -> Array:
        """Return what tests of ``lower`` may spend, so that they spend at most ``alphas`` of Q."""
        least = alphas / (1 + self.lower.rounding) - math.exp(self.log_lost_q)
        return np.maximum(least, 0.0)

    def log_moment(self, alpha: float) -> Bracket:
        """Return a bracket of the log of the integral of P^alpha Q^(1 - alpha).

        Parameters
        ----------
        alpha : float
            Renyi order, above 1.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound; from below, nothing is lost of either law.
        """
        (low, below), (high, above) = (
            (pair.log_moment(alpha), pair.moment_rounding(alpha))
            for pair in (self.lower, self.upper)
        )
        return low - below, high + above
