"""Events of a score, tests of them, and the bounds that tests certify together."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.curves import Order
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.regions import (
    Counts,
    JointShape,
    Region,
    hull_points,
    hull_renyi,
    joint,
    kept_inside,
)
from audit.numerics.arrays import Array, Indices
from audit.numerics.display import ShortRepr


class Tail(enum.Enum):
    """The scores x that belong to the event with threshold t."""

    AT_LEAST = "x >= t"
    AT_MOST = "x <= t"
    ABOVE = "x > t"
    BELOW = "x < t"

    @property
    def complement(self) -> Tail:
        """The tail of the complementary event."""
        return dict(zip(Tail, reversed(Tail), strict=True))[self]  # in mirrored places


BOTH = (Order.FORWARD, Order.REVERSE)


def tails(favours: Sequence[Order], order: Order) -> tuple[Tail, ...]:
    """Return the tails whose events may favour the first law of ``order``.

    High scores may favour the laws ``favours``, low scores the others.
    """
    sides = (Tail.AT_LEAST, order), (Tail.AT_MOST, order.other)
    return tuple(tail for tail, law in sides if law in favours)


@dataclass(frozen=True)
class ThresholdTest:
    """An event, and the order whose first law is suspected to favour it."""

    order: Order
    tail: Tail
    threshold: float


def count_test(ascending: Mapping[Order, Array], test: ThresholdTest) -> Counts:
    """Count a test's event in the ascending scores of the laws of both orders, its own first."""
    both = ascending[test.order], ascending[test.order.other]
    first, second = (int(count_event(scores, test.tail, test.threshold)) for scores in both)
    return Counts(first, both[0].size, second, both[1].size)


def count_event(sorted_scores: Array, tail: Tail, threshold: float | Array) -> Indices:
    """Count the ascending scores in the event; ties at the threshold count exactly."""
    left = tail in (Tail.AT_LEAST, Tail.BELOW)
    before = np.searchsorted(sorted_scores, threshold, side="left" if left else "right")
    low = tail in (Tail.BELOW, Tail.AT_MOST)
    return np.asarray(before if low else sorted_scores.size - before)


def count_tails(ascending: Array, at_least: Array, at_most: Array) -> Indices:
    """Count the scores in the upper tails from some thresholds on, and in lower tails."""
    upper = count_event(ascending, Tail.AT_LEAST, at_least)
    return np.append(upper, count_event(ascending, Tail.AT_MOST, at_most))


@dataclass(frozen=True)
class CountedTest(ShortRepr):
    """A test, its counts, and a confidence region of its two rates."""

    test: ThresholdTest
    counts: Counts  # certifying samples only; the first law of the test's order comes first
    error: float  # bounds the probability that the region, or any of its band, misses true rates
    # None for a test at an order statistic, which tests both rates together: its threshold is a
    # score of the second law, whose count is that of the scores beyond
    region: Region | None
    planned_delta: float | None  # the named delta that it was chosen for; None if it serves all
    # for a test of a simultaneous band: the error of each law's limit alone
    local_levels: tuple[float, float] | None = None
    shape: JointShape | None = None  # shape of a joint region

    @property
    def stored(self) -> dict[str, Any]:
        """The fields that evidence and stored events have in common."""
        return {
            "order": self.test.order,
            "tail": self.test.tail,
            "threshold": self.test.threshold,
            "first_count": int(self.counts.first),
            "first_total": self.counts.first_total,
            "second_count": int(self.counts.second),
            "second_total": self.counts.second_total,
            "error_spent": self.error,
        }

    def evidence(
        self, rates: tuple[float, float], value: float, limit: float = math.inf
    ) -> Evidence:
        """Combine a bound with the counts and the rates that it is computed from."""
        return Evidence(
            value=max(0.0, value),
            first_rate=float(rates[0]),
            second_rate=float(rates[1]),
            sampling_limit=limit,
            **self.stored,
        )

    def epsilon_limit(self, delta: float) -> float:
        """Return the largest epsilon that a test with this error and so many samples can certify.

        All of the first law against none of the second cannot exclude a second rate of q while
        (1 - q)^second_total > error. A band attains its limit at the local levels.
        """
        first, second = self.counts.first_total, self.counts.second_total
        if self.local_levels is None:
            least = -math.expm1(math.log(self.error) / second)
            return math.inf if least <= 0 else max(0.0, math.log1p(-delta) - math.log(least))
        levels = self.local_levels
        p, q = kept_inside(lower_limit(first, first, levels[0]), upper_limit(0, second, levels[1]))
        return max(0.0, math.log(max(float(p) - delta, 1e-300)) - math.log(float(q)))

    def complement(self) -> CountedTest:
        """Return the same evidence for the complementary event, in the other order."""
        c, test = self.counts, self.test
        rest = c.first_total - c.first, c.second_total - c.second
        return replace(
            self,
            test=ThresholdTest(test.order.other, test.tail.complement, test.threshold),
            counts=Counts(rest[1], c.second_total, rest[0], c.first_total),
            region=self.region and self.region.complement(),
            local_levels=self.local_levels and self.local_levels[::-1],
        )


