"""The protocol of a choice of thresholds: its input, its tests and its power."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from audit import validate
from audit.curves import Order, PrivacyCurve
from audit.estimation.certificates import certificate
from audit.estimation.evidence import CountedTest, checked_orders

Array = NDArray[np.float64]

_SIMULATED = 400  # audits; the standard error of a power is at most 0.025
_FARTHEST = 7.5  # normal score of the smallest rate of an event, 3e-14
_SPACING, _HALVINGS = 0.5, 6  # of a table of rates, refined where interpolation is inaccurate
_STRAIGHT = 1e-3
_CELL = 0.1  # normal scores


@dataclass(frozen=True)
class Spent:
    """A part of the error budget 1 - confidence."""

    purpose: str  #: The tests that it was spent on, in words.
    error: float  #: The part of the error.


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """Scores of both laws, and the bounds that are asked of them."""

    first: Array
    second: Array
    error: float  # of all tests together
    planned_error: float  # the error for which tests are planned
    deltas: tuple[float, ...]  # named in advance
    seed: int | None  # of whatever is drawn

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of scores."""
        return self.first.size, self.second.size

    def seed_for(self, title: str) -> int:
        """Return the seed, which a choice of this title needs."""
        if self.seed is None:
            needed = f"given for {title}, a whole number of at least 0"
            raise validate.fail("seed", needed, self.seed)
        return self.seed


@dataclass(frozen=True, kw_only=True, eq=False)
class CertifiedTests:
    """Tests that err together with probability at most the error of a question.

    The fields are those of an audit.
    """

    tests: tuple[CountedTest, ...]
    spent: tuple[Spent, ...]
    certifying_sizes: tuple[int, int]
    pilot_sizes: tuple[int, int] = (0, 0)
    sources: tuple[str, ...] = ()  # names of the blocks that counts come from


@dataclass(frozen=True, eq=False)
class EventRates:
    """The rates of the events {score >= t} under both laws of a pair."""

    # normal scores of the rates under X', ascending, and under X; a line joins them, and for two
    # normal laws all is one straight line
    second: Array
    first: Array

    @classmethod
    def of(cls, curve: PrivacyCurve) -> EventRates:
        """Return the rates of the events that a privacy curve's tradeoff functions describe."""
        return cls(*_table(lambda rate: np.asarray(curve.beta(rate, Order.REVERSE))))

    @functools.cached_property
    def cells(self) -> tuple[Array, Array]:
        """Return the masses of both laws in cells of the score, the highest scores first."""
        even = np.arange(-_FARTHEST, _FARTHEST, _CELL)
        alike = np.interp(even, self.first, self.second)
        edges = np.unique(np.concatenate([self.second, even, alike]))
        return _masses(np.interp(edges, self.second, self.first)), _masses(edges)

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw scores of X and of X'; those of X' are standard normal."""
        rates = generator.standard_normal(size)
        return -np.interp(rates, self.first, self.second), generator.standard_normal(size)

    def above(self, threshold: float) -> tuple[float, float]:
        """Return the rates of {score >= threshold} under X and X'."""
        first = np.interp(-threshold, self.second, self.first)
        return float(ndtr(first)), float(ndtr(-threshold))


class Thresholds(ABC):
    """A choice of thresholds: a frozen dataclass with ``favours``, in a file of its own.

    Its name is added to the union `audit.estimation.result.AnyThresholds`, from which files are
    read.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    favours: tuple[Order, ...]  # that high scores may favour

    def __post_init__(self) -> None:
        object.__setattr__(self, "favours", checked_orders(self.favours))

    @abstractmethod
    def certify(self, question: Question) -> CertifiedTests:
        """Return tests of the scores, which err together with the error of the question."""

    def power(
        self, rates: EventRates, trials: int, *, claim: tuple[float, float], error: float
    ) -> float:
        """Return the probability that an audit refutes a claim.

        By default the share of simulated audits that refute it.

        Parameters
        ----------
        rates : EventRates
            The rates of the events of the score under both laws.
        trials : int
            Number of scores of each law.
        claim : tuple of (float, float)
            The claimed epsilon, and its delta.
        error : float
            The error of all tests together.

        Returns
        -------
        float
            The probability.
        """
        epsilon, delta = claim
        generator = np.random.default_rng(0)  # the same draws for every plan
        refuted = 0
        for _ in range(_SIMULATED):
            first, second = rates.draw(trials, generator)
            question = Question(
                first=first,
                second=second,
                error=error,
                planned_error=error,
                deltas=(delta,),
                seed=0,
            )
            bounds = certificate(self.certify(question).tests).epsilons(np.array([delta]), None)
            refuted += bool(bounds[0] > epsilon)
        return refuted / _SIMULATED


def _table(beta: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return normal scores of rates, ascending, and of 1 - beta there; a line joins them."""

    def high(scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(-ndtri(beta(ndtr(scores))), -40.0, 40.0))

    scores = np.arange(-_FARTHEST, _FARTHEST + _SPACING / 2, _SPACING)
    values = high(scores)
    new = np.ones(scores.size - 1, dtype=np.bool_)  # intervals that were not refined yet
    for _ in range(_HALVINGS):
        left = np.flatnonzero(new)
        middle = 0.5 * (scores[left] + scores[left + 1])
        found = high(middle)
        bent = np.abs(found - 0.5 * (values[left] + values[left + 1])) > _STRAIGHT
        scores, values = (
            np.insert(scores, left + 1, middle),
            np.insert(values, left + 1, found),
        )
        new = np.zeros(scores.size - 1, dtype=np.bool_)
        places = left + np.arange(left.size)  # of the halves' left ends
        new[places[bent]] = new[places[bent] + 1] = True
        if not np.any(new):
            break
    return scores, np.maximum.accumulate(values)


def _masses(scores: Array) -> Array:
    """Return the normal law's masses between and beyond ascending scores."""
    below, above = ndtr(scores), ndtr(-scores)
    inner = np.where(scores[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    masses = np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])
    return np.asarray(masses / np.sum(masses))
