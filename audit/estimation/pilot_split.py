"""Thresholds chosen on a pilot part of the samples, which certifies nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.estimation.event_rates import EventRates
from audit.estimation.evidence import (
    BOTH,
    CountedTest,
    ThresholdTest,
    checked_orders,
    count_event,
)
from audit.estimation.pilot import Pilot
from audit.estimation.pilot_power import RefutingCounts, second_alone
from audit.estimation.regions import Counts, JointShape, Rates, joint, rectangles
from audit.estimation.thresholds import CertifiedTests, Question, Spent, Thresholds

Array = NDArray[np.float64]

_FEWEST_SCORES = 4  # two to choose, two to certify
_PILOTS, _LARGEST_PILOT = 8, 100_000  # that are drawn to plan an audit


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
        object.__setattr__(self, "favours", checked_orders(self.favours))
        validate.open_unit(
            fraction=self.fraction, band_share=self.band_share, lead_share=self.lead_share
        )
        validate.integer(2, band_thresholds=self.band_thresholds)
        validate.instance(Rates, rates=self.rates)

    def certify(self, question: Question) -> CertifiedTests:
        """Choose tests on a part of the scores, and count them on the rest; needs a seed."""
        seed = question.seed_for(self.title)
        for name, scores in (("samples", question.first), ("samples_prime", question.second)):
            if scores.size < _FEWEST_SCORES:
                at_least = f"at least {_FEWEST_SCORES} scores to be split"
                raise ValueError(f"{name} must hold {at_least}, got {scores.size}")
        streams = np.random.SeedSequence(seed).spawn(2)
        first_pilot, first = self._split(question.first, streams[0])
        second_pilot, second = self._split(question.second, streams[1])
        pilot = Pilot(first_pilot, second_pilot, first.size, second.size, self.favours)
        counter = _Counter(first, second)

        error, named = question.error, question.deltas
        band_error = error * self.band_share if named else error
        counted = counter.separate(pilot.band_tests(self.band_thresholds), band_error)
        spent = [Spent(f"{len(counted)} thresholds for every delta, equal parts", band_error)]
        for delta in named:
            delta_error = (error - band_error) / len(named)
            scale = question.planned_error / error
            counted += self._named_tests(pilot, counter, delta, delta_error, scale)
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
        chosen = self._pilot_size(trials)
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

    def _named_tests(
        self, pilot: Pilot, counter: _Counter, delta: float, error: float, scale: float
    ) -> list[CountedTest]:
        """Count one test per order; they are planned for ``scale`` times the error."""
        planned = scale * error * self.lead_share
        plans = [pilot.plan(delta, order, planned, self.rates) for order in Order]
        lead = max(plans, key=lambda one: one.predicted)
        shares = [self.lead_share if one is lead else 1 - self.lead_share for one in plans]
        return [
            counter.joint(one.test, error * share, one.shape, delta)
            for one, share in zip(plans, shares, strict=True)
        ]

    def _split(self, scores: Array, stream: np.random.SeedSequence) -> tuple[Array, Array]:
        chosen = np.zeros(scores.size, dtype=np.bool_)
        size = self._pilot_size(scores.size)
        generator = np.random.default_rng(stream)
        chosen[generator.choice(scores.size, size, replace=False, shuffle=False)] = True
        return scores[chosen], scores[~chosen]

    def _pilot_size(self, size: int) -> int:
        """Return how many scores choose: at least 2, and at least 2 scores remain."""
        return min(max(2, round(self.fraction * size)), size - 2)


class _Counter:
    """The certifying samples, sorted once; they are used for tests that are already fixed."""

    def __init__(self, first: Array, second: Array) -> None:
        self._sorted = {Order.FORWARD: np.sort(first), Order.REVERSE: np.sort(second)}

    def separate(self, tests: Sequence[ThresholdTest], error: float) -> list[CountedTest]:
        """Count tests with Clopper-Pearson limits; the tests share the error equally."""
        share = error / len(tests)
        counts = [self._counts(test) for test in tests]
        return [
            CountedTest(test, count, share, region, None)
            for test, count, region in zip(tests, counts, rectangles(counts, share), strict=True)
        ]

    def joint(
        self, test: ThresholdTest, error: float, shape: JointShape, delta: float
    ) -> CountedTest:
        """Count one test with a joint region, planned for a named delta."""
        counts = self._counts(test)
        region = joint(counts, error, shape)
        return CountedTest(test, counts, error, region, delta, shape=shape)

    def _counts(self, test: ThresholdTest) -> Counts:
        first, second = self._sorted[test.order], self._sorted[test.order.other]
        return Counts(
            int(count_event(first, test.tail, test.threshold)),
            first.size,
            int(count_event(second, test.tail, test.threshold)),
            second.size,
        )
