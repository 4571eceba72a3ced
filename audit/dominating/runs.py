"""Independent pairs of several kinds on one grid, refined until brackets are narrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np

from audit import validate
from audit.curves import Order
from audit.curves.bracketed import Brackets, Measure
from audit.curves.brackets import Bracket
from audit.curves.renyi import RenyiCurve
from audit.dominating.closed_form import DeltaLimits, SampledGaussian
from audit.dominating.curve import (
    ComposedCurve,
    DominatingCurve,
    EnclosedCurve,
    GaussianDominatingCurve,
    GridComposition,
    Moments,
)
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, regridded, united
from audit.dominating.layer import TooManyCells
from audit.dominating.mixture import MAX_LOSS, MixturePair, Tails, log_tails
from audit.numerics.arrays import Array

Answer = TypeVar("Answer")

_DEVIATIONS = 20.0  # approximate range of a transform, in deviations of the composed loss
_MAX_CELLS = 1 << 22
_MIN_CELLS = 1 << 14
_FIRST_CELLS = 1 << 16
_CELLS_PER_ACCURACY = 90  # cells of the first grid, times the root of the accuracy
_MIN_DELTA = 1e-9  # delta of the last point of a tradeoff function
_MAX_FIRST_CELLS = 1 << 20  # largest number of cells of the first grid
_MAX_LAYER = 1 << 20  # cells of any grid, whatever the accuracy
_MAX_UNREFINED_LAYER = 1 << 16  # likewise where many deltas are asked, as for a power
_MAX_REACH = 1e12
_ROUGH_CELLS = 1 << 12
# Ratio of the grid width of a layer to that of the previous one. Few losses are in later layers, so
# their grids can be coarse.
_LAYER_RATIO = 8
_RARE_COUNT = 0.3
_COUNT_POINTS = 300
# Most refinements of a grid, the tolerated width of a bracket in units of the target, and the least
# share of the grid in that width for which a finer one pays.
_ROUNDS, _TOLERANCE, _MIN_SHARE = 5, 1.5, 0.3
# Largest factor by which a grid is widened, in steps of 2, before its layers get fewer cells.
_MAX_COARSENING = 32
_NEAR_WIDTH = 0.002  # relative width
_CACHED_CURVES = 5  # compositions that are kept
_RARE_STEPS = 64  # most steps with a large loss, in compositions on one grid
_MAX_MU = 5.0  # largest parameter of one Gaussian pair on a grid
_MAX_NOISE, _MIN_RATE = 1e30, 1e-100  # beyond, products of losses leave the range of doubles


@dataclass(frozen=True)
class MixtureRun:
    """Repetition of one pair of normal mixtures."""

    pair: MixturePair
    times: int

    @cached_property
    def variance(self) -> float:
        """Approximate variance of the total loss."""
        return self.times * self.pair.spread() ** 2

    def reach(self, log_tails: Tails) -> float:
        """Return the length of the range of one pair's losses, but for masses of e^log_tails."""
        low, high = np.clip(self.pair.losses(log_tails), -MAX_LOSS, MAX_LOSS)
        return float(high - low)

    def largest_loss(self, order: Order) -> Bracket:
        """Return (low, high) around the largest total loss."""
        pair = self.pair
        if order is Order.FORWARD or pair.two_sided or pair.rate == 1:
            return math.inf, math.inf
        value = -self.times * pair.log_skipped
        # q or 1 - q, whichever is smaller, the logarithm and the product are rounded
        error = 8 * UNIT_ROUNDOFF * (value + (self.times if pair.rate >= 0.5 else 0))
        return max(value - error, 0.0), value + error

    @cached_property
    def limits(self) -> DeltaLimits:
        """Proven bounds on the deltas of all pairs."""
        pair, loss = self.pair, -self.pair.log_skipped
        mu = (2 if pair.two_sided else 1) * pair.mean / pair.noise
        single = () if pair.two_sided else (SampledGaussian(mu, loss),)
        merged = SampledGaussian(mu * math.sqrt(self.times), loss * self.times)
        subject = f"{self.times} steps at rate {pair.rate!r} and noise {1 / mu!r}"
        return DeltaLimits(merged, single, pair.two_sided, subject)

    def mirrored(self, above: bool, interval: float, log_tails: Tails) -> tuple[GridPair, int]:
        """Return one side of the mirrored pair of a one-sided one, and how often it occurs.

        That has its outcomes of positive loss, their mirror images with the laws exchanged, and one
        outcome of loss 0. If those of a dominating pair have a mass of at most 1 under both laws
        together, it dominates every pair that (P, Q) dominates at epsilon >= 0 in both orders.
        """
        pair, times = self.pair, self.times
        if pair.rate == 1 and not above:  # losses of a lower side must be bounded
            run = gaussian_run(pair.mean / pair.noise)
            pair, times = run.pair, times * run.times
        half = pair.above_zero(above, interval, log_tails)
        # all but P(x > a/2) + Q(x > a/2)
        rest = np.array([pair.skipped * math.erf(pair.mean / (math.sqrt(8) * pair.noise))])
        parts = [half, half.swapped(), GridPair(above, interval, 0, rest, rest)]
        return united(above, interval, parts, parts[1].rounding), times


