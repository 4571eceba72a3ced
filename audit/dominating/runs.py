"""Independent pairs of several kinds on one grid, refined until brackets are narrow."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.curves import Order
from audit.curves.brackets import Bracket
from audit.dominating.closed_form import Limits, SampledGaussian
from audit.dominating.curve import (
    Array,
    ComposedCurve,
    DominatingCurve,
    GaussianDominatingCurve,
    Moments,
    Parts,
    RefinedCurve,
    Run,
)
from audit.dominating.enclosed import EnclosedCurve
from audit.dominating.grid import regridded
from audit.dominating.grid_composition import GridComposition
from audit.dominating.layer import Piece
from audit.dominating.mixture import MixturePair, tilted_counts

_DEVIATIONS = 20.0  # approximate range of a transform, in deviations of the composed loss
_MOST_CELLS = 1 << 22
_FEWEST_CELLS = 1 << 14
_FIRST_CELLS = 1 << 16
_CELLS_OF_ONE = 90  # cells of the first grid, times the root of the accuracy
_MANY_CELLS = 1 << 20  # largest number of cells of the first grid
_LARGEST_LAYER = 1 << 20  # cells of any grid, whatever the accuracy
_LONGEST = 1e12
_ROUGH_CELLS = 1 << 12
# Ratio of the grid width of a layer to that of the previous one. Few losses are in later layers, so
# their grids can be coarse.
_COARSER = 8
_RARE = 0.3
_COUNTED = 300
_LARGEST_LOSS = 640.0  # keeps e^loss and its inverse normal floating-point numbers
_ROUNDING = 1e-12
_LARGEST_MU = 5.0  # largest parameter of one Gaussian pair on a grid


@dataclass(frozen=True)
class MixtureRun:
    """Repetition of one pair of normal mixtures."""

    pair: MixturePair
    times: int

    @functools.cached_property
    def variance(self) -> float:
        """Approximate variance of the total loss."""
        return self.times * self.pair.spread() ** 2

    def reach(self, steps: int) -> float:
        """Return the length of the range of one pair's losses, for ``steps`` pairs in total."""
        low, high = (float(loss) for loss in self.pair.loss(np.array(self.pair.ends(steps))))
        if max(high, -low) > _LARGEST_LOSS:
            raise ValueError(
                f"noise_multiplier must keep the losses of a step below {_LARGEST_LOSS:g}, "
                f"got {self.pair.noise!r}"
            )
        return high - low

    def largest_loss(self, order: Order) -> Bracket:
        """Return (low, high) around the largest total loss."""
        pair = self.pair
        if order is Order.FORWARD or pair.two_sided or pair.rate == 1:
            return math.inf, math.inf
        value = -self.times * pair.log_skipped
        return value * (1 - _ROUNDING), value * (1 + _ROUNDING)

    @functools.cached_property
    def limits(self) -> Limits:
        """Proven bounds on the deltas of all pairs."""
        pair, loss = self.pair, -self.pair.log_skipped
        mu = (2 if pair.two_sided else 1) * pair.mean / pair.noise
        single = () if pair.two_sided else (SampledGaussian(mu, loss),)
        merged = SampledGaussian(mu * math.sqrt(self.times), loss * self.times)
        subject = f"{self.times} steps at rate {pair.rate!r} and noise {1 / mu!r}"
        return Limits(merged, single, pair.two_sided, subject)

    def counts(self, losses: Array, tilt: float, order: Order) -> Array:
        """Return how many losses are expected beyond each of ``losses`` but the last.

        See `Run`.
        """
        return self.times * self.pair.counts(losses, tilt, order)

    def sides(
        self, interval: float, steps: int, inner: int = 0, outer: int | None = None
    ) -> tuple[Parts, Parts]:
        """Return parts that the pairs dominate, and parts that dominate them; see `Run`."""
        lower, upper = self.pair.grid_pairs(interval, steps, inner, outer)
        return [(lower, self.times)], [(upper, self.times)]


