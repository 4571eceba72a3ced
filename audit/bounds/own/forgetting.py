"""Forgetting: the noise of the last m steps hides what happened before.

Theorem 2 of "Our own theorems" in the documentation:

    delta(epsilon) <= delta_(f_m)(epsilon) + beta_m,  with beta_T = 0,

for every m <= T, f_m the composition of the last m steps and beta_m = h_m(R) the chance that two
copies of one chain from R apart have not met m steps later (`audit.bounds.own.killed_walk`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from audit import validate
from audit.bounds.own.killed_walk import forgotten_after, merge_count, walk_of
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.profile import ProfileCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array, Integers
from audit.numerics.normal import gaussian_delta_above
from audit.numerics.roots import decreasing_root

_FORGOTTEN = 1e-16  # longer lengths are never better
_FEW, _ROOM = 1 + 8 * 2.0**-53, 2.0**-30  # roundings of parameters and sums; and room for a root
_FIRST, _EACH = 96, 16  # lengths compared in the first round of a search, and in each later one
_FINEST = 5000  # relative accuracy of a length, inverse
_SMALLEST_DECADE = 12
_DECADES = (2, 5, 8)  # decades used for a whole profile


@dataclass(frozen=True)
class Lengths:
    """Candidate lengths m in increasing order, and beta_m of each.

    The last is T itself, with beta = 0: composition.
    """

    counts: Integers
    betas: Array

    @classmethod
    def of(cls, run: WorstRun) -> Lengths:
        """Compute beta_m for m = 1, 2, ... until it is negligible, and T."""
        total = run.steps
        start = float(run.tracked(total))
        walk = walk_of(run.contraction, run.noise, run.diameter, start)
        merged = merge_count(walk)
        walk = walk.merged(merged)
        most = min(forgotten_after(walk, _FORGOTTEN), (total - 1) // merged)
        counts = merged * np.arange(1, most + 1)
        betas = np.empty(0)
        if most:
            betas = walk.bounds(np.asarray(run.tracked(total - counts)))
        return cls(np.append(counts, total), np.append(betas, 0.0))

    def only(self, count: int) -> Lengths:
        """Return one length; its beta is that of the longest candidate that is no longer."""
        place = int(np.searchsorted(self.counts, count, side="right")) - 1
        beta = float(self.betas[place]) if place >= 0 else 1.0
        return Lengths(np.array([count]), np.array([beta]))


@dataclass(frozen=True, eq=False)
class ForgettingCurve(ProfileCurve):
    """Smallest delta_(f_m) + beta_m over m, at each point.

    Every m gives a bound, so a search that misses the best m is looser and still valid.
    ``renyi`` is that of composition, since a profile with a positive limit bounds no divergence.

    lengths: Candidate lengths.
    composition: Composition of all T steps.
    """

    lengths: Lengths
    composition: PrivacyCurve

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.composition.renyi(alpha))


@dataclass(frozen=True, eq=False)
class GaussianForgettingCurve(ForgettingCurve):
    """Curve for fixed batches: f_m = G(mu_m).

    mus: Parameters mu_m of each length.
    """

    mus: Array

    def _profile(self, epsilon: Array, order: Order) -> Array:
        def cost(place: Integers) -> Array:
            profile = gaussian_delta_above(epsilon[:, None], self.mus[place])
            return np.asarray((profile + self.lengths.betas[place]) * _FEW)

        return smallest_by_row(cost, epsilon.size, self.mus.size)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        def cost(place: Integers) -> Array:
            return gaussian_epsilon(delta[:, None] - self.lengths.betas[place], self.mus[place])

        return smallest_by_row(cost, delta.size, self.mus.size)


@dataclass(frozen=True, eq=False)
class SampledForgettingCurve(ForgettingCurve):
    """Curve for sampled batches: f_m is the composition of m steps.

    The best m is searched for on first use, at four values of delta a decade and with coarse
    compositions.

    run: The run, on sampled batches.
    """

    run: WorstRun
    _members: dict[int, PrivacyCurve] = field(default_factory=dict, repr=False, kw_only=True)
    _places: dict[float, int] = field(default_factory=dict, repr=False, kw_only=True)

    def member(self, place: int) -> PrivacyCurve:
        """Return the composition of the length at ``place``."""
        count = int(self.lengths.counts[place])
        if count == self.run.steps:
            return self.composition
        if place not in self._members:
            self._members[place] = self.run.composition(count)
        return self._members[place]

    def best_place(self, decade: float) -> int:
        """Return the place of the length that is best at delta = 10^-decade, up to the search."""
        if decade not in self._places:
            self._places[decade] = self._search(10.0**-decade)
        return self._places[decade]

    def _search(self, delta: float) -> int:
        """Search by golden sections among the lengths with beta_m below delta."""
        counts, betas = self.lengths.counts, self.lengths.betas
        first = int(np.argmax(betas < delta))  # the last one is 0
        last = betas.size - 1
        low, high = first, max(last - 1, first)
        coarse = self.run.coarse_epsilons()
        seen = {last: coarse(int(counts[last]), delta)}

        def at(place: int) -> float:
            if place not in seen:
                left = delta - float(betas[place])
                seen[place] = math.inf if left <= 0 else coarse(int(counts[place]), left)
            return seen[place]

        ratio = (math.sqrt(5) - 1) / 2
        while high - low > max(2, (high + 1) // _FINEST):
            left = high - math.ceil(ratio * (high - low))
            right = low + math.ceil(ratio * (high - low))
            left, right = min(left, right - 1), max(right, left + 1)
            if at(left) <= at(right):
                high = right
            else:
                low = left
        for place in {low, (low + high) // 2, high}:
            at(place)
        return min(seen, key=lambda place: seen[place])

    def _profile(self, epsilon: Array, order: Order) -> Array:
        places = [self.best_place(decade) for decade in _DECADES]
        bounds = [
            np.asarray(self.member(place).delta(epsilon)) + self.lengths.betas[place]
            for place in {*places, self.lengths.betas.size - 1}
        ]
        return np.asarray(np.min(bounds, axis=0))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        result = np.full_like(delta, np.inf)
        quarters = np.ceil(-4 * np.log10(delta) - 1e-9)
        decades = np.clip(quarters / 4, 1, _SMALLEST_DECADE)
        for decade in np.unique(decades):
            here = decades == decade
            places = {self.best_place(float(decade)), self.lengths.betas.size - 1}
            result[here] = np.min([self._epsilon_at(p, delta[here]) for p in places], axis=0)
        return result

    def _epsilon_at(self, place: int, delta: Array) -> Array:
        left = delta - self.lengths.betas[place]
        result = np.full_like(delta, np.inf)
        some = left > 0
        if np.any(some):
            result[some] = self.member(place).epsilon(left[some])
        return result


def forgetting_curve(run: WorstRun, count: int | None = None) -> ForgettingCurve:
    """Return the bound of a run, at the best length or at ``count``."""
    if count is not None:
        validate.integer(1, m=count)
        if count > run.steps:
            raise ValueError(f"m must be at most steps ({run.steps}), got {count!r}")
    lengths = Lengths.of(run)
    if count is not None:
        lengths = lengths.only(count)
    if run.rate < 1:
        return SampledForgettingCurve(lengths, run.composition(run.steps), run)
    mus = _FEW * run.ratio * np.sqrt(run.meetings(lengths.counts))
    whole = run.ratio * math.sqrt(float(run.meetings(run.steps)))
    return GaussianForgettingCurve(lengths, GaussianCurve(whole), mus)


def gaussian_epsilon(delta: Array, mu: Array) -> Array:
    """Return the epsilon of G(mu) at delta, for arrays that broadcast; infinite for delta <= 0.

    Rounded up: a root of an upper bound on delta, right of which that is at most delta.
    """
    delta, mu = np.broadcast_arrays(delta, mu)
    some = delta > 0
    d, m = np.where(some, delta, 0.5), mu
    d = np.minimum(d, 1.0)
    nothing = gaussian_delta_above(np.zeros_like(m), m) <= d
    with np.errstate(divide="ignore"):
        # Phi(-x) bounds delta, with room for the rounding of both
        most = m * ((m / 2 - ndtri(d)) * (1 + _ROOM) + _ROOM)
        high = np.where(nothing, 0.0, np.maximum(most, 0.0))
        target = np.log(d)

    def excess(epsilon: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(gaussian_delta_above(epsilon, m)) - target)

    root = decreasing_root(excess, np.zeros_like(d), high)
    return np.where(some, root, np.inf)


def smallest_by_row(cost: Callable[[Integers], Array], rows: int, count: int) -> Array:
    """Return the smallest cost of each row over the indices 0..count-1, from coarse to fine.

    ``cost`` maps places, shape (places,) or (rows, places), to costs of shape (rows, places).
    """
    ends = np.geomspace(1, count, _FIRST)
    places = np.unique(np.rint(ends).astype(np.int64)) - 1
    costs = cost(places)
    best = np.argmin(costs, axis=1)
    result = costs[np.arange(rows), best]
    low, high = places[np.maximum(best - 1, 0)], places[np.minimum(best + 1, places.size - 1)]
    share = np.linspace(0, 1, _EACH)
    while np.any(high - low > 2):
        finer = np.rint(low[:, None] + (high - low)[:, None] * share).astype(np.int64)
        costs = cost(finer)
        best = np.argmin(costs, axis=1)
        row = np.arange(rows)
        result = np.minimum(result, costs[row, best])
        low = finer[row, np.maximum(best - 1, 0)]
        high = finer[row, np.minimum(best + 1, _EACH - 1)]
        if finer.shape[1] >= np.max(high - low) + 1 and np.all(high - low <= 2):
            break
    last = cost(low[:, None] + np.minimum(np.arange(3), (high - low)[:, None]))
    return np.asarray(np.minimum(result, last.min(axis=1)))


@bound("own.forgetting")
def forgetting(mechanism: NoisySGD, *, m: int | None = None) -> PrivacyCurve:
    """Return delta(eps) <= delta_(f_m)(eps) + beta_m, at the best m.

    f_m is the composition of the last m steps: G(mu) with mu^2 = sum of v_k^2/s^2 for full and
    cyclic batches, C_p(G(v/s)) composed m times for batches drawn without replacement, and the
    tight composition for Poisson batches. beta_m is the chance that two chains with the same
    updates are still apart after m steps of maximal reflection coupling, 0 for m = T. s = eta
    sigma; v = eta S/b with S the sensitivity of the differing record, or of the whole family for
    batches drawn without replacement.

    m: Length, 1 to T. Default: the best at each point of the curve.
    """
    return forgetting_curve(WorstRun.of(mechanism), m)
