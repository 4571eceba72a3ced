"""Explicit distributions, as finite laws.

A continuous pair is divided into cells. By data processing the cells are no easier to distinguish
than the points, so every value for the cells is a lower bound for the pair. If log p - log q is in
[low, high] on a cell, the cell is split into an outcome of loss low and one of loss high that
preserve both its probabilities. Of all laws on the cell these have the largest convex divergences,
so every value for the split cells is an upper bound.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp

from audit import validate
from audit.constructions.explicit import (
    Densities,
    Distributions,
    Finite,
    LaplaceMixtures,
    Mixture,
    Mixtures,
)
from audit.curves import Order
from audit.curves.brackets import TINY, Bracket, checked
from audit.exact.bracketed import (
    EPSILONS,
    PROBABILITY_ERROR,
    BracketedCurve,
    MuBracket,
    gaussian_mu,
)
from audit.exact.largest_ratio import largest_ratio
from audit.exact.law_curve import worse_bracket
from audit.exact.loss_bounds import largest_loss, log_tail_moment, loss_bounds
from audit.numerics.roots import bracketed_root

Array = NDArray[np.float64]

_LARGEST_EPSILON = 1e9
_ROUNDING = 1e-9
_UNIT_ROUNDOFF = 2.0**-53
_TAIL = 38.0  # standard deviations; the mass beyond is below 1e-300
_FAR = 1000.0
_CELLS = 3000  # per distinct normal law
_MOST_CELLS = 400_000
_SPLIT = 4  # factor on the number of cells for upper ends


@dataclass(frozen=True, eq=False)
class DiscreteLaws:
    """Two laws on the same cells.

    Attributes
    ----------
    log_first, log_second : ndarray
        Log probabilities of the cells under X and X', shape ``(cells,)``.
    relative_error : float
        Bound on the relative error of every probability, and so of every sum of them.
    """

    log_first: Array
    log_second: Array
    relative_error: float = PROBABILITY_ERROR

    @property
    def ratio_error(self) -> float:
        """Bound on the error of every log-likelihood ratio."""
        return math.log1p(self.relative_error) - math.log1p(-self.relative_error)

    def epsilon_bracket(self, delta: float, order: Order) -> tuple[float, float]:
        """Return a bracket of the cells' epsilon at ``delta``.

        The target is shifted by the error of the probabilities, so the width of the bracket
        reflects the conditioning of the root: epsilon is ill-conditioned near delta = 1.
        """
        r = self.relative_error
        least, most = delta / (1 + r), delta / (1 - r)
        low = 0.0 if most >= 1 else self.epsilon(most, order) - self.ratio_error
        return max(low, 0.0), self.epsilon(least, order) + self.ratio_error

    def delta_bracket(self, epsilon: float, order: Order) -> tuple[float, float]:
        """Return a bracket of the cells' delta at ``epsilon``."""
        r, shift = self.relative_error, self.ratio_error
        least, most = (self.log_delta(epsilon + side * shift, order) for side in (1, -1))
        low = math.exp(min(least, 0.0)) * (1 - r) - TINY
        high = math.exp(min(most, 0.0)) * (1 + r) + (TINY if math.isfinite(most) else 0.0)
        return max(low, 0.0), min(high, 1.0)

    def renyi_bracket(self, alpha: float, order: Order) -> tuple[float, float]:
        """Return a bracket of the cells' Renyi divergence of order ``alpha``."""
        value = self.renyi(alpha, order)
        r = self.relative_error
        # the last term is the rounding of the logarithm of a sum near 1
        slack = (alpha * math.log1p(r) - (alpha - 1) * math.log1p(-r) + r) / (alpha - 1)
        return max(value - slack, 0.0), value + slack

    def power_bracket(self, alpha: float, order: Order) -> tuple[float, float]:
        """Return a bracket of 1 - beta of the best test of the cells at ``alpha``."""
        r = self.relative_error
        low = self.power(alpha / (1 + r), order) * (1 - r)
        high = self.power(min(alpha / (1 - r), 1.0), order) * (1 + r)
        return low, min(high, 1.0)

    def mu_bound(self, epsilons: Array, order: Order) -> tuple[float, float]:
        """Return the largest mu that the cells prove, and the epsilon that proves it."""
        logs = [self.log_delta(float(e) + self.ratio_error, order) for e in epsilons]
        deltas = np.exp(np.minimum(logs, 0.0)) * (1 - self.relative_error)
        return gaussian_mu(deltas, epsilons)

    def log_delta(self, epsilon: float, order: Order) -> float:
        """Return the log of sup_S P(S) - e^epsilon Q(S)."""
        log_p, ratio = self._in_order(order)
        chosen = ratio > epsilon
        if not chosen.any():
            return -math.inf
        gain = np.log(-np.expm1(np.minimum(epsilon - ratio[chosen], -1e-300)))
        return float(logsumexp(log_p[chosen] + gain))

    def epsilon(self, delta: float, order: Order) -> float:
        """Return the least epsilon >= 0 with delta(epsilon) <= delta."""
        goal = math.log(delta)

        def gap(epsilon: float) -> float:
            return max(self.log_delta(epsilon, order) - goal, -1e300)

        if gap(0.0) <= 0:
            return 0.0
        high = 1.0
        while gap(high) > 0:
            high *= 2
            if high > _LARGEST_EPSILON:
                return math.inf
        return bracketed_root(gap, 0.0, high, xtol=1e-13 * high, rtol=1e-14)

    def renyi(self, alpha: float, order: Order) -> float:
        """Return the Renyi divergence of order ``alpha``, at least 0."""
        log_p, ratio = self._in_order(order)
        total = float(logsumexp(log_p + (alpha - 1) * ratio))
        return max(total / (alpha - 1), 0.0)

    def power(self, alpha: float, order: Order) -> float:
        """Return 1 - beta of the best test of P against Q at type I error ``alpha``."""
        logs = self.log_first, self.log_second
        log_p, log_q = logs if order is Order.FORWARD else logs[::-1]
        with np.errstate(invalid="ignore"):
            rank = np.argsort(log_p - log_q, kind="stable")  # evidence for Q first
        p, q = np.exp(log_p[rank]), np.exp(log_q[rank])
        spent = np.cumsum(p)
        inside = int(np.searchsorted(spent, alpha, side="right"))
        won = float(np.sum(q[:inside]))
        if inside < p.size and p[inside] > 0:
            left = alpha - (spent[inside - 1] if inside else 0.0)
            won += float(q[inside]) * min(max(left / float(p[inside]), 0.0), 1.0)
        return min(won, 1.0)

    @cached_property
    def _forward(self) -> tuple[Array, Array]:
        seen = np.isfinite(self.log_first)
        return self.log_first[seen], self.log_first[seen] - self.log_second[seen]

    @cached_property
    def _reverse(self) -> tuple[Array, Array]:
        seen = np.isfinite(self.log_second)
        return self.log_second[seen], self.log_second[seen] - self.log_first[seen]

    def _in_order(self, order: Order) -> tuple[Array, Array]:
        """Return log p and log p - log q of the cells with positive mass under P."""
        return self._forward if order is Order.FORWARD else self._reverse


