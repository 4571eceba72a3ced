"""The coupling recursion on a grid of distances and weights, every error rounded upward.

A stretch is a number of consecutive steps that the recursion treats as one. It has the parameters
of one step, (c, v, s). From distance r, with shared noise and no walls, the distance is c r + v at
its end.

Merging q steps of one kind gives c' = c^q, v' = v (1 + c + ... + c^(q-1)) and
s'^2 = s^2 (1 + c^2 + ... + c^(2(q-1))). These options of one step remain:

- Parallel, to distance z: step i changes the distance from z_(i-1) to z_i = c z_(i-1) + v - x_i at
  a log-weight of parameter x_i/s, so that the parameters add up in squares. The least sum with
  z_q = z is (c' r + v' - z)^2/s'^2, with x_i proportional to c^(q-i); all z_i >= 0 then.
- Shifted reflection at one weight and one local distance z <= r in every step, until the two come
  to z; then parallel moves that keep z, of the parameters of composition, to the end. (Composition
  for fewer steps than q costs no more: H is convex in the weight, and more noise in a weight of the
  same mean only raises its mean.) The distance beyond z is that of a killed walk
  (`audit.bounds.own.killed_walk`) to which v is added before each step. Adding all of v at once,
  before the first step, makes the walk larger in law and killed later, since K(r) + a, where K(r)
  is positive, is below K(r + a) in law; so does omitting the walls in between. The q steps become
  one, with means c'(r - z) + v' apart and noise s'. The final distance is charged the larger of H
  and the cost of having met at z. This increases with the distance, so the larger walk bounds the
  charge.

A stretch of whole cycles uses the record every l-th step, at the end of each period. The shifts up
to a step must not exceed c^i r and what the record has added before: their weighted sums are a path
under a staircase, and the least sum of squares is that of a taut string
(`audit.bounds.own.parallel_moves`), here to the distance z at the end. In the reflection, v' is the
distance that the record adds by the end of the stretch. (Composition over the last of these steps
costs no more than over all of them: from distance 0 in the middle of the best path, smaller shifts
suffice.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from audit.bounds.accounting.composition import HalfGrid, pessimistic_grid
from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.bounds.own.kernels import (
    PADDING,
    mirror,
    reflect,
    reflection_terms,
    split,
    weigh,
)
from audit.bounds.own.landing import Landing, bin_masses, landed, landing, rising
from audit.bounds.own.parallel_moves import taut_string
from audit.bounds.own.reflected_steps import lower, reflected_steps
from audit.bounds.own.run import Run
from audit.numerics.normal import gaussian_delta

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_FINE = 0.12  # spacing of a loss, in units of its deviation
_NEGLIGIBLE = 1e-13
_REACH = 8.3  # range of a privacy loss in deviations; the rest is charged in full
_WIDEST, _WIDEST_TO_ZERO = 1.3, 4.0  # parameters of parallel moves that are tried
_LOCAL = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)  # logs of g/g_0 that are tried
_HALVINGS = 9  # of the range of weights, likewise
_WIDE = 0.1  # noise of sampled steps that try them, in units of the top; others are merged as well
_NEAR = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # distances of local pairs besides 0, in units of s
_LOCAL_UNITS, _NEAR_UNITS = 120, 32  # the coarsest grids that these are taken from
_INFLATION = 4e-12  # sums of up to 10^4 positive terms, relative
_ABSOLUTE = 1e-16  # absolute error of differences from 1
_WEAK, _STRONG = 0.5, 1.5  # A = v D/s^2, v the mean push
_MOST_ALONE = 16  # sampled steps that are also taken one at a time
_FEWEST_MERGED = 4  # fewer gain little for moderate pushes, and are taken one at a time
_FARTHEST = 8.3  # offsets in one bin, in deviations beyond their mean; their mass is below 1e-16
_SHARED = 32  # weights that share the choice of a local weight on sampled batches
_DEAD = 1e-14  # bounds this close to 0 or 1 do not matter for the choice of options
_MARGIN = 24  # of the weights are added on both sides of those at which an option is the best
_FIRST = 12  # rounds in which all options are computed; then their
_GROWTH = 1.2  # of the numbers of rounds in which all options are computed
_CONVERGED = 1e-3  # relative change of delta; it moves epsilon in the fourth digit


@dataclass(frozen=True)
class Stretch:
    """Parameters of a stretch.

    Parameters
    ----------
    count : int
        Number q of steps.
    contraction, shift, noise : float
        Parameters c', v' and s'.
    meetings, period : int, default: 1
        Number of uses of the record, and steps per use; period 1 for every step or none.
    rate : float, default: 1.0
        Probability that the record is in the batch; 1 for fixed batches. If it is below 1, the
        shift is that of one meeting, and ``meetings`` does not count.
    ratio : float, default: 0.0
        Parameter v/s of one step on sampled batches.
    """

    count: int
    contraction: float
    shift: float
    noise: float
    meetings: int = 1
    period: int = 1
    rate: float = 1.0
    ratio: float = 0.0

    @property
    def merged(self) -> bool:
        """Whether the stretch has more than one step."""
        return self.count > 1

    @property
    def step_noise(self) -> float:
        """Noise s of one step."""
        log_c = math.log(self.contraction) / self.count if self.contraction > 0 else -700.0
        return self.noise / math.sqrt(float(geometric(2 * log_c, self.count)))

    def landing(self, width: float) -> tuple[Landing, float]:
        """Divide the last step's noise; return the division, and the noise without its rest."""
        divided = landing(width, self.step_noise)
        rest = self.step_noise**2 - divided.first**2
        return divided, math.sqrt(self.noise**2 - rest)

    def parallel(self, start: float, end: float) -> float:
        """Return the parameter of moving from distance ``start`` to ``end``; 0 if it is free."""
        total = self.contraction * start + self.shift - end
        if total <= 0:
            return 0.0
        if self.period == 1 or self.meetings == 0:
            return total / self.noise
        # the end of the stretch and what is just before each use, as shares of all the noise
        log_c = math.log(self.contraction) / self.count
        cycle, noise = log_c * self.period, float(geometric(2 * log_c, self.count))
        one = self.shift / float(geometric(cycle, self.meetings))
        points = []
        for j in range(1, self.meetings + 1):
            done = j * self.period - 1
            kept = math.exp(2 * log_c * (self.count - done)) * float(geometric(2 * log_c, done))
            pushed = math.exp(cycle * (self.meetings - j + 1)) * float(geometric(cycle, j - 1))
            points.append((kept / noise, self.contraction * start + one * pushed))
        return math.sqrt(taut_string([*points, (1.0, total)])) / self.noise


