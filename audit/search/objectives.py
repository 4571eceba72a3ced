"""Objectives of a search: quick values for candidates, brackets for the pair that is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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


class Objective(Protocol):
    """A measure of how distinguishable two laws are; larger is worse for privacy."""

    @property
    def tail(self) -> float:
        """How many standard deviations of an unbounded side matter."""

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return the objective of two laws, given as log masses of the same cells."""

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return (low, high) that contain the objective of a computed curve."""

    def claimed(self, bound: PrivacyCurve) -> float:
        """Return the largest value of the objective that an upper bound allows."""


@dataclass(frozen=True)
class Epsilon:
    """Epsilon at ``delta``, the worse order of the pair."""

    delta: float

    def __post_init__(self) -> None:
        validate.half_open_unit(delta=self.delta)

    @property
    def tail(self) -> float:
        """Where far less than delta is lost."""
        return _tail_of(self.delta)

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return epsilon of two laws, given as log masses of the same cells."""
        return max(_epsilon(log_p, log_q, self.delta), _epsilon(log_q, log_p, self.delta))

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return (low, high) that contain epsilon."""
        return curve.epsilon_bracket(self.delta)

    def claimed(self, bound: PrivacyCurve) -> float:
        """Return the bound's epsilon."""
        return bound.epsilon(self.delta)


@dataclass(frozen=True)
class RenyiDivergence:
    """The Renyi divergence of order ``alpha``, the worse order of the pair."""

    alpha: float

    def __post_init__(self) -> None:
        validate.above_one(alpha=self.alpha)

    @property
    def tail(self) -> float:
        """Everything: a divergence may consist of the far tails."""
        return TAIL

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return the divergence of two laws, given as log masses of the same cells."""
        return max(self._divergence(log_p, log_q), self._divergence(log_q, log_p))

    def _divergence(self, log_p: Array, log_q: Array) -> float:
        held = log_p > -np.inf
        if np.any(np.isneginf(log_q[held])):
            return math.inf
        terms = self.alpha * log_p[held] - (self.alpha - 1) * log_q[held]
        return float(logsumexp(terms)) / (self.alpha - 1)

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return (low, high) that contain the divergence."""
        return curve.renyi_bracket(self.alpha)

    def claimed(self, bound: PrivacyCurve) -> float:
        """Return the bound's divergence."""
        return bound.renyi(self.alpha)


@dataclass(frozen=True)
class ClaimedEpsilon:
    """Epsilon over what ``claim`` allows, the largest ratio over ``deltas``: above 1 refutes."""

    claim: Callable[[float], float]
    deltas: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.deltas:
            raise validate.fail("deltas", "one or more numbers in [0, 1)", self.deltas)
        for delta in self.deltas:
            validate.half_open_unit(delta=delta)
            validate.positive(claim=self.claim(delta))

    @property
    def tail(self) -> float:
        """Where far less than the least delta is lost."""
        return _tail_of(min(self.deltas))

    def quick(self, log_p: Array, log_q: Array) -> float:
        """Return the largest ratio of two laws, given as log masses of the same cells."""
        return max(Epsilon(d).quick(log_p, log_q) / self.claim(d) for d in self.deltas)

    def bracket(self, curve: ExactCurve) -> Bracket:
        """Return (low, high) that contain the largest ratio."""
        brackets = [curve.epsilon_bracket(d) for d in self.deltas]
        claims = [self.claim(d) for d in self.deltas]
        low = max(b[0] / c for b, c in zip(brackets, claims, strict=True))
        return low, max(b[1] / c for b, c in zip(brackets, claims, strict=True))

    def claimed(self, bound: PrivacyCurve) -> float:
        """Return the largest ratio that an upper bound allows."""
        return max(bound.epsilon(d) / self.claim(d) for d in self.deltas)


def _tail_of(delta: float) -> float:
    """Return standard deviations beyond which there is less than 1e-20 delta."""
    return TAIL if delta == 0 else min(math.sqrt(2 * math.log(1e20 / delta)), TAIL)


def tightest_bound(mechanism: NoisySGD, objective: Objective) -> tuple[float, str] | None:
    """Return the least value that a sound bound allows, and its id; None where none applies."""
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
    if delta == 0:  # noise reaches everywhere: where q vanished it has underflowed
        return max(float(np.max(ratio[np.isfinite(ratio)], initial=0.0)), 0.0)
    order = np.argsort(-ratio)
    ratio = ratio[order]
    # q may be far below the smallest double where epsilon is large
    p, log_q = np.cumsum(np.exp(log_p[held][order])), np.logaddexp.accumulate(log_q[held][order])
    # delta at epsilon = ratio[k], the cells with larger ratios in the event; rises with k
    with np.errstate(over="ignore", invalid="ignore"):
        reached = p - np.exp(ratio + log_q) > delta
    last = (int(np.argmax(reached)) if reached.any() else len(p)) - 1
    if last < 0 or p[last] <= delta:
        return 0.0
    return max(0.0, math.log(p[last] - delta) - float(log_q[last]))
