"""Plan the number of trials that an audit needs to refute a claim about a known mechanism.

The audit is that of `audit_samples`, including its choice of thresholds. With thresholds at ranks
of one sample, counts are drawn by cells of the score and compared with the smallest counts that
refute. With a pilot, pilots are drawn, each plans its test, and the power of the test is a sum over
binomial counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, ndtr, ndtri

from audit import validate
from audit.curves import Order, PrivacyCurve
from audit.estimation.evidence import Tail, ThresholdTest, opposite
from audit.estimation.order_statistics import OrderStatistics
from audit.estimation.pilot_split import Pilot, PilotSplit, Plan
from audit.estimation.record import AnyThresholds
from audit.estimation.regions import Counts, Region, joint_edges
from audit.estimation.samples import default_thresholds
from audit.estimation.two_rates import RankCounts, epsilon_hypothesis, p_values

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_FARTHEST = 7.5  # normal score of the smallest rate of an event, 3e-14
_SPACING, _HALVINGS = 0.5, 6  # of a table of rates, refined where interpolation is inaccurate
_STRAIGHT = 1e-3
_DRAWS = 2000
_CELL = 0.1  # normal scores
_PILOTS, _LARGEST_PILOT = 8, 100_000
_KNOTS, _ROUNDS = 7, 8
_CORNERS = 32  # of a joint region; those of an audit have more and certify slightly more
_MOST_COUNTS = 4000
_FEWEST = 10
_STEP = 1.01  # the number of trials is accurate to one per cent
_LEAN = 1.004  # guesses lean to the other side, so that both ends of the bracket move
_GROWTH = 4


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """The number of trials that refute a claim about an assumed mechanism.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    confidence : float
        Confidence level of the planned audit.
    power : float
        The requested probability of refuting the claim.
    true_epsilon : float
        Epsilon of the assumed mechanism at ``delta``.
    trials : int or None
        Runs on each of the two datasets; None if no allowed number refutes.
    reached : float
        The probability of refuting with ``trials`` runs, or with the largest allowed number; 0 if
        the claim is true.
    strategy : str
        How `audit_samples` chooses thresholds for that many runs; empty if the claim is true.
    """

    epsilon: float
    delta: float
    confidence: float
    power: float
    true_epsilon: float
    trials: int | None
    reached: float
    strategy: str

    @property
    def refutable(self) -> bool:
        """Whether the claim is false for the assumed mechanism."""
        return self.true_epsilon > self.epsilon


def plan(
    assumed: PrivacyCurve,
    *,
    epsilon: float,
    delta: float,
    confidence: float,
    power: float = 0.8,
    directed: bool = False,
    thresholds: AnyThresholds | None = None,
    largest: int = 10**8,
) -> TrialPlan:
    """Return the number of trials that refutes "epsilon at delta" with a given power.

    Parameters
    ----------
    assumed : PrivacyCurve
        The privacy curve of the two laws of the score, such as ``GaussianCurve(mu)``,
        ``PureCurve(epsilon)`` (randomised response) or the exact curve of a pair. Scores are
        assumed to rank outcomes by their likelihood ratio, as an optimal attack does.
    epsilon, delta : float
        The claim: epsilon at least 0, delta in [0, 1).
    confidence : float
        Confidence level of the audit, in (0, 1).
    power : float, optional
        The probability of refuting the claim, in (0, 1).
    directed : bool, optional
        Whether the audit is told in advance which law has the larger scores (``favours`` of
        `audit_samples`).
    thresholds : OrderStatistics or PilotSplit, optional
        How thresholds are chosen; by default as in `audit_samples`.
    largest : int, optional
        Largest number of trials to consider.

    Returns
    -------
    TrialPlan
        The plan. Its number of trials is accurate to one per cent. The power is that of the audit's
        own tests: for ranks, from 2000 draws of the counts (standard error 0.01); for a pilot, the
        binomial sum of the leading test and draws of the other order's test, averaged over 8
        pilots, without the tests that serve every delta.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> from audit.estimation import plan
    >>> found = plan(GaussianCurve(3.0), epsilon=0.5, delta=1e-2, confidence=0.95)
    >>> found.refutable, found.trials
    (True, 10)
    """
    validate.instance(PrivacyCurve, assumed=assumed)
    validate.nonnegative(epsilon=epsilon)
    validate.half_open_unit(delta=delta)
    validate.open_unit(confidence=confidence, power=power)
    validate.integer(_FEWEST, largest=largest)
    true_epsilon = float(assumed.epsilon(delta))
    rates = EventRates.of(assumed)
    found = functools.partial(
        _reached,
        rates,
        claim=(float(epsilon), float(delta)),
        error=1 - confidence,
        directed=directed,
        thresholds=thresholds,
    )
    made = functools.partial(
        TrialPlan,
        epsilon=float(epsilon),
        delta=float(delta),
        confidence=float(confidence),
        power=float(power),
        true_epsilon=true_epsilon,
    )
    if true_epsilon <= epsilon:
        return made(trials=None, reached=0.0, strategy="")
    trials = _smallest(lambda n: found(n)[0], float(power), largest)
    reached, strategy = found(largest if trials is None else trials)
    return made(trials=trials, reached=reached, strategy=strategy)


def _smallest(power: Callable[[int], float], enough: float, largest: int) -> int | None:
    """Return the smallest number with enough power, to one per cent.

    The normal score of a test's power is nearly linear in the square root of the number.
    """

    def excess(n: int) -> float:
        return float(ndtri(np.clip(power(n), 1e-12, 1 - 1e-12)) - ndtri(enough))

    low, high = _FEWEST - 1, _FEWEST
    short, ample = -1.0, excess(high)
    while ample < 0:
        if high == largest:
            return None
        low, short = high, ample
        high = min(_GROWTH * high, largest)
        ample = excess(high)
    lean = 1.0
    while high > low + 1 and high > low * _STEP:
        share = np.clip(short / (short - ample), 0.05, 0.95)
        guess = lean * (math.sqrt(low) + share * (math.sqrt(high) - math.sqrt(low))) ** 2
        middle = max(low + 1, min(high - 1, round(guess)))
        value = excess(middle)
        if value < 0:
            low, short, lean = middle, value, _LEAN
        else:
            high, ample, lean = middle, value, 1 / _LEAN
    return high


@dataclass(frozen=True, eq=False)
class EventRates:
    """The rates of the events {score >= t} under both laws of a pair.

    Attributes
    ----------
    second, first
        Normal scores of the rates under X', ascending, and under X; between them a line. For two
        normal laws all is one straight line.
    """

    second: Array
    first: Array

    @classmethod
    def of(cls, curve: PrivacyCurve) -> EventRates:
        """Return the rates of the events that a privacy curve's tradeoff functions describe."""
        return cls(*_table(lambda rate: np.asarray(curve.beta(rate, Order.REVERSE))))

    @functools.cached_property
    def cells(self) -> tuple[Array, Array]:
        """Return the masses of both laws in cells of the score, the highest scores first."""
        even = np.arange(-_FARTHEST, _FARTHEST, _CELL)
        alike = np.interp(even, self.first, self.second)
        edges = np.unique(np.concatenate([self.second, even, alike]))
        return _masses(np.interp(edges, self.second, self.first)), _masses(edges)

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw scores of X and of X'; those of X' are standard normal."""
        rates = generator.standard_normal(size)
        return -np.interp(rates, self.first, self.second), generator.standard_normal(size)

    def above(self, threshold: float) -> tuple[float, float]:
        """Return the rates of {score >= threshold} under X and X'."""
        first = np.interp(-threshold, self.second, self.first)
        return float(ndtr(first)), float(ndtr(-threshold))