def check_losses(runs: Sequence[MixtureRun], steps: int) -> None:
    """Raise ``ValueError`` if losses are beyond the range of a grid, for ``steps`` pairs."""
    for pair in (run.pair for run in runs):
        if pair.noise > _MAX_NOISE:
            raise validate.fail("noise_multiplier", f"at most {_MAX_NOISE:g}", pair.noise)
        if pair.rate < _MIN_RATE:
            raise validate.fail("sampling_rate", f"at least {_MIN_RATE:g}", pair.rate)
        if max(map(abs, pair.losses(log_tails(steps)))) > MAX_LOSS:
            raise ValueError(
                f"noise_multiplier must keep the losses of a step below {MAX_LOSS:g}, "
                f"got {pair.noise!r}"
            )


def rare_reach(reach: float, steps: int) -> float:
    """Return the range of few rare losses together, with as many cells as a transform can hold."""
    return max(1.0, min(steps, _RARE_STEPS) / 2) * reach


def grid_width(spread: float, steps: int, reach: float, accuracy: float) -> float:
    """Return a grid width for brackets of about the requested width.

    Splitting and merging move the mean of the composed loss apart by about T width^2/8, and its
    variance by twice that.
    """
    total = spread * math.sqrt(steps)
    wanted = math.sqrt(8 * accuracy * min(total**2, 4 * total) / steps)
    return max(wanted, max(_DEVIATIONS * total, reach) / _MAX_CELLS)


