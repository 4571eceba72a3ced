"""Options of a step of the coupling recursion on a grid: parallel moves and reflections.

The options and their costs are those of `audit.bounds.own.coupling_curve`, those of several steps
are in `audit.bounds.own.stretches`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.bounds.own.kernels import PADDING, reflect, reflection_terms, weigh
from audit.bounds.own.landing import Landing, bin_masses, reflected
from audit.bounds.own.stretches import Stretch
from audit.curves.base import PrivacyCurve
from audit.numerics.arrays import Array, Integers

_FINE = 0.12  # spacing of a loss, in units of its deviation
_NEGLIGIBLE = 1e-13
_REACH = 8.3  # range of a privacy loss in deviations; the rest is charged in full
_WIDEST, _WIDEST_TO_ZERO = 1.3, 4.0  # parameters of parallel moves that are tried
_NEAR = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # distances of local pairs besides 0, in units of s
_NEAR_UNITS = 32  # the coarsest grid that these are taken from
_FARTHEST = 8.3  # offsets in one bin, in deviations beyond their mean; their mass is below 1e-16
_SHARED = 32  # weights that share the choice of a local weight on sampled batches
# Two tails of at most 1 err by 16 units each; costs rise with the distance, so that a bound on the
# errors of the tails is one on that of the mean.
_ABSOLUTE = 64 * 2.0**-53
_DEAD = 1e-14  # bounds this close to 0 or 1 do not matter for the choice of options
_MARGIN = 24  # of the weights are added on both sides of those at which an option is the best
_FIRST = 12  # rounds in which all options are computed
_GROWTH = 1.2  # ratio of the later such rounds


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """Distances from 0 to ``top`` in equal steps, and weights e^(j spacing), j = 0..count.

    If no wall bounds the distance, one more row represents all larger distances, where the bound is
    1.
    """

    top: float
    distances: int
    spacing: float
    count: int
    open_end: bool

    @property
    def rows(self) -> Array:
        """Distances r_i."""
        return np.asarray(self.top * np.arange(self.distances + 1) / self.distances)

    @property
    def width(self) -> float:
        """Difference of consecutive distances."""
        return self.top / self.distances

    @property
    def last(self) -> int:
        """Row of all distances above the others."""
        return self.distances + int(self.open_end)

    def row_above(self, distance: float) -> int:
        """Return the first row whose distance is at least ``distance``."""
        return min(int(np.searchsorted(self.rows, distance)), self.last)

    @property
    def log_weights(self) -> Array:
        """Logarithms of the weights of at least 1."""
        return np.asarray(self.spacing * np.arange(self.count + 1))


@dataclass(frozen=True, eq=False)
class StepLoss:
    """Privacy loss of a step, on every ``stride``-th weight of the grid.

    Its profile connects that of the step at the grid points by chords, as the table does.
    """

    right: Array
    left: Array
    rest: float
    stride: int


def power_of_two(most: float) -> int:
    """Return the largest power of two that is at most ``most``, and at least 1.

    Multiples of it are on the grid and on every grid that halves its spacing.
    """
    return 1 << max(math.floor(math.log2(most)), 0) if most > 0 else 1


@lru_cache(maxsize=1024)
def step_loss(mu: float, rate: float, spacing: float, count: int) -> StepLoss | None:
    """Return the loss of C_p(G(mu)); None if it is too wide for the grid."""
    stride = power_of_two(_FINE * mu / spacing) if rate == 1 else 1
    points = math.ceil((mu * mu / 2 + _REACH * mu) / (stride * spacing)) + 1
    if points * stride >= (PADDING - 1) * count:
        return None
    return loss_on_grid(SubsampledGaussian(rate, mu), spacing, points, stride)


def gaussian_loss(mu: float, grid: DistanceGrid) -> StepLoss | None:
    """Return the loss of G(mu), the same for all mu that agree up to rounding."""
    # 13 digits are within 5e-13, relatively
    return step_loss(float(f"{mu * (1 + 6e-13):.13g}"), 1.0, grid.spacing, grid.count)


def loss_on_grid(curve: PrivacyCurve, spacing: float, points: int, stride: int = 1) -> StepLoss:
    """Return the loss of a symmetric pair, spread over the two neighbouring grid points.

    Both laws keep their masses, so that the bound does not decrease (Doroshenko et al. 2022,
    Algorithm 1); neither does it by truncating negative losses. Losses above the last of the
    ``points + 1`` grid points become infinite.
    """
    interval = stride * spacing
    profile = np.asarray(curve.delta(interval * np.arange(points + 1)))
    drop = -np.diff(np.minimum.accumulate(profile))
    shrink, gap = math.exp(-interval), -math.expm1(-interval)
    right = np.zeros(points + 1)
    right[1:] = np.maximum(drop - shrink * np.append(drop[1:], 0.0), 0.0) / gap
    left = right * np.exp(-interval * np.arange(points + 1))
    rest = float(profile[-1])
    right[0] = max(1 - rest - float(np.sum(right) + np.sum(left)), 0.0)
    beyond = np.cumsum(left[::-1])[::-1]
    kept = max(int(np.searchsorted(-beyond, -_NEGLIGIBLE)), 2)
    left = left[:kept].copy()
    left[-1] = beyond[kept - 1]
    return StepLoss(right, left, rest, stride)


@dataclass(frozen=True, eq=False)
class Reflection:
    """Reflection of one step: rows of the upper far distances, and `reflection_terms`."""

    near: int
    far: Integers
    begins: Integers
    shifts: Integers
    masses: Array


class Options:
    """Moves and reflections from one distance, of which those that do not win can be left out.

    Any subset of options gives a bound. Which of them is the best at a weight changes slowly from
    round to round.

    moves: Rows to move to in parallel, each with the loss of the move.
    reflections: Reflections of one step.
    longest: Weights that may share the choice of a local weight; 0 if each has its own.
    """

    def __init__(
        self,
        moves: Sequence[tuple[int, StepLoss]],
        reflections: Sequence[Reflection] = (),
        longest: int = 0,
    ) -> None:
        self.moves, self.reflections = tuple(moves), tuple(reflections)
        self.longest = longest
        self.used: list[tuple[int, int, int]] = []

    def lower(self, table: Array, result: Array, every: bool) -> None:
        """Lower ``result`` to the cost of the options."""
        if not every:
            cost = np.empty_like(result)
            for option, low, high in self.used:
                self._cost(option, table, low, high, cost)
                np.minimum(result[low:high], cost[low:high], out=result[low:high])
            return
        count, size = len(self.moves) + len(self.reflections), result.size
        if count == 0:
            return
        costs = np.empty((count, size))
        for option in range(count):
            self._cost(option, table, 0, size, costs[option])
        best = costs.min(axis=0)
        live = (best < result) & (best > _DEAD) & (best < 1 - _DEAD)
        np.minimum(result, best, out=result)
        margin = size // _MARGIN
        self.used = []
        for option, wins in enumerate((costs <= best) & live):
            places = np.flatnonzero(wins)
            if places.size:
                low, high = int(places[0]) - margin, int(places[-1]) + 1 + margin
                self.used.append((option, max(low, 0), min(high, size)))

    def _cost(self, option: int, table: Array, low: int, high: int, cost: Array) -> None:
        """Compute the cost of an option at the weights from ``low`` to before ``high``."""
        if option < len(self.moves):
            row, loss = self.moves[option]
            chances = (loss.right, loss.left, loss.rest, loss.stride)
            weigh(table[row], *chances, low, cost[low:high])
        else:
            r = self.reflections[option - len(self.moves)]
            terms = (r.far, r.begins, r.shifts, r.masses)
            reflect(table, r.near, *terms, low, high, self.longest, cost)


class Rounds:
    """Rounds in which all options are computed: the first few, then in a geometric sequence."""

    def __init__(self) -> None:
        self.done, self.next = 0, 0

    def every(self) -> bool:
        """Count a round; return whether to compute all options in it."""
        now = self.done >= self.next
        self.done += 1
        if now:
            self.next = self.done if self.done < _FIRST else math.ceil(_GROWTH * self.done)
        return now


def reflection_of(
    grid: DistanceGrid, gap: float, near: int, divided: Landing, powers: Integers
) -> Reflection:
    """Reflect two means that are ``gap`` plus the near distance apart."""
    std, half = divided.first, gap / 2
    edges = grid.rows / 2
    # all offsets above the last edge that matters are in one bin
    bins = min(int(np.searchsorted(edges, half + _FARTHEST * std)), grid.distances)
    right, right_low, _ = bin_masses(edges, half, std)
    left, _, left_low = bin_masses(edges, -half, std)
    far = np.arange(1, grid.distances + 1) + near
    for low in (right_low, left_low):
        low[far > grid.distances] = 0.0
        low *= divided.reached
    right, left, right_low, left_low = (
        np.append(values[:bins], rest)
        for values, rest in (
            (right, ndtr((half - edges[bins]) / std)),
            (left, ndtr((-half - edges[bins]) / std)),
            (right_low, 0.0),
            (left_low, 0.0),
        )
    )
    terms = reflection_terms(
        right,
        left,
        right_low,
        left_low,
        2 * half * edges[: bins + 1] / std**2,
        powers,
        grid.spacing,
        (PADDING - 1) * grid.count - 1,
    )
    far = np.append(np.minimum(far[:bins], grid.last), grid.last)
    return Reflection(near, far.astype(np.int64), *terms)


@dataclass(frozen=True, eq=False)
class MergedReflection:
    """Reflection over a stretch beyond a local distance, from all rows from ``near`` on.

    near: Row of the local distance.
    met: Probability of coming to the local distance, shape (rows,).
    apart: Probabilities of the others' rows, shape (rows, all rows).
    """

    near: int
    met: Array
    apart: Array

    @classmethod
    def of(
        cls,
        grid: DistanceGrid,
        near: int,
        pushes: Array,
        chances: Array,
        contraction: float,
        std: float,
        reached: float,
    ) -> MergedReflection:
        """Reflect c (r - z) + push with noise ``std``; pushes have the ``chances``."""
        count = grid.distances - near
        gaps = contraction * grid.rows[: count + 1, None] + pushes
        met, low, high, beyond = reflected(grid.rows[: count + 1], gaps, 2 * std, reached)
        apart = np.zeros((count + 1, grid.last + 1))
        apart[:, -1] = beyond @ chances
        apart[:, near : near + count] += np.einsum("ijk,j->ik", low, chances)
        apart[:, near + 1 : near + count + 1] += np.einsum("ijk,j->ik", high, chances)
        return cls(near, met @ chances, apart)

    def lower(self, values: Array, after: Array, result: Array) -> None:
        """Lower ``result`` to the cost of this reflection.

        ``after`` is the cost of composition over the stretch at the local distance. What meets is
        charged ``after``; what stays apart is charged no less, so that the charge rises with the
        distance.
        """
        rows = slice(self.near, self.near + self.met.size)
        cost = self.met[:, None] * after + self.apart @ np.maximum(values, after) + _ABSOLUTE
        np.minimum(result[rows], cost, out=result[rows])


def near_rows(grid: DistanceGrid, stretch: Stretch) -> list[int]:
    """Return the rows of the local distances that reflections try."""
    unit = power_of_two(grid.distances / _NEAR_UNITS)
    size = unit * grid.width
    near = {0, *(unit * max(round(z * stretch.noise / size), 1) for z in _NEAR)}
    return sorted(row for row in near if row <= grid.distances)


def merged_reflections(
    grid: DistanceGrid, stretch: Stretch, nears: Sequence[int], pushes: Array, chances: Array
) -> list[MergedReflection]:
    """Return the reflections over a stretch whose record adds ``pushes`` with the ``chances``."""
    divided, noise = stretch.landing(grid.width)
    return [
        MergedReflection.of(
            grid, near, pushes, chances, stretch.contraction, noise, divided.reached
        )
        for near in nears
    ]


def options_of(
    grid: DistanceGrid, stretch: Stretch, start: float, shift: float, powers: Integers
) -> Options:
    """List the options from distance ``start``; ``shift`` is v' or 0."""
    rows = grid.rows
    rho = float(stretch.contraction * start + shift)
    moves = []
    for end in range(rows.size):
        if rows[end] >= rho:
            break
        mu = (rho - rows[end]) / stretch.noise
        if shift == stretch.shift:
            mu = stretch.parallel(start, float(rows[end]))
        if 0 < mu <= (_WIDEST if end else _WIDEST_TO_ZERO):
            loss = gaussian_loss(mu, grid)
            if loss is not None:
                moves.append((end, loss))
    if stretch.merged:
        return Options(moves)
    divided, _ = stretch.landing(grid.width)
    return Options(
        moves,
        [
            reflection_of(grid, rho - float(rows[near]), near, divided, powers)
            for near in near_rows(grid, stretch)
            if rows[near] < rho
        ],
        _SHARED if stretch.rate < 1 else 0,
    )
