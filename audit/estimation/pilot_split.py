"""Thresholds chosen on a pilot part of the samples, which certifies nothing.

The pilot plans with smoothed tail probabilities. A poor plan costs power, never validity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from audit import validate
from audit.curves import Order
from audit.estimation.evidence import (
    BOTH,
    CountedTest,
    Tail,
    ThresholdTest,
    checked_orders,
    count_event,
    opposite,
    tails,
)
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.regions import (
    Counts,
    JointShape,
    Rates,
    Region,
    joint,
    joint_edges,
    rectangles,
)
from audit.estimation.thresholds import CertifiedTests, Question, Spent

Array = NDArray[np.float64]

_TAILS = (Tail.AT_LEAST, Tail.AT_MOST)
# Standard errors of the pilot by which each candidate's estimate is lowered before the best one is
# taken, so that the choice does not overfit the pilot.
_CAUTION = 1.0
# Candidates this close in predicted epsilon are ties; the middle one is taken.
_TIE = 1e-3
# Joint regions to choose from; at an angle of pi/2 they are rectangles.
_SHAPES = {
    Rates.JOINT: [
        JointShape(angle, guard)
        for angle in np.linspace(0.4, np.pi / 2, 8).tolist()
        for guard in (0.03, 0.15)
    ],
    Rates.SEPARATE: [JointShape(np.pi / 2, guard) for guard in (0.01, 0.03, 0.1, 0.2, 0.3)],
}
_PLAN_CORNERS = 24

# Squared coefficient of variation of the excess of a normal variable over h, against h.
_HAZARD = np.linspace(-4.0, 20.0, 1025)
_MILLS = np.exp(-0.5 * _HAZARD**2 - log_ndtr(-_HAZARD)) / math.sqrt(2 * math.pi)
_VARIATION = (1 - _MILLS * (_MILLS - _HAZARD)) / (_MILLS - _HAZARD) ** 2

# A fitted tail is clipped to the two-sided interval of this error around the observed rate.
_CLIP_ERROR = 0.05
# Below this, a scale is too small to divide by.
_SMALLEST_SCALE = 1e-290
# A fitted rate is never 0.
_SMALLEST_RATE = 1e-30
# Fewest exceedances for a fit.
_FEWEST = 20
_FEWEST_SCORES = 4  # two to choose, two to certify


@dataclass(frozen=True)
class PilotSplit:
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
        """Choose tests on a part of the scores, and count them on the rest.

        Parameters
        ----------
        question : Question
            The scores, the error, the named deltas, and the seed of the split.

        Returns
        -------
        Certified
            The tests.

        Raises
        ------
        ValueError
            If there is no seed, or a sample is too small to be split.
        """
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
        size = self.pilot_size(scores.size)
        generator = np.random.default_rng(stream)
        chosen[generator.choice(scores.size, size, replace=False, shuffle=False)] = True
        return scores[chosen], scores[~chosen]

    def pilot_size(self, size: int) -> int:
        """Return the number of scores used for the choice.

        Parameters
        ----------
        size : int
            Number of scores.

        Returns
        -------
        int
            Size of the pilot: at least 2, and at least 2 scores remain.
        """
        return min(max(2, round(self.fraction * size)), size - 2)


@dataclass(frozen=True)
class Plan:
    """One test of a named delta, fixed before the certifying samples are seen."""

    test: ThresholdTest
    shape: JointShape
    predicted: float


class Pilot:
    """Estimates of both tails of both laws, from the pilot samples.

    Parameters
    ----------
    first, second
        Pilot scores of the two laws of the pair, in any order.
    first_total, second_total
        Sizes of the certifying samples, for which predictions are made.
    favours
        The laws that high scores may favour.
    """

    def __init__(
        self,
        first: Array,
        second: Array,
        first_total: int,
        second_total: int,
        favours: tuple[Order, ...] = BOTH,
    ) -> None:
        self._favours = favours
        up = np.sort(first), np.sort(second)
        down = -up[0][::-1], -up[1][::-1]
        with np.errstate(over="ignore"):
            self._tails = {
                Tail.AT_LEAST: tuple(SmoothTail.fit(scores) for scores in up),
                Tail.AT_MOST: tuple(SmoothTail.fit(scores) for scores in down),
            }
        self._candidates: dict[Tail, tuple[Array, tuple[tuple[Array, Array], ...]]] = {}
        self._totals = {
            Order.FORWARD: (first_total, second_total),
            Order.REVERSE: (second_total, first_total),
        }

    def band_tests(self, number: int) -> tuple[ThresholdTest, ...]:
        """Return at most ``number`` distinct tests that cover both tails.

        In each tail, thresholds stand where the heavier tail of the two laws has geometrically
        falling mass, from one half to the smallest mass that the samples can resolve. The law that
        favours the event is taken from the pilot, so each event is bounded on two sides only; with
        its complement a test serves both orders.
        """
        tests: dict[tuple[Tail, float], ThresholdTest] = {}
        for tail, levels in zip(_TAILS, (number - number // 2, number // 2), strict=True):
            sides = self._tails[tail]
            size = min(side.scores.size for side in sides)
            least = max(2.0 / size, 20.0 / min(self._totals[Order.FORWARD]))
            mass = np.geomspace(0.5, min(least, 0.5), levels)
            threshold = np.max([_upper_quantile(side.scores, mass) for side in sides], axis=0)
            first, second = (side.rate(threshold)[0] for side in sides)
            forward = first >= second
            if len(self._favours) == 1:
                forward = np.full(forward.shape, tail in tails(self._favours, Order.FORWARD))
            for t, forwards in zip(threshold.tolist(), forward.tolist(), strict=True):
                order = Order.FORWARD if forwards else Order.REVERSE
                tests[tail, t] = ThresholdTest(order, tail, _unmirror(tail, t))
        return tuple(tests.values())

    def plan(self, delta: float, order: Order, error: float, rates: Rates = Rates.JOINT) -> Plan:
        """Return the test whose certified epsilon at ``delta`` is predicted to be largest."""
        allowed = tails(self._favours, order)
        best = max((self._candidate(delta, order, tail, error) for tail in allowed), key=_value)
        value, test, counts = best
        return Plan(test, _best_shape(counts, delta, error, rates), value)

    def _rates(self, tail: Tail) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
        """Return candidate thresholds and the estimated rates of both laws there."""
        if tail not in self._candidates:
            threshold = _grid(*self._tails[tail])
            rates = tuple(side.rate(threshold) for side in self._tails[tail])
            self._candidates[tail] = threshold, rates
        return self._candidates[tail]

    def _candidate(
        self, delta: float, order: Order, tail: Tail, error: float
    ) -> tuple[float, ThresholdTest, Counts]:
        threshold, rates = self._rates(tail)
        (p, p_error), (q, q_error) = rates if order is Order.FORWARD else rates[::-1]
        p_total, q_total = self._totals[order]
        value = _predicted_epsilon(p, q, p_total, q_total, delta, error)
        doubt = np.hypot(p * p_error / np.maximum(p - delta, 1e-3 * p), q_error)
        value -= _CAUTION * doubt
        best = _middle_of_best(value)
        counts = Counts(float(p[best]) * p_total, p_total, float(q[best]) * q_total, q_total)
        test = ThresholdTest(order, tail, _unmirror(tail, float(threshold[best])))
        return float(value[best]), test, counts


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
        return CountedTest(test, counts, error, joint(counts, error, shape), delta)

    def _counts(self, test: ThresholdTest) -> Counts:
        first, second = self._sorted[test.order], self._sorted[opposite(test.order)]
        return Counts(
            int(count_event(first, test.tail, test.threshold)),
            first.size,
            int(count_event(second, test.tail, test.threshold)),
            second.size,
        )


def _value(candidate: tuple[float, ThresholdTest, Counts]) -> float:
    return candidate[0]


def _unmirror(tail: Tail, threshold: float) -> float:
    return threshold if tail is Tail.AT_LEAST else -threshold


def _upper_quantile(ascending: Array, mass: Array) -> Array:
    """Return scores t of the sample with about ``mass`` of it at or above t."""
    above = np.clip(np.round(mass * ascending.size).astype(np.intp), 1, ascending.size)
    return np.asarray(ascending[ascending.size - above])


def _grid(first: SmoothTail, second: SmoothTail) -> Array:
    """Return candidate thresholds: quantiles of both pilots, and points beyond and between them."""
    mass = np.append(np.linspace(1.0, 0.5, 24), np.geomspace(0.5, 1e-9, 96))
    quantiles = [_upper_quantile(side.scores, mass) for side in (first, second)]
    ends = sorted((float(first.scores[-1]), float(second.scores[-1])))
    reach = max(first.horizon, second.horizon)
    share = np.linspace(0.0, 1.0, 33)
    between = [ends[0] * (1 - share) + ends[1] * share, ends[1] * (1 - share) + reach * share]
    grid: Array = np.unique(np.concatenate([*quantiles, *between]))
    return grid


def _predicted_epsilon(
    p: Array, q: Array, p_total: int, q_total: int, delta: float, error: float
) -> Array:
    """Return the epsilon that Clopper-Pearson limits would certify at the expected counts.

    The second rate is smaller and less certain, so it gets most of the error.
    """
    low = lower_limit(np.minimum(p, 1.0) * p_total, p_total, 0.2 * error)
    high = upper_limit(np.minimum(q, 1.0) * q_total, q_total, 0.8 * error)
    gap = np.maximum(low - delta, 1e-9 * np.minimum(low + 1e-300, delta))
    return np.asarray(np.log(np.maximum(gap, 1e-300)) - np.log(high))


def _middle_of_best(value: Array) -> int:
    equals = np.flatnonzero(value >= np.max(value) - _TIE)
    return int(equals[equals.size // 2])


def _best_shape(counts: Counts, delta: float, error: float, rates: Rates) -> JointShape:
    """Return the shape of the joint region that certifies most at the expected counts."""
    shapes = _SHAPES[rates]
    edges = Region(*joint_edges(counts, error, shapes, _PLAN_CORNERS))
    values = np.min(edges.epsilons(np.full((len(shapes)), delta)), axis=-1)
    return shapes[int(np.argmax(values))]


@dataclass(frozen=True)
class SmoothTail:
    """An estimate of P(x >= t) from one pilot sample: empirical in the body, fitted in the tail.

    Attributes
    ----------
    scores
        The pilot sample, ascending.
    start
        Score at which the fitted tail begins; infinite if none is fitted (ties, few scores).
    exceedances
        Number of scores that reach ``start``.
    mean_excess, variation
        Mean of the excess over ``start`` and its squared coefficient of variation.
    """

    scores: Array
    start: float
    exceedances: int
    mean_excess: float
    variation: float

    @staticmethod
    def fit(scores: Array) -> SmoothTail:
        """Fit the tail above a high quantile by the first two moments of the excess."""
        size = scores.size
        used = min(size // 4, 50 + int(8 * math.sqrt(size)))
        empty = SmoothTail(scores, math.inf, 0, 0.0, 1.0)
        if used < _FEWEST:
            return empty
        start = float(scores[size - used])
        top = scores[size - used :]
        # Atoms and lattices are not fitted; their rates are the empirical ones.
        if np.count_nonzero(np.diff(top)) < 0.9 * (used - 1):
            return empty
        scale = float(top[-1]) - start
        if not _SMALLEST_SCALE < scale < math.inf:
            return empty
        excess = (top - start) / scale
        mean = float(np.mean(excess))
        variation = float(np.var(excess)) / mean**2
        return SmoothTail(scores, start, used, mean * scale, variation)

    @property
    def horizon(self) -> float:
        """A score far beyond the sample up to which the fitted tail is used."""
        last = float(self.scores[-1])
        reach = last + 6 * self.mean_excess
        return reach if self.exceedances and math.isfinite(reach) else last

    def rate(self, threshold: Array) -> tuple[Array, Array]:
        """Return the estimated P(x >= threshold) and its relative standard error."""
        size = self.scores.size
        count = (size - np.searchsorted(self.scores, threshold, side="left")).astype(np.float64)
        observed = (count + 0.5) / (size + 1)
        error = np.sqrt(np.maximum(1 - observed, 0.0) / (count + 0.5))
        if not self.exceedances:
            return observed, error
        with np.errstate(over="ignore", under="ignore"):
            beyond = np.maximum(threshold - self.start, 0.0) / self.mean_excess
            log_fitted = self._log_survival(beyond)
            fitted = self.exceedances / size * np.exp(log_fitted)
        outside = threshold > self.start
        low, high = np.zeros_like(observed), np.ones_like(observed)
        low[outside] = lower_limit(count[outside], size, _CLIP_ERROR)
        high[outside] = upper_limit(count[outside], size, _CLIP_ERROR)
        fitted_error = np.hypot(1.0, 1.5 * log_fitted) / math.sqrt(self.exceedances)
        return (
            np.where(outside, np.clip(fitted, np.maximum(low, _SMALLEST_RATE), high), observed),
            np.where(outside, np.minimum(fitted_error, error), error),
        )

    def _log_survival(self, excess: Array) -> Array:
        """Return log P(excess / mean excess >= value) of the fitted law.

        A tail lighter than exponential is that of a normal law, which fits Gaussian tails exactly;
        a heavier one is that of a generalised Pareto law (Pickands 1975).
        """
        if self.variation >= 1:
            shape = 0.5 * (1 - 1 / self.variation)
            if shape < 1e-6:
                return -excess
            return np.asarray(-np.log1p(shape * excess / (1 - shape)) / shape)
        hazard = float(np.interp(self.variation, _VARIATION, _HAZARD))
        mean = float(np.interp(hazard, _HAZARD, _MILLS)) - hazard
        return np.asarray(log_ndtr(-(hazard + mean * excess)) - log_ndtr(-hazard))
