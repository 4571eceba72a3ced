"""The pilot's choice of tests, from smoothed tail probabilities; a poor one costs power only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.estimation.evidence import BOTH, Tail, ThresholdTest, tails
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.regions import Counts, JointShape, Rates, Region, joint_edges
from audit.estimation.smooth_tail import SmoothTail

Array = NDArray[np.float64]

_SIGN = {Tail.AT_LEAST: 1.0, Tail.AT_MOST: -1.0}  # lower tails are upper tails of minus the scores
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
        equals = np.flatnonzero(value >= np.max(value) - _TIE)
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


def _predicted_epsilon(
    p: Array, q: Array, p_total: int, q_total: int, delta: float, error: float
) -> Array:
    """Return the epsilon of limits at expected counts; the second gets most of the error."""
    low = lower_limit(np.minimum(p, 1.0) * p_total, p_total, 0.2 * error)
    high = upper_limit(np.minimum(q, 1.0) * q_total, q_total, 0.8 * error)
    gap = np.maximum(low - delta, 1e-9 * np.minimum(low + 1e-300, delta))
    return np.asarray(np.log(np.maximum(gap, 1e-300)) - np.log(high))


def _best_shape(counts: Counts, delta: float, error: float, rates: Rates) -> JointShape:
    """Return the shape of the joint region that certifies most at the expected counts."""
    shapes = _SHAPES[rates]
    edges = Region(*joint_edges(counts, error, shapes, _PLAN_CORNERS))
    values = np.min(edges.epsilons(np.full((len(shapes)), delta)), axis=-1)
    return shapes[int(np.argmax(values))]
