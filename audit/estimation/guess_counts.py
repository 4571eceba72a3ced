"""Counts of guesses about canaries of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit import validate

Array = NDArray[np.float64]

LARGEST_EPSILON = 700.0
LARGEST_MU = 80.0


@dataclass(frozen=True)
class GuessCounts:
    """Numbers of correct guesses, of guesses and of canaries of one run.

    Parameters
    ----------
    correct, guesses, canaries : int
        The numbers, ``0 <= correct <= guesses <= canaries`` with at least 1 canary. The number of
        guesses must be fixed in advance.

    Raises
    ------
    ValueError
        If a number is not a whole number, or out of its range.

    Examples
    --------
    >>> GuessCounts(190, 200, 1000).all_correct
    GuessCounts(correct=200, guesses=200, canaries=1000)
    """

    correct: int
    guesses: int
    canaries: int

    def __post_init__(self) -> None:
        validate.integer(0, correct=self.correct, guesses=self.guesses)
        validate.integer(1, canaries=self.canaries)
        for name in ("correct", "guesses", "canaries"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.guesses > self.canaries:
            raise validate.fail("guesses", f"at most canaries ({self.canaries})", self.guesses)
        if self.correct > self.guesses:
            raise validate.fail("correct", f"at most guesses ({self.guesses})", self.correct)

    @property
    def all_correct(self) -> GuessCounts:
        """The same guesses, all of them correct."""
        return GuessCounts(self.guesses, self.guesses, self.canaries)


class Profile(Protocol):
    """A privacy curve: ``delta(epsilon)`` for any real epsilon, the worse of both orders."""

    def delta(self, epsilon: Array, /) -> float | Array:
        """Return the smallest delta at each epsilon."""
        ...
