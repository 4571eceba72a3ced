"""The simultaneous band: every threshold at once, without a pilot or a grid of scores.

Let N(c) be the number of values at most c among n independent uniform variables. For ranks i and
limits c_i with P(N(c_i) >= i) = level, the event that N(c_i) < i for every rank bounds a
distribution function from below everywhere: F(t) >= c_i wherever at least i draws are at most t.
The probability of this event is computed for one common level (Berk and Jones 1979; Aldor-Noiman et
al. 2013; ``docs/explanation/sampled-bounds.md``), which is as tight in the tails as in the middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import betainc, gammaln, xlogy

from audit.curves import Order
from audit.estimation.evidence import BOTH, CountedTest, Tail, ThresholdTest, count_tails, tails
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.regions import Counts, Region, hull_vertices, kept_inside
from audit.estimation.thresholds import CertifiedTests, Question, Spent, Thresholds
from audit.numerics.arrays import Array, Indices, Integers

# Up to this many draws every rank is used and the probability is computed exactly.
EXACT_UP_TO = 3000
# Beyond, the spacing of ranks in log(F / (1 - F)), in the tails and in the body.
_TAIL_STEP = 0.04
_BODY_STEP = 0.01
_BODY = 0.02  # the body is where both tails are heavier than this
_BINS = 48  # bins of the bound on failing at one rank but not at the previous
_WINDOW = 8.0  # standard deviations that the sum spans
_NEGLIGIBLE = 1e-30
_LEVEL_TOLERANCE = 0.01  # relative accuracy of the level, from below
_MIN_EXACT_ERROR = 1e-9  # below it rounding affects the exact probability: the union bound is used
_MAX_ERROR = 1 - 2.0**-53  # a confidence of 1e-300 leaves an error that rounds to 1


@dataclass(frozen=True)
class SimultaneousBand(Thresholds):
    """Bound both distribution functions everywhere; no score chooses, all certify.

    One band per law, of equal local levels (tight in the tails, where the band of Dvoretzky, Kiefer
    and Wolfowitz is far too wide), holds for all events {x >= t}, {x > t}, {x <= t} and {x < t}
    simultaneously, including atoms. The two samples are independent, so each band errs with
    probability 1 - sqrt(confidence). The certified epsilons hold for all deltas simultaneously;
    naming a delta in advance does not improve it. See `limits`.
    """

    title: ClassVar[str] = "a simultaneous band"

    favours: tuple[Order, ...] = BOTH

    def certify(self, question: Question) -> CertifiedTests:
        """Return the tests at the vertices of the tradeoff bounds, where all bounds are largest."""
        first, second, error = np.sort(question.first), np.sort(question.second), question.error
        laws = {Order.FORWARD: first, Order.REVERSE: second}
        # error of a band; that both err is counted for the second one only
        own = -math.expm1(0.5 * math.log1p(-min(error, _MAX_ERROR)))
        # `limits` divides its error between two sides
        each = own if len(self.favours) == 2 else min(2 * own, _MAX_ERROR)
        bounds = {order: limits(scores.size, each) for order, scores in laws.items()}
        tests = tuple(
            test
            for order in Order
            for test in _vertices(order, laws, bounds, error, tails(self.favours, order))
        )
        spent = tuple(
            Spent(f"band on the {law} distribution function", part)
            for law, part in (("first", own), ("second", error - own))
        )
        return CertifiedTests(tests=tests, spent=spent, certifying_sizes=(first.size, second.size))


def _vertices(
    order: Order,
    laws: dict[Order, Array],
    bounds: dict[Order, BandLimits],
    error: float,
    tails: tuple[Tail, ...],
) -> list[CountedTest]:
    """Return the tests of one order, upper and lower tails together.

    The limit of the first rate changes at ranks; the smallest event that reaches one is best there.
    """
    first, second = laws[order], laws[order.other]
    least, greatest = bounds[order], bounds[order.other]
    none = np.zeros(0)
    at_least = np.unique(first[first.size - least.ranks]) if Tail.AT_LEAST in tails else none
    at_most = np.unique(first[least.ranks - 1]) if Tail.AT_MOST in tails else none
    thresholds = np.concatenate([at_least, at_most])
    counts = [count_tails(law, at_least, at_most) for law in (first, second)]
    p, q = kept_inside(least.least_rate(counts[0]), greatest.greatest_rate(counts[1]))
    kept = hull_vertices(1 - p, q)
    if not kept.size:
        kept = np.asarray([np.argmax(p - q)])
    return [
        CountedTest(
            test=ThresholdTest(
                order, Tail.AT_LEAST if k < at_least.size else Tail.AT_MOST, float(thresholds[k])
            ),
            counts=Counts(int(counts[0][k]), first.size, int(counts[1][k]), second.size),
            error=error,
            region=Region(p[k : k + 1], q[k : k + 1]),
            planned_delta=None,
            local_levels=(least.level, greatest.level),
        )
        for k in kept.tolist()
    ]


@dataclass(frozen=True, eq=False)
class BandLimits:
    """Limits on the rates of all events of either tail of one law, valid together."""

    size: int  # draws of the law
    level: float  # error of each limit alone
    ranks: Integers  # ascending counts i, from 1 to `size`, that have limits
    lower: Array  # for a count of at least `ranks[j]` the rate is at least `lower[j]`
    upper: Array  # for a count of at most `size - ranks[j]` the rate is at most `upper[j]`

    def least_rate(self, count: Indices) -> Array:
        """Return lower limits for the rates of events with these counts."""
        index = np.searchsorted(self.ranks, count, side="right") - 1
        return np.where(index < 0, 0.0, self.lower[np.maximum(index, 0)])

    def greatest_rate(self, count: Indices) -> Array:
        """Return upper limits for the rates of events with these counts."""
        index = np.searchsorted(self.ranks, self.size - count, side="right") - 1
        return np.where(index < 0, 1.0, self.upper[np.maximum(index, 0)])


@lru_cache(maxsize=64)
def limits(size: int, error: float) -> BandLimits:
    """Return limits that hold for all events {x <= t}, {x < t}, {x >= t}, {x > t} simultaneously.

    Each tail spends half of ``error``: its limits are Clopper and Pearson's at a common level.
    """
    ranks = _ranks(size)
    level = _level(size, ranks, 0.5 * error)
    lower = lower_limit(ranks, size, level)
    upper = upper_limit(size - ranks, size, level)
    return BandLimits(size, level, ranks, lower, upper)


def _ranks(size: int) -> Integers:
    if size <= EXACT_UP_TO:
        return np.arange(1, size + 1, dtype=np.int64)
    edge, end = math.log(_BODY / (1 - _BODY)), math.log(size)
    tail = np.arange(-end, edge, _TAIL_STEP)
    odds = np.concatenate([tail, np.linspace(edge, -edge, round(-2 * edge / _BODY_STEP)), -tail])
    inner = np.rint(size / (1 + np.exp(-odds))).astype(np.int64)
    return np.unique(np.clip(np.append(inner, [1, size]), 1, size))


def _level(size: int, ranks: Integers, error: float) -> float:
    """Return a level whose probability of failure anywhere is nearly, and at most, ``error``.

    The probability divided by the level changes slowly, so a few proportional steps suffice.
    """
    exactly = size <= EXACT_UP_TO and error >= _MIN_EXACT_ERROR
    wanted = (1 - 0.5 * _LEVEL_TOLERANCE) * error
    level = wanted / (1 + 2 * math.log1p(size) * (1 if exactly else 2.5))
    for _ in range(60):
        cuts = lower_limit(ranks, size, level)
        chance = failure_exactly(cuts) if exactly else failure_at_most(size, ranks, cuts)
        if (1 - _LEVEL_TOLERANCE) * error <= chance <= error:
            return level
        level *= min(max(wanted / max(chance, 1e-300), 1e-3), 1e3)
        if level >= wanted and chance <= error:  # one rank has one limit
            return wanted
    return error / ranks.size  # the plain union bound needs no search


def failure_exactly(cuts: Array) -> float:
    """Return P(N(c_i) >= i for some rank i), for cuts at all ranks 1, 2, ..., n.

    By convolution (Noe 1972; Moscovich and Nadler 2017); mass that is dropped counts as failed.
    """
    size, law, lowest = cuts.size, np.ones(1), 0
    gaps = size * np.diff(cuts, prepend=0.0)
    for rank, gap in enumerate(gaps.tolist(), start=1):
        likely = np.arange(int(gap + 12 * math.sqrt(gap) + 18))
        law = np.convolve(law, _poisson(likely, gap))[: rank - lowest]
        if law[0] < _NEGLIGIBLE:
            start = int(np.argmax(law >= _NEGLIGIBLE))
            law, lowest = law[start:], lowest + start
    end = _poisson(size - lowest - np.arange(law.size), size * (1 - cuts[-1]))
    all_points = math.exp(size * math.log(size) - size - math.lgamma(size + 1))
    return max(0.0, 1 - float(law @ end) / all_points)


def _poisson(counts: Indices, mean: float) -> Array:
    return np.asarray(np.exp(xlogy(counts, mean) - mean - gammaln(counts + 1)))


def failure_at_most(size: int, ranks: Integers, cuts: Array) -> float:
    """Return an upper bound on P(N(c_i) >= i for some of the ranks).

    P(A_1) + sum_j P(A_j and not A_{j-1}) (Hunter 1976, Worsley 1982), with N(c_{j-1}) in bins.
    """
    n = float(size)
    i, c = ranks.astype(np.float64), cuts
    alone = betainc(i, n - i + 1, c)
    before, after = i[:-1, None], i[1:, None]
    step = np.diff(c)[:, None] / (1 - c[:-1, None])
    spread = _WINDOW * np.sqrt(n * np.diff(c)[:, None] + 1) + _WINDOW
    offsets = np.floor(spread * np.linspace(0, 1, _BINS + 1) ** 2)
    offsets = np.minimum(np.maximum(offsets, np.arange(_BINS + 1)), before)
    reach = before - offsets  # bins {reach[k + 1], ..., reach[k] - 1}; the last one is open below
    # P(N(c_{j-1}) >= reach); 1 where reach is 0
    at_least = np.where(
        reach > 0, betainc(np.maximum(reach, 1.0), n - reach + 1, c[:-1, None]), 1.0
    )
    mass = np.diff(at_least, axis=1)
    need = np.maximum(after - (reach[:, :-1] - 1), 1.0)
    jump = betainc(need, np.maximum(n - after + 1, 1.0), step)
    last = reach[:, -1]
    below = betainc(after[:, 0] - last + 1, n - i[1:] + 1, step[:, 0])
    new = np.sum(mass * jump, axis=1) + np.where(last > 0, below, 0.0)
    return float(alone[0] + np.sum(np.minimum(new, alone[1:])))