@dataclass(frozen=True, eq=False)
class RefinedCurve(DominatingCurve):
    """Curve of independent runs on a grid that is refined where a bracket of epsilon is wide.

    ``accuracy`` is the target for its relative width. Unless it ``refines``, the first grid has to
    do, with fewer cells.
    """

    runs: tuple[MixtureRun, ...]
    accuracy: float
    moments: Moments | None
    same: bool
    refines: bool = True
    _known: dict[tuple[float, Tails, float, Order], ComposedCurve] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        check_losses(self.runs, self._steps)

    @cached_property
    def limits(self) -> DeltaLimits:  # type: ignore[override]
        """Proven bounds that every bracket is compared with."""
        return DeltaLimits.of([run.limits for run in self.runs])

    @cached_property
    def _closed(self) -> SampledGaussian | None:
        """The closed form of a single step in both orders, if that is all there is."""
        run = self.runs[0]
        return run.limits.merged if self._steps == 1 and not run.pair.two_sided else None

    @cached_property
    def _steps(self) -> int:
        return sum(run.times for run in self.runs)

    def _reach(self, tails: Tails) -> float:
        return max(run.reach(tails) for run in self.runs)

    @cached_property
    def _deviation(self) -> float:
        """Approximate standard deviation of the total loss."""
        return math.sqrt(sum(run.variance for run in self.runs))

    @cached_property
    def _width(self) -> float:
        """Interval of the first grid, where tilts are large."""
        spread = self._deviation / math.sqrt(self._steps)
        wanted = grid_width(spread, self._steps, 0.0, self.accuracy)
        # a heavy tail makes epsilon large relative to the spread, and a wider grid often suffices
        cells = min(max(_CELLS_PER_ACCURACY / math.sqrt(self.accuracy), _MIN_CELLS), _FIRST_CELLS)
        least = self._reach(log_tails(self._steps)) / _MAX_REACH
        return max(wanted, _DEVIATIONS * self._deviation / cells, least)

    @cached_property
    def unrefined(self) -> Self:
        """The curve on the first grid only."""
        return replace(self, refines=False)

    def _composed(self, interval: float, tails: Tails, tilt: float, order: Order) -> ComposedCurve:
        """Return the composition on a grid, with layers for a tilt; that of interval 0 is rough."""
        # tilts are rounded up, so that similar ones share layers
        rounded = math.exp(math.ceil(2 * math.log(tilt)) / 2) if tilt > 1e-3 else 0.0
        key = interval, tails, rounded, order
        found = self._known.get(key)
        if found is None:
            found = self._discretised(*key)
            for old in list(self._known)[: 1 - _CACHED_CURVES]:  # other threads may be here too
                self._known.pop(old, None)
            self._known[key] = found
        return found

    def _discretised(
        self, interval: float, tails: Tails, tilt: float, order: Order
    ) -> ComposedCurve:
        reach, most = self._reach(tails), _MAX_LAYER if self.refines else _MAX_UNREFINED_LAYER
        if interval:
            bounds = _bounds(self.runs, interval, reach, tilt, order)
            if reach > _MAX_FIRST_CELLS * self._width * _LAYER_RATIO ** len(bounds):
                # moment bounds of heavy tails, and so their tilts, are loose
                bounds = _bounds(self.runs, interval, reach, 0.0, order) or bounds
            if not bounds:
                interval *= max(1.0, reach / (_FIRST_CELLS * self._width))
            while (cells := _largest_layer(bounds, interval, reach)) > most:
                interval *= max(cells / most, 1.01)
                bounds = _bounds(self.runs, interval, reach, 0.0, order)
        else:
            interval, bounds = max(reach, _DEVIATIONS * self._deviation) / _ROUGH_CELLS, []
        sides = _sides(self.runs, tails, interval, bounds)
        return ComposedCurve(*sides, moments=self.moments, same=self.same)

    def _rough(self, tails: Tails, order: Order) -> GridComposition:
        """Return an upper side on a coarse grid, from which tilts are taken."""
        return self._composed(0.0, tails, 0.0, Order.FORWARD)._sides(order)[1]

    def epsilon(self, delta: Any, order: Order | None = None) -> Any:
        """Return the upper end of the bracket of epsilon, as for every curve."""
        return self.epsilon_bracket(delta, order)[1]

    def _worse(self, asked: Measure, at: Array) -> Brackets:
        """Return brackets of the worse order; the other one is refined as far as it matters."""
        if asked is not Measure.EPSILON or not np.all(at):
            return super()._worse(asked, at)
        found = []
        for delta in at.tolist():
            low, high = self._epsilon_bracket(delta, Order.FORWARD)
            ends = self._epsilon_ends(delta, Order.REVERSE, low)
            found.append(np.maximum((low, high), self._limited(delta, ends, Order.REVERSE)))
        lows, highs = np.array(found).reshape(-1, 2).T
        return lows, highs

    def _epsilon_ends(self, delta: float, order: Order, enough: float = 0.0) -> Bracket:
        """Return a bracket of epsilon; one that lies below ``enough`` may be wide."""
        if self._closed is not None:
            return self._closed.epsilon_bracket(delta, order)
        order = Order.FORWARD if self.same else order
        tails = log_tails(self._steps, delta, order)
        rough = self._rough(tails, order)
        tilt = rough.tilt(rough.epsilon_guess(delta))
        bounded = math.isfinite(self.limits.largest(order))
        if bounded:
            # next to the largest loss a rough grid is often enough
            with suppress(TooManyCells):
                ends = self._composed(0.0, tails, 0.0, Order.FORWARD)._epsilon_ends(delta, order)
                if ends[1] <= enough or self._relative_width(delta, ends, order) <= _TOLERANCE:
                    return ends

        def wide(ends: Bracket) -> float:
            found = self._relative_width(delta, ends, order)
            near = bounded and self._limited(delta, ends, order)[1] < ends[1]
            # the limits are the upper end there, and finer grids cost much for little
            return 0.0 if near and found * self.accuracy < _NEAR_WIDTH else found

        low, high = self._narrowed(
            lambda one: one._epsilon_ends(delta, order), tails, tilt, order, wide, enough
        )
        if high == math.inf and self._fewer is not None:
            low = max(low, self._fewer._epsilon_ends(delta, order)[0])
        if self.moments is not None and (high - low) > _NEAR_WIDTH * low:
            # some orders, of which every one is a bound
            renyi = partial(self._renyi, order=order)
            curve = RenyiCurve(renyi, search=(1e-4, 1e6), points=241, refinements=3)
            high = min(high, curve.epsilon(delta))
        return low, high

    def _narrowed(
        self,
        ask: Callable[[ComposedCurve], Bracket],
        tails: Tails,
        tilt: float,
        order: Order,
        wide: Callable[[Bracket], float],
        enough: float = 0.0,
    ) -> Bracket:
        """Return what compositions on finer and finer grids say together.

        ``wide`` is the width of a bracket in units of what is aimed at. A bracket that lies below
        ``enough`` may be wide.
        """
        interval, most = self._width, max(_MAX_CELLS // len(self.runs), _MIN_CELLS)
        finest = min(_DEVIATIONS * self._deviation / most, interval)
        low, high, rounds, fitting = 0.0, math.inf, 0, 0.0
        while rounds < (_ROUNDS if self.refines else 1):
            try:
                ends = ask(self._composed(interval, tails, tilt, order))
            except TooManyCells:
                if fitting:  # between this grid and the last one that fitted
                    interval = finest = math.sqrt(interval * fitting)
                else:
                    interval = self._wider(interval, tails)
                if interval == math.inf or 0 < fitting < 2 * interval:
                    break
                continue
            before, low, high = high - low, max(low, ends[0]), min(high, ends[1])
            if ends[1] == math.inf:
                break  # by outcomes of one law only, which finer grids have too
            # the grid's part of the width shrinks at least in proportion to the interval
            grid = (before - (high - low)) / max(fitting / interval - 1, 1e-9)
            if grid < _MIN_SHARE * (high - low):
                break  # the rest is rounding
            rounds, fitting, found = rounds + 1, interval, wide((low, high))
            if found <= _TOLERANCE or interval <= finest or high <= enough:
                break
            interval = max(interval * min(max(0.8 / found**0.5, 0.03), 0.5), finest)
        return low, high

    @cached_property
    def _fewer(self) -> RefinedCurve | None:
        """A part of the steps, which have less epsilon, for where no grid holds all of them."""
        runs = tuple(replace(run, times=run.times // 16) for run in self.runs if run.times >= 16)
        return RefinedCurve(runs, self.accuracy, None, self.same) if runs else None

    def _relative_width(self, delta: float, bracket: Bracket, order: Order) -> float:
        """Return the relative width of a bracket in units of what is aimed at."""
        low, high = self._limited(delta, bracket, order)
        if low == high:
            return 0.0
        return (high - low) / (self.accuracy * high) if high < math.inf else 0.0

    def _pure_ends(self, order: Order) -> Bracket:
        ends = [run.largest_loss(order) for run in self.runs]
        return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)

    def _wider(self, interval: float, tails: Tails) -> float:
        """Return the interval to try after one that needs too many cells; infinite if none."""
        reach = self._reach(tails)
        if interval * _ROUGH_CELLS > reach:
            return math.inf
        if interval < _MAX_COARSENING * self._width:
            return 2 * interval
        return max(2 * interval, 2 * reach / _MAX_LAYER)  # no layer has the most cells

    def _at(self, epsilon: float, order: Order) -> tuple[Tails, float, Order]:
        """Return tails, a tilt and the order of compositions for an epsilon."""
        if epsilon < 0:  # delta is that of the other order, but for a term that is known
            epsilon, order = 0.0, order.other
        order = Order.FORWARD if self.same else order
        rough = self._rough(log_tails(self._steps), order)
        delta = math.exp(min(rough.log_bound(epsilon), 0.0))
        return log_tails(self._steps, delta, order), rough.tilt(epsilon), order

    def _on_first_grid(
        self, epsilon: float, order: Order, asked: Callable[[ComposedCurve], Answer]
    ) -> Answer:
        """Return what a composition for an epsilon says, on the first grid or one that fits."""
        tails, tilt, order = self._at(epsilon, order)
        interval = self._width
        while True:
            try:
                return asked(self._composed(interval, tails, tilt, order))
            except TooManyCells:
                interval = self._wider(interval, tails)
                if interval == math.inf:
                    raise

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        if self._closed is not None:
            return self._closed.delta_bracket(epsilon, order)
        if epsilon == 0:
            order = Order.REVERSE  # delta is that of the other order, and losses are bounded here

        def wide(ends: Bracket) -> float:
            return (ends[1] - ends[0]) / (self.accuracy * ends[1]) if ends[1] else 0.0

        low, high = self._narrowed(
            lambda one: one._delta_ends(epsilon, order), *self._at(epsilon, order), wide
        )
        if high == math.inf and self._fewer is not None:
            low = self._fewer._delta_ends(epsilon, order)[0]
        return low, min(high, 1.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([self._epsilon_bracket(float(d), order)[1] for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        if self._closed is not None:
            return np.array([self._delta_ends(float(e), order)[1] for e in epsilon])
        largest = float(epsilon.max())
        return self._on_first_grid(largest, order, lambda one: one._delta(epsilon, order))

    def _beta(self, alpha: Array, order: Order) -> Array:
        epsilon = self._rough(log_tails(self._steps), order).epsilon_guess(_MIN_DELTA)
        return self._on_first_grid(epsilon, order, lambda one: one._beta(alpha, order))


def _bounds(
    runs: Sequence[MixtureRun], interval: float, reach: float, tilt: float, order: Order
) -> list[int]:
    """Return the ends of the layers, in intervals of the first one; the last layer is unbounded.

    The grid of the next layer is _LAYER_RATIO times as wide, so few losses may lie beyond.
    """
    if reach < _MIN_CELLS * interval:
        return []
    found: list[int] = []
    # powers of two, which are on the grids of all layers
    choices = _MIN_CELLS * 2 ** np.arange(44)
    choices = choices[choices * interval < reach / 2]
    losses = np.geomspace(_MIN_CELLS * interval, 1.01 * reach, _COUNT_POINTS)
    counts = sum(run.times * run.pair.counts(losses, tilt, order) for run in runs)
    expected = np.interp(np.log(choices * interval), np.log(losses[:-1]), counts)
    for choice, count in zip(choices, expected, strict=True):
        wider = _LAYER_RATIO ** (len(found) + 1)
        spaced = not found or choice >= _LAYER_RATIO * found[-1]
        if spaced and count * wider**2 < _RARE_COUNT:
            found.append(int(choice))
    return found


def _largest_layer(bounds: Sequence[int], interval: float, reach: float) -> float:
    """Return the largest number of cells of a layer on each side of 0."""
    ends = [*bounds, reach / interval]
    return float(max(end / _LAYER_RATIO**number for number, end in enumerate(ends)))


def _sides(
    runs: Sequence[MixtureRun], tails: Tails, interval: float, bounds: Sequence[int]
) -> tuple[GridComposition, GridComposition]:
    """Return compositions in layers that all runs dominate, and that dominate all runs."""

    def pairs(wider: int, inner: int, outer: int | None) -> list[tuple[GridPair, GridPair]]:
        low, high = inner // wider, None if outer is None else outer // wider
        return [run.pair.grid_pairs(interval * wider, tails, low, high) for run in runs]

    ends = [*bounds, None]
    first, layers = pairs(1, 0, ends[0]), []
    for number, (inner, outer) in enumerate(zip(bounds, ends[1:], strict=True), 1):
        wider = _LAYER_RATIO**number
        layers.append((pairs(wider, 0, inner), pairs(wider, inner, outer)))

    def side(k: int) -> GridComposition:
        return GridComposition(
            [(pair[k], run.times) for pair, run in zip(first, runs, strict=True)],
            [
                [
                    (base[k], part[k], run.times)
                    for base, part, run in zip(*layer, runs, strict=True)
                ]
                for layer in layers
            ],
        )

    return side(0), side(1)


def composed_runs(curves: Sequence[DominatingCurve], accuracy: float) -> DominatingCurve:
    """Return the curve of independent pairs, given the curve of each."""
    squares = [curve.mu**2 for curve in curves if isinstance(curve, GaussianDominatingCurve)]
    square = math.fsum(squares)
    if len(squares) == len(curves):
        return GaussianDominatingCurve(math.sqrt(square))
    runs = [run for curve in curves if isinstance(curve, RefinedCurve) for run in curve.runs]
    if squares:
        runs.append(gaussian_run(math.sqrt(square)))

    def moments(alpha: Array, order: Order) -> Array:
        return np.asarray(np.sum([curve._renyi(alpha, order) for curve in curves], axis=0))

    same = all(curve.symmetric for curve in curves)
    uppers = [curve.upper if isinstance(curve, EnclosedCurve) else curve for curve in curves]
    gridded = [curve for curve in uppers if isinstance(curve, ComposedCurve)]
    if not gridded:
        return RefinedCurve(tuple(runs), accuracy, moments, same)
    found = _on_one_grid(runs, gridded, accuracy)
    return replace(found, moments=moments, same=same)


def _on_one_grid(
    runs: Sequence[MixtureRun], gridded: Sequence[ComposedCurve], accuracy: float
) -> ComposedCurve:
    """Return the composition of runs, and of pairs that are given on grids of their own."""
    known = [part for curve in gridded for part in curve.upper.parts]
    steps = sum(run.times for run in runs) + sum(times for _, times in known)
    tails = log_tails(steps)
    check_losses(runs, steps)
    variance = sum(run.variance for run in runs)
    for pair, times in known:
        mean = float(pair.p @ pair.losses)
        variance += times * float(pair.p @ (pair.losses - mean) ** 2)
    reach = max(
        *(run.reach(tails) for run in runs), *(pair.p.size * pair.interval for pair, _ in known)
    )

    def side(k: int, width: float) -> GridComposition:
        others = (part for curve in gridded for part in (curve.lower, curve.upper)[k].parts)
        return GridComposition(
            [
                *((run.pair.grid_pairs(width, tails)[k], run.times) for run in runs),
                *((regridded(pair, width), times) for pair, times in others),
            ]
        )

    rough = side(1, reach / _ROUGH_CELLS)
    window = max(rough.window, rough.swapped.window, rare_reach(reach, steps))
    width = grid_width(math.sqrt(variance / steps), steps, window, accuracy)
    lower, upper = (side(k, width) for k in (0, 1))
    limits = [curve.limits for curve in gridded]
    known_limits = [one for one in limits if one is not None]
    if len(known_limits) < len(limits):
        return ComposedCurve(lower, upper)
    whole = DeltaLimits.of([*(run.limits for run in runs), *known_limits])
    return ComposedCurve(lower, upper, limits=whole)


def gaussian_run(mu: float) -> MixtureRun:
    """Return N(mu, 1) against N(0, 1) as several equal pairs, whose losses are bounded."""
    times = math.ceil((mu / _MAX_MU) ** 2)
    return MixtureRun(MixturePair(1.0, math.sqrt(times) / mu, 1.0, False), times)
