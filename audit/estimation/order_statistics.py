"""Thresholds at order statistics: all scores certify, and a few hundred are enough.

An event is cut at an order statistic of the second law's scores: everything above its k-th largest
of m scores, which has a rate B ~ Beta(k, m - k + 1) under that law. Of n scores of the first law, C
lie in it. The hypothesis that the first law's rate of an event is at most f, increasing, of the
second law's has the p-value (``docs/explanation/sampled-bounds.md``)

    P(Bin(n, f(B)) >= C) = P(V <= f(B)),   V ~ Beta(C, n - C + 1), B ~ Beta(k, m - k + 1).

It increases with f, so all bounds that follow from the hypotheses that are not rejected hold for
all delta, mu and points simultaneously.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, betainccinv, betaincinv, betaln, expit, logit, ndtr, ndtri

from audit.curves import Order
from audit.estimation.evidence import BOTH, Certificate, CountedTest, Evidence, Tail, ThresholdTest
from audit.estimation.regions import Counts, hull_points
from audit.estimation.thresholds import CertifiedTests, EventRates, Question, Spent, Thresholds
from audit.numerics.arrays import Array, Flags, Indices, Integers

_MAX_EPSILON = 700.0
_MAX_MU = 75.0
# Normal scores of the second rate at which a test at a rank bounds the first rate from below.
_POINTS = np.array([0.5, 2.0])
# Spawn key of the random numbers that break ties: those of a seed's own streams may be the ones
# that drew the scores.
_TIES = 0x7469_6573
# Normal scores of quantiles of B and, nearly, of V, between which panels are divided into cells.
_OWN_SCORES = np.array([-10.0, -5, -2.5, 0, 2.5, 5, 10])
_OTHER_SCORES = np.array([-5.0, -2.5, -1, 1, 2.5, 5])
_CELLS = 12  # of a panel
# Normal scores of quantiles of B, and the masses between them, that bound p-values from below.
_FEW_SCORES = np.arange(-1.0, 4.5, 0.5)
_FEW_MASSES = -np.diff(np.append(ndtr(-_FEW_SCORES), 0.0))
_NEGLIGIBLE = 1e-16  # mass of a cell that is counted in full, whatever its share
_STEEP = 0.5  # log ratio of shares in half a cell
# Relative error of a p-value from functions of SciPy, and units of rounding in an exponent.
_LIBRARY, _UNITS = 1e-8, 16 * np.finfo(np.float64).eps
_CONVERGENCE = 1e-9
_ROWS = 64  # deltas that are looked at together
_MIN_RATE = 1e-300

# In the tails ranks are powers of the first number; in the body, where more than this share of the
# scores lies beyond, they fall from half the scores by factors of the second.
_TAIL_STEP, _BODY_STEP, _BODY = 3.0, 1.7, 0.03
_HALF_STEP = 0.5
# A rank's share of the error is proportional to 1 / (this + its index from the outermost): small
# counts have limits that depend more on their error than those of large counts.
_EVENNESS = 6.0
_DRAWS = 2000  # draws of the counts, to plan an audit

Ordered = tuple[Array, Indices]  # ascending scores, and how many of the other law's lie below each
Curve = Callable[[Array], Array]
Hypotheses = Callable[[Indices, Array], "Hypothesis"]  # of some of the tests, by a number of each


@dataclass(frozen=True)
class Hypothesis:
    """The hypothesis that the first rate of an event is at most ``highest`` of its second rate."""

    highest: Curve  # increasing, [0, 1] -> [0, 1], of arrays (tests, points); and its inverse
    lowest: Curve
    slope: Curve  # derivative of `highest` below 1, monotone between kinks
    kinks: Array  # second rates at and near which `highest` has no derivative, shape (tests, kinks)


@lru_cache(maxsize=4096)
def _own_edges(rank: int, total: int) -> tuple[float, ...]:
    """Return the log odds of the quantiles of Beta(rank, total - rank + 1)."""
    a, b, tail = rank, total - rank + 1, ndtr(-np.abs(_OWN_SCORES))
    rate = np.where(_OWN_SCORES < 0, betaincinv(a, b, tail), betainccinv(a, b, tail))
    rest = np.where(_OWN_SCORES < 0, betainccinv(b, a, tail), betaincinv(b, a, tail))
    edges = np.log(np.maximum(rate, _MIN_RATE)) - np.log(np.maximum(rest, _MIN_RATE))
    return tuple(np.maximum.accumulate(edges).tolist())


def p_values(tests: Counts, hypothesis: Hypothesis) -> Array:
    """Return an upper end of the p-value of each test against its own hypothesis.

    An event holds the scores beyond one of the second law, which is not counted: its rank is the
    second count and 1. The integral runs over the log odds of B, in cells between quantiles of B
    and of V and kinks. There the density of B and the distribution function of V are log-concave,
    so that each lies below its tangent in the middle of a cell.
    """
    rank = tests.second + 1
    a = rank.astype(np.float64)[:, None]
    b = tests.second_total[:, None] - a + 1
    c = np.maximum(tests.first, 1).astype(np.float64)[:, None]
    d = tests.first_total[:, None] - c + 1
    cuts = zip(rank.tolist(), tests.second_total.tolist(), strict=True)
    own = np.array([_own_edges(*cut) for cut in cuts])
    first_rates = expit(np.log(c) - np.log(d) + np.sqrt(1 / c + 1 / d) * _OTHER_SCORES)
    met = np.concatenate([hypothesis.lowest(first_rates), hypothesis.kinks], axis=1)
    inner = np.clip(logit(np.clip(met, 0.0, 1.0)), own[:, :1], own[:, -1:])
    panels = np.sort(np.concatenate([own, inner], axis=1), axis=1)
    halves = panels[:, :-1, None] + np.diff(panels)[..., None] * np.arange(0, 1, 0.5 / _CELLS)
    points = np.append(halves.reshape(len(a), -1), panels[:, -1:], axis=1)
    log_rest = -np.logaddexp(0.0, points)
    log_rate = points + log_rest
    rate = np.exp(log_rate)
    middle, right = np.s_[:, 1::2], np.s_[:, 2::2]
    half = points[right] - points[middle]
    mass = half * np.exp(a * log_rate[middle] + b * log_rest[middle] - betaln(a, b))
    bend = (a - (a + b) * rate[middle]) * half
    upper = mass * (_mean_growth(-bend) + _mean_growth(bend))

    counted = upper > _NEGLIGIBLE
    highest = np.clip((1 + _UNITS) * hypothesis.highest(rate), 0.0, 1.0)
    least, most = odds_slopes(hypothesis.slope(rate), rate, np.exp(log_rate + log_rest), highest)
    c, d = (np.broadcast_to(one, counted.shape)[counted] for one in (c, d))
    f, half, bend = highest[middle][counted], half[counted], bend[counted]
    share = betainc(c, d, f)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = half * np.exp(c * np.log(f) + d * np.log1p(-f) - betaln(c, d)) / share
        fall, rise = np.nan_to_num(growth * least[counted]), growth * most[counted]
        share = share * (_mean_growth(-bend - fall) + _mean_growth(bend + rise))
    # where the tangent is too steep, the share at the right end holds on the cell
    steep = ~(rise < _STEEP)
    at_end = betainc(c[steep], d[steep], highest[right][counted][steep])
    crude = at_end * (upper[counted] / mass[counted])[steep]
    share[steep] = np.fmin(share[steep], crude)
    upper[counted] = mass[counted] * share
    beyond = betainc(a, b, rate[:, :1]) + betainc(b, a, np.exp(log_rest[:, -1:]))
    units = (tests.first_total + tests.second_total) * (30 + np.max(np.abs(panels), axis=1))
    value = (1 + _LIBRARY + _UNITS * units) * (np.sum(upper, axis=1) + beyond[:, 0])
    return np.where(tests.first == 0, 1.0, np.minimum(value, 1.0))


@lru_cache(maxsize=4096)
def _few_rates(rank: int, total: int) -> tuple[float, ...]:
    """Return quantiles of Beta(rank, total - rank + 1)."""
    rates: list[float] = betainccinv(rank, total - rank + 1, ndtr(-_FEW_SCORES)).tolist()
    return tuple(rates)


def least_p_values(tests: Counts, hypothesis: Hypothesis) -> Array:
    """Return a lower end of the p-value of each test, in little time.

    V is met at the left ends of cells between quantiles of B. Rounding is not counted: it decides
    only which tests are not looked at.
    """
    cuts = zip((tests.second + 1).tolist(), tests.second_total.tolist(), strict=True)
    rates = np.array([_few_rates(*cut) for cut in cuts])
    c = np.maximum(tests.first, 1)[:, None]
    share = betainc(c, tests.first_total[:, None] - c + 1, hypothesis.highest(rates))
    return np.where(tests.first == 0, 1.0, share @ _FEW_MASSES)


def odds_slopes(slope: Array, rate: Array, variance: Array, highest: Array) -> tuple[Array, Array]:
    """Bound the derivative of f's log odds by the rate's: slope rate (1 - rate) / (f (1 - f)).

    Arrays hold ends and middles of cells by turns. Return the least before each middle and the
    largest behind it.
    """
    left, middle, right = np.s_[:, :-1:2], np.s_[:, 1::2], np.s_[:, 2::2]
    met = highest * (1 - highest)
    most_met = _largest_variance(highest, met, left, middle)
    most = _largest_variance(rate, variance, middle, right)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            _least(slope, left, middle) * _least(variance, left, middle) / most_met,
            np.maximum(slope[middle], slope[right]) * most / _least(met, middle, right),
        )


def _least(curve: Array, low: Any, high: Any) -> Array:
    return np.asarray(np.minimum(curve[low], curve[high]))


def _largest_variance(rate: Array, variance: Array, low: Any, high: Any) -> Array:
    """Return the largest rate (1 - rate) between two points."""
    around = (rate[low] < 0.5) & (rate[high] > 0.5)
    return np.asarray(np.where(around, 0.25, np.maximum(variance[low], variance[high])))


def _mean_growth(exponent: Array) -> Array:
    """Return the mean of e^(xu) over u in [0, 1]."""
    x = np.where(exponent == 0, 1e-300, exponent)
    return np.asarray(np.expm1(x) / x)


def epsilon_hypothesis(
    epsilon: Array, deltas: float | Array, own: bool | Flags, other: bool | Flags
) -> Hypothesis:
    """Bound rates by an (epsilon, delta) claim on a test's own order, the other one, or both."""
    e = np.exp(epsilon)[:, None]
    delta, own, other = (
        np.broadcast_to(one, epsilon.shape)[:, None] for one in (deltas, own, other)
    )

    def lines(rate: Array) -> tuple[Array, Array]:
        steep, flat = delta + e * rate, 1 - (1 - delta - rate) / e
        return np.where(own, steep, 1.0), np.where(other, flat, 1.0)

    def lowest(rate: Array) -> Array:
        steep, flat = (rate - delta) / e, 1 - delta - (1 - rate) * e
        return np.maximum(np.where(own, steep, 0.0), np.maximum(np.where(other, flat, 0.0), 0.0))

    return Hypothesis(
        lambda rate: np.minimum(np.minimum(*lines(rate)), 1.0),
        lowest,
        lambda rate: np.where(np.less(*lines(rate)), e, np.where(other, 1 / e, 0.0)),
        np.concatenate([(1 - delta) / (1 + e), (1 - delta) / e, 1 - delta], axis=1),
    )


