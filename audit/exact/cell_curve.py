"""Privacy curves of pairs whose likelihood ratio is enclosed on cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from audit.curves import Enclosure, Order
from audit.curves.bracketed import BracketedCurve, Brackets, Measure, bracket_width, width_beside
from audit.curves.brackets import TINY, Bracket
from audit.curves.finite_pair import Cells

Array = NDArray[np.float64]

# Rounds of refinement, and the relative width at which it ends.
_ROUNDS, _WIDTH = 24, 4e-14
# Where a cell is cut besides the place of the loss: shares of the cell around it.
_AROUND = np.array([0.0, 1e-6, -1e-6, 1e-4, -1e-4, 1e-2, -1e-2, 0.1, -0.1])
_EVEN = np.arange(9) / 9
_UNIT = 2.0**-53
_MOMENT_CELLS = 200_000  # that a Renyi moment is summed over


class Grid(ABC):
    """A partition of the outcomes of a pair, in the order FORWARD.

    Its first cells lie between rising ``points`` on a line, where they can be cut. By default there
    are none, and each cell has one loss.
    """

    points: Array

    @abstractmethod
    def cells(self) -> Cells:
        """Return the enclosed cells."""

    def refined(self, points: Array) -> Self:
        """Return the cells cut at more points."""
        return self

    def end_losses(self) -> tuple[Array, Array, Array, Array]:
        """Losses at the left and right ends of cells between points, and derivatives there."""
        return (np.zeros(0),) * 4

    def approached(self) -> tuple[Array, Array]:
        """Lower and upper bounds on losses that the pair takes or comes near to."""
        cells = self.cells()
        in_p, in_q = cells.log_p > -np.inf, cells.log_q > -np.inf
        return np.where(in_p, cells.low, -np.inf), np.where(in_q, cells.high, np.inf)


class CellBracketedCurve(BracketedCurve):
    """Curve of a pair, with brackets from merged and from split cells.

    A bracket contains the truth by data processing: merged cells are a post-processing of the pair,
    which is a post-processing of split cells (`audit.curves.Enclosure`). Cells whose losses
    straddle what decides a value are cut until the bracket is narrow. The pair's own errors and
    all rounding are counted in the masses of the cells.
    """

    many_at_once = True

    @property
    @abstractmethod
    def _base(self) -> Grid:
        """The cells that refinement starts from."""

    @property
    def _most_cuts(self) -> int:
        """Number of cuts, besides 64 for each value asked for."""
        return 8_000

    @property
    def _estimated(self) -> bool:
        """Whether nothing is proven, so that brackets are open."""
        return False

    @property
    def _believed(self) -> CellBracketedCurve:
        """The curve whose values are given."""
        return self

    @property
    @abstractmethod
    def _without(self) -> Mapping[str, CellBracketedCurve]:
        """The curves without the error of each cause, and without all of them for ``cells``."""

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        whole = bracket_width(self.epsilon_bracket(delta, order))
        found = {}
        for cause, curve in self._without.items():
            left = bracket_width(curve.epsilon_bracket(delta, order))
            found[cause] = left if cause == "cells" else width_beside(whole, left)
        return found

    def _brackets(self, asked: Measure, at: Array, order: Order) -> Brackets:
        if self._estimated:
            return np.zeros(at.shape), np.full(at.shape, asked.most)
        if asked is Measure.RENYI:
            return self._renyi_brackets(at, order)
        test = asked in (
            Measure.POWER,
            Measure.BETA,
        )  # the law of the null hypothesis is the second
        return self._narrowed(asked, at, order.other if test else order)

    def _narrowed(self, asked: Measure, at: Array, order: Order) -> Brackets:
        """Cut the cells that decide each value until its bracket is narrow."""
        grid, width = self._base, None
        most = grid.points.size + self._most_cuts + 64 * at.size
        for _ in range(_ROUNDS):
            cells = self._cells(grid, order)
            enclosure = cells.enclosure(complement=asked is Measure.BETA)
            lows, highs = getattr(enclosure, asked.name.lower())(at)
            if asked is Measure.EPSILON and (at == 0).any():  # one loss that is approached suffices
                losses, others = grid.approached()
                largest = (losses if order is Order.FORWARD else -others).max(initial=0.0)
                lows = np.where(at == 0, np.maximum(lows, largest), lows)
            with np.errstate(invalid="ignore"):
                before, width = width, np.nan_to_num(highs - lows, nan=0.0)
            open_ = width > _WIDTH * np.maximum(np.abs(lows), TINY)
            if before is not None:  # rounding remains
                open_ &= ~(width > 0.7 * before)
            if not open_.any():
                break
            losses, guesses = _deciding(asked, enclosure, at[open_], lows[open_], highs[open_])
            finer = grid.refined(_cuts(grid, cells, order, losses, guesses))
            if finer is grid or finer.points.size > most:
                break
            grid = finer
        return lows, highs

    def _renyi_brackets(self, alphas: Array, order: Order) -> Brackets:
        found = []
        for alpha in alphas.tolist():
            low, high = self._log_moment(alpha, order)
            # exp and log, and differences from the largest term: on average the entropy of the
            # terms, at most the log of their number, below 16; of the division
            slack = _UNIT * (36 + 4 * abs(low)) if np.isfinite(low) else 0.0
            found.append(((low - slack) / (alpha - 1), (high + slack) / (alpha - 1)))
        lows, highs = np.maximum(np.array(found).reshape(-1, 2).T, 0.0)
        return lows, highs

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the log of the integral of P^alpha Q^(1 - alpha)."""
        points = moment_cuts(self._base.points, self._cells(self._base, order), alpha)
        return self._cells(self._base.refined(points), order).enclosure().log_moment(alpha)

    def _cells(self, grid: Grid, order: Order) -> Cells:
        """Return the cells of a grid in one order of the pair."""
        return grid.cells() if order is Order.FORWARD else grid.cells().reversed

    def _value(self, asked: Measure, at: Array, order: Order) -> Array:
        """Return values inside of brackets; 0 where that is not excluded."""
        lows, highs = self._believed._checked(asked, at, order)
        inside = np.where(lows > 0, 0.5 * (lows + highs), 0.0)
        return np.where(np.isfinite(highs), inside, highs)

    def _pure_epsilon(self, order: Order) -> float:
        return self._believed.epsilon_bracket(0.0, order)[1]

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return self._value(Measure.EPSILON, delta, order)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return self._value(Measure.DELTA, epsilon, order)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.where(alpha < 1, self._value(Measure.BETA, alpha, order), 0.0)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self._value(Measure.RENYI, alpha, order)


