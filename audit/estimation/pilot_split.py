"""Thresholds chosen on a pilot part of the samples, which certifies nothing.

The pilot's tails are estimated: empirical in the body, fitted beyond. A poor choice costs power
only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from audit import validate
from audit.curves import Order
from audit.estimation.evidence import (
    BOTH,
    CountedTest,
    Tail,
    ThresholdTest,
    count_test,
    tails,
    tests_of_one_shape,
)
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.regions import SEPARATE, Counts, JointShape, Rates, Region, joint, joint_edges
from audit.estimation.scores import part_size, split
from audit.estimation.thresholds import CertifiedTests, EventRates, Question, Spent, Thresholds
from audit.numerics.arrays import Array, Flags

# Squared coefficient of variation of the excess of a normal variable over h, against h.
_HAZARD = np.linspace(-4.0, 20.0, 1025)
_MILLS = np.exp(-0.5 * _HAZARD**2 - log_ndtr(-_HAZARD)) / math.sqrt(2 * math.pi)
_VARIATION = (1 - _MILLS * (_MILLS - _HAZARD)) / (_MILLS - _HAZARD) ** 2

_MIN_EXCEEDANCES = 20  # for a fit of a tail
_MIN_SCALE = 1e-290  # below this, a scale is too small to divide by
_MIN_RATE = 1e-30  # a fitted rate is never 0
_CLIP_ERROR = 0.05  # of the two-sided interval around the observed rate that clips a fitted one

_SIGN = {Tail.AT_LEAST: 1.0, Tail.AT_MOST: -1.0}  # lower tails are upper tails of minus the scores
# Standard errors of the pilot by which each candidate's estimate is lowered before the best one is
# taken, so that the choice does not overfit the pilot.
_CAUTION = 1.0
_TIE_TOLERANCE = 1e-3  # of predicted epsilons; of ties the middle candidate is taken
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

_PILOTS, _MAX_PILOT = 12, 100_000  # pilots drawn to plan an audit, and the largest one
_DRAWS = 64  # draws of the counts for each pilot
_CORNERS = 32  # corners of a joint region; an audit has more and certifies slightly more


@dataclass(frozen=True)
class SmoothTail:
    """An estimate of P(x >= t) from one pilot sample: empirical in the body, fitted in the tail."""

    scores: Array  # ascending
    start: float  # start of the fitted tail; infinite if none is fitted (ties, few scores)
    exceedances: int  # scores that reach `start`
    mean_excess: float  # over `start`, and its squared coefficient of variation
    variation: float

    @staticmethod
    def fit(scores: Array) -> SmoothTail:
        """Fit the tail above a high quantile by the first two moments of the excess."""
        size = scores.size
        used = min(size // 4, 50 + int(8 * math.sqrt(size)))
        empty = SmoothTail(scores, math.inf, 0, 0.0, 1.0)
        if used < _MIN_EXCEEDANCES:
            return empty
        start = float(scores[size - used])
        top = scores[size - used :]
        # Atoms and lattices are not fitted; their rates are the empirical ones.
        if np.count_nonzero(np.diff(top)) < 0.9 * (used - 1):
            return empty
        scale = float(top[-1]) - start
        if not _MIN_SCALE < scale < math.inf:
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
            np.where(outside, np.clip(fitted, np.maximum(low, _MIN_RATE), high), observed),
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


@dataclass(frozen=True)
class Plan:
    """One test of a named delta, fixed before the certifying samples are seen."""

    test: ThresholdTest
    shape: JointShape
    predicted: float


class Pilot:
    """Estimates of both tails of both laws, for certifying samples of the given sizes."""

    def __init__(
        self,
        first: Array,
        second: Array,
        first_total: int,
        second_total: int,
        favours: tuple[Order, ...] = BOTH,
    ) -> None:
        self._favours = favours
        self._tails = {}
        self._candidates = {}  # thresholds to choose from, and the estimated rates of both laws
        for tail, sign in _SIGN.items():
            with np.errstate(over="ignore"):
                sides = [SmoothTail.fit(np.sort(sign * scores)) for scores in (first, second)]
            grid = _grid(*sides)
            self._tails[tail] = sides
            self._candidates[tail] = grid, [side.rate(grid) for side in sides]
        self._totals = {
            Order.FORWARD: (first_total, second_total),
            Order.REVERSE: (second_total, first_total),
        }

    def band_tests(self, number: int) -> tuple[ThresholdTest, ...]:
        """Return at most ``number`` distinct tests of both tails, each for the likelier law.

        The heavier tails beyond the thresholds have geometrically falling masses.
        """
        tests: dict[tuple[Tail, float], ThresholdTest] = {}
        for tail, levels in zip(_SIGN, (number - number // 2, number // 2), strict=True):
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
                tests[tail, t] = ThresholdTest(order, tail, _SIGN[tail] * t)
        return tuple(tests.values())

    def plan(self, delta: float, order: Order, error: float, rates: Rates = Rates.JOINT) -> Plan:
        """Return the test whose certified epsilon at ``delta`` is predicted to be largest."""
        allowed = tails(self._favours, order)
        candidates = [self._candidate(delta, order, tail, error) for tail in allowed]
        value, test, counts = max(candidates, key=lambda one: one[0])
        shapes = _SHAPES[rates]  # the one that certifies most at the expected counts
        edges = Region(*joint_edges(counts, error, shapes, _PLAN_CORNERS))
        values = np.min(edges.epsilons(np.full(len(shapes), delta)), axis=-1)
        return Plan(test, shapes[int(np.argmax(values))], value)

    def _candidate(
        self, delta: float, order: Order, tail: Tail, error: float
    ) -> tuple[float, ThresholdTest, Counts]:
        """Return the largest epsilon that one tail is predicted to certify, and its test."""
        threshold, rates = self._candidates[tail]
        (p, p_error), (q, q_error) = rates if order is Order.FORWARD else rates[::-1]
        p_total, q_total = self._totals[order]
        # from limits at expected counts; the second one gets most of the error
        low = lower_limit(np.minimum(p, 1.0) * p_total, p_total, 0.2 * error)
        high = upper_limit(np.minimum(q, 1.0) * q_total, q_total, 0.8 * error)
        gap = np.maximum(low - delta, 1e-9 * np.minimum(low + 1e-300, delta))
        doubt = np.hypot(p * p_error / np.maximum(p - delta, 1e-3 * p), q_error)
        value = np.log(np.maximum(gap, 1e-300)) - np.log(high) - _CAUTION * doubt
        equals = np.flatnonzero(value >= np.max(value) - _TIE_TOLERANCE)
        best = int(equals[equals.size // 2])
        counts = Counts(float(p[best]) * p_total, p_total, float(q[best]) * q_total, q_total)
        test = ThresholdTest(order, tail, _SIGN[tail] * float(threshold[best]))
        return float(value[best]), test, counts


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


@dataclass(frozen=True)
class PilotSplit(Thresholds):
    """Choose thresholds on a random part of each sample, and certify on the rest.

    The part chooses events {x >= t} and {x <= t} and the law that favours each. Named deltas share
    the error equally, and within each the two orders of the pair share its part. A small part goes
    to a few thresholds that serve every other delta and every other question.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    title: ClassVar[str] = "a pilot split"

    #: Share of each sample, in (0, 1), that chooses thresholds and is left out of every count.
    fraction: float = 0.1
    #: Number of thresholds, in both tails together, that are valid for every delta.
    band_thresholds: int = 32
    #: Part of the error, in (0, 1), that these thresholds use if deltas are named; otherwise they
    #: use all of it.
    band_share: float = 0.05
    #: Part of a named delta's error, in (0, 1), that is spent on the order of the pair that looks
    #: worse on the pilot; the other order gets the rest.
    lead_share: float = 0.9
    #: How the two rates of a named delta's event are bounded: jointly, or separately by
    #: Clopper-Pearson limits.
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
        counts = [count_test(ascending, test) for test in band]
        counted = tests_of_one_shape(band, counts, band_error, SEPARATE)
        spent = [Spent(f"{len(counted)} thresholds for every delta, equal parts", band_error)]
        for delta in named:
            delta_error = (error - band_error) / len(named)
            planned = question.planned_error / error * delta_error * self.lead_share
            plans = [pilot.plan(delta, order, planned, self.rates) for order in Order]
            lead = max(plans, key=lambda one: one.predicted)
            for one in plans:
                part = delta_error * (self.lead_share if one is lead else 1 - self.lead_share)
                count = count_test(ascending, one.test)
                (region,) = joint([count], part, one.shape)
                counted.append(CountedTest(one.test, count, part, region, delta, shape=one.shape))
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
        """Return the share of drawn pilots and counts at which either order's test refutes."""
        chosen = part_size(self.fraction, trials)
        left = trials - chosen
        delta_error = error * (1 - self.band_share)
        lead_error = delta_error * self.lead_share
        generator = np.random.default_rng(0)  # the same draws for every plan
        powers = []
        for _ in range(_PILOTS):
            drawn = rates.draw(min(chosen, _MAX_PILOT), generator)
            pilot = Pilot(*drawn, left, left, self.favours)
            plans = [pilot.plan(claim[1], order, lead_error, self.rates) for order in Order]
            lead, other = sorted(plans, key=lambda one: -one.predicted)
            counts = _drawn_counts(rates, (lead.test, other.test), left, generator)
            refuted = _refutes(lead, counts[0], lead_error, claim)
            refuted |= _refutes(other, counts[1], delta_error - lead_error, claim)
            powers.append(np.mean(refuted))
        return float(np.mean(powers))


