"""Events of a score, the tests of them, and the evidence that a test gives."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.estimation.regions import Counts, JointShape, Region, rectangle_at

Array = NDArray[np.float64]


class Tail(enum.Enum):
    """The scores x that belong to the event with threshold t."""

    AT_LEAST = "x >= t"
    AT_MOST = "x <= t"
    ABOVE = "x > t"
    BELOW = "x < t"

    @property
    def complement(self) -> Tail:
        """The tail of the complementary event."""
        return _COMPLEMENT[self]


_COMPLEMENT = {
    Tail.AT_LEAST: Tail.BELOW,
    Tail.BELOW: Tail.AT_LEAST,
    Tail.AT_MOST: Tail.ABOVE,
    Tail.ABOVE: Tail.AT_MOST,
}


BOTH = (Order.FORWARD, Order.REVERSE)


def checked_orders(favours: Sequence[Order]) -> tuple[Order, ...]:
    """Check ``favours``, the orders that high scores may favour: one or both."""
    orders = tuple(favours)
    for order in orders:
        validate.instance(Order, favours=order)
    if not orders or len(set(orders)) < len(orders):
        raise validate.fail("favours", "one order or two distinct ones", orders)
    return orders


def tails(favours: Sequence[Order], order: Order) -> tuple[Tail, ...]:
    """Return the tails whose events may favour the first law of ``order``.

    ``favours`` are the laws that high scores may favour; low scores may then favour the other law.
    """
    high = (Tail.AT_LEAST,) if order in favours else ()
    low = (Tail.AT_MOST,) if order.other in favours else ()
    return (*high, *low)


@dataclass(frozen=True)
class ThresholdTest:
    """An event, and the law that is suspected to favour it.

    Under ``Order.FORWARD`` the rate of the event under the first law of the pair, that of
    ``samples``, is bounded from below and its rate under the second law from above; ``REVERSE``
    exchanges the two.
    """

    order: Order
    tail: Tail
    threshold: float

    def complement(self) -> ThresholdTest:
        """Return the test of the complementary event with the laws exchanged."""
        return ThresholdTest(self.order.other, self.tail.complement, self.threshold)


def count_event(sorted_scores: Array, tail: Tail, threshold: float | Array) -> NDArray[np.intp]:
    """Count the ascending scores in the event; ties at the threshold count exactly."""
    total = sorted_scores.size
    if tail in (Tail.AT_LEAST, Tail.BELOW):
        below = np.searchsorted(sorted_scores, threshold, side="left")
        return np.asarray(below if tail is Tail.BELOW else total - below)
    at_most = np.searchsorted(sorted_scores, threshold, side="right")
    return np.asarray(at_most if tail is Tail.AT_MOST else total - at_most)


@dataclass(frozen=True)
class CountedTest:
    """A test, its counts, and a confidence region of its two rates."""

    test: ThresholdTest
    counts: Counts  # of the certifying samples only, the first law of the test's order first
    error: float  # bounds the probability that the region, or any of its band, misses true rates
    # None for a test at an order statistic, which tests both rates together
    # (`audit.estimation.two_rates`): its threshold is a score of the second law, whose count is
    # that of the scores beyond
    region: Region | None
    planned_delta: float | None  # the named delta that it was chosen for; None if it serves all
    # for a test of a simultaneous band: the error of each law's limit alone
    local_levels: tuple[float, float] | None = None
    shape: JointShape | None = None  # of a joint region

    def epsilon_limit(self, delta: float) -> float:
        """Return the largest epsilon that such a test can certify; see `epsilon_limit`.

        A test of a band attains it if the event contains all of the first sample and none of the
        second, at the local levels.
        """
        totals = self.counts.first_total, self.counts.second_total
        if self.local_levels is None:
            return epsilon_limit(delta, totals[1], self.error)
        best, least = rectangle_at(Counts(totals[0], totals[0], 0, totals[1]), *self.local_levels)
        return max(0.0, math.log(max(best - delta, 1e-300)) - math.log(least))

    def complement(self) -> CountedTest:
        """Return the same evidence for the complementary event, in the other order."""
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
    """A certified lower bound and the counts it is computed from.

    Attributes
    ----------
    value : float
        The bound, at least 0: an epsilon, a mu or a Renyi divergence.
    order : Order
        FORWARD if the event is favoured by the law of ``samples`` (the first law below), REVERSE if
        by that of ``samples_prime``.
    tail : Tail
        The kind of event, for example {x >= threshold}.
    threshold : float
        The threshold of the event.
    first_count, first_total : int
        Certifying samples of the order's first law in the event, and in total.
    second_count, second_total : int
        Certifying samples of the order's second law in the event, and in total.
    first_rate, second_rate : float
        The least favourable pair of rates in the confidence region (0.0 and 1.0 are vacuous); the
        bound follows from these two rates. For a test at an order statistic: the mean rate of the
        second law there, and the rate of the first law on the boundary of rejection.
    error_spent : float
        Part of the error budget that this test used; for a test of a simultaneous band, the part of
        the whole band.
    sampling_limit : float
        The largest value that any test with this error could certify from this many samples (all of
        the first sample in the event, none of the second; for a band, that the band could certify);
        infinite if there is no limit.
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
    """Combine a bound with the counts and the rates that it is computed from."""
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
    """Return the largest epsilon that a test with this error can certify from this many samples.

    The strongest counts are all against none. A test that errs with probability at most ``error``
    then cannot exclude that the second rate is q while (1 - q)^second_total > error, so it cannot
    certify more than log((1 - delta) / q) with q = 1 - error^(1 / second_total).
    """
    least_rate = -math.expm1(math.log(error) / second_total)
    if least_rate <= 0:
        return math.inf
    return max(0.0, math.log1p(-delta) - math.log(least_rate))
