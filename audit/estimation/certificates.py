"""Certified bounds from counted tests: by confidence regions of two rates, or by tests at ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from audit.curves import Order
from audit.estimation.evidence import CountedTest, Evidence
from audit.estimation.regions import Region, two_point_renyi
from audit.estimation.tradeoff_hull import hull_points, hull_renyi
from audit.estimation.two_rates import (
    Hypothesis,
    Indices,
    RankCounts,
    epsilon_hypothesis,
    gaussian_hypothesis,
    largest_rejected,
    point_hypothesis,
)

Array = NDArray[np.float64]
Key = tuple[int | float, ...]  # the counts and the error of a test
Side = tuple[bool, bool]  # whether a claim holds in a test's own order, and in the other one

_LARGEST_EPSILON = 700.0
_LARGEST_MU = 75.0
# Normal scores of the second rate at which a test at a rank bounds the first rate from below.
_POINTS = np.array([0.5, 2.0])
_KNOWN_AT_MOST = 2**16  # for one question
_TOGETHER = 128  # bounds searched at a time, whose arrays fit a processor's cache


def certificate(tests: Sequence[CountedTest]) -> RegionCertificate | RankCertificate:
    """Return the certificate of tests of one kind, whose bounds hold simultaneously."""
    if all(counted.region is None for counted in tests):
        return RankCertificate(tuple(tests))
    return RegionCertificate(tuple(tests))


class RegionCertificate:
    """Regions that contain all true rates simultaneously: each bound is a minimum over a region."""

    def __init__(self, tests: tuple[CountedTest, ...]) -> None:
        self._tests = tests
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
        at = np.asarray(float(delta))
        counted, rates, value = self._best(lambda region: region.epsilons(at), order)
        return counted.evidence(rates, value, counted.epsilon_limit(float(delta)))

    def mu_evidence(self) -> Evidence:
        """Return the largest Phi^-1(p) - Phi^-1(q) that some region, as it was made, implies."""
        value, best, rates = self._attained(self._made, lambda region: region.mus())
        return self._tests[best].evidence(rates, value)

    def renyis(self, alphas: Array, order: Order | None) -> Array:
        """Return the larger of the bounds from one region and from all regions combined."""
        one = self._largest(lambda region: region.renyis(alphas), order)
        joined = [hull_renyi(alphas, *self.beta_points(o)) for o in _orders(order)]
        return np.asarray(np.max([one, *joined], axis=0))

    def renyi_evidence(self, alpha: float, order: Order | None) -> Evidence:
        """Return the bound from one region."""
        at = np.asarray(float(alpha))
        counted, rates, value = self._best(lambda region: region.renyis(at), order)
        return counted.evidence(rates, value)

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the lower hull of all regions' points."""
        return self._hulls[order]

    @cached_property
    def _hulls(self) -> dict[Order, tuple[Array, Array]]:
        # a region of many corners enters with its bounding rectangle
        return {
            o: hull_points(
                1 - np.minimum.reduceat(corners.first, self._starts),
                np.maximum.reduceat(corners.second, self._starts),
            )
            for o, corners in self._corners.items()
        }

    def _largest(self, bound: Callable[[Region], Array], order: Order | None) -> Array:
        """Return the largest over the tests of the minimum over a test's corners; >= 0."""
        found = [
            np.minimum.reduceat(bound(self._corners[one]), self._starts, axis=-1)
            for one in _orders(order)
        ]
        return np.asarray(np.maximum(np.max(found, axis=(0, -1)), 0.0))

    def _best(
        self, bound: Callable[[Region], Array], order: Order | None
    ) -> tuple[CountedTest, tuple[float, float], float]:
        """Return the test with the largest minimum, the rates that attain it, and its value."""
        found = [(*self._attained(self._corners[one], bound), one) for one in _orders(order)]
        value, best, rates, one = max(found, key=lambda entry: entry[0])
        counted = self._tests[best]
        return counted if counted.test.order is one else counted.complement(), rates, value

    def _attained(
        self, corners: Region, bound: Callable[[Region], Array]
    ) -> tuple[float, int, tuple[float, float]]:
        """Return the largest minimum over a test's corners, the test, and the corner's rates."""
        values = bound(corners)
        least = np.minimum.reduceat(values, self._starts)
        best = int(np.argmax(least))
        start = int(self._starts[best])
        corner = start + int(np.argmax(values[start:] == least[best]))
        rates = float(corners.first[corner]), float(corners.second[corner])
        return float(least[best]), best, rates


