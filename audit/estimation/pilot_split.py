"""Thresholds chosen on a pilot part of the samples, which certifies nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc

from audit import validate
from audit.curves import Order
from audit.estimation.evidence import (
    BOTH,
    CountedTest,
    Tail,
    ThresholdTest,
    count_test,
    separate_tests,
)
from audit.estimation.pilot import Pilot, Plan
from audit.estimation.regions import (
    Counts,
    Rates,
    Region,
    joint,
    joint_edges,
)
from audit.estimation.scores import part_size, split
from audit.estimation.thresholds import CertifiedTests, EventRates, Question, Spent, Thresholds

Array = NDArray[np.float64]

_PILOTS, _LARGEST_PILOT = 8, 100_000  # that are drawn to plan an audit
_DRAWS = 2000
_KNOTS, _ROUNDS = 7, 8
_CORNERS = 32  # of a joint region; those of an audit have more and certify slightly more
_MOST_COUNTS = 4000


@dataclass(frozen=True)
class PilotSplit(Thresholds):
    """Choose thresholds on a random part of each sample, and certify on the rest.

    Parameters
    ----------
    fraction : float, optional
        Share of each sample, in (0, 1), that chooses thresholds and is left out of every count.
    band_thresholds : int, optional
        Number of thresholds, in both tails together, that are valid for every delta.
    band_share : float, optional
        Part of the error, in (0, 1), that these thresholds use if deltas are named; otherwise they
        use all of it.
    lead_share : float, optional
        Part of a named delta's error, in (0, 1), that is spent on the order of the pair that looks
        worse on the pilot; the other order gets the rest.
    rates : Rates, optional
        How the two rates of a named delta's event are bounded: jointly, or separately by
        Clopper-Pearson limits.
    favours : tuple of Order, optional
        The laws that high scores may favour: FORWARD the first, REVERSE the second. Naming only one
        of them in advance keeps the pilot from choosing an event that favours the wrong law.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    kind: ClassVar[str] = "PilotSplit"
    title: ClassVar[str] = "a pilot split"

    fraction: float = 0.1
    band_thresholds: int = 32
    band_share: float = 0.05
    lead_share: float = 0.9
    rates: Rates = Rates.JOINT
    favours: tuple[Order, ...] = BOTH

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.open_unit(
            fraction=self.fraction, band_share=self.band_share, lead_share=self.lead_share
        )
        validate.integer(2, band_thresholds=self.band_thresholds)
        validate.instance(Rates, rates=self.rates)

    def certify(self, question: Question) -> CertifiedTests:
        """Choose tests on a part of the scores, and count them on the rest; needs a seed."""
        seed = question.seed_for(self.title)
        parts = split(question.first, question.second, fraction=self.fraction, seed=seed)
        (first_pilot, second_pilot), (first, second) = (part.scores for part in parts)
        pilot = Pilot(first_pilot, second_pilot, first.size, second.size, self.favours)
        ascending = {Order.FORWARD: np.sort(first), Order.REVERSE: np.sort(second)}

        error, named = question.error, question.deltas
        band_error = error * self.band_share if named else error
        band = pilot.band_tests(self.band_thresholds)
        counted = separate_tests(band, [count_test(ascending, test) for test in band], band_error)
        spent = [Spent(f"{len(counted)} thresholds for every delta, equal parts", band_error)]
        for delta in named:
            delta_error = (error - band_error) / len(named)
            planned = question.planned_error / error * delta_error * self.lead_share
            plans = [pilot.plan(delta, order, planned, self.rates) for order in Order]
            lead = max(plans, key=lambda one: one.predicted)
            for one in plans:
                part = delta_error * (self.lead_share if one is lead else 1 - self.lead_share)
                counts = count_test(ascending, one.test)
                region = joint(counts, part, one.shape)
                counted.append(CountedTest(one.test, counts, part, region, delta, shape=one.shape))
            spent.append(Spent(f"tests for delta {delta:g}, one per order", delta_error))
        return CertifiedTests(
            tests=tuple(counted),
            spent=tuple(spent),
            certifying_sizes=(first.size, second.size),
            pilot_sizes=(first_pilot.size, second_pilot.size),
        )

    def power(
        self, rates: EventRates, trials: int, *, claim: tuple[float, float], error: float
    ) -> float:
        """Return the mean over drawn pilots of the probability that either order's test refutes."""
        chosen = part_size(self.fraction, trials)
        left = trials - chosen
        delta_error = error * (1 - self.band_share)
        lead_error = delta_error * self.lead_share
        generator = np.random.default_rng(0)  # the same pilots for every plan
        powers = []
        for _ in range(_PILOTS):
            drawn = rates.draw(min(chosen, _LARGEST_PILOT), generator)
            pilot = Pilot(*drawn, left, left, self.favours)
            plans = [pilot.plan(claim[1], order, lead_error, self.rates) for order in Order]
            lead, other = sorted(plans, key=lambda one: -one.predicted)
            first = RefutingCounts.of(lead, rates, left, claim, lead_error)
            second = RefutingCounts.of(other, rates, left, claim, delta_error - lead_error)
            powers.append(first.power() + second_alone(rates, first, second, generator))
        return float(np.mean(powers))


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

        corners = 1 if plan.shape.angle == math.pi / 2 else _CORNERS

        def excess(second: Array) -> Array:
            counts: Any = Counts(knots[:, None], trials, second[:, None], trials)  # type: ignore[arg-type]
            region = Region(*joint_edges(counts, error, [plan.shape], corners))  # a row a count
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
    """Return the zeros in [0, high] of decreasing functions (Illinois rule); -1 without."""
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
