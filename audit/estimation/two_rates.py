"""Exact tests of two rates when the rate under the second law has a known distribution.

An event is cut at an order statistic of the second law's scores: everything above its k-th largest
of m scores. The second law gives this event a rate B ~ Beta(k, m - k + 1), for every law. Among n
scores of the first law, C lie in the event: given B, C is binomial with a rate of at most R(B),
where R(b) is the largest rate that the first law gives to an event whose second rate is b. A
hypothesis R <= f, with f increasing, therefore has the p-value

    P(Bin(n, f(B)) >= C) = P(V <= f(B)),   V ~ Beta(C, n - C + 1), B ~ Beta(k, m - k + 1).

There is no nuisance parameter, so nothing is lost to a worst case over an unknown rate (in contrast
to two Clopper-Pearson limits at half the error each, or a joint test that holds for every rate).

The p-value increases with f. So the hypotheses that are rejected at one error are those below some
curve, and the true R is rejected with probability at most that error. Unless it is rejected, every
bound that follows from the remaining curves is right: for all delta, mu and points simultaneously.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betainccinv, betaincinv, betaln, ndtr, ndtri

from audit.numerics.panels import gauss_legendre

Array = NDArray[np.float64]

# Ends of the quadrature panels: normal scores of quantiles of B and of V, and multiples of the
# second rate at a kink, where the integrand may be narrow.
_OWN_SCORES = np.array([-10.0, -6, -3.5, -1.5, 0, 1.5, 3.5, 6, 10])
_OTHER_SCORES = np.array([-5.0, -2.5, -1, 1, 2.5, 5])
_ABOUT_KINK = (0.9, 1.0, 1.1)
_NODES, _WEIGHTS = gauss_legendre(6)
# Relative and absolute error of a p-value by quadrature, taken against rejection: at least twice
# the largest error in 3,000 tests of 10 to a million scores (``tests/estimation``).
_RELATIVE, _ABSOLUTE = 1e-3, 1e-10
_NEGLIGIBLE = 1e-14  # mass of a node that is counted in full, whatever its share
_CLOSE_ENOUGH = 1e-7
_INSIDE = 1e-300

Curve = Callable[[Array], Array]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Hypothesis:
    """The hypothesis that the first rate of an event is at most ``highest`` of its second rate."""

    highest: Curve  # increasing, [0, 1] -> [0, 1], of arrays (tests, nodes); and its inverse
    lowest: Curve
    kinks: Array  # second rates at and near which `highest` has no derivative, shape (tests, kinks)


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Counts of several tests, one entry per test."""

    rank: NDArray[np.int64]  # the event holds the scores of the second law beyond this rank
    second_total: NDArray[np.int64]
    count: NDArray[np.int64]  # scores of the first law in the event, and in total
    first_total: NDArray[np.int64]

    @property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """The four numbers of every test, in the order of the fields."""
        return self.rank, self.second_total, self.count, self.first_total

    def take(self, which: Indices) -> RankCounts:
        """Return a subset of the tests."""
        return RankCounts(*(column[which] for column in self.columns))


@lru_cache(maxsize=4096)
def _own_edges(rank: int, total: int) -> tuple[float, ...]:
    """Return the log odds of the quantiles of Beta(rank, total - rank + 1)."""
    a, b = float(rank), float(total - rank + 1)
    tail = ndtr(-np.abs(_OWN_SCORES))
    low = _OWN_SCORES < 0
    rate = np.where(low, betaincinv(a, b, tail), betainccinv(a, b, tail))
    rest = np.where(low, betainccinv(b, a, tail), betaincinv(b, a, tail))
    edges = np.log(np.maximum(rate, _INSIDE)) - np.log(np.maximum(rest, _INSIDE))
    return tuple(np.maximum.accumulate(edges).tolist())


def p_values(tests: RankCounts, hypothesis: Hypothesis) -> Array:
    """Return the p-value of each test against its own hypothesis.

    The integral runs over the log odds of B, in panels between quantiles of B and of V and kinks.
    """
    a = tests.rank.astype(np.float64)[:, None]
    b = tests.second_total[:, None] - a + 1
    c = np.maximum(tests.count, 1).astype(np.float64)[:, None]
    d = tests.first_total[:, None] - c + 1
    cuts = zip(tests.rank.tolist(), tests.second_total.tolist(), strict=True)
    own = np.array([_own_edges(*cut) for cut in cuts])
    middle, spread = np.log(c) - np.log(d), np.sqrt(1 / c + 1 / d)
    with np.errstate(over="ignore"):
        first_rates = 1 / (1 + np.exp(-(middle + spread * _OTHER_SCORES)))
    met = np.concatenate([hypothesis.lowest(first_rates), hypothesis.kinks], axis=1)
    met = np.clip(met, _INSIDE, 1 - 1e-16)
    inner = np.clip(np.log(met) - np.log1p(-met), own[:, :1], own[:, -1:])
    edges = np.sort(np.concatenate([own, inner], axis=1), axis=1)
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    t = 0.5 * (edges[:, 1:] + edges[:, :-1])[:, :, None] + half * _NODES
    t, weight = t.reshape(len(a), -1), (half * _WEIGHTS).reshape(len(a), -1)
    log_rest = -np.logaddexp(0.0, t)
    log_rate = t + log_rest
    mass = weight * np.exp(a * log_rate + b * log_rest - betaln(a, b))
    highest = np.clip(hypothesis.highest(np.exp(log_rate)), 0.0, 1.0)
    share = np.ones_like(mass)
    rows, nodes = np.nonzero(mass > _NEGLIGIBLE)
    share[rows, nodes] = betainc(c[rows, 0], d[rows, 0], highest[rows, nodes])
    value = (1 + _RELATIVE) * np.sum(mass * share, axis=1) + _ABSOLUTE
    return np.where(tests.count == 0, 1.0, np.minimum(value, 1.0))


