"""Cells of two laws whose densities are sums of a rising and a falling exponential on pieces.

Between two means, Laplace mixtures of one scale b have such densities, u e^(x/b) + v e^(-x/b); so
do exponential densities on an interval. The ratio of two of them is monotone, so that the losses at
the ends of a cell enclose those within. Beyond all means the ratio is constant.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.constructions.explicit import Densities, LaplaceMixtures
from audit.curves.finite_pair import Cells
from audit.exact.cell_curve import Grid
from audit.exact.tables import UNIT

Array = NDArray[np.float64]

_CELLS = 2_000  # of all pieces, that refinement starts from


@dataclass(frozen=True, eq=False)
class ExponentialCells(Grid):
    """Cells between points, and the two ends."""

    points: Array  # ends of the cells, rising, all kinks among them
    kinks: Array  # ends of the pieces, rising, shape (k + 1,)
    scale: float  # b
    # logs of b times the parts of each density at the right and at the left ends of pieces, (2, k)
    rising: Array
    falling: Array
    outside: Array  # log masses of both laws below and above all pieces, shape (2, 2)
    error: float  # bound on the relative error of the parts

    @classmethod
    def of(cls, pair: LaplaceMixtures | Densities, per_pair: int = _CELLS) -> ExponentialCells:
        """Return the cells of one draw of a pair: some number of them in all."""
        if isinstance(pair, Densities):
            kinks, scale = np.array([pair.low, pair.high]), 1 / pair.slope
            log_size = -math.log(-math.expm1(-(pair.high - pair.low) * pair.slope))
            none, some = np.array([-np.inf]), np.array([log_size])
            rising, falling = np.stack([some, none]), np.stack([none, some])
            outside, sums = np.full((2, 2), -np.inf), 0.0
        else:
            kinks, scale = np.unique(pair.means), pair.scale
            laws = np.array([pair.first, pair.second])[:, None, :]
            gaps = np.subtract.outer(kinks, pair.means) / scale
            with np.errstate(divide="ignore"):
                logs = np.log(laws) - math.log(2)
            at_or_right = np.logaddexp.reduce(np.where(gaps <= 0, logs + gaps, -np.inf), axis=2)
            at_or_left = np.logaddexp.reduce(np.where(gaps >= 0, logs - gaps, -np.inf), axis=2)
            rising, falling = at_or_right[:, 1:], at_or_left[:, :-1]
            outside = np.stack([at_or_right[:, 0], at_or_left[:, -1]], axis=1)
            sums = max(abs(math.fsum(law) - 1) for law in (pair.first, pair.second))
        count = max(math.ceil(per_pair / max(kinks.size - 1, 1)), 2)
        between = [np.linspace(a, b, count + 1)[1:] for a, b in itertools.pairwise(kinks)]
        points = np.concatenate([kinks[:1], *between])
        finite = [np.abs(part[np.isfinite(part)]) for part in (rising, falling, outside)]
        largest = float(np.concatenate(finite).max())
        error = 2 * sums + UNIT * (16 + kinks.size + 4 * largest)
        return cls(points, kinks, scale, rising, falling, outside, error)

    def refined(self, points: Array) -> ExponentialCells:
        """Return the cells cut at more points."""
        every = np.union1d(self.points, points)
        return self if every.size == self.points.size else replace(self, points=every)

    def cells(self) -> Cells:
        """Return the enclosed cells: those between points, then the two ends."""
        up, down = self._parts(self.points[1:], 0), self._parts(self.points[:-1], 1)
        width = np.diff(self.points) / self.scale
        with np.errstate(divide="ignore"):
            inner = np.logaddexp(up, down) + np.log(-np.expm1(-width))
        logs = np.concatenate([inner, self.outside], axis=1)
        reach = np.append(np.diff(self.kinks)[self._pieces] / self.scale, [0.0, 0.0])
        size = np.abs(np.where(np.isfinite(logs), logs, 0.0))
        errors = self.error + UNIT * (16 + 8 * reach + 4 * size)
        left, right, *_ = self.end_losses()
        slack = errors[0] + errors[1]
        with np.errstate(invalid="ignore"):
            ends = self.outside[0] - self.outside[1]
        low = np.append(np.minimum(left, right), np.where(np.isnan(ends), -np.inf, ends)) - slack
        high = np.append(np.maximum(left, right), np.where(np.isnan(ends), np.inf, ends)) + slack
        return Cells(logs[0], logs[1], low, high, errors[0], errors[1])

    def end_losses(self) -> tuple[Array, Array, Array, Array]:
        """Losses at the left and right ends of cells between points, and derivatives there."""
        losses, slopes = [], []
        for at in (self.points[:-1], self.points[1:]):
            up, down = self._parts(at, 0), self._parts(at, 1)
            whole = np.logaddexp(up, down)
            slope = (np.exp(up - whole) - np.exp(down - whole)) / self.scale
            losses.append(whole[0] - whole[1])
            slopes.append(slope[0] - slope[1])
        return losses[0], losses[1], slopes[0], slopes[1]

    def approached(self) -> tuple[Array, Array]:
        """Lower and upper bounds on losses: those at the ends of cells."""
        left, right, *_ = self.end_losses()
        cells, count = self.cells(), self.points.size - 1
        slack = np.tile((cells.error_p + cells.error_q)[:count], 2)
        losses = np.append(left, right)
        return losses - slack, losses + slack

    @property
    def _pieces(self) -> NDArray[np.intp]:
        """The piece of each cell."""
        return np.searchsorted(self.kinks, self.points[:-1], side="right") - 1

    def _parts(self, at: Array, falling: int) -> Array:
        """Return logs of b times the rising or falling part of both densities, one place a cell."""
        piece = self._pieces
        if falling:
            return np.asarray(self.falling[:, piece] - (at - self.kinks[piece]) / self.scale)
        return np.asarray(self.rising[:, piece] - (self.kinks[piece + 1] - at) / self.scale)
