"""The coupling recursion on a grid of distances and weights, every error rounded upward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.bounds.own.kernels import PADDING, mirror, split, weigh
from audit.bounds.own.landing import landed, rising
from audit.bounds.own.options import (
    DistanceGrid,
    MergedReflection,
    Options,
    Rounds,
    StepLoss,
    merged_reflections,
    near_rows,
    options_of,
    power_of_two,
    step_loss,
)
from audit.bounds.own.reflected_steps import lower, reflected_steps
from audit.bounds.own.run import WorstRun
from audit.bounds.own.stretches import Stretch
from audit.numerics.arrays import Array
from audit.numerics.normal import gaussian_delta_above

_LOCAL = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)  # logs of g/g_0 that are tried
_HALVINGS = 9  # of the range of weights, likewise
_WIDE = 0.1  # noise of sampled steps that try them, in units of the top; others are merged as well
_LOCAL_UNITS = 120  # the coarsest grid that local weights are taken from
_UNIT = 2.0**-53
_FACTORS = 1 << 12  # units of masses and of losses, besides those of sums over them
_ABSOLUTE = 8 * _UNIT  # of 1 - (1 - H)/g, once in a round
_CONVERGED = 1e-3  # relative change of delta; it moves epsilon in the fourth digit


def round_up(values: Array, terms: int) -> Array:
    """Raise a table by what the rounding of sums of ``terms`` can do; it stays at most 1."""
    raised = values * (1 + _UNIT * (2 * terms + _FACTORS))
    return np.asarray(np.minimum(raised + _ABSOLUTE, 1.0))


def most_terms(grid: DistanceGrid) -> int:
    """Return the largest number of terms of a sum: over losses, or over rows and weights."""
    return max(2 * PADDING * grid.count, 16 * (grid.last + 1)) + 64


class GridStretch:
    """One stretch of the recursion on a grid."""

    def __init__(self, grid: DistanceGrid, stretch: Stretch) -> None:
        self.grid, self.stretch = grid, stretch
        sampled = stretch.rate < 1
        unit = power_of_two(grid.count / _LOCAL_UNITS)
        powers = unit * np.rint(np.array(_LOCAL) / (unit * grid.spacing)).astype(np.int64)
        if not sampled or stretch.noise >= _WIDE * grid.top:
            # weak pushes have a small range of weights
            powers = np.append(powers, np.maximum(grid.count >> np.arange(1, _HALVINGS + 1), 1))
        powers = np.unique(powers[powers <= grid.count])

        def options(shift: float) -> list[Options]:
            return [options_of(grid, stretch, float(r), shift, powers) for r in grid.rows]

        def free(shift: float) -> Array:
            distances = stretch.contraction * grid.rows + shift
            divided, _ = stretch.landing(grid.width)
            return landed(distances, grid.rows, grid.last, divided.reached)

        self.options, self.free = options(stretch.shift), free(stretch.shift)
        self.others = options(0.0) if sampled else None
        self.others_free = free(0.0)
        self.rounds = Rounds()
        self.composed: StepLoss | None = None
        mu = stretch.parallel(0.0, 0.0)
        if mu > 0:
            self.composed = step_loss(mu, stretch.rate, grid.spacing, grid.count)
        self.nears = near_rows(grid, stretch) if stretch.merged else [0]
        self.masses: Array | None = None
        self.reflections: list[MergedReflection] = []
        if stretch.merged:
            self.masses = reflected_steps(grid, stretch)
            push = np.array([stretch.shift])
            self.reflections = merged_reflections(grid, stretch, self.nears, push, np.ones(1))
        self.growth = np.exp(grid.log_weights)
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
                    grid.log_weights, np.array(stretch.contraction * float(r) / stretch.noise)
                )
                values[i] = round_up(self._split(without, values[i]), 1)
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
        return round_up(np.minimum.accumulate(result, axis=1), most_terms(grid))

    def _composed(self, source: Array) -> Array:
        """Return the cost of keeping a distance with H equal to ``source`` through the stretch."""
        if self.composed is None:
            if self.stretch.shift > 0:
                return np.ones(self.grid.count + 1)
            middle = PADDING * self.grid.count
            return source[middle : middle + self.grid.count + 1].copy()
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


class StretchLayer(Protocol):
    """A stretch on a grid."""

    stretch: Stretch

    def last(self) -> Array:
        """Return the bound if this stretch is the last one."""

    def before(self, values: Array) -> Array:
        """Return the bound with this stretch before what ``values`` bounds."""


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
                row = grid.row_above(float(run.tracked(max(length - covered, 0))))
                best[length] = np.minimum(best[length], values[row])
                apart = float(np.max(values[row] - values[0] * (1 + _CONVERGED)))
                if covered >= length or rounds > most_rounds or apart <= 1e-13:
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