def epsilon_hypothesis(epsilon: Array, deltas: float | Array, own: bool, other: bool) -> Hypothesis:
    """Bound rates by an (epsilon, delta) claim on the test's order, on the other one, or on both.

    P(S) <= delta + e^epsilon Q(S) bounds the first rate by delta + e^epsilon b; the other order,
    for the complement, bounds it by 1 - e^-epsilon (1 - delta - b).
    """
    e = np.exp(epsilon)[:, None]
    delta = np.broadcast_to(deltas, epsilon.shape)[:, None]
    corner = (1 - delta) / (1 + e)

    def highest(rate: Array) -> Array:
        steep = delta + e * rate if own else 1.0
        flat = 1 - (1 - delta - rate) / e if other else 1.0
        return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))

    def lowest(rate: Array) -> Array:
        steep = (rate - delta) / e if own else 0.0
        flat = 1 - delta - (1 - rate) * e if other else 0.0
        return np.asarray(np.maximum(np.maximum(steep, flat), 0.0))

    ends = (1 - delta) / e, 1 - delta
    near = [part * corner for part in _ABOUT_KINK]
    return Hypothesis(highest, lowest, np.concatenate([*near, *ends], axis=1))


def gaussian_hypothesis(mu: Array) -> Hypothesis:
    """Bound rates by mu-Gaussian differential privacy (Dong, Roth and Su 2022, Definition 2.6)."""
    m = mu[:, None]
    return Hypothesis(
        lambda rate: np.asarray(ndtr(ndtri(rate) + m)),
        lambda rate: np.asarray(ndtr(ndtri(rate) - m)),
        np.zeros((mu.size, 0)),
    )


def point_hypothesis(second: Array, first: Array) -> Hypothesis:
    """Bound rates by a point: the first rate is at most ``first`` at the second rate ``second``.

    The pairs of rates of (randomised) events under two laws form a convex set that contains (0, 0).
    So the largest first rate is at most ``first`` up to the second rate ``second``, and increases
    at most proportionally beyond it.
    """
    a, r = second[:, None], np.maximum(first[:, None], _INSIDE)
    return Hypothesis(
        lambda rate: np.asarray(np.minimum(r * np.maximum(rate / a, 1.0), 1.0)),
        lambda rate: np.asarray(np.where(rate <= r, 0.0, np.minimum(rate / r * a, 1.0))),
        np.concatenate([a, np.minimum(a / r, 1.0)], axis=1),
    )


def largest_rejected(
    tests: RankCounts,
    errors: Array,
    hypothesis: Callable[[Indices, Array], Hypothesis],
    high: float,
) -> Array:
    """Return the largest number below ``high`` whose hypothesis each test rejects; 0 if none.

    Hypotheses grow with the number. The normal score of the p-value is nearly linear in it, so
    secant steps find the boundary; the returned number itself is rejected.
    """

    def excess(which: Indices, number: Array) -> Array:
        p = p_values(tests.take(which), hypothesis(which, number))
        return np.asarray(ndtri(np.minimum(p, 1 - 1e-16)) - ndtri(errors[which]))

    found = np.zeros(errors.size)
    every = np.arange(errors.size)
    start = excess(every, found)
    left = every[start <= 0]
    if not left.size:
        return found
    low, low_gap = np.zeros(left.size), np.minimum(start[left], -1e-300)
    top = np.full(left.size, min(1.0, high))
    top_gap = excess(left, top)
    while np.any(short := (top_gap <= 0) & (top < high)):
        low, low_gap = np.where(short, top, low), np.where(short, top_gap, low_gap)
        top = np.where(short, np.minimum(2 * top, high), top)
        top_gap[short] = excess(left[short], top[short])
    done = top_gap <= 0
    found[left[done]] = top[done]
    for step in range(200):
        going = ~done & (top - low > _CLOSE_ENOUGH * np.maximum(1.0, top))
        if not np.any(going):
            break
        a, b, fa, fb = low[going], top[going], low_gap[going], top_gap[going]
        share = np.clip(fa / (fa - fb), 1e-10, 1 - 1e-10)
        # every third step bisects, so the bracket shrinks for every shape
        number = a + (b - a) * (0.5 if step % 3 == 2 else share)
        # overshoot the secant's root on alternating sides, so that both ends move
        lean = 0.25 * _CLOSE_ENOUGH * np.maximum(1.0, b) * (1 if step % 2 else -1)
        number = np.clip(number + lean, a + 0.1 * abs(lean), b - 0.1 * abs(lean))
        value = excess(left[going], number)
        below = value <= 0
        low[going], low_gap[going] = np.where(below, number, a), np.where(below, value, fa)
        top[going], top_gap[going] = np.where(below, b, number), np.where(below, fb, value)
    found[left[~done]] = low[~done]
    return found
