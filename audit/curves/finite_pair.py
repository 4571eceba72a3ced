"""Pairs of finite measures, every divergence of them, and brackets between two of them.

Cells of a pair of laws are merged below, and split above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.curves.brackets import TINY, Bracket
from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_fsum

Long = NDArray[np.longdouble]

# Losses of a chunk whose exponentials are added up together: within the range of long doubles.
_CHUNK = 0.4 * float(np.log(np.finfo(np.longdouble).max))
# Terms this far below the largest of a sum, in logarithms, do not contribute to its error.
_NO_SHARE = 60.0


@dataclass(frozen=True, eq=False)
class FinitePair:
    """Two finite measures P and Q on common outcomes.

    Every divergence is a sum of positive terms over the outcomes in the order of their losses, so
    that it keeps its relative accuracy in the tails. The measures need not have mass 1: a pair may
    stand for a part of two laws, or exceed them.

    Parameters
    ----------
    loss : ndarray
        Privacy loss log p - log q of each outcome, shape ``(n,)``; infinite where one law has no
        mass.
    log_p, log_q : ndarray
        Log masses of each outcome, shape ``(n,)`` each.

    Examples
    --------
    >>> pair = FinitePair.of(np.log([0.8, 0.2]), np.log([0.2, 0.8]))
    >>> [round(float(x), 12) for x in (pair.delta(0.0), pair.epsilon(0.6), pair.power(0.2))]
    [0.6, 0.0, 0.8]
    """

    loss: Array
    log_p: Array
    log_q: Array

    @classmethod
    def of(cls, log_p: Array, log_q: Array) -> FinitePair:
        """Return the pair of the given log masses.

        Parameters
        ----------
        log_p, log_q : ndarray
            Log masses of each outcome, shape ``(n,)`` each; -inf for 0.

        Returns
        -------
        FinitePair
            The pair; outcomes without any mass are left out.
        """
        log_p, log_q = np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64)
        kept = (log_p > -np.inf) | (log_q > -np.inf)
        log_p, log_q = log_p[kept], log_q[kept]
        return cls(log_p - log_q, log_p, log_q)

    @cached_property
    def _falling(self) -> tuple[Array, Long, Long]:
        """Losses that P takes, falling; delta at each; and P(S) - e^loss Q(S) without the P of it.

        With S the outcomes of larger losses, delta(epsilon) = P(S) - e^epsilon Q(S). From one loss
        to the next, a lower by g, W = e^loss Q(S) falls by the factor e^-g, delta gains
        W (1 - e^-g), and the next outcome adds its P to W.
        """
        some = self.log_p > -np.inf
        rank = np.argsort(-self.loss[some], kind="stable")
        loss, log_p = self.loss[some][rank], self.log_p[some][rank]
        infinite = int(np.count_nonzero(loss == np.inf))
        p = np.exp(log_p.astype(np.longdouble))
        start = p[:infinite].sum()
        loss, p = loss[infinite:], p[infinite:]
        weights = np.empty_like(p)
        carried, done = np.longdouble(0), 0
        while done < loss.size:
            # from the largest loss of a chunk down, e^(largest - loss) stays in range
            stop = max(int(np.searchsorted(-loss, _CHUNK - loss[done], side="right")), done + 1)
            fall = loss[done].astype(np.longdouble) - loss[done:stop]
            if done:
                carried = carried * np.exp(loss[done].astype(np.longdouble) - loss[done - 1])
            scaled = carried + np.cumsum(p[done:stop] * np.exp(fall))
            weights[done:stop] = scaled * np.exp(-fall)
            carried, done = weights[stop - 1], stop
        gaps = -np.diff(loss.astype(np.longdouble))
        gains = weights[:-1] * -np.expm1(-gaps) if loss.size else weights
        deltas = start + np.concatenate(
            [np.zeros(min(loss.size, 1), np.longdouble), gains.cumsum()]
        )
        return loss, deltas, weights

    def delta(self, epsilon: Array | float) -> Array:
        """Return sup_S P(S) - e^epsilon Q(S).

        Parameters
        ----------
        epsilon : array_like
            Any real numbers.

        Returns
        -------
        ndarray
            Values, shape of ``epsilon``.
        """
        loss, deltas, weights = self._falling
        at = np.asarray(epsilon, dtype=np.float64)
        if loss.size == 0:
            return np.full(at.shape, self._infinite)
        # the last loss that is at least epsilon
        index = np.searchsorted(-loss, -at, side="right") - 1
        inside = np.maximum(index, 0)
        fall = loss[inside].astype(np.longdouble) - at
        found = deltas[inside] + weights[inside] * -np.expm1(-np.maximum(fall, 0))
        return np.where(index < 0, self._infinite, found).astype(np.float64)

    @property
    def _infinite(self) -> float:
        """Mass of P where Q has none."""
        return float(np.exp(self.log_p[self.loss == np.inf].astype(np.longdouble)).sum())

    @cached_property
    def largest_loss(self) -> float:
        """Largest loss that P takes, however small its mass; -inf for none."""
        return float(self.loss[self.log_p > -np.inf].max(initial=-np.inf))

    def epsilon(self, delta: Array | float) -> Array:
        """Return the least epsilon >= 0 with ``delta(epsilon) <= delta``.

        Parameters
        ----------
        delta : array_like
            Numbers of at least 0.

        Returns
        -------
        ndarray
            Values, shape of ``delta``; infinite where P has more mass than ``delta`` without Q. At
            0 it is the largest loss that P takes, however small its mass.
        """
        loss, deltas, weights = self._falling
        goal = np.asarray(delta, dtype=np.float64)
        largest = max(self.largest_loss, 0.0)
        if loss.size == 0:
            return np.where((goal < self._infinite) | (goal == 0), largest, 0.0)
        index = np.searchsorted(deltas, goal.astype(np.longdouble), side="right") - 1
        inside = np.maximum(index, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (goal - deltas[inside]) / weights[inside]
            fall = np.where(share < 1, -np.log1p(-np.minimum(share, 1)), np.inf)
            # a larger fall than the gap to the next loss is rounding
            after = np.append(loss, -np.inf)[inside + 1]
            found = np.maximum(loss[inside] - fall, after).astype(np.float64)
        found = np.where(index < 0, np.inf, np.maximum(found, 0.0))
        return np.where(goal == 0, largest, found)

    @cached_property
    def _tests(self) -> tuple[Array, Long, Long, Long]:
        """Falling losses with sums of Q and of P over all until each, and of P over all others.

        The sums begin with 0; of outcomes of one loss, only the last sum counts.
        """
        rank = np.argsort(-self.loss, kind="stable")
        p = np.exp(self.log_p[rank].astype(np.longdouble))
        q = np.exp(self.log_q[rank].astype(np.longdouble))
        zero = np.zeros(1, np.longdouble)
        rest = np.concatenate([p[::-1].cumsum()[::-1], zero])
        spent, won = (np.concatenate([zero, part.cumsum()]) for part in (q, p))
        kept = np.append(np.diff(spent) > 0, True)
        loss = np.append(self.loss[rank], -np.inf)
        return loss[kept], spent[kept], won[kept], rest[kept]

    def power(self, alpha: Array | float) -> Array:
        """Return the largest P(S) over tests S with Q(S) at most ``alpha``.

        Parameters
        ----------
        alpha : array_like
            Numbers of at least 0: type I errors, with Q as the null hypothesis.

        Returns
        -------
        ndarray
            Values, shape of ``alpha``.
        """
        _, spent, won, _ = self._tests
        return _between(np.asarray(alpha, dtype=np.float64), spent, won)

    def beta(self, alpha: Array | float) -> Array:
        """Return the least mass of P outside of a test S with Q(S) at most ``alpha``.

        Parameters
        ----------
        alpha : array_like
            Numbers of at least 0: type I errors, with Q as the null hypothesis.

        Returns
        -------
        ndarray
            Values, shape of ``alpha``: type II errors.
        """
        _, spent, _, rest = self._tests
        return _between(np.asarray(alpha, dtype=np.float64), spent, rest)

    def threshold(self, alpha: Array | float) -> tuple[Array, Array]:
        """Return the loss at which the best test of type I error ``alpha`` is randomised.

        Parameters
        ----------
        alpha : array_like
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Losses of outcomes, shape of ``alpha``; and between the middles of outcomes that stand
            for cells of a continuous pair.
        """
        loss, spent, _, _ = self._tests
        if loss.size < 2:
            return (np.zeros(np.shape(alpha)),) * 2
        goal = np.asarray(alpha, dtype=np.float64)
        index = np.searchsorted(spent, goal.astype(np.longdouble), side="right") - 1
        middles = (0.5 * (spent[1:] + spent[:-1])).astype(np.float64)
        held = np.clip(loss[:-1], -1e300, 1e300)
        return held[np.minimum(index, held.size - 1)], np.interp(goal, middles, held)

    @property
    def rounding(self) -> float:
        """Bound on the relative rounding error of every sum."""
        return (self.loss.size + 16) * float(np.finfo(np.longdouble).eps) + 2.0**-52

    def log_moment(self, alpha: float) -> float:
        """Return the log of the sum of P^alpha Q^(1 - alpha), for ``alpha`` above 1.

        Parameters
        ----------
        alpha : float
            Renyi order.

        Returns
        -------
        float
            Log of the moment; ``log_moment(alpha) / (alpha - 1)`` is the Renyi divergence.
        """
        return log_fsum(self._moment_terms(alpha))

    def moment_rounding(self, alpha: float) -> float:
        """Bound the rounding error of `log_moment`.

        Parameters
        ----------
        alpha : float
            Renyi order.

        Returns
        -------
        float
            The bound: of terms that have a share of the sum, the largest error. The sum is exact.
        """
        logs = self._moment_terms(alpha)
        if not math.isfinite(top := float(logs.max(initial=-np.inf))):
            return 0.0
        counted = logs > top - _NO_SHARE
        some = self.log_p > -np.inf
        sizes = np.abs(self.log_p[some][counted]) + 2 * alpha * np.abs(self.loss[some][counted])
        return 2.0**-52 * (16 + float(sizes.max()) + abs(top))

    def _moment_terms(self, alpha: float) -> Array:
        """Return the logs of the terms of the moment."""
        some = self.log_p > -np.inf
        return np.asarray(self.log_p[some] + (alpha - 1) * self.loss[some])


def _between(places: Array, spent: Long, values: Long) -> Array:
    """Interpolate linearly between rising places; numpy.interp would round to doubles."""
    index = np.clip(np.searchsorted(spent, places, side="right") - 1, 0, max(spent.size - 2, 0))
    if spent.size == 1:
        return np.full(places.shape, float(values[0]))
    share = np.minimum((places - spent[index]) / (spent[index + 1] - spent[index]), 1)
    found = values[index] * (1 - share) + values[index + 1] * share
    return np.asarray(found, dtype=np.float64)


# Rounding of what follows a sum.
_ULP = 2.0**-50


@dataclass(frozen=True)
class Enclosure:
    """Two finite pairs between which a pair of laws (P, Q) lies, in Blackwell's order.

    Every divergence that obeys data processing is at least that of ``lower``, but for what is lost,
    and at most that of ``upper``; after composition and mixing, too. Brackets are the values of the
    two ends, with the rounding of their sums.

    Parameters
    ----------
    lower, upper : FinitePair
        The pair with less information, and the one with more.
    log_lost_p, log_lost_q : float, default: -inf
        Log of a bound on the mass of each law that ``lower`` lacks.

    Examples
    --------
    >>> coarse = FinitePair.of(np.log([0.75, 0.25]), np.log([0.25, 0.75]))
    >>> fine = FinitePair.of(np.log([0.75, 0.2, 0.05]), np.log([0.25, 0.15, 0.6]))
    >>> low, high = Enclosure(coarse, fine).delta(np.array([0.0, 0.5]))
    >>> low.round(3), high.round(3)
    (array([0.5  , 0.338]), array([0.55 , 0.338]))
    """

    lower: FinitePair
    upper: FinitePair
    log_lost_p: float = -math.inf
    log_lost_q: float = -math.inf

    def epsilon(self, deltas: Array) -> tuple[Array, Array]:
        """Return brackets of the least epsilon >= 0 with delta(epsilon) at most each delta.

        Parameters
        ----------
        deltas : ndarray
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``deltas`` each.
        """
        lower, upper = self.lower, self.upper
        most = deltas * (1 + lower.rounding)
        low = lower.epsilon(most)
        if self.log_lost_q > -np.inf:
            with np.errstate(over="ignore"):
                low = lower.epsilon(most + np.exp(low + self.log_lost_q))
        high = upper.epsilon(deltas * (1 - upper.rounding))
        return low * (1 - _ULP), high * (1 + _ULP)

    def delta(self, epsilons: Array) -> tuple[Array, Array]:
        """Return brackets of sup_S P(S) - e^epsilon Q(S).

        Parameters
        ----------
        epsilons : ndarray
            Any real numbers.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``epsilons`` each.
        """
        lower, upper = self.lower, self.upper
        with np.errstate(over="ignore"):
            lost = np.exp(epsilons + self.log_lost_q)
        beside = np.abs(epsilons) * _ULP
        low = lower.delta(epsilons + beside) / (1 + lower.rounding + 4 * _ULP) - lost - TINY
        high = upper.delta(epsilons - beside) * (1 + upper.rounding + 4 * _ULP)
        high = np.where(epsilons - beside < upper.largest_loss, high + TINY, high)
        return np.maximum(low, 0.0), np.minimum(high, 1.0)

    def power(self, alphas: Array) -> tuple[Array, Array]:
        """Return brackets of the largest P(S) over tests S with Q(S) at most each alpha.

        Parameters
        ----------
        alphas : ndarray
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``alphas`` each.
        """
        lower, upper = self.lower, self.upper
        low = lower.power(self._spent(alphas)) / (1 + lower.rounding)
        high = upper.power(alphas * (1 + upper.rounding)) * (1 + upper.rounding)
        return low, np.minimum(high, 1.0)

    def beta(self, alphas: Array) -> tuple[Array, Array]:
        """Return brackets of the least mass of P outside of tests S with Q(S) at most each alpha.

        Of the enclosure of complements: relatively accurate where they are small.

        Parameters
        ----------
        alphas : ndarray
            Numbers of at least 0.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Lower and upper bounds, shape of ``alphas`` each.
        """
        lower, upper = self.lower, self.upper
        high = lower.beta(self._spent(alphas)) * (1 + lower.rounding) + math.exp(self.log_lost_p)
        low = upper.beta(alphas * (1 + upper.rounding)) / (1 + upper.rounding)
        return low, np.minimum(high, 1.0)

    def _spent(self, alphas: Array) -> Array:
        """Return what tests of ``lower`` may spend, so that they spend at most ``alphas`` of Q."""
        least = alphas / (1 + self.lower.rounding) - math.exp(self.log_lost_q)
        return np.maximum(least, 0.0)

    def log_moment(self, alpha: float) -> Bracket:
        """Return a bracket of the log of the integral of P^alpha Q^(1 - alpha).

        Parameters
        ----------
        alpha : float
            Renyi order, above 1.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound; from below, nothing is lost of either law.
        """
        (low, below), (high, above) = (
            (pair.log_moment(alpha), pair.moment_rounding(alpha))
            for pair in (self.lower, self.upper)
        )
        return low - below, high + above


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of the outcomes of a pair, with the masses and the range of losses of each cell.

    A cell merged into one outcome loses information: a post-processing of the pair. A cell split
    into two outcomes with the smallest and the largest loss, which keep its two masses, gains
    information: of all laws on the cell with losses in this range, the split is the extreme one in
    the convex order, so that the pair is a post-processing of the split one (Blackwell 1953).
    """

    log_p: Array  # computed log masses of each cell, shape (n,)
    log_q: Array
    low: Array  # bounds on log p - log q within each; may be infinite
    high: Array
    error_p: Array  # bounds on the errors of the log masses
    error_q: Array
    log_lost_p: float = -np.inf  # logs of bounds on the masses that are in no cell
    log_lost_q: float = -np.inf

    @property
    def reversed(self) -> Cells:
        """The same cells in the other order of the pair."""
        cells = self.log_q, self.log_p, -self.high, -self.low, self.error_q, self.error_p
        return Cells(*cells, self.log_lost_q, self.log_lost_p)

    @property
    def without_errors(self) -> Cells:
        """The same cells, with the computed masses and losses taken as exact."""
        error, none = self.error_p + self.error_q, np.zeros(self.log_p.size)
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (self.low + self.high)
        low, high = np.fmin(self.low + error, middle), np.fmax(self.high - error, middle)
        return replace(self, low=low, high=high, error_p=none, error_q=none)

    def part(self, chosen: slice | NDArray[np.bool_]) -> Cells:
        """Return some of the cells, without what is in none."""
        every = self.log_p, self.log_q, self.low, self.high, self.error_p, self.error_q
        log_p, log_q, low, high, error_p, error_q = (cells[chosen] for cells in every)
        return Cells(log_p, log_q, low, high, error_p, error_q)

    def merged(self, *, complement: bool = False) -> FinitePair:
        """Return the lower pair: one outcome a cell, with the least of P and the most of Q.

        Divergences of the true pair are at least those of this one, up to the lost mass of Q.
        """
        sign = 1 if complement else -1
        return FinitePair.of(self.log_p + sign * self.error_p, self.log_q + self.error_q)

    def split(self, *, complement: bool = False) -> FinitePair:
        """Return the upper pair: two outcomes a cell, with the most of P and the least of Q.

        The lost mass of P is an outcome that Q does not have.
        """
        log_p = self.log_p + (-1 if complement else 1) * self.error_p
        with np.errstate(invalid="ignore"):
            # errors of masses do not widen the range of the ratio, where P has any
            log_q = np.fmax(self.log_q - self.error_q, log_p - self.high)
            mean = np.where(log_p == -np.inf, -np.inf, log_p - log_q)
        mean = np.where(np.isnan(mean), -np.inf, mean)  # no mass of either law
        low, high = np.minimum(self.low, mean), np.maximum(self.high, mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            # P's share at the high end, and Q's share at the low one
            width = np.log(-np.expm1(low - high))
            share_p = np.log(-np.expm1(low - mean)) - width
            share_q = np.log(-np.expm1(mean - high)) - width
            one = ~(low < high)
            up_p = np.where(one, log_p, log_p + share_p)
            down_q = np.where(one, -np.inf, log_q + share_q)
            up_q = np.where(one, log_q, up_p - high)
            down_p = np.where(one, -np.inf, down_q + low)
        high = np.where(one, mean, high)
        low, lost = np.where(one, mean, low), np.array([self.log_lost_p])
        nothing = np.array([-np.inf])
        loss = np.concatenate([low, high, [np.inf]])
        up = np.concatenate([np.where(np.isnan(down_p), -np.inf, down_p), up_p, lost])
        down = np.concatenate([down_q, np.where(np.isnan(up_q), -np.inf, up_q), nothing])
        kept = (up > -np.inf) | (down > -np.inf)
        return FinitePair(loss[kept], up[kept], down[kept])

    def enclosure(self, *, complement: bool = False) -> Enclosure:
        """Return both pairs."""
        pairs = self.merged(complement=complement), self.split(complement=complement)
        return Enclosure(*pairs, self.log_lost_p, self.log_lost_q)