def _drawn_counts(
    rates: EventRates, tests: tuple[ThresholdTest, ...], trials: int, generator: np.random.Generator
) -> list[Counts]:
    """Draw the counts of tests of the same samples, one row a draw, a test's first law first."""
    edges = sorted(test.threshold for test in tests)
    reached = [(1.0, 1.0), *(rates.above(edge) for edge in edges), (0.0, 0.0)]
    cells = np.maximum(-np.diff(np.array(reached), axis=0), 0.0)  # from low to high scores
    drawn = [generator.multinomial(trials, law / np.sum(law), (_DRAWS, 1)) for law in cells.T]
    counts = []
    for test in tests:
        place = 1 + edges.index(test.threshold)
        inside = slice(place, None) if test.tail is Tail.AT_LEAST else slice(0, place)
        sides: list[Any] = [np.sum(law[..., inside], axis=-1) for law in drawn]
        first, second = sides if test.order is Order.FORWARD else sides[::-1]
        counts.append(Counts(first, trials, second, trials))
    return counts


def _refutes(plan: Plan, counts: Counts, error: float, claim: tuple[float, float]) -> Flags:
    """Return at which drawn counts the planned test refutes the claim."""
    corners = 1 if plan.shape.angle == math.pi / 2 else _CORNERS
    region = Region(*joint_edges(counts, error, [plan.shape], corners))  # a row a draw
    return np.asarray(np.min(region.epsilons(np.asarray(claim[1])), axis=-1) > claim[0])