@dataclass(frozen=True, eq=False)
class CellCurve(BracketedCurve):
    """Curve of an explicit pair, computed on cells.

    Values and lower ends of brackets come from cells, upper ends from split cells; both are
    certified. The Gaussian parameter mu has no upper end.

    Parameters
    ----------
    pair : Mixtures, LaplaceMixtures, Finite or Densities
        The two laws.
    """

    pair: Distributions

    @cached_property
    def _fine(self) -> DiscreteLaws:
        return cells(self.pair, 2)

    @cached_property
    def _split(self) -> DiscreteLaws:
        return split_cells(self.pair)

    @cached_property
    def _inner(self) -> DiscreteLaws:
        """The split cells of mixtures of normals, but for the two that are endless."""
        return split_cells(self.pair, inner=True)

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return a bracket of epsilon at ``delta``."""
        validate.half_open_unit(delta=delta)
        return worse_bracket(lambda o: self._epsilon_bracket(delta, o), order)

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        where = f"epsilon at delta {delta:g}"
        if delta == 0:
            return checked(where, pure_bracket(self.pair, order), order)
        return self._between(DiscreteLaws.epsilon_bracket, delta, order, where)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return a bracket of delta at ``epsilon``."""
        validate.finite(epsilon=epsilon)
        return worse_bracket(lambda o: self._delta_bracket(epsilon, o), order)

    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return a bracket of the Renyi divergence of order ``alpha``."""
        validate.above_one(alpha=alpha)
        return worse_bracket(lambda o: self._renyi_bracket(alpha, o), order)

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        where = f"Renyi divergence of order {alpha:g}"
        low, high = self._between(DiscreteLaws.renyi_bracket, alpha, order, where)
        if math.isinf(high) and isinstance(self.pair, Mixtures):
            # the loss is unbounded, but a moment may be finite
            inner = max(self._inner.renyi_bracket(alpha, order)[1], low) + _ROUNDING
            pair = _in_order(self.pair, order)
            edges = _mixture_ends(self.pair, _SPLIT)[1:-1]
            tails = log_tail_moment(pair, alpha, edges)
            high = float(np.logaddexp((alpha - 1) * inner, tails)) / (alpha - 1)
            high += _ROUNDING * high if math.isfinite(high) else 0.0
        return checked(where, (low, high), order)

    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the power 1 - beta of the best test at ``alpha``."""
        validate.open_unit(alpha=alpha)
        return self._between(DiscreteLaws.power_bracket, alpha, order, f"power at alpha {alpha:g}")

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu of the pair in one order, open above."""
        low, epsilon = self._fine.mu_bound(EPSILONS, order)
        return MuBracket(max(low - _ROUNDING * max(1.0, abs(low)), 0.0), math.inf, epsilon)

    def _between(
        self,
        bracket: Callable[[DiscreteLaws, float, Order], Bracket],
        at: float,
        order: Order,
        where: str,
    ) -> Bracket:
        """Return the low end of the cells and the high end of the split cells."""
        low, high = bracket(self._fine, at, order)[0], bracket(self._split, at, order)[1]
        return checked(where, (max(low - _error(low), 0.0), high + _error(high)), order)

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        low = self._fine.delta_bracket(epsilon, order)[0]
        high = self._split.delta_bracket(epsilon, order)[1]
        return checked(f"delta at epsilon {epsilon:g}", (low, high), order, most=1.0)

    def _pure_epsilon(self, order: Order) -> float:
        return max(largest_ratio(self.pair, order), 0.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([self._fine.epsilon(float(d), order) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        logs = [self._fine.log_delta(float(e), order) for e in epsilon]
        return np.exp(np.minimum(logs, 0.0))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.array([1 - self._fine.power(float(a), order) for a in alpha])

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.array([self._fine.renyi(float(a), order) for a in alpha])


@functools.singledispatch
def cells(pair: Distributions, refinement: int = 1) -> DiscreteLaws:
    """Return the laws of the cells of a pair; ``refinement`` times as many of them.

    Of one draw where the pair is drawn several times, unless it is finite.
    """
    raise TypeError(f"pair must be of explicit distributions, got {pair!r}")


@cells.register
def _of_mixtures(pair: Mixtures, refinement: int = 1) -> DiscreteLaws:
    """Divide the line into cells, finer than every normal law."""
    edges = _mixture_ends(pair, refinement)[1:-1]
    return DiscreteLaws(mixture_masses(pair.first, edges), mixture_masses(pair.second, edges))


def _mixture_ends(pair: Mixtures, refinement: int) -> Array:
    """Return the ends of the cells, the first and the last one infinite."""
    normals = {
        (mean, std)
        for law in (pair.first, pair.second)
        for mean, std in zip(law.means, law.stds, strict=True)
    }
    count = max(60, min(_CELLS, _MOST_CELLS // len(normals)))
    # high Renyi orders look far out
    far = np.geomspace(_TAIL, _FAR, count // 2)[1:]
    grid = np.concatenate([-far[::-1], np.linspace(-_TAIL, _TAIL, count + 1), far])
    edges = np.unique(np.concatenate([mean + std * grid for mean, std in sorted(normals)]))
    # grids may coincide up to rounding; the masses of such cells would have no digits
    least = 1e-7 * min(std for _, std in normals)
    edges = edges[np.concatenate([[True], np.diff(edges) > least])]
    # all cells are divided alike, so the error is quadratic in their size
    places = np.arange((edges.size - 1) * refinement + 1) / refinement
    edges = np.interp(places, np.arange(edges.size), edges)
    return np.concatenate([[-np.inf], edges, [np.inf]])


def mixture_masses(law: Mixture, edges: Array) -> Array:
    """Return log probabilities of the cells between edges, the first and the last one endless."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    parts = []
    for weight, mean, std in zip(law.weights, law.means, law.stds, strict=True):
        if weight > 0:
            scaled = (ends - mean) / std
            low, high = scaled[:-1], scaled[1:]
            flip = low > 0  # in the upper tail complements are accurate
            low, high = np.where(flip, -high, low), np.where(flip, -low, high)
            upper = log_ndtr(high)
            with np.errstate(divide="ignore", invalid="ignore"):
                gap = np.minimum(log_ndtr(low) - upper, -1e-300)
                parts.append(math.log(weight) + upper + np.log(-np.expm1(gap)))
    return np.asarray(logsumexp(parts, axis=0))


