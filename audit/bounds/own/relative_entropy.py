"""The bound `own.relative_entropy`: how fast the probability of an event can rise.

Theorem 7 and Lemma 8 of "Our own theorems" in the documentation: while the updates of one dataset
are changed into those of the other, the probability p of an event satisfies (log p)' <= F(p). F
falls in p; it is computed on a grid and taken as constant on its cells, which gives a function G
with delta(epsilon) <= sup over q of G(q) - e^epsilon q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri

from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.own.forgetting import merged_walk
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.profile import ProfileCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array
from audit.numerics.hulls import lower_hull

_MIN_SURVIVAL = 1e-16  # survival probability of the walk below which lags are left out
_LAGS = 64
_INFLATION = 1 + 2.0**-44  # for products, roots and sums over lags of F, and those of the curve
_UNIT = 2.0**-53
_UNITS = 8 * _UNIT  # roundings of a sum
_TAIL_UNITS = 64 * _UNIT  # error of a normal probability
_TIME_UNITS = 2.0**-44  # roundings of the times at which the solution passes the grid
# log-probabilities, coarse where only tiny deltas look; the last cell ends at probability 1
_LOG_P = np.concatenate(
    [np.arange(-150.0, -32.0, 2.0), np.arange(-32.0, -1.0, 0.1), -np.geomspace(1.0, 1e-4, 24)]
)


def rates(run: WorstRun, log_p: Array) -> Array:
    """Return F, a bound on the derivative of an event's log-probability, at ``log_p``."""
    lags, ranges = _ranges(run, np.exp(log_p))
    p = np.exp(log_p)[:, None]
    relative = ranges / p
    square = np.where(relative <= 2, relative**2 / 4, relative - 1)
    ceilings = np.minimum(np.log1p(square), -log_p[:, None])
    ceilings = np.minimum.accumulate(ceilings, axis=1)
    uses = np.concatenate([[0.0], run.meetings(lags), [float(run.meetings(run.steps))]])
    heights = np.column_stack([-log_p, ceilings, np.zeros(log_p.size)])
    total = [_largest_sum(uses, row) for row in heights]
    return np.asarray(run.ratio * np.array(total) * _INFLATION)


