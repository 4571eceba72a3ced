"""Several steps on sampled batches as one stretch of the coupling recursion.

Their options ("Several sampled batches at once" of "Our own theorems" in the documentation): keep
the distance and compose; reflect at one weight until the runs come to a local distance; move in
parallel, whatever the batches are; divide the noise, s^2 = s_1^2 + s_2^2, between moves or
reflections without pushes and composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from audit.bounds.accounting.composition import compose
from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.bounds.own.kernels import PADDING, mirror, weigh
from audit.bounds.own.landing import landed, rising
from audit.bounds.own.meetings import meetings
from audit.bounds.own.options import (
    DistanceGrid,
    MergedReflection,
    Options,
    Rounds,
    StepLoss,
    gaussian_loss,
    loss_on_grid,
    merged_reflections,
    near_rows,
)
from audit.bounds.own.recursion import GridStretch, most_terms, round_up
from audit.bounds.own.reflected_steps import lower, reflected_steps
from audit.bounds.own.stretches import Stretch
from audit.curves.base import PrivacyCurve
from audit.numerics.arrays import Array

_COARSE = 1 << 14  # grid points of a composition
_WIDEST = 2.5  # parameter of parallel moves that are tried
_MOST_MOVES = 24
_SHARES = (0.2, 0.5)  # of the noise, for composition
_TAIL = 1e-14  # delta of the largest loss of a composition


@dataclass(frozen=True, eq=False)
class _Divided:
    """Loss of the composition, and options of the walk without pushes."""

    loss: StepLoss
    moves: list[Options]
    reflections: list[MergedReflection]


class MergedBatches:
    """A stretch of several steps on sampled batches.

    grid: Distances and weights.
    stretch: Steps with ``count`` above 1 and ``rate`` below 1; ``shift`` is that of one step.
    """

    def __init__(self, grid: DistanceGrid, stretch: Stretch) -> None:
        self.grid, self.stretch = grid, stretch
        rows = grid.rows
        self.step = SubsampledGaussian(stretch.rate, stretch.ratio)
        self.composition = compose(self.step, stretch.count, largest_grid=_COARSE)
        self.composed = self._composition_loss(self.composition)
        numbers, _, chances = meetings(stretch.count, stretch.rate, stretch.count)
        pushes = np.asarray(numbers * stretch.shift, dtype=np.float64)
        self.nears = near_rows(grid, stretch)
        self.reflected = reflected_steps(grid, stretch)
        self.starts = stretch.contraction * rows
        self.kept = np.minimum(np.searchsorted(rows, self.starts), grid.last)
        divided, noise = stretch.landing(grid.width)
        self.free, self.pushed = (
            np.einsum(
                "ijk,j->ik",
                landed(starts[:, None] + pushes, rows, grid.last, divided.reached),
                chances,
            )
            for starts in (self.starts, rows)
        )
        self.moves = [self._moves(start, noise) for start in self.starts]
        self.reflections = merged_reflections(grid, stretch, self.nears, pushes, chances)
        self.growth = np.exp(grid.log_weights)
        self.rounds = Rounds()
        divisions = [self._divided(share) for share in _SHARES]
        self.divided = [one for one in divisions if one is not None]

    def _divided(self, share: float) -> _Divided | None:
        """Return composition with a share of the noise, and the walk with the rest."""
        grid, stretch = self.grid, self.stretch
        step = SubsampledGaussian(stretch.rate, stretch.ratio / math.sqrt(share))
        loss = self._composition_loss(compose(step, stretch.count, largest_grid=_COARSE))
        if loss is None:
            return None
        rest = replace(stretch, noise=stretch.noise * math.sqrt(1 - share))
        moves = [self._moves(start, rest.noise) for start in self.starts]
        still = (np.zeros(1), np.ones(1))
        return _Divided(loss, moves, merged_reflections(grid, rest, self.nears, *still))

    def _composition_loss(self, composition: PrivacyCurve) -> StepLoss | None:
        grid = self.grid
        largest = float(composition.epsilon(_TAIL))
        points = math.ceil(largest / grid.spacing) + 1
        if points >= (PADDING - 1) * grid.count:
            return None
        return loss_on_grid(composition, grid.spacing, points)

    def _moves(self, start: float, noise: float) -> Options:
        """List the rows to move to from a distance, and the loss of each move."""
        rows = self.grid.rows
        ends = np.flatnonzero((rows < start) & (rows >= start - _WIDEST * noise))
        moves = []
        for end in ends[:: max(-(-ends.size // _MOST_MOVES), 1)]:
            loss = gaussian_loss((start - rows[end]) / noise, self.grid)
            if loss is not None:
                moves.append((int(end), loss))
        return Options(moves)

    def last(self) -> Array:
        """Return the bound if this stretch is the last one: composition from distance 0."""
        values = np.ones((self.grid.last + 1, self.grid.count + 1))
        values[0] = self.composition.delta(self.grid.log_weights)
        return values

    def before(self, values: Array) -> Array:
        """Return the bound with this stretch before what ``values`` bounds."""
        grid = self.grid
        values = rising(values)
        count = grid.count + 1
        table = np.empty((grid.last + 1, 2 * PADDING * grid.count + 1))
        mirror(values, self.growth, table)
        shared = np.ones((grid.last + 1, count))
        if self.composed is not None:
            loss = self.composed
            for row in range(grid.last + 1):
                weigh(table[row], loss.right, loss.left, loss.rest, loss.stride, 0, shared[row])
            if grid.open_end:
                shared[-1] = 1.0
        pushed = self.pushed @ table
        free = self.free @ values
        result = np.ones_like(values)
        every = self.rounds.every()
        for row in range(grid.rows.size):
            np.minimum(shared[self.kept[row]], free[row], out=result[row])
            self.moves[row].lower(pushed, result[row], every)
        for reflection in self.reflections:
            reflection.lower(values, shared[reflection.near], result)
        halves = np.empty_like(table)
        part = np.ones_like(values)
        for divided in self.divided:
            loss = divided.loss
            for row in range(grid.rows.size):
                weigh(table[row], loss.right, loss.left, loss.rest, loss.stride, 0, part[row])
            part[:] = rising(np.minimum(part, 1.0))
            mirror(part, self.growth, halves)
            for row in range(grid.rows.size):
                divided.moves[row].lower(halves, result[row], every)
            for reflection in divided.reflections:
                reflection.lower(part, part[reflection.near], result)
        lower(values, result, self.reflected, self.nears, open_end=self.grid.open_end)
        return round_up(np.minimum.accumulate(result, axis=1), most_terms(grid))


def step_of(grid: DistanceGrid, stretch: Stretch) -> GridStretch | MergedBatches:
    """Return the stretch on a grid."""
    return (
        MergedBatches(grid, stretch)
        if stretch.rate < 1 < stretch.count
        else GridStretch(grid, stretch)
    )