@cells.register
def _of_finite(pair: Finite, refinement: int = 1) -> DiscreteLaws:
    """Return the laws of the counts of each outcome, a sufficient statistic of the draws."""
    counts = _counts(pair.times, len(pair.first))
    ways = gammaln(pair.times + 1) - np.sum(gammaln(counts + 1), axis=1)
    return DiscreteLaws(
        ways + _log_likelihood(counts, pair.first),
        ways + _log_likelihood(counts, pair.second),
        _counts_error(pair),
    )


def _counts_error(pair: Finite) -> float:
    """Return a bound on the relative error of a probability of counts.

    Its logarithms may be large, and probabilities that are written down need not sum to 1 in their
    last digits.
    """
    given = [p for p in (*pair.first, *pair.second) if p > 0]
    largest = float(gammaln(pair.times + 1)) - pair.times * math.log(min(given))
    sums = max(abs(math.fsum(law) - 1) for law in (pair.first, pair.second))
    return PROBABILITY_ERROR + 8 * _UNIT_ROUNDOFF * largest + 2 * pair.times * sums


@cells.register
def _of_laplace_mixtures(pair: LaplaceMixtures, refinement: int = 1) -> DiscreteLaws:
    """Cut what lies between the outermost means; beyond, the log-likelihood ratio is constant."""
    means, edges = np.array(pair.means), _laplace_edges(pair, refinement)
    scaled = (edges[:, None] - means) / pair.scale
    width = np.diff(edges)[:, None] / pair.scale
    with np.errstate(divide="ignore"):
        # of each Laplace law: what lies below, cell by cell, and what lies above
        below = -math.log(2) + scaled[:1]
        near = np.minimum(np.abs(scaled[:-1]), np.abs(scaled[1:]))
        inner = -math.log(2) - near + np.log(-np.expm1(-width))
        above = -math.log(2) - scaled[-1:]
        parts = np.concatenate([below, inner, above])
        laws = [
            logsumexp(parts, axis=1, b=np.array(weights)) for weights in (pair.first, pair.second)
        ]
    return DiscreteLaws(laws[0], laws[1])