class RankCertificate:
    """Tests at order statistics: each bound is the largest hypothesis that some test rejects.

    Without an order, a hypothesis bounds both orders of the pair at once.
    """

    def __init__(self, tests: tuple[CountedTest, ...]) -> None:
        self._tests = tests
        table = [
            (c.second + 1, c.second_total, c.first, c.first_total)
            for c in (counted.counts for counted in tests)
        ]
        self._counts = RankCounts(*np.array(table, dtype=np.int64).reshape(-1, 4).T)
        self._errors = np.array([counted.error for counted in tests])
        self._forward = np.array([counted.test.order is Order.FORWARD for counted in tests])

    def epsilons(self, deltas: Array, order: Order | None) -> Array:
        """Return the largest epsilon below which some test rejects every claim."""
        return np.asarray(np.max(self._bounds(deltas, order), axis=0))

    def epsilon_evidence(self, delta: float, order: Order | None) -> Evidence:
        """Return the bound with the test's counts, at the mean second rate where the claim ends."""
        found = self._bounds(np.array([delta]), order)[:, 0]
        best, value = int(np.argmax(found)), float(np.max(found))
        counted, mean = self._tests[best], self._mean(best)
        sides = _sides(order, counted.test.order)
        edges = [
            epsilon_hypothesis(np.array([value]), delta, *side).highest(np.array([[mean]]))[0, 0]
            for side in ((True, False), (False, True))
        ]
        own = sides[0] and (not sides[1] or edges[0] <= edges[1])
        limit = self._sampling_limit(delta, order)
        if own:
            # the rate under the first law is at most 1
            second = min(mean, (1 - delta) * np.exp(-value))
            return counted.evidence((delta + np.exp(value) * second, second), value, limit)
        rest = 1 - mean
        rates = rest, (rest - delta) * np.exp(-value)
        return counted.complement().evidence(rates, value, limit)

    def mu_evidence(self) -> Evidence:
        """Return the largest mu below which some test rejects every claim."""
        found = largest_rejected(
            self._counts, self._errors, lambda _, mu: gaussian_hypothesis(mu), _LARGEST_MU
        )
        best, value = int(np.argmax(found)), float(np.max(found))
        second = self._mean(best)
        rates = float(ndtr(ndtri(second) + value)), second
        return self._tests[best].evidence(rates, value)

    def renyis(self, alphas: Array, order: Order | None) -> Array:
        """Return the divergence of the discrete pair whose tradeoff function is `beta_points`."""
        joined = [hull_renyi(alphas, *self.beta_points(one)) for one in _orders(order)]
        return np.asarray(np.max(joined, axis=0))

    def renyi_evidence(self, alpha: float, order: Order | None) -> Evidence:
        """Return the point of the tradeoff function that certifies most alone."""
        at = np.asarray(float(alpha))
        found: list[tuple[float, CountedTest, bool, tuple[float, float]]] = []
        rates = zip(self._tests, *(rates.tolist() for rates in self._lowest_rates), strict=True)
        for counted, second, first in rates:
            for own in (counted.test.order is one for one in _orders(order)):
                for q, p in zip(second, first, strict=True):
                    pair = (p, q) if own else (1 - q, 1 - p)
                    found.append((_divergence(at, *pair), counted, own, pair))
        value, counted, own, pair = max(found, key=lambda entry: entry[0])
        return (counted if own else counted.complement()).evidence(pair, value)

    def beta_points(self, order: Order) -> tuple[Array, Array]:
        """Return the lower hull of the points that the tests do not reject."""
        second, first = self._lowest_rates
        own = self._forward == (order is Order.FORWARD)
        alpha = np.concatenate([(1 - first[own]).ravel(), second[~own].ravel()])
        beta = np.concatenate([second[own].ravel(), (1 - first[~own]).ravel()])
        return hull_points(alpha, beta)

    @cached_property
    def _lowest_rates(self) -> tuple[Array, Array]:
        """Second rates of events of each test's tail, and the least first rates there."""
        scores = np.append(_POINTS, 0.0)
        a, b = self._counts.rank, self._counts.second_total - self._counts.rank + 1
        last = -ndtri(np.minimum(0.5 * self._errors, 0.5))
        z = np.tile(scores, (a.size, 1))
        z[:, -1] = last
        second: Array = np.asarray(betaincinv(a[:, None], b[:, None], ndtr(z)), dtype=np.float64)
        flat = np.repeat(np.arange(a.size), scores.size)
        first = largest_rejected(
            self._counts.take(flat),
            self._errors[flat],
            lambda which, rate: point_hypothesis(second.ravel()[which], rate),
            1.0,
        )
        return second, first.reshape(second.shape)

    def _bounds(self, deltas: Array, order: Order | None) -> Array:
        """Return each test's bound at each delta, shape (tests, deltas)."""
        if order is None:
            return _known_bounds(self._counts, self._errors, deltas, (True, True))
        found = np.empty((self._errors.size, deltas.size))
        own = self._forward == (order is Order.FORWARD)
        for side, which in (((True, False), own), ((False, True), ~own)):
            tests = self._counts.take(np.flatnonzero(which))
            found[which] = _known_bounds(tests, self._errors[which], deltas, side)
        return found

    def _mean(self, index: int) -> float:
        return float(self._counts.rank[index] / (self._counts.second_total[index] + 1))

    def _sampling_limit(self, delta: float, order: Order | None) -> float:
        """Return the bound that all of the first law in an outermost event would certify."""
        outer = np.flatnonzero(self._counts.rank == np.min(self._counts.rank))
        counts = self._counts.take(outer)
        full = RankCounts(counts.rank, counts.second_total, counts.first_total, counts.first_total)
        sides = dict.fromkeys(_sides(order, one) for one in Order)
        at = np.array([delta])
        return float(max(np.max(_known_bounds(full, self._errors[outer], at, s)) for s in sides))


