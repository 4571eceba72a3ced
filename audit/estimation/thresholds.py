"""The protocol of a choice of thresholds: what it is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.estimation.evidence import CountedTest

Array = NDArray[np.float64]


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
    """Scores of both laws, and the bounds that are asked of them.

    Attributes
    ----------
    first, second
        Scores of the two laws.
    error
        The error of all tests together.
    planned_error
        The error for which tests are planned.
    deltas
        The deltas that are named in advance.
    seed
        Seed of whatever is drawn; None if none was given.
    """

    first: Array
    second: Array
    error: float
    planned_error: float
    deltas: tuple[float, ...]
    seed: int | None

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

    Attributes
    ----------
    tests
        The tests with their counts.
    spent
        The parts of the error.
    certifying_sizes, pilot_sizes
        Numbers of scores of both laws that were counted, and that chose the tests.
    sources
        Names of the blocks that counts come from.
    """

    tests: tuple[CountedTest, ...]
    spent: tuple[Spent, ...]
    certifying_sizes: tuple[int, int]
    pilot_sizes: tuple[int, int] = (0, 0)
    sources: tuple[str, ...] = ()


class Thresholds(Protocol):
    """A choice of thresholds: a frozen dataclass with ``favours``, in a file of its own.

    Its name is added to the union `audit.estimation.record.AnyThresholds`, from which files are
    read.
    """

    kind: ClassVar[str]
    title: ClassVar[str]

    @property
    def favours(self) -> tuple[Order, ...]:
        """The laws that high scores may favour."""
        ...

    def certify(self, question: Question, /) -> CertifiedTests:
        """Return tests of the scores."""
        ...
