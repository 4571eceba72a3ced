"""Events of a score, the tests made of them, and what each test certifies."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.estimation.regions import Counts, Region, rectangle_at

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


BOTH = (Order.FORWARD, Order.REVERSE)


def checked_orders(favours: Sequence[Order]) -> tuple[Order, ...]:
    """Return the orders of the pair that high scores may speak for: one, or both."""
    orders = tuple(favours)
    for order in orders:
        validate.instance(Order, favours=order)
    if not orders or len(set(orders)) < len(orders):
        raise validate.fail("favours", "one order or two distinct ones", orders)
    return orders


def tails(favours: Sequence[Order], order: Order) -> tuple[Tail, ...]:
    """Return the tails whose events may favour the first law of ``order``.

    ``favours`` are the laws that high scores may favour; low ones then favour the other law.
    """
    high = (Tail.AT_LEAST,) if order in favours else ()
    low = (Tail.AT_MOST,) if opposite(order) in favours else ()
    return (*high, *low)


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


@dataclass(frozen=True)
class CountedTest:
    """A test, its counts, and the region that holds its two rates.

    Attributes
    ----------
    test
        Event and order. ``counts.first`` and ``region.first`` speak of the order's first law.
    counts
        On the certifying samples only.
    error
        Probability, at most, that ``region`` misses the true rates; part of the one budget. For a
        test of a simultaneous band: that any region of the band does.
    region
        See `Region`; None for a test at an order statistic, which bounds no rate but tests both
        (`audit.estimation.two_rates`). Its threshold is a score of the second law, whose count is
        that of the scores beyond.
    planned_delta
        The named delta that the test was chosen for; None for a test that serves all.
    local_levels
        For a test of a simultaneous band: the error of each law's limit taken alone.
    """

    test: ThresholdTest
    counts: Counts
    error: float
    region: Region | None
    planned_delta: float | None
    local_levels: tuple[float, float] | None = None

    def epsilon_limit(self, delta: float) -> float:
        """Return the largest epsilon at ``delta`` that such a test can certify (`epsilon_limit`).

        A test of a band reaches it with all of the first sample in the event and none of the
        second, at the local levels.
        """
        totals = self.counts.first_total, self.counts.second_total
        if self.local_levels is None:
            return epsilon_limit(delta, totals[1], self.error)
        best, least = rectangle_at(Counts(totals[0], totals[0], 0, totals[1]), *self.local_levels)
        return max(0.0, math.log(max(best - delta, 1e-300)) - math.log(least))

    def complement(self) -> CountedTest:
        """Return the same evidence read from the complementary event, in the other order."""
        c = self.counts
        swapped = Counts(
            c.second_total - c.second, c.second_total, c.first_total - c.first, c.first_total
        )
        return replace(
            self,
            test=self.test.complement(),
            counts=swapped,
            region=self.region and self.region.complement(),
            local_levels=self.local_levels and self.local_levels[::-1],
        )


@dataclass(frozen=True)
class Evidence:
    """A certified lower bound and everything it rests on.

    Attributes
    ----------
    value
        The bound (never negative): an epsilon, a mu or a Renyi divergence.
    order
        FORWARD: the event is favoured by the law of ``samples``, the "first" law below; REVERSE:
        by that of ``samples_prime``.
    tail, threshold
        The event, for example {x >= threshold}.
    first_count, first_total, second_count, second_total
        Certifying samples in the event and in all, for the order's first and second law.
    first_rate, second_rate
        The least favourable pair of rates in the confidence region (0.0 and 1.0 say nothing):
        the bound is what these two rates force. For a test at an order statistic: the second
        law's mean rate there, and the first one's on the edge of what is rejected.
    error_spent
        Part of the error budget that went to this test; to all of a simultaneous band if the
        test is one of it.
    sampling_limit
        The largest value that any test with this error could certify from this many samples
        (all of the first sample in the event, none of the second; for a band, that the band
        could); infinite where there is none.
    """

    value: float
    order: Order
    tail: Tail
    threshold: float
    first_count: int
    first_total: int
    second_count: int
    second_total: int
    first_rate: float
    second_rate: float
    error_spent: float
    sampling_limit: float


def evidence_of(
    counted: CountedTest, rates: tuple[float, float], value: float, limit: float = math.inf
) -> Evidence:
    """Put one bound together with the counts and the rates that it comes from."""
    return Evidence(
        value=max(0.0, value),
        order=counted.test.order,
        tail=counted.test.tail,
        threshold=counted.test.threshold,
        first_count=int(counted.counts.first),
        first_total=counted.counts.first_total,
        second_count=int(counted.counts.second),
        second_total=counted.counts.second_total,
        first_rate=float(rates[0]),
        second_rate=float(rates[1]),
        error_spent=counted.error,
        sampling_limit=limit,
    )


def epsilon_limit(delta: float, second_total: int, error: float) -> float:
    """Largest epsilon at ``delta`` that a test with this error can certify from this many samples.

    The strongest counts are all against none. A test that errs with probability at most
    ``error`` cannot then exclude that the second rate is q while (1 - q)^second_total > error,
    so it cannot certify more than log((1 - delta) / q) with q = 1 - error^(1 / second_total).
    """
    least_rate = -math.expm1(math.log(error) / second_total)
    if least_rate <= 0:
        return math.inf
    return max(0.0, math.log1p(-delta) - math.log(least_rate))
