"""Independent pairs of several kinds on one grid, which is made finer until brackets are narrow."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.curves import Order
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
from audit.dominating.mixture import MixturePair

_DEVIATIONS = 20.0  # of the composed loss that a transform covers, about
_MOST_CELLS = 1 << 22
_REFINED_CELLS = 1 << 18
_FIRST_CELLS = 1 << 16
_LARGEST_LOSS = 640.0  # e^loss and its inverse are normal floating-point numbers
_LARGEST_MU = 5.0  # of one Gaussian pair on a grid


@dataclass(frozen=True)
class MixtureRun:
    """The same pair of normal mixtures several times."""

    pair: MixturePair
    times: int

    @functools.cached_property
    def variance(self) -> float:
        """Of the loss of all pairs together, roughly."""
        return self.times * self.pair.spread() ** 2

    def reach(self, steps: int) -> float:
        """Length of the range of one pair's losses, where ``steps`` pairs are composed in all."""
        low, high = (float(loss) for loss in self.pair.loss(np.array(self.pair.ends(steps))))
        if max(high, -low) > _LARGEST_LOSS:
            raise ValueError(
                f"noise_multiplier must keep the losses of a step below {_LARGEST_LOSS:g}, "
                f"got {self.pair.noise!r}"
            )
        return high - low

    def sides(self, interval: float, steps: int) -> tuple[Parts, Parts]:
        """Return what the pairs dominate, and what dominates them."""
        lower, upper = self.pair.grid_pairs(interval, steps)
        return [(lower, self.times)], [(upper, self.times)]


@dataclass(frozen=True, eq=False)
class GriddedRun:
    """Pairs that are known on a grid already."""

    curve: ComposedCurve

    @property
    def times(self) -> int:
        """How many pairs."""
        return sum(times for _, times in self.curve.upper.parts)

    @functools.cached_property
    def variance(self) -> float:
        """Of the loss of all pairs together, roughly."""
        total = 0.0
        for pair, times in self.curve.upper.parts:
            mean = float(pair.p @ pair.losses)
            total += times * float(pair.p @ (pair.losses - mean) ** 2)
        return total

    def reach(self, steps: int) -> float:
        """Length of the range of one pair's losses."""
        return max(pair.p.size * pair.interval for pair, _ in self.curve.upper.parts)

    def sides(self, interval: float, steps: int) -> tuple[Parts, Parts]:
        """Return what the pairs dominate, and what dominates them."""
        lower, upper = (
            [(regridded(pair, interval), times) for pair, times in side.parts]
            for side in (self.curve.lower, self.curve.upper)
        )
        return lower, upper


def grid_width(spread: float, steps: int, reach: float, accuracy: float) -> float:
    """Return the width of a grid on which brackets are about as narrow as asked for.

    Splitting and merging move the mean of the composed loss apart by about T width^2/8, and its
    variance by twice that.

    Parameters
    ----------
    spread
        Standard deviation of one step's loss.
    steps
        T.
    reach
        Length of the range of one step's losses.
    accuracy
        The relative width of brackets of epsilon that is aimed at. Less is reached where that needs
        too many cells.
    """
    total = spread * math.sqrt(steps)
    wanted = math.sqrt(8 * accuracy * min(total**2, 4 * total) / steps)
    return max(wanted, max(_DEVIATIONS * total, reach) / _MOST_CELLS)


def refined(
    runs: Sequence[Run], accuracy: float, moments: Moments | None, *, same: bool
) -> RefinedCurve:
    """Return the curve of independent runs on a grid that is as fine as the accuracy needs.

    Parameters
    ----------
    runs
        At least one.
    accuracy
        The relative width of brackets that is aimed at.
    moments, same
        See `ComposedCurve`.
    """
    steps = sum(run.times for run in runs)
    reach = max(run.reach(steps) for run in runs)
    spread = math.sqrt(sum(run.variance for run in runs) / steps)
    width = grid_width(spread, steps, reach, accuracy)
    # a heavy tail makes epsilon large beside the spread, and then a wider grid often serves
    least, width = width, max(width, reach / _FIRST_CELLS)
    # a second's work, or several times that of the first grid
    most = min(max(4 * reach / least, _REFINED_CELLS), _MOST_CELLS) / len(runs)
    finest = min(reach / width / most, 1.0)

    @functools.lru_cache(maxsize=2)
    def composed(share: float) -> ComposedCurve:
        lower: Parts = []
        upper: Parts = []
        for run in runs:
            below, above = run.sides(share * width, steps)
            lower += below
            upper += above
        return ComposedCurve(GridComposition(lower), GridComposition(upper), moments, same)

    return RefinedCurve(composed, accuracy, finest, tuple(runs), same)


def composed_runs(curves: Sequence[DominatingCurve], accuracy: float) -> DominatingCurve:
    """Return the curve of independent pairs of which each has a curve.

    Parameters
    ----------
    curves
        At least one. Of a curve that is enclosed the part that is known from both sides counts.
    accuracy
        The relative width of brackets that is aimed at.
    """
    squares = [curve.mu**2 for curve in curves if isinstance(curve, GaussianDominatingCurve)]
    square = math.fsum(squares)
    if len(squares) == len(curves):
        return GaussianDominatingCurve(math.sqrt(square))
    runs = [run for curve in curves for run in _runs(curve)]
    if squares:
        # losses on a grid are limited, so that a large distance is cut into equal ones
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
