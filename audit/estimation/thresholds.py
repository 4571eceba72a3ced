"""The protocol of a choice of thresholds: its input, its tests and its power."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.estimation.certificates import certificate
from audit.estimation.event_rates import EventRates
from audit.estimation.evidence import CountedTest

Array = NDArray[np.float64]

_SIMULATED = 400  # audits; the standard error of a power is at most 0.025


@dataclass(frozen=True)
class Spent:
    """A part of the error budget 1 - confidence.

    Attributes
    ----------
    purpose : str
        The tests that it was spent on, in words.
    error : float
        The part of the error.
    """

    purpose: str
    error: float


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
    """Tests that err together with probability at most the error of a question."""

    tests: tuple[CountedTest, ...]
    spent: tuple[Spent, ...]
    certifying_sizes: tuple[int, int]
    pilot_sizes: tuple[int, int] = (0, 0)
    sources: tuple[str, ...] = ()  # names of the blocks that counts come from


class Thresholds(ABC):
    """A choice of thresholds: a frozen dataclass with ``favours``, in a file of its own.

    Its name is added to the union `audit.estimation.record.AnyThresholds`, from which files are
    read.
    """

    kind: ClassVar[str]
    title: ClassVar[str]

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