def _laplace_edges(pair: LaplaceMixtures, refinement: int) -> Array:
    kinks = np.unique(pair.means)
    count = max(2, 10_000 // max(kinks.size - 1, 1)) * refinement
    between = (np.linspace(a, b, count + 1)[1:] for a, b in itertools.pairwise(kinks))
    return np.concatenate([kinks[:1], *between])


@cells.register
def _of_densities(pair: Densities, refinement: int = 1) -> DiscreteLaws:
    """Cut the interval into equal cells."""
    edges = _density_edges(pair, refinement)
    return DiscreteLaws(
        _exponential_masses(pair.slope, edges), _exponential_masses(-pair.slope, edges)
    )


def _density_edges(pair: Densities, refinement: int) -> Array:
    return np.linspace(pair.low, pair.high, 20_000 * refinement + 1)


def split_cells(pair: Distributions, *, inner: bool = False) -> DiscreteLaws:
    """Return two laws that dominate one draw of a pair: its cells, each one split in two.

    Finite laws stay as they are, of all draws.

    Parameters
    ----------
    pair
        The two laws.
    inner
        Whether to leave the first and the last cell out.
    """
    laws = cells(pair, _SPLIT)
    if isinstance(pair, Finite):
        return laws
    low, high = _losses(pair)
    if inner:
        low, high = low[1:-1], high[1:-1]
        laws = replace(laws, log_first=laws.log_first[1:-1], log_second=laws.log_second[1:-1])
    # the masses may be off by their error, and so may their ratio
    low, high = low - laws.ratio_error, high + laws.ratio_error
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.clip(laws.log_first - laws.log_second, low, high)
        spread = np.log(-np.expm1(low - high))
        first_high = laws.log_first + np.log(-np.expm1(low - mean)) - spread
        second_low = laws.log_second + np.log(-np.expm1(mean - high)) - spread
        first = np.column_stack([second_low + low, first_high]).ravel()
        second = np.column_stack([second_low, first_high - high]).ravel()
    none = np.isneginf(first) & np.isneginf(second)
    return DiscreteLaws(first[~none], second[~none], 2 * laws.relative_error)


def _losses(pair: Mixtures | LaplaceMixtures | Densities) -> tuple[Array, Array]:
    """Return bounds on log p - log q on every cell."""
    if isinstance(pair, Mixtures):
        ends = _mixture_ends(pair, _SPLIT)
        return loss_bounds(pair, ends[:-1], ends[1:])
    if isinstance(pair, LaplaceMixtures):
        # between two means it is monotone, beyond all constant
        edges, means = _laplace_edges(pair, _SPLIT), np.array(pair.means)
        gaps = -np.abs(edges[:, None] - means) / pair.scale
        logs = [logsumexp(gaps, axis=1, b=np.array(w)) for w in (pair.first, pair.second)]
        loss = logs[0] - logs[1]
        size = np.abs(logs).max(axis=0)
    else:
        edges = _density_edges(pair, _SPLIT)
        shift = _log_exponential(pair.slope, edges) - _log_exponential(-pair.slope, edges)
        loss = 2 * pair.slope * edges - shift
        size = np.abs(2 * pair.slope * edges) + abs(shift)
    low, high = np.minimum(loss[:-1], loss[1:]), np.maximum(loss[:-1], loss[1:])
    slack = 16 * _UNIT_ROUNDOFF * (1 + np.maximum(size[:-1], size[1:]))
    low, high = low - slack, high + slack
    if isinstance(pair, LaplaceMixtures):
        low, high = (np.concatenate([end[:1], end, end[-1:]]) for end in (low, high))
    return low, high


def pure_bracket(pair: Distributions, order: Order) -> Bracket:
    """Return (low, high) around epsilon at delta = 0, of all draws."""
    value = largest_ratio(pair, order)
    high = value
    if isinstance(pair, Mixtures) and math.isfinite(value):
        once, ends = _in_order(pair, order), _mixture_ends(pair, _SPLIT)
        high = max(value, pair.times * largest_loss(once, ends, value / pair.times))
    return max(value - _error(value), 0.0), max(high, 0.0) + _error(high)


def _error(value: float) -> float:
    return _ROUNDING * max(1.0, abs(value)) if math.isfinite(value) else 0.0


def _in_order(pair: Mixtures, order: Order) -> Mixtures:
    if order is Order.FORWARD:
        return pair
    return replace(pair, first=pair.second, second=pair.first)


def _counts(times: int, outcomes: int) -> Array:
    """Return every way to spread ``times`` draws over the outcomes, shape (ways, outcomes)."""
    if outcomes == 1:
        return np.array([[float(times)]])
    rows = []
    for first in range(times + 1):
        rest = _counts(times - first, outcomes - 1)
        rows.append(np.column_stack([np.full(len(rest), float(first)), rest]))
    return np.concatenate(rows)


def _log_likelihood(counts: Array, probabilities: Sequence[float]) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * np.log(probabilities), 0.0)
    return np.asarray(np.sum(terms, axis=1))


def _exponential_masses(slope: float, edges: Array) -> Array:
    width = np.diff(edges)
    top = np.where(slope > 0, edges[1:], edges[:-1])
    logs = slope * top + np.log(-np.expm1(-abs(slope) * width))
    return np.asarray(logs - logsumexp(logs))


def _log_exponential(slope: float, edges: Array) -> float:
    """Return the log of the integral of e^(slope x) between the ends, but for 1/|slope|."""
    width = float(edges[-1] - edges[0])
    top = float(edges[-1] if slope > 0 else edges[0])
    return slope * top + math.log(-math.expm1(-abs(slope) * width))
