"""Objectives of a search: fast values for candidates, error brackets for the best pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from audit import bounds, validate
from audit.curves.base import PrivacyCurve
from audit.exact import GaussianPairCurve, LawCurve
from audit.exact.from_pair import TAIL
from audit.mechanism import NoisySGD

Array = NDArray[np.float64]
Bracket = tuple[float, float]
ExactCurve = LawCurve | GaussianPairCurve


class Objective(ABC):
    """A measure of how distinguishable two laws are; a larger value means less privacy."""

    @property
    @abstractmethod
    def tail(self) -> float:
        """Number of standard deviations of an unbounded side that matter."""

    @abstractmethod
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

    @abstractmethod
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

    @abstractmethod
    def claimed(self, bound: PrivacyCurve) -> float:
        """Return the largest objective that an upper bound allows.

        Parameters
        ----------
        bound : PrivacyCurve
            The bound.

        Returns
        -------
        float
            The value.
        """


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
        validate.half_open_unit(delta=self.delta)

    @property
    def tail(self) -> float:
        """Number of standard deviations beyond which the mass is below 1e-20 delta."""
        return TAIL if self.delta == 0 else min(math.sqrt(2 * math.log(1e20 / self.delta)), TAIL)

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return epsilon from coarse laws."""
        return max(_epsilon(log_p, log_q, self.delta), _epsilon(log_q, log_p, self.delta))

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return an error bracket of epsilon."""
        return curve.epsilon_bracket(self.delta)

    def claimed(self, bound: PrivacyCurve) -> float:
        """Return epsilon that an upper bound allows."""
        return bound.epsilon(self.delta)


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
    def tail(self) -> float:
        """All standard deviations: a divergence may come from the far tails."""
        return TAIL

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return the Renyi divergence from coarse laws."""
        return max(self._divergence(log_p, log_q), self._divergence(log_q, log_p))

    def _divergence(self, log_p: Array, log_q: Array) -> float:
        held = log_p > -np.inf
        if np.any(np.isneginf(log_q[held])):
            return math.inf
        terms = self.alpha * log_p[held] - (self.alpha - 1) * log_q[held]
        return float(logsumexp(terms)) / (self.alpha - 1)

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return an error bracket of the Renyi divergence."""
        return curve.renyi_bracket(self.alpha)

    def claimed(self, bound: PrivacyCurve) -> float:
        """Return the Renyi divergence that an upper bound allows."""
        return bound.renyi(self.alpha)


def tightest_bound(mechanism: NoisySGD, objective: Objective) -> tuple[float, str] | None:
    """Return the smallest value that a sound bound of the catalogue allows."""
    if isinstance(objective, Epsilon) and objective.delta > 0:
        try:
            best = bounds.best(mechanism, delta=objective.delta)
        except bounds.NotApplicable:
            return None
        return best.epsilon, best.id
    values = [
        (objective.claimed(bounds.evaluate(id, mechanism)), id)
        for id in bounds.applicable(mechanism)
        if bounds.entry(id).status.sound
    ]
    return min(values, default=None)


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
