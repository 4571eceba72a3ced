"""Composition of sampled Gaussian steps, C_p(G(mu))^k, and one Gaussian mechanism.

C_p(G(mu)) has the losses of a sampled step above 0, and their mirror images below. Compositions are
those of `audit.dominating`, which bound them from both sides on a grid of losses. Where there are
too many steps, or epsilon is above 10^7, the bound is the better one of the Renyi divergences and
of all steps without sampling.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.brackets import Bracket
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.gaussian import GaussianCurve
from audit.curves.minimum import MinimumCurve
from audit.curves.renyi import RenyiCurve
from audit.dominating.curve import ComposedCurve, DominatingCurve
from audit.dominating.grid import GridPair, mirrored
from audit.dominating.grid_composition import GridComposition, TooManyCells
from audit.dominating.layer import Layer, saddle_point_epsilon
from audit.dominating.mixture import MixturePair, Tails, log_tails
from audit.dominating.runs import gaussian_run

Array = NDArray[np.float64]
T = TypeVar("T")

LARGEST_COMPOSITION = 10**7
"""Beyond this many steps rounding is too large, and Renyi divergences are used."""

LARGEST_GRID = 1 << 20
"""Most grid points of a composition by default."""

_LARGEST_MU = 1e4  # beyond, epsilon is above 10^7 and losses have too few digits
_SMALLEST_GRID, _MOST_CELLS = 1 << 12, 1 << 21
_COARSE_GRID = 1 << 13  # points for the moments that determine the interval
_GRID_ERROR = 1e-6  # target for epsilon, relative to the spread of the composed loss
_SMALLEST_GAP, _PER_DECADE = 1e-6, 20  # alpha - 1, and how many orders
_SMALL_DELTA = 1e-18  # grids of larger deltas end where all steps have masses below 1e-26
_LEAST_POINT = 1e-8  # delta of the last point of a tradeoff function's profile
_POINTS = 4096  # points of that profile
_MANY = 16  # epsilons that share one transform, whose errors are absolute
_FEW_STEPS = 64  # that are composed to compare lengths
_TILTS = np.geomspace(1e-4, 1e6, 300)  # of approximate epsilons

# Curves in use, since several bounds on one mechanism contain the same composition.
_CURVES: WeakValueDictionary[tuple[object, ...], SampledComposition] = WeakValueDictionary()


@dataclass(frozen=True)
class _Law:
    """A step of a composition and how often it occurs; that of rate 1 is a Gaussian mechanism."""

    step: SubsampledGaussian
    times: int = 1

    @property
    def pair(self) -> MixturePair:
        """The pair that has the losses above 0."""
        return MixturePair(self.step.rate, 1 / self.step.mu, 1.0, two_sided=False)

    def on_grid(self, above: bool, interval: float, tails: Tails) -> tuple[GridPair, int]:
        """Return a pair that dominates a step, or that it dominates, and how often it occurs."""
        pair, times = self.pair, self.times
        if self.step.rate == 1 and not above:  # whose losses must be bounded
            run = gaussian_run(self.step.mu)
            pair, times = run.pair, self.times * run.times
        return mirrored(pair.above_zero(above, interval, tails)), times


@dataclass(frozen=True, eq=False)
class SampledComposition(DominatingCurve):
    """Curve of a composition on a grid of losses, equal in both orders.

    Parameters
    ----------
    laws : tuple
        The composed laws.
    interval : float
        Interval of the grid, in nats.
    moments : RenyiCurve
        The Renyi divergences, which bound the smallest deltas as well.
    """

    laws: tuple[_Law, ...]
    interval: float
    moments: RenyiCurve
    _known: dict[tuple[bool, bool, float], GridComposition] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values."""
        return True

    def _side(self, above: bool, small: bool, interval: float) -> GridComposition:
        """Return a composition on one side, with the losses that small deltas need or without."""
        key = above, small, interval
        if key not in self._known:
            tails = log_tails(sum(law.times for law in self.laws), 0.0 if small else 1.0)
            # far losses that are rare need no fine grid
            reach = max(law.pair.losses(tails)[1] for law in self.laws)
            interval = max(interval, reach / _MOST_CELLS)
            self._known[key] = GridComposition(
                [law.on_grid(above, interval, tails) for law in self.laws]
            )
        return self._known[key]

    def _ask(self, above: bool, small: bool, question: Callable[[GridComposition], T]) -> T:
        """Return the answer of one side; if it needs too many cells, that of a coarser grid."""
        interval = self.interval
        while True:
            try:
                return question(self._side(above, small, interval))
            except TooManyCells as error:
                interval *= error.cells / _MOST_CELLS

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        high = self._most_epsilon(delta)
        low = self._ask(False, delta < _SMALL_DELTA, lambda side: side.epsilon(delta))
        return low, high

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        high = float(self._delta(np.array([epsilon]), order)[0])
        low = self._ask(False, high < _SMALL_DELTA, lambda side: side.delta(epsilon))
        return low, high

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        low, high = (
            self._ask(one, delta < _SMALL_DELTA, lambda side: side) for one in (False, True)
        )
        return ComposedCurve(low, high, same=True).errors(delta, order)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([self._most_epsilon(one) for one in delta.tolist()])

    def _most_epsilon(self, delta: float) -> float:
        small = delta < _SMALL_DELTA
        high = self._ask(True, small, lambda side: side.epsilon(delta))
        return min(high, float(self.moments.epsilon(delta))) if small or high == math.inf else high

    def _delta(self, epsilon: Array, order: Order) -> Array:
        few = epsilon.size < _MANY  # many share one transform
        most = self._ask(
            True, False, lambda side: side.deltas(epsilon) if few else side.profile(epsilon)
        )
        small = most < _SMALL_DELTA
        if small.any():
            far = epsilon[small]
            most[small] = self._ask(True, True, lambda side: side.deltas(far))
            most[small] = np.minimum(most[small], self.moments.delta(far))
        return most

    def _beta(self, alpha: Array, order: Order) -> Array:
        return tradeoff_from_profile(alpha, *self._profile)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        points = profile_points(float(self.epsilon(_LEAST_POINT)), _POINTS)
        return points, self._ask(True, False, lambda side: side.profile(points))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.moments.renyi(alpha))