@dataclass(frozen=True, eq=False)
class GriddedRun:
    """Pairs that are given on a grid."""

    curve: ComposedCurve

    @property
    def limits(self) -> Limits | None:
        """Proven bounds on the deltas of all pairs, if any are known."""
        return self.curve.limits

    @property
    def times(self) -> int:
        """Number of pairs."""
        return sum(times for _, times in self.curve.upper.parts)

    @functools.cached_property
    def variance(self) -> float:
        """Approximate variance of the total loss."""
        total = 0.0
        for pair, times in self.curve.upper.parts:
            mean = float(pair.p @ pair.losses)
            total += times * float(pair.p @ (pair.losses - mean) ** 2)
        return total

    def reach(self, steps: int) -> float:
        """Length of the range of one pair's losses."""
        return max(pair.p.size * pair.interval for pair, _ in self.curve.upper.parts)

    def largest_loss(self, order: Order) -> Bracket:
        """Return (low, high) around the largest total loss."""
        return 0.0, math.inf

    def counts(self, losses: Array, tilt: float, order: Order) -> Array:
        """Return how many losses are expected beyond each of ``losses`` but the last.

        See `Run`.
        """
        total = np.zeros(losses.size - 1)
        for pair, times in self.curve.upper.parts:
            law = pair if order is Order.FORWARD else pair.swapped()
            rank = np.searchsorted(losses, np.abs(law.losses), side="right") - 1
            for positive in (True, False):
                chosen = (rank >= 0) & (rank < total.size) & ((law.losses > 0) == positive)
                masses = np.bincount(rank[chosen], law.p[chosen], total.size).astype(float)
                total += times * tilted_counts(masses, losses, tilt if positive else -tilt)
        return total

    def sides(
        self, interval: float, steps: int, inner: int = 0, outer: int | None = None
    ) -> tuple[Parts, Parts]:
        """Return parts that the pairs dominate, and parts that dominate them; see `Run`."""
        most = math.inf if outer is None else outer * interval
        lower, upper = (
            [(regridded(pair, interval, inner * interval, most), n) for pair, n in side.parts]
            for side in (self.curve.lower, self.curve.upper)
        )
        return lower, upper


def grid_width(spread: float, steps: int, reach: float, accuracy: float) -> float:
    """Return a grid width for brackets of about the requested width.

    Splitting and merging move the mean of the composed loss apart by about T width^2/8, and its
    variance by twice that.
    """
    total = spread * math.sqrt(steps)
    wanted = math.sqrt(8 * accuracy * min(total**2, 4 * total) / steps)
    return max(wanted, max(_DEVIATIONS * total, reach) / _MOST_CELLS)


