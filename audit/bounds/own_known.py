"""What bounds the coupling recursion's H_k in closed form, without a grid's rounding.

Two couplings of `audit.bounds.own_coupling` that are kept to the last step need no recursion. Both
may begin at any step: for j <= k, H_k(r, .) <= H_j(R, .) with R = min(c^(k-j) r + tracked, D), the
distance that noise shared in the first k - j steps leads to.

- Parallel moves to distance 0 at the end: a Gaussian tradeoff function (`parallel`).
- Reflection at one weight, beside composition: with Y from the second starting point and the first
  dataset's updates, E_g(X || X') <= TV(X, Y) + E_g(Y || X') <= h_j(R) + delta_(f_j)(log g), as in
  `audit.bounds.own_forgetting`.

The recursion meets them: they are better where the grid's distances are far apart beside the noise
of a step, and what the recursion builds on them is better still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.bounds.composition import compose
from audit.bounds.own_shared import Run
from audit.bounds.own_survival import forgotten_after, merging, walk_of
from audit.bounds.own_table import Grid
from audit.bounds.shift_allocation import LipschitzShifts, Meetings, geometric
from audit.bounds.subsampling import SubsampledGaussian
from audit.numerics.normal import gaussian_delta

Array = NDArray[np.float64]

_FORGOTTEN = 1e-12  # of two chains: lengths beyond this are never better
_FINER = 16  # distances for each of the grid's
_LENGTHS = 128  # of reflections that are kept
_SAMPLED_LENGTHS = 24  # where each needs a composition
_SHIFTS = 64  # lengths of parallel moves that are tried
_COARSE = 1 << 14  # of a composition's grid; every grid gives a bound
_INFLATION = 4e-12  # for the rounding of closed forms


@dataclass(frozen=True, eq=False)
class Known:
    """Bounds on H_k(r, g) at the distances and weights of a grid.

    Parameters
    ----------
    run
        What is bounded; its steps are the longest k.
    grid
        The distances and weights.
    """

    run: Run
    grid: Grid

    def before(self, covered: int) -> Array:
        """Return the bounds with ``covered`` steps to go, shape (rows, weights), at most 1."""
        values = np.ones((self.grid.last + 1, self.grid.count + 1))
        rows = self.grid.distances + 1
        if self.run.rate == 1:
            mus = self._parallel(covered)
            values[:rows] = gaussian_delta(self.grid.log_weights, mus[:, None])
        lengths, alive, profiles = self._reflected
        for j, length in enumerate(lengths):
            if length > covered:
                break
            places = np.searchsorted(self._distances, self._grown(covered - length))
            beyond = (places >= self._distances.size) & self.grid.open_end
            chances = np.where(beyond, 1.0, alive[j][np.minimum(places, self._distances.size - 1)])
            np.minimum(values[:rows], chances[:, None] + profiles[j], out=values[:rows])
        return np.minimum(values * (1 + _INFLATION), 1.0)

    def _grown(self, steps: int) -> Array:
        """Return how far noise shared for so many steps may bring points from each distance."""
        kept = math.exp(math.log1p(-self.run.gap) * steps) if self.run.gap < 1 else 0.0
        kept = 1.0 if steps == 0 else kept
        grown = kept * self.grid.rows + float(self.run.tracked(steps))
        return np.asarray(np.minimum(grown, self.run.diameter))

    def _parallel(self, covered: int) -> Array:
        """Return the parameter of moving together by the end, from each distance."""
        run = self.run
        lengths = np.unique(np.rint(np.geomspace(1, covered, _SHIFTS)))
        starts = np.stack([self._grown(covered - int(length)) for length in lengths], axis=1)
        if run.period > 1:
            problem = LipschitzShifts(
                Meetings(run.steps, run.period, (run.steps - 1) % run.period), run.shift, -run.gap
            )
            squares = problem.costs(np.broadcast_to(lengths, starts.shape), starts)
        else:
            log_c = math.log1p(-run.gap) if run.gap < 1 else -700.0
            total = np.exp(log_c * lengths) * starts + run.shift * geometric(log_c, lengths)
            squares = total**2 / geometric(2 * log_c, lengths)
        return np.asarray(np.sqrt(squares.min(axis=1)) / run.noise)

    @cached_property
    def _distances(self) -> Array:
        """Distances at which the chances of reflections are known: finer than the grid's."""
        count = _FINER * self.grid.distances
        return np.asarray(self.grid.top * np.arange(count + 1) / count)

    @cached_property
    def _reflected(self) -> tuple[list[int], Array, Array]:
        """Lengths j, h_j of each of the finer distances, and delta_(f_j) at each weight."""
        run, grid = self.run, self.grid
        walk = walk_of(run.contraction, run.noise, run.diameter, grid.top)
        merged = merging(walk)
        longest = min(forgotten_after(walk.merged(merged), _FORGOTTEN), run.steps // merged)
        sampled = run.rate < 1
        every = max(-(-longest // (_SAMPLED_LENGTHS if sampled else _LENGTHS)), 1)
        count = longest // every
        if count == 0:
            return [], np.empty((0, 0)), np.empty((0, 0))
        alive = walk.merged(merged).chances(self._distances, every, count)
        lengths = [merged * every * (j + 1) for j in range(count)]
        if sampled:
            step = SubsampledGaussian(run.rate, run.ratio)
            profiles = np.stack(
                [
                    np.asarray(compose(step, j, largest_grid=_COARSE).delta(grid.log_weights))
                    for j in lengths
                ]
            )
        else:
            mus = run.ratio * np.sqrt(run.meetings(lengths))
            profiles = gaussian_delta(grid.log_weights, mus[:, None])
        return lengths, alive, profiles