def compose(
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float = 0.0,
    *,
    beside: SubsampledGaussian | None = None,
    largest_grid: int = LARGEST_GRID,
) -> PrivacyCurve:
    """Return an upper bound on C_p(G(mu))^times composed with G(gaussian_mu) and ``beside``."""
    validate.integer(1, times=times)
    validate.nonnegative(gaussian_mu=gaussian_mu)
    if beside is not None and (beside.rate == 1 or beside == step):
        # a Gaussian mechanism, or one step more
        if beside == step:
            return compose(step, times + 1, gaussian_mu, largest_grid=largest_grid)
        both = math.hypot(gaussian_mu, beside.mu)
        return compose(step, times, both, largest_grid=largest_grid)
    besides = 0.0 if beside is None else beside.mu
    unsampled = GaussianCurve(math.hypot(math.sqrt(times) * step.mu, gaussian_mu, besides))
    if step.rate == 1:
        if beside is None:
            return unsampled
        merged = math.hypot(math.sqrt(times) * step.mu, gaussian_mu)
        return compose(beside, 1, merged, largest_grid=largest_grid)
    if times == 1 and gaussian_mu == 0 and beside is None:
        return step
    step = _with_48_bits(step)
    key = (step, times, gaussian_mu, beside, largest_grid)
    known = _CURVES.get(key)
    if known is not None:
        return known
    divergence = functools.partial(
        _divergence, step=step, times=times, gaussian_mu=gaussian_mu, beside=beside
    )
    # the best order for a delta above e^-500000 is below 1000 deviations of the loss: high orders
    # cost most, where a step is weak
    weakest = math.hypot(step.rate * math.sqrt(times) * step.mu, gaussian_mu)
    highest = min(max(1e3 / max(weakest, 1e-9), 10 * _SMALLEST_GAP), 1e6)
    moments = RenyiCurve(
        divergence,
        search=(_SMALLEST_GAP, highest),
        points=1 + math.ceil(_PER_DECADE * math.log10(highest / _SMALLEST_GAP)),
        refinements=0,
    )
    if times > LARGEST_COMPOSITION or unsampled.mu > _LARGEST_MU:
        return MinimumCurve((moments, unsampled), ("Renyi divergences", "without sampling"))
    laws = [_Law(step, times)]
    if beside is not None:
        laws.append(_Law(beside))
    if gaussian_mu:
        laws.append(_Law(SubsampledGaussian(1.0, gaussian_mu)))
    curve = SampledComposition(tuple(laws), _interval(laws, largest_grid), moments)
    return _CURVES.setdefault(key, curve)