def refined(
    runs: Sequence[Run], accuracy: float, moments: Moments | None, *, same: bool
) -> RefinedCurve:
    """Return the curve of independent runs on a grid as fine as the accuracy requires."""
    steps = sum(run.times for run in runs)
    reach = max(run.reach(steps) for run in runs)
    spread = math.sqrt(sum(run.variance for run in runs) / steps)
    total = spread * math.sqrt(steps)
    wanted = grid_width(spread, steps, 0.0, accuracy)
    # a heavy tail makes epsilon large relative to the spread, and a wider grid often suffices
    cells = min(max(_CELLS_OF_ONE / math.sqrt(accuracy), _FEWEST_CELLS), _FIRST_CELLS)
    width = max(wanted, _DEVIATIONS * total / cells, reach / _LONGEST)
    most = max(_MOST_CELLS // len(runs), _FEWEST_CELLS)
    finest = min(_DEVIATIONS * total / width / most, 1.0)

    def of(interval: float, bounds: Sequence[int]) -> ComposedCurve:
        return ComposedCurve(*_sides(runs, steps, interval, bounds), moments=moments, same=same)

    @functools.lru_cache(maxsize=4)
    def composed(share: float, tilt: float = 0.0, order: Order = Order.FORWARD) -> ComposedCurve:
        interval = share * width
        bounds = _bounds(runs, interval, reach, tilt, order)
        if reach > _MANY_CELLS * width * _COARSER ** len(bounds):
            # moment bounds of heavy tails, and so their tilts, are loose
            bounds = _bounds(runs, interval, reach, 0.0, order) or bounds
        if not bounds:
            interval = share * max(width, reach / _FIRST_CELLS)
        while (cells := _largest_layer(bounds, interval, reach)) > _LARGEST_LAYER:
            interval *= max(cells / _LARGEST_LAYER, 1.01)
            bounds = _bounds(runs, interval, reach, 0.0, order)
        return of(interval, bounds)

    @functools.cache
    def rough() -> ComposedCurve:
        return of(max(reach, _DEVIATIONS * total) / _ROUGH_CELLS, ())

    return RefinedCurve(composed, accuracy, finest, rough, tuple(runs), same)


def _bounds(
    runs: Sequence[Run], interval: float, reach: float, tilt: float, order: Order
) -> list[int]:
    """Return the ends of the layers, in intervals of the first one; the last layer is unbounded.

    The grid of the next layer is _COARSER times as wide, so few losses may lie beyond.
    """
    if reach < _FEWEST_CELLS * interval:
        return []
    found: list[int] = []
    # powers of two, which are on the grids of all layers
    choices = _FEWEST_CELLS * 2 ** np.arange(44)
    choices = choices[choices * interval < reach / 2]
    losses = np.geomspace(_FEWEST_CELLS * interval, 1.01 * reach, _COUNTED)
    counts = sum(run.counts(losses, tilt, order) for run in runs)
    expected = np.interp(np.log(choices * interval), np.log(losses[:-1]), counts)
    for choice, count in zip(choices, expected, strict=True):
        wider = _COARSER ** (len(found) + 1)
        spaced = not found or choice >= _COARSER * found[-1]
        if spaced and count * wider**2 < _RARE:
            found.append(int(choice))
    return found


def _largest_layer(bounds: Sequence[int], interval: float, reach: float) -> float:
    """Return the largest number of cells of a layer on each side of 0."""
    ends = [*bounds, reach / interval]
    return float(max(end / _COARSER**number for number, end in enumerate(ends)))


def _sides(
    runs: Sequence[Run], steps: int, interval: float, bounds: Sequence[int]
) -> tuple[GridComposition, GridComposition]:
    """Return compositions in layers that all runs dominate, and that dominate all runs."""
    ends = [*bounds, None]
    first: tuple[Parts, Parts] = ([], [])
    for run in runs:
        for parts, found in zip(first, run.sides(interval, steps, 0, ends[0]), strict=True):
            parts += found
    layers: tuple[list[list[Piece]], list[list[Piece]]] = ([], [])
    for number, (inner, outer) in enumerate(itertools.pairwise(ends), 1):
        wider = _COARSER**number
        assert inner is not None
        low, high = inner // wider, None if outer is None else outer // wider
        pieces: tuple[list[Piece], list[Piece]] = ([], [])
        for run in runs:
            bases = run.sides(interval * wider, steps, 0, low)
            parts_beyond = run.sides(interval * wider, steps, low, high)
            for side in (0, 1):
                pieces[side].extend(
                    (base, part, times)
                    for (base, times), (part, _) in zip(
                        bases[side], parts_beyond[side], strict=True
                    )
                )
        for side in (0, 1):
            layers[side].append(pieces[side])
    return GridComposition(first[0], layers[0]), GridComposition(first[1], layers[1])


def composed_runs(curves: Sequence[DominatingCurve], accuracy: float) -> DominatingCurve:
    """Return the curve of independent pairs, given the curve of each."""
    squares = [curve.mu**2 for curve in curves if isinstance(curve, GaussianDominatingCurve)]
    square = math.fsum(squares)
    if len(squares) == len(curves):
        return GaussianDominatingCurve(math.sqrt(square))
    runs = [run for curve in curves for run in _runs(curve)]
    if squares:
        # losses on a grid are bounded, so a large distance is split into equal ones
        times = math.ceil(square / _LARGEST_MU**2)
        runs.append(MixtureRun(MixturePair(1.0, math.sqrt(times / square), 1.0, False), times))

    def moments(alpha: Array, order: Order) -> Array:
        return np.asarray(np.sum([curve._renyi(alpha, order) for curve in curves], axis=0))

    return refined(runs, accuracy, moments, same=all(curve.symmetric for curve in curves))


def _runs(curve: DominatingCurve) -> tuple[Run, ...]:
    if isinstance(curve, GaussianDominatingCurve):
        return ()
    if isinstance(curve, RefinedCurve):
        return curve.runs
    if isinstance(curve, ComposedCurve):
        return (GriddedRun(curve),)
    assert isinstance(curve, EnclosedCurve)
    assert isinstance(curve.upper, DominatingCurve)
    return _runs(curve.upper)