def _known_bounds(tests: RankCounts, errors: Array, deltas: Array, side: Side) -> Array:
    """Return each test's bound at each delta; those of known counts are kept for later audits."""
    keys = list(zip(*(column.tolist() for column in tests.columns), errors.tolist(), strict=True))
    tables = [_known(delta, *side) for delta in deltas.tolist()]
    # None becomes NaN
    kept = [list(map(table.get, keys)) for table in tables]
    found = np.array(kept, dtype=np.float64).reshape(deltas.size, len(keys))
    unknown = np.argwhere(np.isnan(found))
    for start in range(0, len(unknown), _TOGETHER):
        at, which = unknown[start : start + _TOGETHER].T

        def claim(left: Indices, epsilon: Array, named: Array = deltas[at]) -> Hypothesis:
            return epsilon_hypothesis(epsilon, named[left], *side)

        found[at, which] = largest_rejected(
            tests.take(which), errors[which], claim, _LARGEST_EPSILON
        )
    for row, place in unknown.tolist():
        if len(tables[row]) > _KNOWN_AT_MOST:
            tables[row].clear()
        tables[row][keys[place]] = float(found[row, place])
    return found.T


@lru_cache(maxsize=64)
def _known(delta: float, own: bool, other: bool) -> dict[Key, float]:
    """Return the cached bounds of single tests."""
    return {}


def _sides(order: Order | None, own: Order) -> Side:
    return order is None or order is own, order is None or order is not own


def _divergence(alpha: Array, first: float, second: float) -> float:
    if not 0 < second < first < 1:
        return 0.0
    return float(two_point_renyi(alpha, np.asarray(first), np.asarray(second)))


def _orders(order: Order | None) -> tuple[Order, ...]:
    return tuple(Order) if order is None else (order,)