def _repeated(run: Run, count: int, shift: float, meetings: int) -> Stretch:
    """Merge ``count`` steps, each with the same shift."""
    log_c = math.log1p(-run.gap) if run.gap < 1 else -700.0
    return Stretch(
        count,
        run.contraction**count,
        shift * float(geometric(log_c, count)),
        run.noise * math.sqrt(float(geometric(2 * log_c, count))),
        meetings=meetings,
    )


def steps_to_merge(run: Run, width: float, rounds: int) -> int:
    """Return the number of steps to merge: noise up to ``width``, at least ``rounds`` stretches."""
    count = max(min(int((width / run.noise) ** 2), run.steps // rounds), 1)
    if run.gap > 0:
        count = max(min(count, int(0.25 / run.gap)), 1)
    return count


def layouts(run: Run, merged: int, widest: float) -> tuple[tuple[Stretch, ...], ...]:
    """Return the sequences of stretches to choose from in a round, from the last step backward.

    All cover the same steps. A cycle of cyclic batches that is longer than ``merged`` steps is
    divided into the step with the record and the others; and it is one stretch unless its noise is
    above ``widest``, since moves over a whole cycle cost less and are rounded once. Few
    sampled batches are also taken one at a time, unless pushes are weak.
    """
    length = run.period
    if run.rate < 1:
        several = replace(
            _repeated(run, merged, run.shift, 1),
            shift=run.shift,
            rate=run.rate,
            ratio=run.ratio,
        )
        single = Stretch(1, run.contraction, run.shift, run.noise, rate=run.rate, ratio=run.ratio)
        # for weak pushes single steps gain little and take most of the time
        strength = run.rate * run.shift * run.diameter / run.noise**2
        if merged == 1 or (merged < _FEWEST_MERGED and _WEAK < strength <= _STRONG):
            return ((single,),)
        alone = merged <= _MOST_ALONE and strength > _WEAK
        return ((several,), (single,) * merged) if alone else ((several,),)
    if length == 1:
        return ((_repeated(run, merged, run.shift, 1),),)
    whole = _cycles(run, max(merged // length, 1))
    if merged >= length:
        return ((whole,),)
    idle = length - 1
    parts = -(-idle // merged)
    counts = [(idle + k) // parts for k in range(parts)]
    divided = (
        _repeated(run, 1, run.shift, 1),
        *(_repeated(run, count, 0.0, 0) for count in counts),
    )
    small = whole.noise <= widest and run.gap * length < 1
    return (divided, (whole,)) if small else (divided,)


def _cycles(run: Run, cycles: int) -> Stretch:
    """Merge whole cycles, each of which ends with the record."""
    once = _repeated(run, cycles * run.period, 0.0, cycles)
    log_c = math.log1p(-run.gap) if run.gap < 1 else -700.0
    shift = run.shift * float(geometric(log_c * run.period, cycles))
    return replace(once, shift=shift, period=run.period)


@dataclass(frozen=True, eq=False)
class Grid:
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
class Loss:
    """Privacy loss of a step, on every ``stride``-th weight of the grid.

    `pessimistic_grid` connects its profile by chords, as the table does.
    """

    right: Array
    left: Array
    rest: float
    stride: int


def _power_of_two(most: float) -> int:
    """Return the largest power of two that is at most ``most``, and at least 1.

    Multiples of it are on the grid and on every grid that halves its spacing.
    """
    return 1 << max(math.floor(math.log2(most)), 0) if most > 0 else 1


@lru_cache(maxsize=1024)
def _loss(mu: float, rate: float, spacing: float, count: int) -> Loss | None:
    """Return the loss of C_p(G(mu)); None if it is too wide for the grid."""
    stride = _power_of_two(_FINE * mu / spacing) if rate == 1 else 1
    points = math.ceil((mu * mu / 2 + _REACH * mu) / (stride * spacing)) + 1
    if points * stride >= (PADDING - 1) * count:
        return None
    return rounded_loss(
        pessimistic_grid(SubsampledGaussian(rate, mu), stride * spacing, points), stride
    )


def gaussian_loss(mu: float, grid: Grid) -> Loss | None:
    """Return the loss of G(mu), the same for all mu that agree up to rounding."""
    return _loss(float(f"{mu * (1 + 6e-13):.13g}"), 1.0, grid.spacing, grid.count)


def rounded_loss(grid: HalfGrid, stride: int) -> Loss:
    """Return a loss on the grid; truncating negative losses increases the bound."""
    beyond = np.cumsum(grid.left[::-1])[::-1]
    kept = max(int(np.searchsorted(-beyond, -_NEGLIGIBLE)), 2)
    left = grid.left[:kept].copy()
    left[-1] = beyond[kept - 1]
    return Loss(grid.right, left, grid.infinite_mass, stride)


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

    Parameters
    ----------
    moves : sequence of tuple
        Rows to move to in parallel, each with the loss of the move.
    reflections : sequence of Reflection
        Reflections of one step.
    longest : int, default: 0
        Weights that may share the choice of a local weight; 0 if each has its own.
    """

    def __init__(
        self,
        moves: Sequence[tuple[int, Loss]],
        reflections: Sequence[Reflection] = (),
        longest: int = 0,
    ) -> None:
        self.moves, self.reflections = tuple(moves), tuple(reflections)
        self.longest = longest
        self.used: list[tuple[int, int, int]] = []

    def lower(self, table: Array, result: Array, every: bool) -> None:
        """Lower ``result`` to the cost of the options.

        Parameters
        ----------
        table : ndarray
            The table of `audit.bounds.own.kernels` after the options.
        result : ndarray
            Bounds at the weights of the grid.
        every : bool
            Whether to compute all options at all weights, and to note where each is the best.
            Otherwise each is computed near those weights only.
        """
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
    grid: Grid, gap: float, near: int, divided: Landing, powers: Integers
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

    Parameters
    ----------
    near : int
        Row of the local distance.
    met : ndarray
        Probability of coming to the local distance, shape (rows,).
    apart : ndarray
        Probabilities of the others' rows, shape (rows, all rows).
    """

    near: int
    met: Array
    apart: Array

    @classmethod
    def of(
        cls,
        grid: Grid,
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
        edges = grid.rows[: count + 1] / 2
        met = 2 * ndtr(-gaps / 2 / std) @ chances
        apart = np.zeros((count + 1, grid.last + 1))
        beyond = ndtr((gaps / 2 - edges[-1]) / std) - ndtr(-(gaps / 2 + edges[-1]) / std)
        apart[:, -1] = beyond @ chances
        if count:
            right, right_low, _ = bin_masses(edges, gaps / 2, std)
            left, _, left_low = bin_masses(edges, -gaps / 2, std)
            mass = np.maximum(right - left, 0.0)
            low = np.clip(right_low - left_low, 0.0, mass) * reached
            apart[:, near : near + count] += np.einsum("ijk,j->ik", low, chances)
            apart[:, near + 1 : near + count + 1] += np.einsum("ijk,j->ik", mass - low, chances)
        return cls(near, met, apart)

    def lower(self, values: Array, after: Array, result: Array) -> None:
        """Lower ``result`` to the cost of this reflection.

        ``after`` is the cost of composition over the stretch at the local distance. What meets is
        charged ``after``; what stays apart is charged no less, so that the charge rises with the
        distance.
        """
        rows = slice(self.near, self.near + self.met.size)
        cost = self.met[:, None] * after + self.apart @ np.maximum(values, after)
        np.minimum(result[rows], cost, out=result[rows])


def near_rows(grid: Grid, stretch: Stretch) -> list[int]:
    """Return the rows of the local distances that reflections try."""
    unit = _power_of_two(grid.distances / _NEAR_UNITS)
    size = unit * grid.top / grid.distances
    near = {0, *(unit * max(round(z * stretch.noise / size), 1) for z in _NEAR)}
    return sorted(row for row in near if row <= grid.distances)


def merged_reflections(grid: Grid, stretch: Stretch, nears: list[int]) -> list[MergedReflection]:
    """Return the reflections over merged steps that use the record in all of them or in none."""
    divided, noise = stretch.landing(grid.width)
    push, always = np.array([stretch.shift]), np.ones(1)
    return [
        MergedReflection.of(grid, near, push, always, stretch.contraction, noise, divided.reached)
        for near in nears
    ]


def _options(grid: Grid, stretch: Stretch, start: float, shift: float, powers: Integers) -> Options:
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


def round_up(values: Array) -> Array:
    """Raise a table by what rounding can do; it stays at most 1."""
    return np.asarray(np.minimum(values * (1 + _INFLATION) + _ABSOLUTE, 1.0))


class Step:
    """One stretch of the recursion on a grid."""

    def __init__(self, grid: Grid, stretch: Stretch) -> None:
        self.grid, self.stretch = grid, stretch
        sampled = stretch.rate < 1
        unit = _power_of_two(grid.count / _LOCAL_UNITS)
        powers = unit * np.rint(np.array(_LOCAL) / (unit * grid.spacing)).astype(np.int64)
        if not sampled or stretch.noise >= _WIDE * grid.top:
            # weak pushes have a small range of weights
            powers = np.append(powers, np.maximum(grid.count >> np.arange(1, _HALVINGS + 1), 1))
        powers = np.unique(powers[powers <= grid.count])

        def options(shift: float) -> list[Options]:
            return [_options(grid, stretch, float(r), shift, powers) for r in grid.rows]

        def free(shift: float) -> Array:
            distances = stretch.contraction * grid.rows + shift
            divided, _ = stretch.landing(grid.width)
            return landed(distances, grid.rows, grid.last, divided.reached)

        self.options, self.free = options(stretch.shift), free(stretch.shift)
        self.others = options(0.0) if sampled else None
        self.others_free = free(0.0)
        self.rounds = Rounds()
        self.composed: Loss | None = None
        mu = stretch.parallel(0.0, 0.0)
        if mu > 0:
            self.composed = _loss(mu, stretch.rate, grid.spacing, grid.count)
        self.nears = near_rows(grid, stretch) if stretch.merged else [0]
        self.masses: Array | None = None
        self.reflections: list[MergedReflection] = []
        if stretch.merged:
            self.masses = reflected_steps(grid, stretch)
            self.reflections = merged_reflections(grid, stretch, self.nears)
        self.growth = np.exp(grid.log_weights)
        self.weights = np.exp(grid.spacing * np.arange(-grid.count, grid.count + 1))

    def last(self) -> Array:
        """Return the bound if this stretch is the last one: two normal laws."""
        grid, stretch = self.grid, self.stretch
        values = np.ones((grid.last + 1, grid.count + 1))
        for i, r in enumerate(grid.rows):
            mu = stretch.parallel(float(r), 0.0)
            values[i] = gaussian_delta(grid.log_weights, np.array(mu))
            if stretch.rate < 1 and r > 0:
                without = gaussian_delta(
                    grid.log_weights, np.array(stretch.contraction * float(r) / stretch.noise)
                )
                values[i] = round_up(self._split(without, values[i]))
        if stretch.rate < 1:
            values[0] = SubsampledGaussian(stretch.rate, stretch.ratio).delta(grid.log_weights)
        return values

    def before(self, values: Array) -> Array:
        """Return the bound with this stretch before what ``values`` bounds."""
        grid = self.grid
        values = rising(values)
        table = np.empty((grid.last + 1, 2 * PADDING * grid.count + 1))
        mirror(values, self.growth, table)
        result = np.ones_like(values)
        sampled = self.stretch.rate < 1
        every = not sampled or self.rounds.every()  # fixed batches have few options
        rows = grid.distances + 1
        np.dot(self.free, values, out=result[:rows])
        for i, options in enumerate(self.options):
            options.lower(table, result[i], every)
        if self.others is not None:
            without = self.others_free @ values
            for i, options in enumerate(self.others):
                options.lower(table, without[i], every)
                result[i] = self._split(without[i], result[i])
        if self.others is not None and self.composed is not None:
            kept = np.searchsorted(grid.rows, self.stretch.contraction * grid.rows)
            for i, row in enumerate(np.minimum(kept, grid.last)):
                np.minimum(result[i], self._composed(table[row]), out=result[i])
        elif self.composed is not None:
            np.minimum(result[0], self._composed(table[0]), out=result[0])
        for reflection in self.reflections:
            reflection.lower(values, self._composed(table[reflection.near]), result)
        if self.masses is not None:
            lower(values, result, self.masses, self.nears, open_end=grid.open_end)
        return round_up(np.minimum.accumulate(result, axis=1))

    def _weights_of(self, row: Array) -> Array:
        """Return the part of a table's row for the weights of the grid."""
        middle = PADDING * self.grid.count
        return np.asarray(row[middle : middle + self.grid.count + 1])

    def _composed(self, source: Array) -> Array:
        """Return the cost of keeping a distance with H equal to ``source`` through the stretch."""
        if self.composed is None:
            if self.stretch.shift > 0:
                return np.ones(self.grid.count + 1)
            return self._weights_of(source).copy()
        result = np.empty(self.grid.count + 1)
        loss = self.composed
        weigh(source, loss.right, loss.left, loss.rest, loss.stride, 0, result)
        return result

    def _split(self, without: Array, with_record: Array) -> Array:
        """Split the budget between batches without and with the record."""
        both = np.empty((2, self.weights.size))
        mirror(without[None], self.growth, both[:1])
        mirror(with_record[None], self.growth, both[1:])
        result = np.empty(self.weights.size)
        split(both[0], both[1], self.stretch.rate, self.weights, result)
        return result[self.grid.count :]


class Layer(Protocol):
    """A stretch on a grid."""

    stretch: Stretch

    def last(self) -> Array:
        """Return the bound if this stretch is the last one."""

    def before(self, values: Array) -> Array:
        """Return the bound with this stretch before what ``values`` bounds."""


def coupling_profiles(
    run: Run,
    lengths: Sequence[int],
    grid: Grid,
    choices: Sequence[Sequence[Layer]],
    most_rounds: int,
    known: Callable[[int], Array],
) -> tuple[Array, ...]:
    """Return upper bounds on delta at the grid's weights, for runs of each of the ``lengths``.

    Rounds of stretches are laid from the last step backward, so that one recursion serves all
    lengths T; the bound of a round is the smallest of its ``choices``. With k steps covered, the
    two iterates before them are at most as far apart as `Run.tracked` says of T - k steps, so that
    every k up to T gives a bound; a run of fewer steps than the stretches cover is bounded by
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
        begun, done = values, covered
        for number, step in enumerate(first, 1):
            values = _after(values, covered, [step], known)
            covered += step.stretch.count
            if number == len(first):  # equal stretches of a round are one object
                values = np.minimum.reduce(
                    [values, *(_after(begun, done, o, known) for o in others)]
                )
                rounds += 1
            for length in sorted(left):
                row = grid.row_above(float(run.tracked(max(length - covered, 0))))
                best[length] = np.minimum(best[length], values[row])
                apart = float(np.max(values[row] - values[0] * (1 + _CONVERGED)))
                if covered >= length or rounds > most_rounds or apart <= 1e-13:
                    left.remove(length)
            if not left:
                return tuple(best[length] for length in lengths)


def _after(
    values: Array | None, covered: int, steps: Sequence[Layer], known: Callable[[int], Array]
) -> Array:
    """Return the bound with more stretches before what ``values`` bounds, None for no step."""
    for step in steps:
        covered += step.stretch.count
        values = step.last() if values is None else step.before(values)
        values = np.minimum(values, known(covered))
    assert values is not None  # there is a stretch
    return values
