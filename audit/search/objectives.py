"""Objectives of a search: fast values for candidates, error brackets for the best pair."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from audit import bounds, validate
from audit.curves.quantities import EpsilonAtDelta, Quantity, RenyiAtOrder
from audit.exact import GaussianPairCurve, LawCurve
from audit.exact.from_pair import TAIL
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

Bracket = tuple[float, float]
ExactCurve = LawCurve | GaussianPairCurve


class Objective(ABC):
    """A measure of how distinguishable two laws are; a larger value means less privacy."""

    @property
    @abstractmethod
    def quantity(self) -> EpsilonAtDelta | RenyiAtOrder:
        """The number that is maximised, for the worse order of the pair."""

    @property
    @abstractmethod
    def tail(self) -> float:
        """Number of standard deviations of an unbounded side that matter."""

    @abstractmethod
    def _quick(self, log_p: Array, log_q: Array) -> float:
        """Return `quick` for the order in which P comes first."""

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return the objective from coarse laws.

        Parameters
        ----------
        log_p, log_q : numpy.ndarray
            Log masses of the two laws in the same cells.

        Returns
        -------
        float
            The approximate value.
        """
        return max(self._quick(log_p, log_q), self._quick(log_q, log_p))

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return an error bracket of the objective.

        Parameters
        ----------
        curve : LawCurve or GaussianPairCurve
            The exact curve of a pair.

        Returns
        -------
        low : float
            The lower end.
        high : float
            The upper end.
        """
        return self.quantity.brackets(curve, self.quantity.at, None)


@dataclass(frozen=True)
class Epsilon(Objective):
    """Maximise epsilon at ``delta``, for the worse order of the pair.

    Parameters
    ----------
    delta : float
        The delta, in [0, 1).

    Raises
    ------
    ValueError
        If ``delta`` is not in [0, 1).
    """

    delta: float

    def __post_init__(self) -> None:
        self.quantity.check()

    @property
    def quantity(self) -> EpsilonAtDelta:
        """Epsilon at delta."""
        return EpsilonAtDelta(self.delta)

    @property
    def tail(self) -> float:
        """Number of standard deviations beyond which the mass is below 1e-20 delta."""
        return TAIL if self.delta == 0 else min(math.sqrt(2 * math.log(1e20 / self.delta)), TAIL)

    def _quick(self, log_p: Array, log_q: Array) -> float:
        return _epsilon(log_p, log_q, self.delta)


@dataclass(frozen=True)
class RenyiDivergence(Objective):
    """Maximise the Renyi divergence of order ``alpha``, for the worse order of the pair.

    Parameters
    ----------
    alpha : float
        The Renyi order, above 1.

    Raises
    ------
    ValueError
        If ``alpha`` is not above 1.
    """

    alpha: float

    def __post_init__(self) -> None:
        validate.above_one(alpha=self.alpha)

    @property
    def quantity(self) -> RenyiAtOrder:
        """The divergence of this order."""
        return RenyiAtOrder(self.alpha)

    @property
    def tail(self) -> float:
        """All standard deviations: a divergence may come from the far tails."""
        return TAIL

    def _quick(self, log_p: Array, log_q: Array) -> float:
        held = log_p > -np.inf
        if np.any(np.isneginf(log_q[held])):
            return math.inf
        terms = self.alpha * log_p[held] - (self.alpha - 1) * log_q[held]
        return float(logsumexp(terms)) / (self.alpha - 1)


def tightest_bound(
    mechanism: NoisySGD, quantity: Quantity, *, slow: bool = False
) -> tuple[str, float]:
    """Return the id and the value of the tightest sound bound; empty and infinite without one."""
    found: dict[str, float] = {}
    for id in bounds.applicable(mechanism):
        entry = bounds.entry(id)
        if entry.status.sound and (slow or not entry.slow):
            with contextlib.suppress(ValueError):  # it cannot be computed here
                value = quantity.upper_bound(entry.evaluate(mechanism))
                if value is not None:
                    found[id] = value
    winner = bounds.tightest(found) if found else ""
    return winner, found.get(winner, math.inf)


def _epsilon(log_p: Array, log_q: Array, delta: float) -> float:
    """Return the epsilon at which sum max(p - e^epsilon q, 0) over the cells is ``delta``."""
    held = log_p > -np.inf
    ratio = log_p[held] - log_q[held]
    if delta == 0:  # the noise has full support: a mass q of 0 has underflowed
        return max(float(np.max(ratio[np.isfinite(ratio)], initial=0.0)), 0.0)
    order = np.argsort(-ratio)
    ratio = ratio[order]
    # q may be far below the smallest double if epsilon is large
    p, log_q = np.cumsum(np.exp(log_p[held][order])), np.logaddexp.accumulate(log_q[held][order])
    # delta at epsilon = ratio[k], with the cells of larger ratios as the event; increases with k
    with np.errstate(over="ignore", invalid="ignore"):
        reached = p - np.exp(ratio + log_q) > delta
    last = (int(np.argmax(reached)) if reached.any() else len(p)) - 1
    if last < 0 or p[last] <= delta:
        return 0.0
    return max(0.0, math.log(p[last] - delta) - float(log_q[last]))