@dataclass(frozen=True, eq=False)
class CellCurve(CellBracketedCurve):
    """Curve of an explicit pair given by its cells, which are cut where it matters.

    Mu has no upper end. Unless ``rounded``, masses and losses are taken as exact.
    """

    grid: Grid
    rounded: bool = True

    @property
    def _base(self) -> Grid:
        return self.grid

    @property
    def _without(self) -> dict[str, CellCurve]:
        exact = replace(self, rounded=False)
        return {"rounding": exact, "cells": exact}

    def _cells(self, grid: Grid, order: Order) -> Cells:
        cells = super()._cells(grid, order)
        return cells if self.rounded else cells.without_errors


def _deciding(
    asked: Measure, enclosure: Enclosure, at: Array, lows: Array, highs: Array
) -> tuple[Array, Array]:
    """Return the losses that decide values, and guesses of where they are met."""
    if asked is Measure.DELTA:
        return at, at
    if asked is Measure.EPSILON:  # at either end, and where the truth may be
        above = np.where(np.isfinite(highs), highs, lows)
        losses = np.concatenate([lows, above, 0.5 * (lows + above)])
        return losses, losses
    return enclosure.lower.threshold(at)  # where the best tests are randomised


def _cuts(grid: Grid, cells: Cells, order: Order, losses: Array, guesses: Array) -> Array:
    """Points at which cells are cut in whose ranges a loss is.

    A cell is cut where the cubic through its ends with their derivatives takes the guess, and close
    around it.
    """
    count = grid.points.size - 1
    if count < 1:
        return np.zeros(0)
    low, high = cells.low[:count], cells.high[:count]
    # cutting does not help where the range is that of rounding
    wide = high - low > 4 * (cells.error_p + cells.error_q)[:count]
    rank = np.argsort(low, kind="stable")
    ends = np.searchsorted(low[rank], losses, side="right")
    found_cells, found_losses = [np.zeros(0, np.intp)], [np.zeros(0)]
    for at, end, goal in zip(losses, ends, guesses, strict=True):
        chosen = rank[:end]
        chosen = chosen[(high[chosen] >= at) & wide[chosen]]
        found_cells.append(chosen)
        found_losses.append(np.full(chosen.size, goal))
    own = np.concatenate(found_cells)
    loss = (1.0 if order is Order.FORWARD else -1.0) * np.concatenate(found_losses)
    left, width = grid.points[own], np.diff(grid.points)[own]
    f0, f1, d0, d1 = (part[own] for part in grid.end_losses())
    f0, f1, d0, d1 = f0 - loss, f1 - loss, d0 * width, d1 * width
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.nan_to_num(np.clip(f0 / (f0 - f1), 0.0, 1.0), nan=0.5)
        c2, c3 = 3 * (f1 - f0) - 2 * d0 - d1, 2 * (f0 - f1) + d0 + d1
        for _ in range(8):  # Newton's method
            value = f0 + at * (d0 + at * (c2 + at * c3))
            rate = d0 + at * (2 * c2 + at * 3 * c3)
            at = np.clip(at - np.nan_to_num(value / rate, posinf=0, neginf=0), 0.0, 1.0)
    # cells that are met only because their ranges are wide, or turn, are divided evenly
    steep = 2 * np.abs(f1 - f0) > (high - low)[own]
    met = ((at > 0) & (at < 1) & (d0 * d1 > 0) & steep)[:, None]
    places = np.where(met, at[:, None] + _AROUND, _EVEN)
    points = left[:, None] + width[:, None] * places
    inside = (points > left[:, None]) & (points < (left + width)[:, None])
    return np.unique(points[inside])


def moment_cuts(points: Array, cells: Cells, alpha: float) -> Array:
    """Points that cut each cell into as many parts as its share of a moment's width asks for.

    The width of k parts of a cell falls like 1/k^2, so that of all falls most where k grows like
    the cube root of each.
    """
    count = points.size - 1
    if count < 1:
        return np.zeros(0)
    low, high = cells.low[:count], cells.high[:count]
    logs = cells.log_p[:count] + 0.5 * (alpha - 1) * (low + high)
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = (logs + 2 * np.log(high - low)) / 3
    sizes = np.where(np.isfinite(sizes), sizes, -np.inf)
    if not (sizes > -np.inf).any():
        return np.zeros(0)
    shares = np.exp(sizes - sizes.max())
    parts = np.ceil(_MOMENT_CELLS * shares / shares.sum()).astype(np.intp)
    parts = np.maximum(parts, 1)
    own = np.repeat(np.arange(count), parts)
    step = np.arange(own.size) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.asarray(points[own] + np.diff(points)[own] * (step / parts[own]))