@dataclass(frozen=True)
class Evidence(ShortRepr):
    """A certified lower bound and the counts it is computed from."""

    value: float  #: The bound, at least 0: an epsilon, a mu or a Renyi divergence.
    #: FORWARD if the law of ``samples`` is the first one, which favours the event; else REVERSE.
    order: Order
    tail: Tail  #: The kind of event, for example {x >= threshold}.
    threshold: float  #: The threshold of the event.
    first_count: int  #: Certifying samples of the order's first law in the event.
    first_total: int  #: Certifying samples of the order's first law.
    second_count: int  #: Certifying samples of the second law in the event.
    second_total: int  #: Certifying samples of the second law.
    #: Of the least favourable pair of rates in the confidence region, from which the bound follows;
    #: 0.0 is vacuous. For a test at an order statistic: the rate on the boundary of rejection.
    first_rate: float
    #: The other rate of that pair; 1.0 is vacuous. At an order statistic: the mean rate there.
    second_rate: float
    #: Part of the error budget that this test used; for a test of a simultaneous band, the part of
    #: the whole band.
    error_spent: float
    #: The largest value that any test with this error could certify from this many samples (all of
    #: the first sample in the event, none of the second; for a band, that the band could certify);
    #: infinite if there is no limit.
    sampling_limit: float


def tests_of_one_shape(
    tests: Sequence[ThresholdTest], counts: Sequence[Counts], error: float, shape: JointShape
) -> list[CountedTest]:
    """Return tests with regions of one shape, which share the error equally."""
    share = error / len(tests)
    made = zip(tests, counts, joint(counts, share, shape), strict=True)
    return [CountedTest(test, count, share, region, None) for test, count, region in made]


def orders_of(order: Order | None) -> tuple[Order, ...]:
    """Return the order, or both."""
    return tuple(Order) if order is None else (order,)


class Certificate(ABC):
    """The bounds that tests certify together; without an order, for the worse one."""

    def __init__(self, tests: Sequence[CountedTest]) -> None:
        self._tests = tests

    @abstractmethod
    def epsilons(self, deltas: Array, order: Order | None) -> Array:
        """Return the bounds on epsilon."""

    @abstractmethod
    def epsilon_evidence(self, delta: float, order: Order | None) -> Evidence:
        """Return the bound on epsilon with the event and the rates that give it."""

    @abstractmethod
    def mu_evidence(self) -> Evidence:
        """Return the bound on mu with the event and the rates that give it."""

    @abstractmethod
    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the vertices of the bound on the tradeoff function."""

    def renyis(self, alphas: Array, order: Order | None) -> Array:
        """Return the divergences of the discrete pair whose tradeoff function is that bound."""
        joined = [hull_renyi(alphas, *self.beta_points(one)) for one in orders_of(order)]
        return np.asarray(np.max(joined, axis=0))


class RegionCertificate(Certificate):
    """Regions that contain all true rates simultaneously: each bound is a minimum over a region."""

    def __init__(self, tests: Sequence[CountedTest]) -> None:
        super().__init__(tests)
        regions = [counted.region for counted in tests if counted.region is not None]
        sizes = [region.first.size for region in regions]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._made = Region(
            np.concatenate([region.first for region in regions]),
            np.concatenate([region.second for region in regions]),
        )
        # a test also serves the other order, through its complement
        made, turned = ((one.first, one.second) for one in (self._made, self._made.complement()))
        forward = np.repeat([counted.test.order is Order.FORWARD for counted in tests], sizes)
        self._corners = {
            o: Region(*np.where(forward == (o is Order.FORWARD), made, turned)) for o in Order
        }

    def epsilons(self, deltas: Array, order: Order | None) -> Array:
        """Return the largest log((p - delta) / q) that some region implies."""
        return self._largest(lambda region: region.epsilons(deltas), order)

    def epsilon_evidence(self, delta: float, order: Order | None) -> Evidence:
        """Return the bound with the event and the corner of its region."""
        found = [
            (*self._attained(corners, corners.epsilons(np.asarray(delta))), one)
            for one, corners in self._corners.items()
            if one in orders_of(order)
        ]
        value, best, rates, one = max(found, key=lambda entry: entry[0])
        counted = self._tests[best]
        counted = counted if counted.test.order is one else counted.complement()
        return counted.evidence(rates, value, counted.epsilon_limit(delta))

    def mu_evidence(self) -> Evidence:
        """Return the largest Phi^-1(p) - Phi^-1(q) that some region, as it was made, implies."""
        value, best, rates = self._attained(self._made, self._made.mus())
        return self._tests[best].evidence(rates, value)

    def renyis(self, alphas: Array, order: Order | None) -> Array:
        """Return the larger of the bounds from one region and from all regions combined."""
        one = self._largest(lambda region: region.renyis(alphas), order)
        return np.maximum(one, super().renyis(alphas, order))

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the lower hull of all regions' points, a region's those of its rectangle."""
        corners = self._corners[order]
        return hull_points(
            1 - np.minimum.reduceat(corners.first, self._starts),
            np.maximum.reduceat(corners.second, self._starts),
        )

    def _largest(self, bound: Callable[[Region], Array], order: Order | None) -> Array:
        """Return the largest over the tests of the minimum over a test's corners; >= 0."""
        found = [
            np.minimum.reduceat(bound(self._corners[one]), self._starts, axis=-1)
            for one in orders_of(order)
        ]
        return np.asarray(np.maximum(np.max(found, axis=(0, -1)), 0.0))

    def _attained(self, corners: Region, values: Array) -> tuple[float, int, tuple[float, float]]:
        """Return the largest minimum over a test's corners, the test, and the corner's rates."""
        least = np.minimum.reduceat(values, self._starts)
        best = int(np.argmax(least))
        start = int(self._starts[best])
        corner = start + int(np.argmax(values[start:] == least[best]))
        rates = float(corners.first[corner]), float(corners.second[corner])
        return float(least[best]), best, rates
