"""The coupling recursion on a grid of distances and weights, every error rounded upward.

Its options are those of "Couplings with weights" of "Our own theorems" in the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from audit.bounds.accounting.composition import SubsampledGaussian, compose
from audit.bounds.own.kernels import PADDING, mirror, reflect, reflection_terms, split, weigh
from audit.bounds.own.run import WorstRun, meetings
from audit.bounds.own.stretches import (
    DistanceGrid,
    Landing,
    Stretch,
    bin_masses,
    landed,
    lower,
    reflected,
    reflected_steps,
    rising,
)
from audit.curves.base import PrivacyCurve
from audit.numerics.arrays import Array, Integers
from audit.numerics.normal import gaussian_delta_above

_LOSS_SPACING = 0.12  # spacing of a loss, in units of its deviation
_NEGLIGIBLE = 1e-13
_LOSS_DEVIATIONS = 8.3  # range of a privacy loss in deviations; the rest is charged in full
_MAX_MOVE, _MAX_MOVE_TO_ZERO = 1.3, 4.0  # parameters of parallel moves that are tried
_MAX_MERGED_MOVE, _MAX_MOVES = 2.5, 24  # likewise of several sampled steps, and their number
_LOCAL_DISTANCES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # distances of local pairs, in units of s
_LOCAL_DISTANCE_UNITS = 32  # the coarsest grid that these are taken from
_OFFSET_DEVIATIONS = 8.3  # farther offsets share a bin; their mass is below 1e-16
_SHARED = 32  # weights that share the choice of a local weight on sampled batches
# Two tails of at most 1 err by 16 units each; costs rise with the distance, so that a bound on the
# errors of the tails is one on that of the mean.
_TAIL_ERROR = 64 * 2.0**-53
_NEGLIGIBLE_BOUND = 1e-14  # bounds this close to 0 or 1 do not matter for the choice of options
_MARGIN = 24  # weights added on both sides of those at which an option is the best
_FULL_ROUNDS = 12  # rounds in which all options are computed
_GROWTH = 1.2  # ratio of the later such rounds
_LOCAL_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_HALVINGS = 9  # halvings of the range of weights, likewise
_WIDE_NOISE = 0.1  # noise of sampled steps with local weights, in units of the top
_LOCAL_WEIGHT_UNITS = 120  # the coarsest grid that local weights are taken from
_UNIT = 2.0**-53
_FACTORS = 1 << 12  # units of masses and of losses, besides those of sums over them
_ABSOLUTE_ERROR = 8 * _UNIT  # error of 1 - (1 - H)/g, once a round
_CONVERGENCE = 1e-3  # relative change of delta; it moves epsilon in the fourth digit
_COARSE_GRID = 1 << 14  # grid points of a composition
_SHARES = (0.2, 0.5)  # shares of the noise for composition
_TAIL = 1e-14  # delta of the largest loss of a composition


# --- options ---


@dataclass(frozen=True, eq=False)
class StepLoss:
    """Privacy loss of a step, on every ``stride``-th weight of the grid.

    Its profile connects that of the step at the grid points by chords, as the table does.
    """

    right: Array
    left: Array
    rest: float
    stride: int

    def mean(self, source: Array, first: int, result: Array) -> Array:
        """Set ``result`` to the mean of H over the loss, from weight ``first`` on; return it."""
        weigh(source, self.right, self.left, self.rest, self.stride, first, result)
        return result


def power_of_two(most: float) -> int:
    """Return the largest power of two that is at most ``most``, and at least 1.

    Multiples of it are on the grid and on every grid that halves its spacing.
    """
    return 1 << max(math.floor(math.log2(most)), 0) if most > 0 else 1


@lru_cache(maxsize=1024)
def step_loss(mu: float, rate: float, spacing: float, count: int) -> StepLoss | None:
    """Return the loss of C_p(G(mu)); None if it is too wide for the grid."""
    stride = power_of_two(_LOSS_SPACING * mu / spacing) if rate == 1 else 1
    points = math.ceil((mu * mu / 2 + _LOSS_DEVIATIONS * mu) / (stride * spacing)) + 1
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
        live = (best < result) & (best > _NEGLIGIBLE_BOUND) & (best < 1 - _NEGLIGIBLE_BOUND)
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
            loss.mean(table[row], low, cost[low:high])
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
            self.next = self.done if self.done < _FULL_ROUNDS else math.ceil(_GROWTH * self.done)
        return now


def reflection_of(
    grid: DistanceGrid, gap: float, near: int, divided: Landing, powers: Integers
) -> Reflection:
    """Reflect two means that are ``gap`` plus the near distance apart."""
    std, half = divided.first, gap / 2
    edges = grid.rows / 2
    # all offsets above the last edge that matters are in one bin
    bins = min(int(np.searchsorted(edges, half + _OFFSET_DEVIATIONS * std)), grid.distances)
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
        cost = self.met[:, None] * after + self.apart @ np.maximum(values, after) + _TAIL_ERROR
        np.minimum(result[rows], cost, out=result[rows])


def near_rows(grid: DistanceGrid, stretch: Stretch) -> list[int]:
    """Return the rows of the local distances that reflections try."""
    unit = power_of_two(grid.distances / _LOCAL_DISTANCE_UNITS)
    size = unit * grid.width
    near = {0, *(unit * max(round(z * stretch.noise / size), 1) for z in _LOCAL_DISTANCES)}
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
        if 0 < mu <= (_MAX_MOVE if end else _MAX_MOVE_TO_ZERO):
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


# --- layers: a stretch on a grid ---


def round_up(values: Array, terms: int) -> Array:
    """Raise a table by what the rounding of sums of ``terms`` can do; it stays at most 1."""
    raised = values * (1 + _UNIT * (2 * terms + _FACTORS))
    return np.asarray(np.minimum(raised + _ABSOLUTE_ERROR, 1.0))


class StretchLayer:
    """A stretch of the recursion on a grid; `layer_of` chooses the class.

    grid: Distances and weights.
    stretch: The stretch.
    """

    def __init__(self, grid: DistanceGrid, stretch: Stretch) -> None:
        self.grid, self.stretch = grid, stretch
        self.starts = stretch.contraction * grid.rows
        self.kept = np.minimum(np.searchsorted(grid.rows, self.starts), grid.last)
        self.growth = np.exp(grid.log_weights)
        self.rounds = Rounds()
        self.nears = near_rows(grid, stretch) if stretch.merged else [0]
        self.masses = reflected_steps(grid, stretch) if stretch.merged else None

    def last(self) -> Array:
        """Return the bound if this stretch is the last one."""
        raise NotImplementedError

    def before(self, values: Array) -> Array:
        """Return the bound with this stretch before what ``values`` bounds."""
        grid = self.grid
        values = rising(values)
        result = self._lowered(values, self._mirrored(values))
        if self.masses is not None:
            lower(values, result, self.masses, self.nears, open_end=grid.open_end)
        # the largest number of terms of a sum: over losses, or over rows and weights
        terms = max(2 * PADDING * grid.count, 16 * (grid.last + 1)) + 64
        return round_up(np.minimum.accumulate(result, axis=1), terms)

    def _lowered(self, values: Array, table: Array) -> Array:
        """Return the cost of the best options, from the bounds after them and their table."""
        raise NotImplementedError

    def _mirrored(self, values: Array) -> Array:
        table = np.empty((values.shape[0], 2 * PADDING * self.grid.count + 1))
        mirror(values, self.growth, table)
        return table


class SingleLayer(StretchLayer):
    """A step, or several on fixed batches."""

    def __init__(self, grid: DistanceGrid, stretch: Stretch) -> None:
        super().__init__(grid, stretch)
        sampled = stretch.rate < 1
        unit = power_of_two(grid.count / _LOCAL_WEIGHT_UNITS)
        powers = unit * np.rint(np.array(_LOCAL_WEIGHTS) / (unit * grid.spacing)).astype(np.int64)
        if not sampled or stretch.noise >= _WIDE_NOISE * grid.top:
            # weak pushes have a small range of weights
            powers = np.append(powers, np.maximum(grid.count >> np.arange(1, _HALVINGS + 1), 1))
        powers = np.unique(powers[powers <= grid.count])
        divided, _ = stretch.landing(grid.width)

        def options(shift: float) -> list[Options]:
            return [options_of(grid, stretch, float(r), shift, powers) for r in grid.rows]

        def free(shift: float) -> Array:
            return landed(self.starts + shift, grid.rows, grid.last, divided.reached)

        self.options, self.free = options(stretch.shift), free(stretch.shift)
        self.others = options(0.0) if sampled else None
        self.others_free = free(0.0)
        mu = stretch.parallel(0.0, 0.0)
        self.composed = step_loss(mu, stretch.rate, grid.spacing, grid.count) if mu > 0 else None
        self.reflections: list[MergedReflection] = []
        if stretch.merged:
            push = np.array([stretch.shift])
            self.reflections = merged_reflections(grid, stretch, self.nears, push, np.ones(1))
        self.weights = np.exp(grid.spacing * np.arange(-grid.count, grid.count + 1))

    def last(self) -> Array:
        """Return the bound if this stretch is the last one: two normal laws."""
        grid, stretch = self.grid, self.stretch
        values = np.ones((grid.last + 1, grid.count + 1))
        for i, r in enumerate(grid.rows):
            mu = stretch.parallel(float(r), 0.0)
            values[i] = gaussian_delta_above(grid.log_weights, np.array(mu))
            if stretch.rate < 1 and r > 0:
                without = gaussian_delta_above(
                    grid.log_weights, np.array(float(self.starts[i]) / stretch.noise)
                )
                values[i] = round_up(self._split(without, values[i]), 1)
        if stretch.rate < 1:
            values[0] = SubsampledGaussian(stretch.rate, stretch.ratio).delta(grid.log_weights)
        return values

    def _lowered(self, values: Array, table: Array) -> Array:
        result = np.ones_like(values)
        every = self.others is None or self.rounds.every()  # fixed batches have few options
        np.dot(self.free, values, out=result[: self.grid.distances + 1])
        for i, options in enumerate(self.options):
            options.lower(table, result[i], every)
        if self.others is not None:
            without = self.others_free @ values
            for i, options in enumerate(self.others):
                options.lower(table, without[i], every)
                result[i] = self._split(without[i], result[i])
        if self.composed is not None:
            # on sampled batches any distance may be kept
            for i, row in enumerate(self.kept if self.others is not None else [0]):
                np.minimum(result[i], self._composed(table[row]), out=result[i])
        for reflection in self.reflections:
            reflection.lower(values, self._composed(table[reflection.near]), result)
        return result

    def _composed(self, source: Array) -> Array:
        """Return the cost of keeping a distance with H equal to ``source`` through the stretch."""
        if self.composed is not None:
            return self.composed.mean(source, 0, np.empty(self.grid.count + 1))
        if self.stretch.shift > 0:
            return np.ones(self.grid.count + 1)
        middle = PADDING * self.grid.count
        return source[middle : middle + self.grid.count + 1].copy()

    def _split(self, without: Array, with_record: Array) -> Array:
        """Split the budget between batches without and with the record."""
        both, result = np.empty((2, self.weights.size)), np.empty(self.weights.size)
        mirror(np.stack([without, with_record]), self.growth, both)
        split(both[0], both[1], self.stretch.rate, self.weights, result)
        return result[self.grid.count :]


@dataclass(frozen=True, eq=False)
class _Divided:
    """Loss of the composition, and options of the walk without pushes."""

    loss: StepLoss
    moves: list[Options]
    reflections: list[MergedReflection]


class SampledLayer(StretchLayer):
    """Several steps on sampled batches; ``stretch.shift`` is that of one step."""

    def __init__(self, grid: DistanceGrid, stretch: Stretch) -> None:
        super().__init__(grid, stretch)
        self.composition = self._composition(1.0)
        self.composed = self._loss(self.composition)
        numbers, _, chances = meetings(stretch.count, stretch.rate, stretch.count)
        pushes = np.asarray(numbers * stretch.shift, dtype=np.float64)
        divided, noise = stretch.landing(grid.width)
        self.free, self.pushed = (
            np.einsum(
                "ijk,j->ik",
                landed(starts[:, None] + pushes, grid.rows, grid.last, divided.reached),
                chances,
            )
            for starts in (self.starts, grid.rows)
        )
        self.moves = [self._moves(start, noise) for start in self.starts]
        self.reflections = merged_reflections(grid, stretch, self.nears, pushes, chances)
        self.divided: list[_Divided] = []
        for share in _SHARES:  # composition with a share of the noise, and the walk with the rest
            loss = self._loss(self._composition(share))
            if loss is not None:
                rest = replace(stretch, noise=stretch.noise * math.sqrt(1 - share))
                moves = [self._moves(start, rest.noise) for start in self.starts]
                walk = merged_reflections(grid, rest, self.nears, np.zeros(1), np.ones(1))
                self.divided.append(_Divided(loss, moves, walk))

    def _composition(self, share: float) -> PrivacyCurve:
        """Return the composition of the steps with a share of the noise."""
        step = SubsampledGaussian(self.stretch.rate, self.stretch.ratio / math.sqrt(share))
        return compose(step, self.stretch.count, largest_grid=_COARSE_GRID)

    def _loss(self, composition: PrivacyCurve) -> StepLoss | None:
        """Return the loss of a composition; None if it is too wide for the grid."""
        grid = self.grid
        points = math.ceil(float(composition.epsilon(_TAIL)) / grid.spacing) + 1
        if points >= (PADDING - 1) * grid.count:
            return None
        return loss_on_grid(composition, grid.spacing, points)

    def _moves(self, start: float, noise: float) -> Options:
        """List the rows to move to from a distance, and the loss of each move."""
        rows = self.grid.rows
        ends = np.flatnonzero((rows < start) & (rows >= start - _MAX_MERGED_MOVE * noise))
        ends = ends[:: max(-(-ends.size // _MAX_MOVES), 1)]
        losses = [gaussian_loss((start - rows[end]) / noise, self.grid) for end in ends]
        pairs = zip(ends.tolist(), losses, strict=True)
        return Options([(end, loss) for end, loss in pairs if loss is not None])

    def last(self) -> Array:
        """Return the bound if this stretch is the last one: composition from distance 0."""
        values = np.ones((self.grid.last + 1, self.grid.count + 1))
        values[0] = self.composition.delta(self.grid.log_weights)
        return values

    def _lowered(self, values: Array, table: Array) -> Array:
        grid, rows = self.grid, range(self.grid.distances + 1)
        shared = np.ones_like(values)
        if self.composed is not None:
            for row in rows:
                self.composed.mean(table[row], 0, shared[row])
        pushed = self.pushed @ table
        result = np.ones_like(values)
        np.minimum(shared[self.kept], self.free @ values, out=result[: grid.distances + 1])
        every = self.rounds.every()
        for row in rows:
            self.moves[row].lower(pushed, result[row], every)
        for reflection in self.reflections:
            reflection.lower(values, shared[reflection.near], result)
        part = np.ones_like(values)
        for divided in self.divided:
            for row in rows:
                divided.loss.mean(table[row], 0, part[row])
            part[:] = rising(np.minimum(part, 1.0))
            halves = self._mirrored(part)
            for row in rows:
                divided.moves[row].lower(halves, result[row], every)
            for reflection in divided.reflections:
                reflection.lower(part, part[reflection.near], result)
        return result


def layer_of(grid: DistanceGrid, stretch: Stretch) -> StretchLayer:
    """Return the stretch on a grid."""
    return (SampledLayer if stretch.rate < 1 < stretch.count else SingleLayer)(grid, stretch)


# --- the recursion ---


def coupling_profiles(
    run: WorstRun,
    lengths: Sequence[int],
    grid: DistanceGrid,
    choices: Sequence[Sequence[StretchLayer]],
    most_rounds: int,
    known: Callable[[int], Array],
) -> tuple[Array, ...]:
    """Return upper bounds on delta at the grid's weights, for runs of each of the ``lengths``.

    Rounds of stretches are laid from the last step backward, so that one recursion serves all
    lengths T; the bound of a round is the smallest of its ``choices``. With k steps covered, the
    two iterates before them are at most as far apart as `WorstRun.tracked` says of T - k steps, so
    that every k up to T gives a bound; a run of fewer steps than the stretches cover is bounded by
    theirs (its first steps may be added, with constant updates). After each stretch the bound is
    met with what is ``known`` of H_k, by k, on the same grid. A length is done when all its steps
    are covered, when the start no longer matters, or after ``most_rounds``.
    """
    first, *others = choices
    best = {length: np.ones(grid.count + 1) for length in lengths}
    left = set(lengths)
    values: Array | None = None
    covered, rounds = 0, 0
    while True:
        first_values, done = values, covered
        for number, step in enumerate(first, 1):
            values = _after(values, covered, [step], known)
            covered += step.stretch.count
            if number == len(first):  # equal stretches of a round are one object
                values = np.minimum.reduce(
                    [values, *(_after(first_values, done, o, known) for o in others)]
                )
                rounds += 1
            for length in sorted(left):
                apart = float(run.tracked(max(length - covered, 0)))
                row = min(int(np.searchsorted(grid.rows, apart)), grid.last)
                best[length] = np.minimum(best[length], values[row])
                excess = float(np.max(values[row] - values[0] * (1 + _CONVERGENCE)))
                if covered >= length or rounds > most_rounds or excess <= 1e-13:
                    left.remove(length)
            if not left:
                return tuple(best[length] for length in lengths)


def _after(
    values: Array | None, covered: int, steps: Sequence[StretchLayer], known: Callable[[int], Array]
) -> Array:
    """Return the bound with more stretches before what ``values`` bounds, None for no step."""
    for step in steps:
        covered += step.stretch.count
        values = step.last() if values is None else step.before(values)
        values = np.minimum(values, known(covered))
    assert values is not None  # there is a stretch
    return values