def gaussian_hypothesis(mu: Array) -> Hypothesis:
    """Bound rates by mu-Gaussian differential privacy (Dong, Roth and Su 2022, Definition 2.6)."""
    m = mu[:, None]
    return Hypothesis(
        lambda rate: np.asarray(ndtr(ndtri(rate) + m)),
        lambda rate: np.asarray(ndtr(ndtri(rate) - m)),
        lambda rate: np.exp(-m * (np.clip(ndtri(rate), -40, 40) + 0.5 * m)),
        np.zeros((mu.size, 0)),
    )


def point_hypothesis(second: Array, first: Array) -> Hypothesis:
    """Bound rates by a point: the first rate is at most ``first`` at the second rate ``second``."""
    a, r = second[:, None], np.maximum(first[:, None], _MIN_RATE)
    return Hypothesis(
        lambda rate: np.asarray(np.minimum(r * np.maximum(rate / a, 1.0), 1.0)),
        lambda rate: np.asarray(np.where(rate <= r, 0.0, np.minimum(rate / r * a, 1.0))),
        lambda rate: np.where(rate > a, r / a, 0.0),
        np.concatenate([a, np.minimum(a / r, 1.0)], axis=1),
    )


def largest_rejected(
    tests: Counts,
    errors: Array,
    hypotheses: Hypotheses,
    high: float,
    which: Indices | None = None,
    *,
    above: float | Array = 0.0,
    first: float | Array = 1.0,
    p_values: Callable[[Counts, Hypothesis], Array] = p_values,
) -> Array:
    """Return the largest number below ``high`` whose hypothesis each test rejects; 0 if none.

    Hypotheses grow with the number. Only tests ``which`` are made. A test that does not reject the
    number ``above`` has 0, and ``first`` is a guess. The normal score of the p-value is nearly
    linear in the number, so secant steps find the boundary; the returned number is rejected.
    """
    which = np.arange(errors.size) if which is None else which

    def excess(places: Indices, number: Array) -> Array:
        some = which[places]
        p = p_values(tests[some], hypotheses(some, number))
        return np.asarray(ndtri(np.clip(p, 1e-300, 1 - 1e-16)) - ndtri(errors[some]))

    found = np.zeros(which.size)
    low = np.broadcast_to(above, which.shape).astype(np.float64)
    low_gap = excess(np.arange(which.size), low) if which.size else low
    left = np.flatnonzero(low_gap <= 0)
    if not left.size:
        return found
    low, low_gap = low[left], np.minimum(low_gap[left], -1e-300)
    top = np.minimum(np.broadcast_to(first, which.shape)[left], high)
    top_gap = excess(left, top)
    while np.any(short := (top_gap <= 0) & (top < high)):
        low, low_gap = np.where(short, top, low), np.where(short, top_gap, low_gap)
        top = np.where(short, np.minimum(2 * top, high), top)
        top_gap[short] = excess(left[short], top[short])
    done = top_gap <= 0
    last = np.full(left.size, -1)  # whether the lower end moved last
    found[left[done]] = top[done]
    for step in range(200):
        going = ~done & (top - low > _CONVERGENCE * np.maximum(1.0, top))
        if not np.any(going):
            break
        a, b, fa, fb = low[going], top[going], low_gap[going], top_gap[going]
        share = np.clip(fa / (fa - fb), 1e-10, 1 - 1e-10)
        # every fifth step bisects, so the bracket shrinks for every shape
        number = a + (b - a) * (0.5 if step % 5 == 4 and step > 5 else share)
        # overshoot the secant's root on alternating sides, so that both ends move
        lean = 0.25 * _CONVERGENCE * np.maximum(1.0, b) * (1 if step % 2 else -1)
        number = np.clip(number + lean, a + 0.1 * abs(lean), b - 0.1 * abs(lean))
        value = excess(left[going], number)
        below = value <= 0
        # an end that stays twice loses half of its gap, so that the next root is beyond (Illinois)
        kept = np.where(below == last[going], 0.5, 1.0)
        last[going] = below
        low[going], low_gap[going] = np.where(below, number, a), np.where(below, value, kept * fa)
        top[going], top_gap[going] = np.where(below, b, number), np.where(below, kept * fb, value)
    found[left[~done]] = low[~done]
    return found


