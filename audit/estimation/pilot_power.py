"""Power of a pilot split: sums over binomial counts of the tests that drawn pilots choose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc

from audit.curves import Order
from audit.estimation.event_rates import EventRates
from audit.estimation.evidence import Tail, ThresholdTest
from audit.estimation.pilot import Plan
from audit.estimation.regions import Counts, Region, joint_edges

Array = NDArray[np.float64]

_DRAWS = 2000
_KNOTS, _ROUNDS = 7, 8
_CORNERS = 32  # of a joint region; those of an audit have more and certify slightly more
_MOST_COUNTS = 4000


@dataclass(frozen=True, eq=False)
class RefutingCounts:
    """The largest second count at which a test refutes, for some first counts."""

    test: ThresholdTest
    trials: int
    rates: tuple[float, float]
    knots: Array
    largest: Array

    @classmethod
    def of(
        cls, plan: Plan, rates: EventRates, trials: int, claim: tuple[float, float], error: float
    ) -> RefutingCounts:
        """Find them where the pilot's plan meets the rates of both laws."""
        p, q = rates.above(plan.test.threshold)
        if plan.test.tail is Tail.AT_MOST:
            p, q = 1 - p, 1 - q
        if plan.test.order is Order.REVERSE:
            p, q = q, p
        first = _likely(trials, p)
        knots = np.unique(np.linspace(first[0], first[-1], _KNOTS).round())

        def excess(second: Array) -> Array:
            region = _regions(knots, second, trials, error, plan)
            return np.asarray(np.min(region.epsilons(np.asarray(claim[1])), axis=-1) - claim[0])

        largest = _zeros(excess, np.full(knots.size, _likely(trials, q)[-1]))
        return cls(plan.test, trials, (p, q), knots, largest)

    def at(self, first: Array) -> Array:
        """Return the largest second count that refutes, negative if none does."""
        return np.floor(np.interp(first, self.knots, self.largest) + 1e-6)

    def power(self) -> float:
        """Return the probability of refutation, a sum over the counts of the first law."""
        p, q = self.rates
        first = _likely(self.trials, p)
        before = _at_most(first[:1] - 1, self.trials, p)
        weight = np.diff(_at_most(first, self.trials, p), prepend=before)
        limit = self.at(first)
        chance = np.where(limit < 0, 0.0, _at_most(limit, self.trials, q))
        return float(np.sum(weight * chance))


def second_alone(
    rates: EventRates, first: RefutingCounts, second: RefutingCounts, generator: np.random.Generator
) -> float:
    """Return the probability that the second test refutes and the first does not, from draws."""
    edges = sorted((first.test.threshold, second.test.threshold))
    reached = [(1.0, 1.0), *(rates.above(edge) for edge in edges), (0.0, 0.0)]
    cells = np.maximum(-np.diff(np.array(reached), axis=0), 0.0)  # (3, 2): from low to high scores
    drawn = {
        order: generator.multinomial(first.trials, cells[:, k] / np.sum(cells[:, k]), _DRAWS)
        for k, order in enumerate(Order)
    }

    def refutes(one: RefutingCounts) -> NDArray[np.bool_]:
        place = 1 + edges.index(one.test.threshold)
        inside = slice(place, 3) if one.test.tail is Tail.AT_LEAST else slice(0, place)
        counts = {order: np.sum(n[:, inside], axis=1) for order, n in drawn.items()}
        own, other = counts[one.test.order], counts[one.test.order.other]
        return np.asarray(other <= one.at(own))

    return float(np.mean(refutes(second) & ~refutes(first)))


def _regions(first: Array, second: Array, trials: int, error: float, plan: Plan) -> Region:
    """Return the region of each pair of counts; the corners are the last axis."""
    counts: Any = Counts(first[:, None], trials, second[:, None], trials)  # type: ignore[arg-type]
    corners = 1 if plan.shape.angle == math.pi / 2 else _CORNERS
    return Region(*joint_edges(counts, error, [plan.shape], corners))


def _likely(trials: int, rate: float) -> Array:
    """Return counts that hold all but 1e-15 of the binomial law; a subset if there are many."""
    mean, std = trials * rate, math.sqrt(trials * rate * (1 - rate))
    low = max(0, math.floor(mean - 8 * std - 8))
    high = min(trials, math.ceil(mean + 8 * std + 40))
    return np.unique(np.linspace(low, high, min(high - low + 1, _MOST_COUNTS)).round())


def _at_most(count: Array, trials: int, rate: float) -> Array:
    """Return P(Bin(trials, rate) <= count), for counts of at least -1."""
    inside = np.clip(count, 0, trials - 1)
    tail = betaincc(inside + 1, trials - inside, rate)
    return np.where(count < 0, 0.0, np.where(count >= trials, 1.0, tail))


def _zeros(falling: Callable[[Array], Array], high: Array) -> Array:
    """Return the zeros in [0, high] of decreasing functions; -1 for a nonpositive function.

    False position with the Illinois rule.
    """
    low = np.zeros_like(high)
    above, below = falling(low), falling(high)
    never, always = above <= 0, below > 0
    above, below = np.where(never, 1.0, above), np.where(always, -1.0, below)
    kept = np.zeros(high.size)  # which end was kept in the last round
    for _ in range(_ROUNDS):
        share = np.clip(np.nan_to_num(above / (above - below), nan=0.5), 0.02, 0.98)
        middle = low + share * (high - low)
        found = falling(middle)
        up = found > 0
        above = np.where(up, found, np.where(kept == -1, 0.5 * above, above))
        below = np.where(up, np.where(kept == 1, 0.5 * below, below), found)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
        kept = np.where(up, 1, -1)
    return np.where(never, -1.0, np.where(always, np.inf, low))