def _table(beta: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return normal scores of rates, ascending, and of 1 - beta there; a line joins them."""

    def high(scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(-ndtri(beta(ndtr(scores))), -40.0, 40.0))

    scores = np.arange(-_FARTHEST, _FARTHEST + _SPACING / 2, _SPACING)
    values = high(scores)
    new = np.ones(scores.size - 1, dtype=np.bool_)  # intervals that were not refined yet
    for _ in range(_HALVINGS):
        left = np.flatnonzero(new)
        middle = 0.5 * (scores[left] + scores[left + 1])
        found = high(middle)
        bent = np.abs(found - 0.5 * (values[left] + values[left + 1])) > _STRAIGHT
        scores, values = (
            np.insert(scores, left + 1, middle),
            np.insert(values, left + 1, found),
        )
        new = np.zeros(scores.size - 1, dtype=np.bool_)
        places = left + np.arange(left.size)  # of the halves' left ends
        new[places[bent]] = new[places[bent] + 1] = True
        if not np.any(new):
            break
    return scores, np.maximum.accumulate(values)


def _masses(scores: Array) -> Array:
    """Return the normal law's masses between and beyond ascending scores."""
    below, above = ndtr(scores), ndtr(-scores)
    inner = np.where(scores[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    masses = np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])
    return np.asarray(masses / np.sum(masses))


def _reached(
    rates: EventRates,
    trials: int,
    *,
    claim: tuple[float, float],
    error: float,
    directed: bool,
    thresholds: AnyThresholds | None,
) -> tuple[float, str]:
    """Return the power of an audit of this many trials per dataset, and its strategy."""
    choice = default_thresholds(trials) if thresholds is None else thresholds
    if not isinstance(choice, (OrderStatistics, PilotSplit)):
        raise validate.fail("thresholds", "an OrderStatistics or a PilotSplit", choice)
    if directed:
        choice = replace(choice, favours=(Order.FORWARD,))
    if isinstance(choice, OrderStatistics):
        return _rank_power(rates, trials, choice, claim, error), choice.kind
    return _pilot_power(rates, trials, choice, claim, error), choice.kind


# thresholds at ranks of one sample


def _rank_power(
    rates: EventRates,
    trials: int,
    choice: OrderStatistics,
    claim: tuple[float, float],
    error: float,
) -> float:
    """Return the probability that some test refutes, from many draws of the counts.

    Both tails use the same samples, so the scores are drawn once, by cells.
    """
    generator = np.random.default_rng(0)  # the same draws for every plan
    first, second = (generator.multinomial(trials, masses, _DRAWS) for masses in rates.cells)
    refuted = np.zeros(_DRAWS, dtype=np.bool_)
    for upper in (True, False):
        ranks, errors = choice.planned(trials, upper, error)
        counted, ranked = (first, second) if upper else (second[:, ::-1], first[:, ::-1])
        beyond = np.cumsum(counted, axis=1), np.cumsum(ranked, axis=1)
        needed = _needed(ranks, errors, trials, claim)
        for rank, least in zip(ranks.tolist(), needed.tolist(), strict=True):
            if least <= trials:
                refuted |= _counted(*beyond, rank, generator) >= least
    return float(np.mean(refuted))


def _needed(ranks: Integers, errors: Array, trials: int, claim: tuple[float, float]) -> Integers:
    """Return the smallest count at each rank that refutes; more than the total if none does."""
    every = np.full(ranks.size, trials)
    low, high = np.zeros_like(ranks), np.full_like(ranks, trials + 1)
    hypothesis = epsilon_hypothesis(np.full(ranks.size, claim[0]), claim[1], True, True)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        refutes = p_values(RankCounts(ranks, every, middle, every), hypothesis) <= errors
        low, high = np.where(refutes, low, middle), np.where(refutes, middle, high)
    return high


def _counted(
    counted: Integers, ranked: Integers, rank: int, generator: np.random.Generator
) -> Integers:
    """Draw how many scores of one law lie beyond the score of a given rank of the other law.

    Both are counted up to the end of each cell, the outermost first; inside a cell scores are
    evenly spread.
    """
    every = np.arange(len(ranked))
    cell = np.sum(ranked < rank, axis=1)
    outside = np.maximum(cell - 1, 0)
    before, there = (np.where(cell > 0, sums[every, outside], 0) for sums in (ranked, counted))
    left = ranked[every, cell] - before
    place = rank - before
    part = generator.beta(place, left - place + 1)
    return np.asarray(there + generator.binomial(counted[every, cell] - there, part))


# thresholds chosen by a pilot


def _pilot_power(
    rates: EventRates,
    trials: int,
    choice: PilotSplit,
    claim: tuple[float, float],
    error: float,
) -> float:
    """Return the mean over pilots of the probability that the test of either order refutes."""
    chosen = choice.pilot_size(trials)
    left = trials - chosen
    delta_error = error * (1 - choice.band_share)
    generator = np.random.default_rng(0)  # the same pilots for every plan
    powers = []
    for _ in range(_PILOTS):
        drawn = rates.draw(min(chosen, _LARGEST_PILOT), generator)
        pilot = Pilot(*drawn, left, left, choice.favours)
        lead_error = delta_error * choice.lead_share
        plans = [pilot.plan(claim[1], order, lead_error, choice.rates) for order in Order]
        lead, other = sorted(plans, key=lambda one: -one.predicted)
        first = _Limits.of(lead, rates, left, claim, lead_error)
        second = _Limits.of(other, rates, left, claim, delta_error - lead_error)
        powers.append(first.power() + _second_alone(rates, first, second, generator))
    return float(np.mean(powers))


@dataclass(frozen=True, eq=False)
class _Limits:
    """The largest second count at which a test refutes, for some first counts."""

    test: ThresholdTest
    trials: int
    rates: tuple[float, float]
    knots: Array
    largest: Array

    @classmethod
    def of(
        cls, plan: Plan, rates: EventRates, trials: int, claim: tuple[float, float], error: float
    ) -> _Limits:
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


def _second_alone(
    rates: EventRates, first: _Limits, second: _Limits, generator: np.random.Generator
) -> float:
    """Return the probability that the second test refutes and the first does not, from draws."""
    edges = sorted((first.test.threshold, second.test.threshold))
    reached = [(1.0, 1.0), *(rates.above(edge) for edge in edges), (0.0, 0.0)]
    cells = np.maximum(-np.diff(np.array(reached), axis=0), 0.0)  # (3, 2): from low to high scores
    drawn = {
        order: generator.multinomial(first.trials, cells[:, k] / np.sum(cells[:, k]), _DRAWS)
        for k, order in enumerate(Order)
    }

    def refutes(one: _Limits) -> NDArray[np.bool_]:
        place = 1 + edges.index(one.test.threshold)
        inside = slice(place, 3) if one.test.tail is Tail.AT_LEAST else slice(0, place)
        counts = {order: np.sum(n[:, inside], axis=1) for order, n in drawn.items()}
        own, other = counts[one.test.order], counts[opposite(one.test.order)]
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