def _interval(laws: Sequence[_Law], largest_grid: int) -> float:
    """Return the grid interval of a composition."""
    tails = log_tails(sum(law.times for law in laws))
    variance = window = reach = 0.0
    for law in laws:
        most = law.pair.losses(tails)[1]
        pair, times = law.on_grid(True, most / _COARSE_GRID, tails)
        layer = Layer([(None, pair, times)])
        variance += float(layer.cumulants[2, 0])
        window += layer.size * layer.interval
        reach = max(reach, most)
    # spreading losses over the grid raises their mean by about steps * interval^2 / 12, and their
    # variance by twice that
    spread, steps = math.sqrt(variance), sum(law.times for law in laws)
    wanted = min(
        math.sqrt(12 * _GRID_ERROR * spread / steps), math.sqrt(6 * _GRID_ERROR / steps) * spread
    )
    width = max(window, reach)
    return min(max(wanted, width / largest_grid), width / _SMALLEST_GRID)


def _with_48_bits(step: SubsampledGaussian) -> SubsampledGaussian:
    """Return the step with its parameter rounded up to 48 bits.

    Bounds compute it in different orders; their compositions are then one.
    """
    mantissa, exponent = math.frexp(step.mu)
    return replace(step, mu=math.ldexp(math.ceil(mantissa * 2.0**48) / 2.0**48, exponent))


def _divergence(
    alpha: Array,
    order: Order = Order.FORWARD,
    *,
    step: SubsampledGaussian,
    times: int,
    gaussian_mu: float,
    beside: SubsampledGaussian | None,
) -> Array:
    once = 0.0 if beside is None else beside.divergence(alpha)
    return times * step.divergence(alpha) + alpha * gaussian_mu**2 / 2 + once


def coarse_epsilons(
    step: SubsampledGaussian,
    *,
    gaussian: Callable[[int], float] = lambda times: 0.0,
    beside: SubsampledGaussian | None = None,
) -> Callable[[int, float], float]:
    """Return approximate epsilons of compositions as in `compose`, to compare their lengths.

    They follow from moments by the saddle point method, so that a length costs next to nothing,
    but for a few steps, where that errs by more than a percent.
    """
    tails = log_tails(1)

    def cumulants(step: SubsampledGaussian) -> Array:
        law = _Law(step)
        if step.rate == 1:
            mean, variance = _TILTS + 0.5, np.ones_like(_TILTS)
            return step.mu**2 * np.array([_TILTS * (_TILTS + 1) / 2, mean, variance])
        pair, _ = law.on_grid(True, law.pair.losses(tails)[1] / _COARSE_GRID, tails)
        return Layer([(None, pair, 1)]).approximate(_TILTS)

    once = cumulants(step)
    other = 0.0 if beside is None else cumulants(beside)
    normal = cumulants(SubsampledGaussian(1.0, 1.0))

    def approximate(times: int, delta: float) -> float:
        if times < _FEW_STEPS:
            curve = compose(step, times, gaussian(times), beside=beside, largest_grid=_COARSE_GRID)
            return float(curve.epsilon(delta))
        return saddle_point_epsilon(
            _TILTS, times * once + gaussian(times) ** 2 * normal + other, delta
        )

    return approximate