def most_rejected(
    tests: Counts, errors: Array, hypotheses: Hypotheses, high: float, rows: int = 1
) -> tuple[list[int], list[float]]:
    """Return the test of each row that rejects the largest number, and this number.

    Rows follow each other and have equally many tests. Lower ends of p-values say cheaply which
    test of a row is likely the best; others are made if they may reject more than it.
    """
    most = largest_rejected(tests, errors, hypotheses, high, p_values=least_p_values)
    likely = np.arange(rows) * (most.size // rows) + np.argmax(most.reshape(rows, -1), axis=1)
    likely = likely[most[likely] > 0]
    found, asked = np.zeros(most.size), (tests, errors, hypotheses, high)
    found[likely] = largest_rejected(*asked, likely, first=most[likely])
    best = np.repeat(np.max(found.reshape(rows, -1), axis=1), most.size // rows)
    others = np.setdiff1d(np.flatnonzero(most > best), likely)
    found[others] = largest_rejected(*asked, others, above=best[others], first=most[others])
    table = found.reshape(rows, -1)
    return np.argmax(table, axis=1).tolist(), np.max(table, axis=1).tolist()


class RankCertificate(Certificate):
    """Tests at order statistics: each bound is the largest hypothesis that some test rejects.

    Without an order, a hypothesis bounds both orders of the pair at once.
    """

    def __init__(self, tests: Sequence[CountedTest]) -> None:
        super().__init__(tests)
        self._counts = Counts.of(counted.counts for counted in tests)
        self._errors = np.array([counted.error for counted in tests])
        self._forward = np.array([counted.test.order is Order.FORWARD for counted in tests])

    def epsilons(self, deltas: Array, order: Order | None) -> Array:
        """Return the largest epsilon below which some test rejects every claim."""
        found: list[float] = []
        for start in range(0, deltas.size, _ROWS):
            found += self._most_epsilon(deltas[start : start + _ROWS], order)[1]
        return np.array(found)

    def epsilon_evidence(self, delta: float, order: Order | None) -> Evidence:
        """Return the bound with the test's counts, at the mean second rate where the claim ends."""
        (best,), (value,) = self._most_epsilon(np.array([delta]), order)
        counted, mean = self._tests[best], self._mean(best)
        edges = [
            epsilon_hypothesis(np.array([value]), delta, *side).highest(np.array([[mean]]))[0, 0]
            for side in ((True, False), (False, True))
        ]
        own, other = (bool(side[best]) for side in self._sides(order))
        limit = self._sampling_limit(delta, order)
        if own and (not other or edges[0] <= edges[1]):
            # the rate under the first law is at most 1
            second = min(mean, (1 - delta) * np.exp(-value))
            return counted.evidence((delta + np.exp(value) * second, second), value, limit)
        rest = 1 - mean
        rates = rest, (rest - delta) * np.exp(-value)
        return counted.complement().evidence(rates, value, limit)

    def mu_evidence(self) -> Evidence:
        """Return the largest mu below which some test rejects every claim."""
        asked = self._counts, self._errors, lambda _, mu: gaussian_hypothesis(mu), _MAX_MU
        (best,), (value,) = most_rejected(*asked)
        second = self._mean(best)
        rates = float(ndtr(ndtri(second) + value)), second
        return self._tests[best].evidence(rates, value)

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
        a, b = self._counts.second + 1, self._counts.second_total - self._counts.second
        last = -ndtri(np.minimum(0.5 * self._errors, 0.5))[:, None]
        z = np.append(np.tile(_POINTS, (a.size, 1)), last, axis=1)
        second: Array = np.asarray(betaincinv(a[:, None], b[:, None], ndtr(z)), dtype=np.float64)
        flat = np.repeat(np.arange(a.size), z.shape[1])
        # first rates below the second ones say nothing, and are not looked for
        place = second.ravel()
        asked = (
            self._counts[flat],
            self._errors[flat],
            lambda which, rise: point_hypothesis(
                place[which], place[which] + rise * (1 - place[which])
            ),
            1.0,
        )
        above = largest_rejected(*asked, p_values=least_p_values)
        which = np.flatnonzero(above > 0)
        above[which] = largest_rejected(*asked, which, first=above[which])
        first = np.where(above > 0, place + above * (1 - place), 0.0)
        return second, first.reshape(second.shape)

    def _most_epsilon(self, deltas: Array, order: Order | None) -> tuple[list[int], list[float]]:
        return _most_epsilon(self._counts, self._errors, deltas, *self._sides(order))

    def _sides(self, order: Order | None) -> tuple[Flags, Flags]:
        """Return whether a claim holds in each test's own order, and in the other one."""
        own = self._forward == (order is Order.FORWARD)
        return own | (order is None), ~own | (order is None)

    def _mean(self, index: int) -> float:
        counts = self._counts[index]
        return float((counts.second + 1) / (counts.second_total + 1))

    def _sampling_limit(self, delta: float, order: Order | None) -> float:
        """Return the bound that all of the first law in an outermost event would certify."""
        outer = np.flatnonzero(self._counts.second == np.min(self._counts.second))
        counts, errors = self._counts[outer], self._errors[outer]
        full = replace(counts, first=counts.first_total)
        sides = [(True, True)] if order is None else [(True, False), (False, True)]
        return max(_most_epsilon(full, errors, np.array([delta]), *one)[1][0] for one in sides)


def _most_epsilon(
    tests: Counts, errors: Array, deltas: Array, own: bool | Flags, other: bool | Flags
) -> tuple[list[int], list[float]]:
    """Return for each delta the test that rejects the largest epsilon, and this epsilon."""
    row, test = np.divmod(np.arange(deltas.size * errors.size), errors.size)
    delta = deltas[row]
    own, other = (np.broadcast_to(side, errors.shape)[test] for side in (own, other))
    return most_rejected(
        tests[test],
        errors[test],
        lambda which, e: epsilon_hypothesis(e, delta[which], own[which], other[which]),
        _MAX_EPSILON,
        deltas.size,
    )


@dataclass(frozen=True)
class OrderStatistics(Thresholds):
    """Cut the scores at fixed ranks of one sample, and test both rates of each event exactly.

    The events are the upper tails beyond the k-th largest score of one law and the lower tails
    beyond the k-th smallest score of the other, for ranks k that depend on the number of scores
    only. Under the law whose score is the threshold, the rate of the event has a known
    distribution, so the test of the two rates has no nuisance parameter (see the module). The error
    is shared between the tests in advance (`ladder`). Ties are broken at random, which splits
    atoms.
    """

    title: ClassVar[str] = "order statistics"
    certificate: ClassVar[type[Certificate]] = RankCertificate

    favours: tuple[Order, ...] = BOTH

    def certify(self, question: Question) -> CertifiedTests:
        """Return every test with its share of the error; needs a seed, which breaks ties."""
        scores, error = (question.first, question.second), question.error
        streams = np.random.SeedSequence(question.seed_for(self.title), spawn_key=(_TIES,)).spawn(2)
        lots = [
            np.random.default_rng(stream).random(own.size)
            for own, stream in zip(scores, streams, strict=True)
        ]
        first = np.lexsort((np.concatenate(lots), np.concatenate(scores))) < scores[0].size
        laws = {}
        for order, own, places in zip(BOTH, scores, (first, ~first), strict=True):
            laws[order] = np.sort(own), np.flatnonzero(places) - np.arange(own.size)
        tests = tuple(
            test
            for high in self.favours
            for upper in (True, False)
            for test in self._tests_of_tail(laws, high, upper, error)
        )
        spent = Spent(f"{len(tests)} tests at ranks fixed in advance, outermost most", error)
        sizes = question.first.size, question.second.size
        return CertifiedTests(tests=tests, spent=(spent,), certifying_sizes=sizes)

    def power(
        self, rates: EventRates, trials: int, *, claim: tuple[float, float], error: float
    ) -> float:
        """Return the probability that some test refutes, from many draws of the counts.

        Both tails use the same samples, so the scores are drawn once, by cells.
        """
        generator = np.random.default_rng(0)  # the same draws for every plan
        first, second = (generator.multinomial(trials, masses, _DRAWS) for masses in rates.cells)
        refuted = np.zeros(_DRAWS, dtype=np.bool_)
        for upper in (True, False):
            ranks, errors = self._planned(trials, upper, error)
            counted, ranked = (first, second) if upper else (second[:, ::-1], first[:, ::-1])
            beyond = np.cumsum(counted, axis=1), np.cumsum(ranked, axis=1)
            needed = _needed(ranks, errors, trials, claim)
            for rank, least in zip(ranks.tolist(), needed.tolist(), strict=True):
                if least <= trials:
                    refuted |= _drawn_count(*beyond, rank, generator) >= least
        return float(np.mean(refuted))

    def _planned(self, size: int, upper: bool, error: float) -> tuple[Integers, Array]:
        """Return the ranks at which one tail is cut, and the error of each test.

        Upper tails are cut at scores of the law that high scores do not favour.
        """
        ranks, shares = ladder(size, 0.0 if upper else _HALF_STEP)
        return ranks, shares * (error / (2 * len(self.favours)))

    def _tests_of_tail(
        self, laws: dict[Order, Ordered], high: Order, upper: bool, error: float
    ) -> list[CountedTest]:
        """Cut one tail, if high scores are suspected to favour the law ``high``."""
        order = high if upper else high.other
        total = laws[order][0].size
        scores, below = laws[order.other]
        ranks, errors = self._planned(scores.size, upper, error)
        places = scores.size - ranks if upper else ranks - 1
        counts = total - below[places] if upper else below[places]
        tail = Tail.ABOVE if upper else Tail.BELOW
        return [
            CountedTest(
                test=ThresholdTest(order, tail, float(scores[place])),
                counts=Counts(int(count), total, int(rank) - 1, scores.size),
                error=float(part),
                region=None,
                planned_delta=None,
            )
            for place, count, rank, part in zip(places, counts, ranks, errors, strict=True)
        ]


@lru_cache(maxsize=256)
def ladder(size: int, offset: float) -> tuple[Integers, Array]:
    """Return the ascending ranks at which ``size`` scores are cut, and their shares of the error.

    An ``offset`` of half a step places the ranks of one tail between those of the other.
    """
    body = [0.5 * size * _BODY_STEP ** -(offset + k) for k in range(64)]
    body = [rank for rank in body if rank > max(_BODY * size, 1.0)]
    tail = [_TAIL_STEP**k for k in range(64)]
    tail = [rank for rank in tail if rank * _TAIL_STEP**0.6 < (body[-1] if body else size)]
    ranks = np.unique(np.rint([1.0, *tail, *body]).astype(np.int64))
    shares = 1 / (_EVENNESS + np.arange(ranks.size))
    return ranks, shares / np.sum(shares)


def _needed(ranks: Integers, errors: Array, trials: int, claim: tuple[float, float]) -> Integers:
    """Return the smallest count at each rank that refutes; more than the total if none does."""
    every = np.full(ranks.size, trials)
    low, high = np.zeros_like(ranks), np.full_like(ranks, trials + 1)
    hypothesis = epsilon_hypothesis(np.full(ranks.size, claim[0]), claim[1], True, True)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        refutes = p_values(Counts(middle, every, ranks - 1, every), hypothesis) <= errors
        low, high = np.where(refutes, low, middle), np.where(refutes, middle, high)
    return high


def _drawn_count(
    counted: Integers, ranked: Integers, rank: int, generator: np.random.Generator
) -> Integers:
    """Draw how many scores of one law lie beyond the score of a given rank of the other law.

    Both are counted up to the end of each cell, outermost first; inside a cell they spread evenly.
    """
    every = np.arange(len(ranked))
    cell = np.sum(ranked < rank, axis=1)
    outside = np.maximum(cell - 1, 0)
    before, there = (np.where(cell > 0, sums[every, outside], 0) for sums in (ranked, counted))
    left = ranked[every, cell] - before
    place = rank - before
    part = generator.beta(place, left - place + 1)
    return np.asarray(there + generator.binomial(counted[every, cell] - there, part))