def _ranges(run: WorstRun, p: Array) -> tuple[Array, Array]:
    """Return lags below T, and the bound R_j on the range of u_j, shape (probabilities, lags)."""
    walk, merged, longest = merged_walk(run, run.diameter, _MIN_SURVIVAL)
    longest = min(longest, (run.steps - 1) // merged)
    survival = np.ones(longest + 1)
    if longest:
        survival[1:] = walk.bounds(np.full(longest, run.diameter))
    cycles = min((longest + 1) * merged, run.steps - 1) // run.period
    if cycles == 0:
        return np.zeros(0), np.zeros((p.size, 0))
    lags = run.period * np.unique(np.rint(np.geomspace(1, cycles, _LAGS)))
    splits = np.concatenate([[0.0], lags])
    chances = survival[np.minimum(splits // merged, longest).astype(int)]
    log_c = run.log_contraction
    x = ndtri(p)
    ranges = np.empty((p.size, lags.size))
    for k, lag in enumerate(lags):
        rest = lag - splits[: k + 1]
        mu = np.exp(log_c * rest) * run.diameter / run.noise / np.sqrt(geometric(2 * log_c, rest))
        top = np.clip(mu / 2, x[:, None], x[:, None] + mu)
        above, below = ndtr(top), ndtr(top - mu)
        widths = above - below + _TAIL_UNITS * (1 + x[:, None] ** 2) * (above + below)
        ranges[:, k] = np.minimum((chances[: k + 1] * widths).min(axis=1), chances[k + 1])
    return lags, ranges


def _largest_sum(uses: Array, heights: Array) -> float:
    """Return the sum of sqrt(2 dx dy) along the greatest convex minorant of the points."""
    points = np.array(lower_hull(zip(uses.tolist(), heights.tolist(), strict=True)))
    steps, drops = np.diff(points[:, 0]), np.maximum(-np.diff(points[:, 1]), 0.0)
    return float(np.sum(np.sqrt(2 * steps * drops)))


@dataclass(frozen=True, eq=False)
class RelativeEntropyCurve(ProfileCurve):
    """Profile of P(S) <= G(P'(S)), log G piecewise linear in log P'.

    ``renyi`` is that of composition, since the profile at the smallest deltas is not known.

    start, end: log q at both ends of each cell.
    value, value_end: log G there.
    composition: Composition of all steps.
    """

    start: Array = field(repr=False)
    end: Array = field(repr=False)
    value: Array = field(repr=False)
    value_end: Array = field(repr=False)
    composition: PrivacyCurve

    @classmethod
    def of(cls, run: WorstRun) -> RelativeEntropyCurve:
        """Compute F on a grid and solve its equation."""
        whole = run.ratio * math.sqrt(float(run.meetings(run.steps)))
        grid = np.append(_LOG_P, 0.0)
        rate = rates(run, _LOG_P)
        rate = np.maximum.accumulate(rate[::-1])[::-1]  # falls already, to rounding
        times = np.concatenate([[0.0], np.cumsum(np.diff(grid) / rate)])
        # cells of log q and of log G together
        back = np.interp(times[times >= 1] - 1, times, grid)
        ends = np.unique(np.concatenate([grid, back]))
        start_times = np.interp(ends, grid, times)
        reached = np.interp(start_times + 1, times, grid)
        # the rate where it begins bounds the growth; of small ones the times show nothing
        own = rate[np.clip(np.searchsorted(grid, ends, side="right") - 1, 0, rate.size - 1)]
        slack = _TIME_UNITS * (np.abs(ends) + own * start_times)
        growth = np.minimum(reached - ends + slack, own)
        reached = np.minimum(ends + growth + _UNITS * np.abs(ends), 0.0)
        return cls(ends[:-1], ends[1:], reached[:-1], reached[1:], GaussianCurve(whole))

    @property
    def _slopes(self) -> Array:
        """Slopes of log G by log q."""
        # above 1 by rounding only, since rates fall
        slopes = (self.value_end - self.value) / (self.end - self.start)
        return np.asarray(np.minimum(slopes, 1.0))

    def _profile(self, epsilon: Array, order: Order) -> Array:
        size, slopes = epsilon[:, None], self._slopes
        with np.errstate(divide="ignore", invalid="ignore"):
            best = self.value - slopes * self.start + np.log(slopes) - size
            best = np.where(slopes < 1, best / (1 - slopes), self.end)
        best = np.clip(np.nan_to_num(best, nan=-np.inf), self.start, self.end)
        ends = (np.broadcast_to(self.start, best.shape), best, self.end + 0 * best)
        gains = []
        for q in ends:
            one, other = self.value + slopes * (q - self.start), np.minimum(q + size, 700.0)
            # two exponentials and their exponents, by units of the probability itself
            units = 4 + np.abs(one) + np.abs(other) + np.abs(q - self.start)
            gains.append((1 + _UNIT * units) * np.exp(one) - np.exp(other))
        below = math.exp(float(self.value[0]))  # smaller probabilities than those of the grid
        return np.asarray(np.maximum(np.max(gains, axis=(0, 2)), below) * _INFLATION)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        slopes, left = self._slopes, delta[:, None] / _INFLATION
        with np.errstate(divide="ignore"):
            best = np.where(slopes < 1, np.log(left) - np.log1p(-slopes), np.inf)
        best = np.clip(best, self.value, self.value_end)
        values = (np.broadcast_to(self.value, best.shape), best, self.value_end + 0 * best)
        epsilon = np.zeros(delta.size)
        for value in values:
            share = (value - self.value) / np.maximum(self.value_end - self.value, 1e-300)
            q = self.start + np.clip(share, 0, 1) * (self.end - self.start)
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = value + np.log1p(-left * np.exp(-value)) - q + _UNITS * (1 + np.abs(q))
            epsilon = np.maximum(epsilon, np.max(np.nan_to_num(gain, nan=-np.inf), axis=1))
        below = math.exp(float(self.value[0])) * _INFLATION
        return np.asarray(np.where(delta > below, epsilon * _INFLATION, np.inf))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.composition.renyi(alpha))


@bound("own.relative_entropy")
def relative_entropy(mechanism: NoisySGD) -> PrivacyCurve:
    """Return the bound by the relative entropy of conditioned runs.

    It is best for weak pushes, long runs and small delta.
    """
    return RelativeEntropyCurve.of(WorstRun.of(mechanism))
