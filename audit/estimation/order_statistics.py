"""Thresholds at order statistics: all scores certify, and a few hundred are enough."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.estimation.evidence import (
    BOTH,
    CountedTest,
    Tail,
    ThresholdTest,
)
from audit.estimation.regions import Counts
from audit.estimation.thresholds import CertifiedTests, EventRates, Question, Spent, Thresholds
from audit.estimation.two_rates import RankCounts, epsilon_hypothesis, p_values

Array = NDArray[np.float64]
Ranks = NDArray[np.int64]
Ordered = tuple[Array, Array]  # ascending scores, and random numbers that order ties

# In the tails ranks are powers of the first number; in the body, where more than this share of the
# scores lies beyond, they fall from half the scores by factors of the second.
_TAIL_STEP, _BODY_STEP, _BODY = 3.0, 1.7, 0.03
_HALF_STEP = 0.5
# A rank's share of the error is proportional to 1 / (this + its index from the outermost): limits
# of small counts depend more on their error than those of large counts.
_EVENNESS = 6.0
_DRAWS = 2000  # of the counts, to plan an audit


@dataclass(frozen=True)
class OrderStatistics(Thresholds):
    """Cut the scores at fixed ranks of one sample, and test both rates of each event exactly.

    The events are the upper tails beyond the k-th largest score of one law and the lower tails
    beyond the k-th smallest score of the other, for ranks k that depend on the number of scores
    only. Under the law whose score is the threshold, the rate of the event has a known
    distribution, so the test of the two rates has no nuisance parameter
    (`audit.estimation.two_rates`). The error is shared between the tests in advance (`ladder`), and
    the certified numbers hold for all deltas simultaneously. Ties are broken at random, which
    splits atoms.

    Parameters
    ----------
    favours : tuple of Order, optional
        The laws that high scores may favour: FORWARD the first, REVERSE the second. Naming only one
        of them in advance halves the number of tests.

    Raises
    ------
    ValueError
        If no order is named, or one is repeated.
    """

    kind: ClassVar[str] = "OrderStatistics"
    title: ClassVar[str] = "order statistics"

    favours: tuple[Order, ...] = BOTH

    def certify(self, question: Question) -> CertifiedTests:
        """Return every test with its share of the error; needs a seed, which breaks ties."""
        scores, error = (question.first, question.second), question.error
        streams = np.random.SeedSequence(question.seed_for(self.title)).spawn(2)
        laws = {
            order: _in_order(own, stream)
            for order, own, stream in zip(BOTH, scores, streams, strict=True)
        }
        tests = tuple(
            test
            for high in self.favours
            for upper in (True, False)
            for test in self._tests_of_tail(laws, high, upper, error)
        )
        spent = Spent(f"{len(tests)} tests at ranks fixed in advance, outermost most", error)
        return CertifiedTests(tests=tests, spent=(spent,), certifying_sizes=question.sizes)

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

    def _planned(self, size: int, upper: bool, error: float) -> tuple[Ranks, Array]:
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
        first, second = laws[order], laws[order.other]
        size = second[0].size
        ranks, errors = self._planned(size, upper, error)
        places = size - ranks if upper else ranks - 1
        thresholds, lots = second[0][places], second[1][places]
        below = _count_below(first, thresholds, lots)
        counts = first[0].size - below if upper else below
        tail = Tail.ABOVE if upper else Tail.BELOW
        return [
            CountedTest(
                test=ThresholdTest(order, tail, threshold),
                counts=Counts(count, first[0].size, rank - 1, size),
                error=part,
                region=None,
                planned_delta=None,
            )
            for threshold, count, rank, part in zip(
                thresholds.tolist(), counts.tolist(), ranks.tolist(), errors.tolist(), strict=True
            )
        ]


def _in_order(scores: Array, stream: np.random.SeedSequence) -> Ordered:
    lots = np.random.default_rng(stream).random(scores.size)
    places = np.lexsort((lots, scores))
    return scores[places], lots[places]


def _count_below(law: Ordered, thresholds: Array, lots: Array) -> NDArray[np.intp]:
    """Count the scores below each threshold, or tied with it and with a smaller random number."""
    start = np.searchsorted(law[0], thresholds, side="left")
    end = np.searchsorted(law[0], thresholds, side="right")
    for k in np.flatnonzero(end > start).tolist():
        start[k] += np.searchsorted(law[1][start[k] : end[k]], lots[k])
    return np.asarray(start)


@lru_cache(maxsize=256)
def ladder(size: int, offset: float) -> tuple[Ranks, Array]:
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


def _needed(ranks: Ranks, errors: Array, trials: int, claim: tuple[float, float]) -> Ranks:
    """Return the smallest count at each rank that refutes; more than the total if none does."""
    every = np.full(ranks.size, trials)
    low, high = np.zeros_like(ranks), np.full_like(ranks, trials + 1)
    hypothesis = epsilon_hypothesis(np.full(ranks.size, claim[0]), claim[1], True, True)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        refutes = p_values(RankCounts(ranks, every, middle, every), hypothesis) <= errors
        low, high = np.where(refutes, low, middle), np.where(refutes, middle, high)
    return high


def _drawn_count(counted: Ranks, ranked: Ranks, rank: int, generator: np.random.Generator) -> Ranks:
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
