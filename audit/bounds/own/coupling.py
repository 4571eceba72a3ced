"""The bound `own.coupling`: a recursion over distance and likelihood ratio.

H_k(r, g) is the supremum of E_g = sup over events S of P(S) - g Q(S), over all pairs of k-step runs
from starts at most r apart. It increases in r, decreases in g and is convex in g. Theorem 4 of "Our
own theorems" in the documentation bounds H_(k+1) by the mean of H_k over a coupling of one step.

Every grid of distances and weights, and every choice of options, gives a bound: distances are
rounded up or land on the grid, and sums of positive terms are increased by a bound on rounding. In
every round the table is replaced by its minimum with closed forms (`ClosedForms`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from audit import validate
from audit.bounds.assumptions import NotApplicable
from audit.bounds.own.adaptive_shifts import adaptive_shifts_curve
from audit.bounds.own.forgetting import forgetting_curve, merged_walk
from audit.bounds.own.moves import least_mu, least_squares
from audit.bounds.own.run import WorstRun
from audit.bounds.own.stretches import DistanceGrid, Stretch, layouts, steps_to_merge
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.duality import tradeoff_from_profile
from audit.curves.gaussian import GaussianCurve
from audit.curves.minimum import MinimumCurve
from audit.curves.profile import ProfileCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array
from audit.numerics.normal import gaussian_delta_above

_MIN_SURVIVAL = 1e-12  # survival probability below which longer lengths are never better
_FINE_RATIO = 16  # finer distances per distance of the grid
_LENGTHS = 128  # lengths of reflections
_SAMPLED_LENGTHS = 24  # lengths if each needs a composition
_SHIFTS = 64  # lengths of parallel moves that are tried
_ROUND_UP = 1 + 8 * 2.0**-53  # roundings of parameters and sums
DISTANCES = 64
_MIN_WEIGHTS, _MAX_WEIGHTS = 240, 1200  # weights
_PER_LOSS = 0.15  # spacing of weights, in standard deviations of a stretch's privacy loss
_PER_LOSS_ALONE = 0.25  # likewise, of single steps on sampled batches
_RANGE_DELTA = 1e-9  # weights reach to the epsilon at this delta
_MAX_RANGE = 300.0
_WIDTH = 0.15  # noise of merged steps, in units of the top
_MAX_CYCLE_WIDTH = 1.0  # noise of a whole cycle that is merged, likewise
_MIN_ROUNDS = 50
_MAX_ROUNDS = 2000
_GRID_DEVIATIONS = 6.0  # range of the grid on a line, in deviations of the stationary distance
# Rounding of log weights: each round, budgets err by some units times the largest logarithm.
_SLACK = _MAX_ROUNDS * 8 * _MAX_RANGE * 2.0**-52


@bound("own.coupling")
def coupling(
    mechanism: NoisySGD, *, distances: int | None = None, weights: int | None = None
) -> PrivacyCurve:
    """Return the bound of the coupling recursion, or that of forgetting or of shifts if better.

    It takes seconds and is computed on first use. There is no recursion if the other two allow an
    epsilon above 300 at delta = 1e-9, nor for sampled batches if the noise of a step is below the
    spacing of the distances.

    distances: Number of distances of the grid besides 0, at least 8; 64 by default.
    weights: Number of log-weights of the grid besides 0, at least 32; by default 240 to 1200,
        depending on the privacy loss of a step. Every grid gives a bound; finer grids give tighter
        ones.
    """
    _check_grid(distances, weights)
    run = WorstRun.of(mechanism)
    return coupling_curves(run, (run.steps,), distances, weights)[0]


def coupling_at(
    mechanism: NoisySGD,
    steps: Sequence[int],
    *,
    distances: int | None = None,
    weights: int | None = None,
) -> tuple[PrivacyCurve, ...]:
    """Return `coupling` for several numbers of steps, from one recursion."""
    if not steps:
        raise validate.fail("steps", "one or more whole numbers", steps)
    validate.integer(1, **{f"steps[{i}]": count for i, count in enumerate(steps)})
    _check_grid(distances, weights)
    runs = [replace(mechanism, steps=count) for count in steps]
    from audit.bounds import CATALOGUE  # it is made after this module

    for run in runs:
        for failure in CATALOGUE["own.coupling"].failures(run):
            raise NotApplicable(f"own.coupling {failure}")
    return coupling_curves(WorstRun.of(runs[0]), steps, distances, weights)


def _check_grid(distances: int | None, weights: int | None) -> None:
    if distances is not None:
        validate.integer(8, distances=distances)
    if weights is not None:
        validate.integer(32, weights=weights)


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """Bounds on H_k(r, g) at the distances and weights of a grid.

    run: The run, whose number of steps is the longest k.
    grid: Distances and weights.
    """

    run: WorstRun
    grid: DistanceGrid

    def before(self, covered: int) -> Array:
        """Return the bounds with ``covered`` steps to go, shape (rows, weights), at most 1."""
        values = np.ones((self.grid.last + 1, self.grid.count + 1))
        rows = self.grid.distances + 1
        if self.run.rate == 1:
            values[:rows] = self._normal(self._parallel(covered))
        lengths, alive, profiles = self._reflected
        used = int(np.searchsorted(lengths, covered, side="right"))
        # from the largest distance all starts are alike
        apart = self.run.tracked(covered - lengths[:used])
        alike = 0 if self.grid.open_end else int(np.count_nonzero(apart >= self.run.diameter))
        if alike:
            np.minimum(values, self._from_largest[alike - 1], out=values)
        for j in range(alike, used):
            places = np.searchsorted(self._distances, self._grown(covered - int(lengths[j])))
            beyond = (places >= self._distances.size) & self.grid.open_end
            chances = np.where(beyond, 1.0, alive[j][np.minimum(places, self._distances.size - 1)])
            np.minimum(values[:rows], chances[:, None] + profiles[j], out=values[:rows])
        return np.minimum(values * _ROUND_UP, 1.0)

    @cached_property
    def _from_largest(self) -> Array:
        """Least bound from the largest distance by the first lengths, for each number of them."""
        _, alive, profiles = self._reflected
        return np.asarray(np.minimum.accumulate(alive[:, -1:] + profiles, axis=0))

    def _normal(self, mus: Array) -> Array:
        """Return delta of G(mu) at each weight, computed once for each mu of consecutive calls."""
        by_mu = {float(mu): self._rows[float(mu)] for mu in mus if float(mu) in self._rows}
        fresh = np.array(sorted({float(mu) for mu in mus} - set(by_mu)))
        if fresh.size:
            profiles = gaussian_delta_above(self.grid.log_weights, _ROUND_UP * fresh[:, None])
            by_mu.update(zip(fresh.tolist(), profiles, strict=True))
        self._rows.clear()
        self._rows.update(by_mu)
        return np.stack([by_mu[float(mu)] for mu in mus])

    @cached_property
    def _rows(self) -> dict[float, Array]:
        """Rows of the last call of `_normal`, by mu."""
        return {}

    def _grown(self, steps: int) -> Array:
        """Return the largest distance after ``steps`` steps of shared noise, from each distance."""
        contraction = math.exp(self.run.log_contraction * steps)
        grown = contraction * self.grid.rows + float(self.run.tracked(steps))
        return np.asarray(np.minimum(grown, self.run.diameter))

    def _parallel(self, covered: int) -> Array:
        """Return the parameter of parallel moves to distance 0 at the end, from each distance."""
        period = self.run.period
        # the best lengths begin just after a use of the record
        cycles = np.rint(np.geomspace(1, max(self.run.steps / period, 1), _SHIFTS))
        lengths = np.unique(np.append(np.minimum(cycles * period, covered), covered))
        starts = np.stack([self._grown(covered - int(length)) for length in lengths], axis=1)
        return np.asarray(np.sqrt(least_squares(self.run, lengths, starts).min(axis=1)))

    @cached_property
    def _distances(self) -> Array:
        """Distances at which reflection probabilities are computed, finer than the grid's."""
        count = _FINE_RATIO * self.grid.distances
        return np.asarray(self.grid.top * np.arange(count + 1) / count)

    @cached_property
    def _reflected(self) -> tuple[Array, Array, Array]:
        """Lengths j, h_j of each of the finer distances, and delta_(f_j) at each weight."""
        run, grid = self.run, self.grid
        walk, merged, longest = merged_walk(run, grid.top, _MIN_SURVIVAL)
        longest = min(longest, run.steps // merged)
        sampled = run.rate < 1
        every = max(-(-longest // (_SAMPLED_LENGTHS if sampled else _LENGTHS)), 1)
        count = longest // every
        if count == 0:
            return np.empty(0), np.empty((0, 0)), np.empty((0, 0))
        alive = walk.chances(self._distances, every, count)
        lengths = [merged * every * (j + 1) for j in range(count)]
        if sampled:
            profiles = np.stack(
                [
                    np.asarray(run.composition(j, coarse=True).delta(grid.log_weights))
                    for j in lengths
                ]
            )
        else:
            mus = run.ratio * np.sqrt(run.meetings(lengths))
            profiles = gaussian_delta_above(grid.log_weights, _ROUND_UP * mus[:, None])
        return np.array(lengths), alive, profiles


@dataclass(frozen=True, eq=False)
class CouplingTable:
    """Recursion for runs of several lengths.

    run: Run of the largest length.
    grid: Distances and weights.
    merged: Number of steps merged into one.
    lengths: Numbers of steps.
    """

    run: WorstRun
    grid: DistanceGrid
    merged: int
    lengths: tuple[int, ...]

    @cached_property
    def profiles(self) -> Mapping[int, Array]:
        """Bound on delta at each weight of the grid, by length."""
        # compiled loops are slow to import
        from audit.bounds.own.recursion import coupling_profiles, layer_of

        grid = self.grid
        chosen = layouts(self.run, self.merged, _MAX_CYCLE_WIDTH * grid.top)
        layers = {stretch: layer_of(grid, stretch) for stretch in set().union(*chosen)}
        profiles = coupling_profiles(
            self.run,
            self.lengths,
            grid,
            [[layers[stretch] for stretch in choice] for choice in chosen],
            _MAX_ROUNDS,
            ClosedForms(self.run, grid).before,
        )
        return dict(zip(self.lengths, profiles, strict=True))


@dataclass(frozen=True, eq=False)
class TableCurve(ProfileCurve):
    """Curve H_T(0, e^epsilon) of the recursion, with chords in e^epsilon between weights.

    table: The recursion, which runs on first use.
    steps: Number of steps T, one of the table's lengths.
    """

    table: CouplingTable
    steps: int

    @cached_property
    def profile(self) -> tuple[Array, Array]:
        """Epsilons from 0, and the bound on delta at each."""
        return self.table.grid.log_weights + _SLACK, self.table.profiles[self.steps]

    def _profile(self, epsilon: Array, order: Order) -> Array:
        points, values = self.profile
        place = np.clip(np.searchsorted(points, epsilon, side="right") - 1, 0, points.size - 1)
        after = np.minimum(place + 1, points.size - 1)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            share = np.expm1(epsilon - points[place]) / np.expm1(points[after] - points[place])
        share = np.where(after > place, np.clip(share, 0.0, 1.0), 0.0)
        delta = values[place] + share * (values[after] - values[place])
        return np.where(epsilon < points[0], 1.0, delta)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        points, values = self.profile
        place = np.searchsorted(-values, -delta)  # the first that is no larger
        upper = np.clip(place, 0, points.size - 1)
        before = np.maximum(upper - 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (values[before] - delta) / (values[before] - values[upper])
        share = np.where(upper > before, np.clip(share, 0.0, 1.0), 1.0)
        root = points[before] + np.log1p(share * np.expm1(points[upper] - points[before]))
        return np.where(place < points.size, root, np.inf)

    def _beta(self, alpha: Array, order: Order) -> Array:
        points, _ = self.profile
        return tradeoff_from_profile(alpha, points, self._delta(points, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.full_like(alpha, np.inf)  # unknown: the profile ends at a finite epsilon


def reach(run: WorstRun) -> tuple[float, bool]:
    """Return the largest distance of the grid, and whether larger distances are possible."""
    tracked = float(run.tracked(run.steps))
    if run.gap == 0:
        return run.diameter, False
    spread = 2 * run.noise / math.sqrt(run.gap * (2 - run.gap))
    top = tracked + _GRID_DEVIATIONS * spread
    return (run.diameter, False) if run.diameter <= top else (top, True)


def grid_of(
    run: WorstRun, fallback: PrivacyCurve, merged: int, distances: int | None, weights: int | None
) -> DistanceGrid:
    """Return the grid of a run whose steps are merged by ``merged``."""
    top, open_end = reach(run)
    largest = 1.1 * float(fallback.epsilon(_RANGE_DELTA)) + 1e-6
    if weights is None:
        wanted = largest / max(_spacing(s) for s in layouts(run, merged, 0.0)[0])
        weights = int(min(max(wanted, _MIN_WEIGHTS), _MAX_WEIGHTS))
    return DistanceGrid(top, distances or DISTANCES, largest / weights, weights, open_end)


def _spacing(stretch: Stretch) -> float:
    """Return the spacing of weights that suits the privacy loss of a stretch from distance 0."""
    if stretch.rate == 1:
        return _PER_LOSS * stretch.parallel(0.0, 0.0)
    square = math.expm1(min(stretch.ratio**2, 700.0))
    deviation = stretch.rate * math.sqrt(stretch.count * square)
    return (_PER_LOSS if stretch.merged else _PER_LOSS_ALONE) * deviation


def coupling_curves(
    run: WorstRun, lengths: Sequence[int], distances: int | None = None, weights: int | None = None
) -> tuple[MinimumCurve, ...]:
    """Return the better of recursion, parallel moves and forgetting, for each length of a run.

    Lengths with the same number of merged steps share one recursion, on the grid of the longest.

    run: All parameters except the number of steps.
    lengths: Numbers of steps.
    distances, weights: Size of the grid; defaults as in `coupling`.
    """
    runs = {length: replace(run, steps=length) for length in lengths}
    fallbacks = {length: _without_recursion(own) for length, own in runs.items()}
    shared: dict[int, list[int]] = {}
    for length, own in runs.items():
        if float(fallbacks[length].epsilon(_RANGE_DELTA)) <= _MAX_RANGE:  # or weights overflow
            merged = steps_to_merge(own, _WIDTH * reach(own)[0], _MIN_ROUNDS)
            shared.setdefault(merged, []).append(length)
    tables: dict[int, CouplingTable] = {}
    for merged, members in shared.items():
        longest = max(members)
        grid = grid_of(runs[longest], fallbacks[longest], merged, distances, weights)
        if run.rate < 1 and merged == 1 and run.noise < grid.width:
            continue  # distances are too far apart for the gain of a step
        table = CouplingTable(runs[longest], grid, merged, tuple(sorted(members)))
        tables.update(dict.fromkeys(members, table))
    return tuple(
        MinimumCurve(
            (TableCurve(tables[length], length), *fallbacks[length].curves),
            ("couplings", *fallbacks[length].labels),
        )
        if length in tables
        else fallbacks[length]
        for length in lengths
    )


def _without_recursion(run: WorstRun) -> MinimumCurve:
    forgetting = forgetting_curve(run)
    if run.rate < 1:
        shifts = adaptive_shifts_curve(run)
        return MinimumCurve((forgetting, shifts), ("forgetting", "adaptive shifts"))
    return MinimumCurve(
        (forgetting, GaussianCurve(least_mu(run))), ("forgetting", "parallel moves")
    )
