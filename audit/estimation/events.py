"""Events of a score that can be counted, and the tests made of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order

Array = NDArray[np.float64]


class Tail(enum.Enum):
    """Which scores x belong to the event with threshold t."""

    AT_LEAST = "x >= t"
    AT_MOST = "x <= t"
    ABOVE = "x > t"
    BELOW = "x < t"

    @property
    def complement(self) -> Tail:
        """The scores that do not belong to the event."""
        return _COMPLEMENT[self]


_COMPLEMENT = {
    Tail.AT_LEAST: Tail.BELOW,
    Tail.BELOW: Tail.AT_LEAST,
    Tail.AT_MOST: Tail.ABOVE,
    Tail.ABOVE: Tail.AT_MOST,
}


def opposite(order: Order) -> Order:
    """Return the other order of the pair."""
    return Order.REVERSE if order is Order.FORWARD else Order.FORWARD


@dataclass(frozen=True)
class ThresholdTest:
    """One event, and which law is suspected to favour it.

    Under ``Order.FORWARD`` the first law of the pair, that of ``samples``, is bounded from below
    on the event and the second from above; ``REVERSE`` exchanges the two.
    """

    order: Order
    tail: Tail
    threshold: float

    def complement(self) -> ThresholdTest:
        """Return the test with the complementary event and the laws exchanged."""
        return ThresholdTest(opposite(self.order), self.tail.complement, self.threshold)


def count_event(sorted_scores: Array, tail: Tail, threshold: float | Array) -> NDArray[np.intp]:
    """Count the scores in the event, for ascending scores; ties at the threshold count exactly."""
    total = sorted_scores.size
    if tail in (Tail.AT_LEAST, Tail.BELOW):
        below = np.searchsorted(sorted_scores, threshold, side="left")
        return np.asarray(below if tail is Tail.BELOW else total - below)
    at_most = np.searchsorted(sorted_scores, threshold, side="right")
    return np.asarray(at_most if tail is Tail.AT_MOST else total - at_most)
