"""Shifts that follow the batches: a Renyi bound for sampled batches, by dynamic programming.

Theorem 5 of "Our own theorems" in the documentation, and Lemma 5a where Poisson batches replace the
record: the divergence is at most alpha/(alpha - 1) log U_T(0), with p = b/n and

    U_(k+1)(r) = (1 - p) A(c r) + p A(c r + v),
    A(rho) = min over z >= 0 of exp((alpha - 1) (rho - z)_+^2/(2 s^2)) U_k(z).

Distances are rounded up to a grid, which is finer near 0; every grid and every policy gives a
bound. Between orders the log-moment, which is convex in alpha, is read as a chord. For a run of T
steps every k <= T gives the bound U_k(min(D, the largest distance after T - k steps)).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.own.run import WorstRun, meetings
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.dominating.sampled_gaussian import (
    mirrored_renyi,
    sampled_gaussian_renyi,
    two_sided_log_moment,
)
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array, Integers

_GAPS = (1.0 + np.geomspace(1e-3, 300.0, 32)) - 1.0  # alpha - 1, without rounding
_FINE_DISTANCES = 8  # distances per v or s, the smaller one, near 0
_PER_NAT = 24  # distances per unit of log distance
_MIN_DISTANCES = 96  # distances up to the top, at least
_MERGE = 8  # steps merged into one per steps to go
_MAX_ARRIVALS = 1 / 8  # largest shift of merged steps, as a share of the top
_MAX_ROUNDS = 250
_CONVERGENCE = 1e-4  # relative, of the log-moments that more steps could lower
_GRID_SLACK = 1e-12  # distances may be that much larger than those of the grid, which costs include
_ROUND_UP = 1 + 2.0**-40  # for the rounding of costs, shifts and chords, some units each
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class AdaptiveShifts:
    """The recursion for U_k on a grid of distances, for several orders at once.

    run: The run.
    """

    run: WorstRun
    _arrivals: dict[tuple[int, float], tuple[Array, Array, Integers]] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def rows(self) -> Array:
        """Distances from 0 to the largest one that occurs."""
        run = self.run
        top = float(run.tracked(run.steps))
        finest = min(run.shift, run.noise, top) / _FINE_DISTANCES
        rows = [0.0]
        while rows[-1] < top:
            rows.append(rows[-1] + min(max(finest, rows[-1] / _PER_NAT), top / _MIN_DISTANCES))
        rows[-1] = top
        return np.array(rows)

    @cached_property
    def _costs(self) -> tuple[Array, Array, Array]:
        """(rho - z)_+^2 at each z (first axis) and r, for rho of c r, c r + u and c r + v."""
        rows, run = self.rows, self.run
        starts = run.contraction * rows * (1 + _GRID_SLACK)

        def squares(push: float) -> Array:
            result = np.maximum(starts + push - rows[:, None], 0.0) ** 2
            if push:
                result[-1] = 0.0  # no larger distance occurs
            return np.asarray(result)

        return squares(0.0), squares(run.alone), squares(run.shift)

    def composed(self, gaps: Array) -> Array:
        """Return the log-moment of a step's composition over alpha, by order."""
        run, orders = self.run, 1.0 + gaps
        if run.poisson is Relation.REPLACE_ONE:
            mu = run.alone / run.noise * _ROUND_UP
            moments = np.array([two_sided_log_moment(one, run.rate, mu) for one in orders.tolist()])
        elif run.poisson is not None:
            sigma = 1 / (run.ratio * _ROUND_UP)
            moments = gaps * np.asarray(sampled_gaussian_renyi(orders, run.rate, sigma))
        else:
            moments = gaps * mirrored_renyi(orders, run.rate, run.ratio * _ROUND_UP)
        return np.asarray(moments * _ROUND_UP / orders)

    @cached_property
    def _memory(self) -> Array:
        """Room for sums: to ask for fresh memory costs more than the sums."""
        return np.empty((self.rows.size, self.rows.size))

    def _cheapest(self, values: Array, squares: Array, price: float) -> Array:
        """Return the smallest price of a square plus value, from each row."""
        sums = self._memory
        np.multiply(squares, price, out=sums)
        np.add(sums, values[:, None], out=sums)
        return np.asarray(np.min(sums, axis=0))

    def step(self, values: Array, gaps: Array, composed: Array) -> Array:
        """Return log U_(k+1) from log U_k, both of shape (orders, rows).

        ``gaps`` are alpha - 1, and ``composed`` is `composed` of them.
        """
        rest, alone, met = self._costs
        result = np.empty_like(values)
        for i, price in enumerate(_ROUND_UP * gaps / (2 * self.run.noise**2)):
            neither = self._cheapest(values[i], rest, price)
            both = self._cheapest(values[i], met, price)
            result[i] = self._mean(neither, both, 1.0)
            if self._apart:
                one = self._cheapest(values[i], alone, price)
                power = -(1 + 1 / float(gaps[i]))
                first, second = (self._mean(*pair, power) for pair in ((neither, one), (one, both)))
                result[i] = np.minimum(result[i], self._mean(first, second, 1.0))
        result[:, 0] = np.minimum(result[:, 0], composed + values[:, 0])
        return result

    @property
    def _apart(self) -> bool:
        """True if u < v, so that the runs may draw the record independently."""
        return self.run.alone < self.run.shift

    def _mean(self, without: Array, drawn: Array, power: float) -> Array:
        """Return the log of a power mean of two values, from logs."""
        rate = self.run.rate
        log_out = math.log1p(-rate) if rate < 1 else -math.inf
        logs = np.logaddexp(log_out + power * without, math.log(rate) + power * drawn)
        return np.asarray(logs / power)

    def steps(self, values: Array, gaps: Array, count: int) -> Array:
        """Return log U_(k+count) from log U_k, the batches of these steps taken as they come."""
        rows, run = self.rows, self.run
        mean = self._mean_of_arrivals(values, count, run.shift)
        if self._apart:
            powers = -(1 + 1 / gaps)
            inner = self._mean_of_arrivals(values, count, run.alone, powers)
            mean = np.minimum(mean, self._mean_of_arrivals(inner, count, run.alone))
        log_c = run.log_contraction
        squares = self._costs[0]
        if run.gap > 0:
            starts = math.exp(log_c * count) * rows * (1 + _GRID_SLACK)
            squares = np.maximum(starts - rows[:, None], 0.0) ** 2
        prices = _ROUND_UP * gaps / (2 * run.noise**2 * float(geometric(2 * log_c, count)))
        return np.stack(
            [self._cheapest(v, squares, price) for v, price in zip(mean, prices, strict=True)]
        )

    def _mean_of_arrivals(
        self, values: Array, count: int, push: float, powers: Array | None = None
    ) -> Array:
        """Return the log of a (power) mean of U_k after some meetings, from each row."""
        least, chances, places = self._reached(count, push)
        # shape (orders, numbers of meetings, rows); by the largest term
        terms = np.take(values, places, axis=1)
        if powers is not None:
            terms *= powers[:, None, None]
            chances = least  # a mean of negative power falls in its weights
        with np.errstate(divide="ignore", over="ignore"):
            terms += np.log(chances)[:, None]
            largest = terms.max(axis=1, keepdims=True)
            finite = np.where(np.isfinite(largest), largest, 0.0)
            terms -= finite
            logs = finite[:, 0] + np.log(np.exp(terms, out=terms).sum(axis=1))
        return np.asarray(logs if powers is None else logs / powers[:, None])

    def _reached(self, count: int, push: float) -> tuple[Array, Array, Integers]:
        """Return chances of numbers of meetings, and the row that each (first axis) reaches.

        Lower and upper bounds on the chances.
        """
        if (count, push) not in self._arrivals:
            rows, run = self.rows, self.run
            farthest = math.ceil(rows[-1] / push)  # from here on the largest distance is reached
            numbers, least, most = meetings(count, run.rate, farthest)
            ends = rows + numbers[:, None] * push
            places = np.minimum(np.searchsorted(rows * (1 + _GRID_SLACK), ends), rows.size - 1)
            self._arrivals[count, push] = least, most, places
        return self._arrivals[count, push]

    def _merged(self, covered: int) -> int:
        """Return how many steps come next, with ``covered`` to go."""
        run = self.run
        arrivals = _MAX_ARRIVALS * self.rows[-1] / (run.rate * run.shift)
        count = min(covered // _MERGE, int(arrivals), run.steps - covered)
        if run.gap > 0:
            count = min(count, int(0.25 / run.gap))
        return max(count, 1)

    def _rounding(self, values: Array) -> Array:
        """Return bounds on the rounding of one round, of shape (orders, 1).

        Sums of n positive terms err by n units, and their terms by units of their logarithms: of a
        value, which is at most the largest, and of its share of the sum, less than log n on
        average.
        """
        largest = np.where(np.isfinite(values), values, 0.0).max(axis=1, keepdims=True)
        terms = max((places.shape[0] for *_, places in self._arrivals.values()), default=2)
        return np.asarray(_UNIT * (4 * terms + 64 + 16 * largest))

    def moments(self, gaps: Array) -> Array:
        """Return upper bounds on (alpha - 1) D_alpha of the whole run, at ``gaps`` = alpha - 1."""
        run, rows = self.run, self.rows
        composed = self.composed(gaps)
        values = np.full((gaps.size, rows.size), np.inf)
        values[:, 0] = 0.0
        best = np.full(gaps.size, np.inf)
        settled = np.zeros(gaps.size, dtype=bool)  # each order by itself
        covered = 0
        for _ in range(_MAX_ROUNDS):
            count = self._merged(covered)
            left = ~settled
            if count == 1:
                values[left] = self.step(values[left], gaps[left], composed[left])
            else:
                values[left] = self.steps(values[left], gaps[left], count)
            values[left] += self._rounding(values[left])
            covered += count
            start = float(run.tracked(run.steps - covered))
            place = min(int(np.searchsorted(rows, start)), rows.size - 1)
            best = np.where(settled, best, np.minimum(best, values[:, place]))
            # U_k(0) rises in k: from here on nothing lowers the bound by more
            settled |= np.isfinite(best) & (values[:, 0] >= (1 - _CONVERGENCE) * best)
            if covered == run.steps or np.all(settled):
                break
        return np.asarray((1 + gaps) * best * _ROUND_UP)


def _divergence(alpha: Array, gaps: Array, moments: Array) -> Array:
    """Return D_alpha by chords of the log-moments at some orders, which are convex in alpha."""
    gap = np.maximum(alpha - 1, gaps[0])
    place = np.clip(np.searchsorted(gaps, gap), 1, gaps.size - 1)
    low, high = gaps[place - 1], gaps[place]
    share = np.clip((gap - low) / (high - low), 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        moment = np.where(share < 1, (1 - share) * moments[place - 1], 0.0)
        moment = moment + np.where(share > 0, share * moments[place], 0.0)
    return np.asarray(moment * _ROUND_UP / gap)


def adaptive_shifts_curve(run: WorstRun) -> RenyiCurve:
    """Return the curve of a run on sampled batches, from some orders and chords between them."""
    moments = AdaptiveShifts(run).moments(_GAPS)
    some = np.isfinite(moments)
    if np.count_nonzero(some) < 2:
        raise ValueError("has no finite Renyi divergence: the pushes are too strong")
    gaps, moments = _GAPS[some], moments[some]
    lowest, highest = float(gaps[0]), float(gaps[-1])
    return RenyiCurve(
        functools.partial(_divergence, gaps=gaps, moments=moments),
        lowest=1 + lowest,
        highest=1 + highest,
        search=(lowest, highest),
    )


@bound("own.adaptive_shifts")
def adaptive_shifts(mechanism: NoisySGD) -> PrivacyCurve:
    """Return D_alpha <= alpha/(alpha - 1) log U_T(0), from the best shifts knowing the batches.

    What is shifted away in a step, and paid for, depends on the distance of the two iterates and on
    whether the batch holds the record.
    """
    return adaptive_shifts_curve(WorstRun.of(mechanism))
