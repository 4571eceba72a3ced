"""The bound `own.relative_entropy`: how fast the probability of an event can rise.

Let phi^t = (1 - t) phi' + t phi, t in [0, 1], be the updates between those of the two datasets.
They are c-Lipschitz as well. Fix an event S of the last iterate. Let p(t) be its probability,
u_j(x) that given the iterate x at j steps before the end, and P^S the law of the run conditioned on
S. Let m_k be the mean of the noise Z_k given X_(k-1) under P^S. The derivative of the Gaussian
densities gives

    (log p)' = (1/s) sum of E^S (phi_k - phi'_k)(X_(k-1)) . m_k <= (v/s) sum of E^S |m_k|,

the sum over the steps that use the record. Let e_j be the relative entropy of X_(T-j) under P^S to
that under P; its density is u_j/p, so e_j = E^S log(u_j/p), e_0 = log(1/p) and e_T = 0. The chain
rule for (X_(k-1), Z_k) gives E^S KL(Z_k | X_(k-1)) = e_(T-k) - e_(T-k+1), and a law of mean m has a
relative entropy of at least |m|^2/2 to N(0, I). Hence

    (log p)' <= (v/s) sum of sqrt(2 (e_j - e_(j+1))),  j the number of steps after the step.     (1)

Ceilings on e_j. Let h_i be the killed walk from D (`audit.bounds.own.killed_walk`), and
mu_l = c^l D/(s sqrt(1 + c^2 + ... + c^(2l-2))) the parameter of parallel moves from D to 0 in l
steps, so that Phi^-1(u_l) varies by at most mu_l over the domain.

- p is the mean of u_l, so inf u_l <= p <= sup u_l, and with x = Phi^-1(p) the range of u_l is at
  most w_l, the largest Phi(y) - Phi(y - mu_l) over y in [x, x + mu_l]; w_0 = 1.
- Two laws i steps later differ by at most h_i in total variation, so the range of u_j is at most
  R_j, the smallest h_i w_(j-i) over i <= j.
- The variance of u_j, of mean p >= 0 within a range R, is at most V(R) = R^2/4 if R <= 2p, and
  p (R - p) otherwise. By Jensen's inequality e_j <= log(E u_j^2/p^2) <= log(1 + V(R_j)/p^2).

The sum in (1). Let x_b be the number of uses of the record in the last j_b steps, for some
j_0 = 0 < j_1 < ... < j_B = T, and E_b = e_(j_b). By the Cauchy-Schwarz inequality the sum is at
most that of sqrt(2 (x_(b+1) - x_b)(E_b - E_(b+1))). Among all decreasing E_b below ceilings, it is
largest for the greatest convex minorant of the points (x_b, ceiling_b): the terms are concave, the
derivatives by E_b - E_(b+1) rise with b on the minorant, and where they change it touches the
ceiling, so that the tangent plane bounds all others by it. Any choice of the j_b gives a bound.

So (log p)' <= F(p). F falls in p: R_j/p does, hence V(R_j)/p^2, and log(1/p). It is computed at the
points of a grid and holds for larger p. The equation is solved with F constant on the cells of the
grid, and gives P(X_T in S) <= G(P(X'_T in S)), hence delta(epsilon) <= sup over q of
G(q) - e^epsilon q. On a cell log G is linear in log q, so the supremum is found in closed form.

Without walls and before burn-in F = (v/s) sqrt(2 T log(1/p)), the rate of G(v sqrt(T)/s) up to
lower-order terms. After burn-in F grows like A sqrt(log(1/p)) with A = v D/s^2, where couplings and
forgetting give (2/pi) A log(1/p): at A = .1, s = .05 D and T = 4000, epsilon/A is 5.03, 7.3 and 9.5
at delta = 1e-5, 1e-8 and 1e-12, where `own.coupling` has 4.97, 8.92 and 17.06.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri

from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.own.killed_walk import forgotten_after, merge_count, walk_of
from audit.bounds.own.profiles import SymmetricProfileCurve
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

_FORGOTTEN = 1e-16  # of the walk; longer lags are left out
_LAGS = 64
_INFLATION = 1 + 1e-9  # for the rounding of F and of the curve
_UNITS = 2.0**-50  # roundings of a sum, or of the difference of two exponentials
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
    walk = walk_of(run.contraction, run.noise, run.diameter, run.diameter)
    merged = merge_count(walk)
    walk = walk.merged(merged)
    longest = min(forgotten_after(walk, _FORGOTTEN), (run.steps - 1) // merged)
    survival = np.ones(longest + 1)
    if longest:
        survival[1:] = walk.bounds(np.full(longest, run.diameter))
    cycles = min((longest + 1) * merged, run.steps - 1) // run.period
    if cycles == 0:
        return np.zeros(0), np.zeros((p.size, 0))
    lags = run.period * np.unique(np.rint(np.geomspace(1, cycles, _LAGS)))
    splits = np.concatenate([[0.0], lags])
    chances = survival[np.minimum(splits // merged, longest).astype(int)]
    log_c = math.log1p(-run.gap) if run.gap < 1 else -700.0
    x = ndtri(p)
    ranges = np.empty((p.size, lags.size))
    for k, lag in enumerate(lags):
        rest = lag - splits[: k + 1]
        mu = np.exp(log_c * rest) * run.diameter / run.noise / np.sqrt(geometric(2 * log_c, rest))
        top = np.clip(mu / 2, x[:, None], x[:, None] + mu)
        widths = ndtr(top) - ndtr(top - mu)
        ranges[:, k] = np.minimum((chances[: k + 1] * widths).min(axis=1), chances[k + 1])
    return lags, ranges


def _largest_sum(uses: Array, heights: Array) -> float:
    """Return the sum of sqrt(2 dx dy) along the greatest convex minorant of the points."""
    hull: list[tuple[float, float]] = []
    for x, y in zip(uses.tolist(), heights.tolist(), strict=True):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    points = np.array(hull)
    steps, drops = np.diff(points[:, 0]), np.maximum(-np.diff(points[:, 1]), 0.0)
    return float(np.sum(np.sqrt(2 * steps * drops)))


@dataclass(frozen=True, eq=False)
class RelativeEntropyCurve(SymmetricProfileCurve):
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

    def _profile(self, epsilon: Array) -> Array:
        size, slopes = epsilon[:, None], self._slopes
        with np.errstate(divide="ignore", invalid="ignore"):
            best = self.value - slopes * self.start + np.log(slopes) - size
            best = np.where(slopes < 1, best / (1 - slopes), self.end)
        best = np.clip(np.nan_to_num(best, nan=-np.inf), self.start, self.end)
        ends = (np.broadcast_to(self.start, best.shape), best, self.end + 0 * best)
        # the difference is rounded by units of the probability itself
        gains = [
            (1 + _UNITS) * np.exp(self.value + slopes * (q - self.start))
            - np.exp(np.minimum(q + size, 700.0))
            for q in ends
        ]
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

    No event's log-probability rises faster than F between the datasets, with F from the relative
    entropy that conditioning on the event leaves in earlier iterates. It is best for weak pushes,
    long runs and small delta. The proof is in `audit.bounds.own.relative_entropy`.
    """
    return RelativeEntropyCurve.of(WorstRun.of(mechanism))
