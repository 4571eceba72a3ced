"""Forgetting: the noise of the last m steps hides what happened before.

Theorem 2 of "Our own theorems" in the documentation: delta(epsilon) <= delta_(f_m)(epsilon) +
beta_m, with beta_m = h_m(R) from the killed walk of Lemma 1.

Quadrature. The means of h_k are integrals of F(r') = (N(r'; rho) - N(r'; -rho)) h_k(r'). Both
factors are Gaussian averages, of weights and of values of at most 1, so that with d = 2 s
|F(r' + i t)| <= 2 e^((1 + c^2) t^2/2d^2)/(d sqrt(2 pi)). By Trefethen (2008, Theorem 4.5),
Gauss-Legendre quadrature with n nodes on a panel of width w errs, for every rho > 1, by at most

    (w/2) (64/15) 2 e^((1 + c^2) b^2/2d^2)/(d sqrt(2 pi)) rho^(-2n)/(1 - rho^-2),

with b = w (rho - 1/rho)/4. Weights are positive and sum to at most 1 but for that, so that errors
of steps add up. Rounding is relative: all terms are positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from audit import validate
from audit.bounds.accounting.shift_allocation import MIN_LOG, geometric
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.profile import ProfileCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array, Integers
from audit.numerics.display import ShortRepr
from audit.numerics.normal import gaussian_delta_above, log_density
from audit.numerics.panels import Panels
from audit.numerics.roots import decreasing_root

_WIDTH = 3.0  # width of a panel, in deviations of the walk
_ORDERS = range(12, 42, 2)  # nodes of a panel that are tried
_ERROR = 1e-18  # target for the quadrature error of all steps
_RHOS = np.geomspace(1.5, 30.0, 60)
_MERGE_DEVIATIONS = 50.0  # steps are merged on a domain of more deviations
_WALK_DEVIATIONS = 12.0  # deviations of the stationary walk beyond which chains never meet
_UNIT = 2.0**-52
_MIN_MASS = 1e-290
_MIN_SURVIVAL = 1e-16  # longer lengths are never better
_ROUND_UP, _ROOT_SLACK = 1 + 8 * 2.0**-53, 2.0**-30  # rounding of sums, and of a root
_FIRST_LENGTHS, _ROUND_LENGTHS = 96, 16  # lengths in the first round of a search, and in later ones
_LENGTH_RESOLUTION = 5000  # relative accuracy of a length, inverse
_MIN_DECADE = 12
_DECADES = (2, 5, 8)  # decades used for a whole profile


# --- the walk of the distance ---


@dataclass(frozen=True)
class KilledWalk:
    """Walk of the distance: multiplied by c, plus 2 s Z, killed at 0.

    contraction: Contraction c of one step, in [0, 1].
    deviation: Standard deviation 2 s.
    top: Distance at which the walk is held.
    absorbed: Whether chains at that distance count as never meeting.
    """

    contraction: float
    deviation: float
    top: float
    absorbed: bool = False

    def merged(self, count: int) -> KilledWalk:
        """Return ``count`` steps as one, held at the top only after the last of them.

        This increases the distance, and so the survival probability.
        """
        c = self.contraction
        log_c = math.log(c) if c > 0 else MIN_LOG
        spread = float(geometric(2 * log_c, count))
        deviation = self.deviation * math.sqrt(spread)
        return KilledWalk(c**count, deviation, self.top, self.absorbed)

    def rows(self, distance: Array, panels: Panels) -> Array:
        """Return the weights of each node, and of the top, from each distance, one row each."""
        nodes, weights = panels.nodes.ravel(), panels.weights.ravel()
        rho = self.contraction * distance[:, None]
        scale = self.deviation
        # N(r'; rho) - N(r'; -rho) without cancellation
        density = np.exp(log_density((nodes - rho) / scale)) / scale
        density *= -np.expm1(-2 * rho * nodes / scale**2)
        x = (self.top - rho[:, 0]) / scale
        upper = ndtr(-x)
        with np.errstate(divide="ignore"):
            other = log_ndtr(-(self.top + rho[:, 0]) / scale) - log_ndtr(-x)
        upper = upper * -np.expm1(np.minimum(other, 0.0))
        return np.concatenate([density * weights, upper[:, None]], axis=1)

    def _operator(self, order: int) -> tuple[Array, Array, Panels]:
        """Return the walk's operator on nodes and the top, these points, and the nodes' panels."""
        panels = Panels.covering(0.0, self.top, _WIDTH * self.deviation, order)
        places = np.append(panels.nodes.ravel(), self.top)
        operator = self.rows(places, panels)
        if self.absorbed:
            operator[-1] = 0.0
            operator[-1, -1] = 1.0
        return operator, places, panels

    def survival(self, distances: Array, order: int) -> Array:
        """Return the survival probability after 1, 2, ... steps, each from its own distance."""
        operator, places, panels = self._operator(order)
        count = distances.size
        size = max(math.isqrt(count), 1)
        leap = np.linalg.matrix_power(operator, size)
        # survival after 0, size, 2 size, ... steps, from every point
        alive = np.ones((places.size, -(-count // size)))
        for j in range(1, alive.shape[1]):
            alive[:, j] = leap @ alive[:, j - 1]
        # from one distance: the same row, after 0..size - 1 more steps
        row = np.empty((size, places.size))
        row[0] = self.rows(distances[:1], panels)[0]
        for i in range(1, size):
            row[i] = row[i - 1] @ operator
        result = (row @ alive).T.ravel()[:count]
        others = np.flatnonzero(distances != distances[0])
        first = int(others[0]) // size * size if others.size else count
        # blocks of ``size`` numbers of steps, all blocks side by side
        starts = np.arange(first, count, size)
        states = np.ascontiguousarray(alive[:, starts // size])
        for i in range(size if starts.size else 0):
            at = starts[starts + i < count] + i
            rows = self.rows(distances[at], panels)
            result[at] = np.einsum("ij,ji->i", rows, states[:, : at.size])
            states = operator @ states
        return np.asarray(result)

    def bounds(self, distances: Array) -> Array:
        """Return upper bounds on `survival`, each from its own distance."""
        order, error = self._order(distances.size)
        steps = np.arange(1.0, distances.size + 1)
        return self._raised(self.survival(distances, order), order, error, steps)

    def chances(self, distances: Array, stride: int, count: int) -> Array:
        """Return upper bounds on the survival probability after stride, 2 stride, ... steps.

        Shape (count, distances); like `bounds`, for all starts at once.
        """
        order, error = self._order(stride * count)
        operator, places, panels = self._operator(order)
        first = self.rows(np.minimum(distances, self.top), panels)
        leap = np.linalg.matrix_power(operator, stride)
        state = np.linalg.matrix_power(operator, stride - 1) @ np.ones(places.size)
        result = np.empty((count, distances.size))
        for j in range(count):
            result[j] = first @ state
            state = leap @ state
        steps = stride * np.arange(1.0, count + 1)[:, None]
        return self._raised(result, order, error, steps)

    def _order(self, steps: int) -> tuple[int, float]:
        """Return the number of nodes of a panel, and a bound on the error of a step."""
        b = _WIDTH * (_RHOS - 1 / _RHOS) / 4
        growth = (1 + self.contraction**2) * b**2 / 2 - np.log1p(-(_RHOS**-2))
        count = self.top / (_WIDTH * self.deviation) + 1
        for order in _ORDERS:
            rate = math.exp(float(np.min(growth - 2 * order * np.log(_RHOS))))
            # panels may be wider by a share of 1e-12
            error = 1.001 * count * _WIDTH * 64 / 15 * rate / math.sqrt(2 * math.pi)
            if steps * error <= _ERROR:
                break
        return order, error

    def _raised(self, values: Array, order: int, error: float, steps: Array) -> Array:
        """Return computed probabilities with what quadrature and rounding may have taken."""
        nodes = (self.top / (_WIDTH * self.deviation) + 1) * order
        result = values * (1 + 4 * _UNIT * (nodes + 64) * steps) + steps * error + _MIN_MASS
        return np.asarray(np.minimum(result, 1.0))


def walk_of(contraction: float, noise: float, diameter: float, start: float) -> KilledWalk:
    """Return the walk of the distance of two chains that start at most ``start`` apart.

    If the domain is unbounded or large, the walk ends well beyond its typical range.
    """
    deviation = 2 * noise
    top = diameter
    if contraction < 1:
        spread = deviation / math.sqrt((1 - contraction) * (1 + contraction))
        top = min(top, start + _WALK_DEVIATIONS * spread)
    return KilledWalk(contraction, deviation, top, absorbed=top < diameter)


def merged_walk(run: WorstRun, start: float, smallest: float) -> tuple[KilledWalk, int, int]:
    """Return the walk of a run from at most ``start`` whose steps are several of the run's.

    Its domain is at most 50 deviations wide. Returns also the number of steps that are one, and
    about how many of the walk reduce the survival probability below ``smallest``.
    """
    walk = walk_of(run.contraction, run.noise, run.diameter, start)
    merged = max(int((walk.top / walk.deviation / _MERGE_DEVIATIONS) ** 2), 1)
    walk = walk.merged(merged)
    width = walk.top / walk.deviation + 0.5
    rate = math.pi**2 / 8 / width**2
    if walk.contraction < 1:
        rate = max(rate, -math.log(max(walk.contraction, 1e-300)))
    return walk, merged, math.ceil(-math.log(smallest) / min(rate, 40.0)) + 8


# --- the bound ---


@dataclass(frozen=True)
class Lengths(ShortRepr):
    """Candidate lengths m in increasing order, and beta_m of each.

    The last is T itself, with beta = 0: composition.
    """

    counts: Integers
    betas: Array

    @classmethod
    def of(cls, run: WorstRun) -> Lengths:
        """Compute beta_m for m = 1, 2, ... until it is negligible, and T."""
        total = run.steps
        walk, merged, longest = merged_walk(run, float(run.tracked(total)), _MIN_SURVIVAL)
        most = min(longest, (total - 1) // merged)
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
    """Smallest delta_(f_m) + beta_m over m, at each point; every m gives a bound.

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
            return np.asarray((profile + self.lengths.betas[place]) * _ROUND_UP)

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
        while high - low > max(2, (high + 1) // _LENGTH_RESOLUTION):
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
        decades = np.clip(quarters / 4, 1, _MIN_DECADE)
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
    lengths = Lengths.of(run) if count is None else Lengths.of(run).only(count)
    if run.rate < 1:
        return SampledForgettingCurve(lengths, run.composition(run.steps), run)
    mus = _ROUND_UP * run.ratio * np.sqrt(run.meetings(lengths.counts))
    whole = run.ratio * math.sqrt(float(run.meetings(run.steps)))
    return GaussianForgettingCurve(lengths, GaussianCurve(whole), mus)


def gaussian_epsilon(delta: Array, mu: Array) -> Array:
    """Return the epsilon of G(mu) at delta, for arrays that broadcast; infinite for delta <= 0.

    Rounded up: a root of an upper bound on delta, right of which that is at most delta.
    """
    delta, m = np.broadcast_arrays(delta, mu)
    some = delta > 0
    d = np.minimum(np.where(some, delta, 0.5), 1.0)
    nothing = gaussian_delta_above(np.zeros_like(m), m) <= d
    with np.errstate(divide="ignore"):
        # Phi(-x) bounds delta, with room for the rounding of both
        most = m * ((m / 2 - ndtri(d)) * (1 + _ROOT_SLACK) + _ROOT_SLACK)
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
    ends = np.geomspace(1, count, _FIRST_LENGTHS)
    places = np.unique(np.rint(ends).astype(np.int64)) - 1
    costs, row = cost(places), np.arange(rows)
    best = np.argmin(costs, axis=1)
    result = costs[row, best]
    low, high = places[np.maximum(best - 1, 0)], places[np.minimum(best + 1, places.size - 1)]
    share = np.linspace(0, 1, _ROUND_LENGTHS)
    while np.any(high - low > 2):
        finer = np.rint(low[:, None] + (high - low)[:, None] * share).astype(np.int64)
        costs = cost(finer)
        best = np.argmin(costs, axis=1)
        result = np.minimum(result, costs[row, best])
        low = finer[row, np.maximum(best - 1, 0)]
        high = finer[row, np.minimum(best + 1, _ROUND_LENGTHS - 1)]
    last = cost(low[:, None] + np.minimum(np.arange(3), (high - low)[:, None]))
    return np.asarray(np.minimum(result, last.min(axis=1)))


@bound("own.forgetting")
def forgetting(mechanism: NoisySGD, *, m: int | None = None) -> PrivacyCurve:
    """Return delta(eps) <= delta_(f_m)(eps) + beta_m, at the best m.

    f_m is the composition of the last m steps, and beta_m the chance that two chains with the same
    updates are still apart after m steps of maximal reflection coupling, 0 for m = T.

    m: Length, 1 to T. Default: the best at each point of the curve.
    """
    return forgetting_curve(WorstRun.of(mechanism), m)
