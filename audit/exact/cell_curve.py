"""Privacy curves of pairs whose likelihood ratio is enclosed on cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Enclosure, Order
from audit.curves.bracketed import (
    EPSILONS,
    BracketedCurve,
    MuBracket,
    bracket_width,
    gaussian_mu,
    width_beside,
)
from audit.curves.brackets import TINY, Bracket, checked_all
from audit.curves.cells import Cells

Array = NDArray[np.float64]

# Rounds of refinement, and the relative width at which it ends.
_ROUNDS, _WIDTH = 24, 4e-14
# Where a cell is cut besides the place of the loss: shares of the cell around it.
_AROUND = np.array([0.0, 1e-6, -1e-6, 1e-4, -1e-4, 1e-2, -1e-2, 0.1, -0.1])
_EVEN = np.arange(9) / 9
_UNIT = 2.0**-53
_MOMENT_CELLS = 200_000  # that a Renyi moment is summed over
Places = tuple[Array, Array, Array]  # the least and the largest loss that decides, and a guess


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
    which is a post-processing of split cells (`audit.curves.cells`). Cells whose losses straddle
    what decides a value are cut until the bracket is narrow. The pair's own errors and all rounding
    are counted in the masses of the cells.
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

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        return _only(self.epsilon_brackets(np.array([delta]), order))

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        return _only(self._delta_brackets(np.array([epsilon]), order))

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        return _only(self.renyi_brackets(np.array([alpha]), order))

    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the power 1 - beta of the best test at ``alpha``."""
        validate.open_unit(alpha=alpha)
        return _only(self.power_brackets(np.array([alpha]), order))

    def beta_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the type II error at type I error ``alpha``.

        Parameters
        ----------
        alpha : float
            Type I error, in (0, 1).
        order : Order
            Order of the pair.

        Returns
        -------
        tuple of (float, float)
            Lower and upper bound.

        Raises
        ------
        ValueError
            If ``alpha`` is outside (0, 1).
        """
        validate.open_unit(alpha=alpha)
        return _only(self._beta_brackets(np.array([alpha]), order))

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu of the pair in one order, open above."""
        low, epsilon = gaussian_mu(self._delta_brackets(EPSILONS, order)[0], EPSILONS)
        return MuBracket(low, np.inf, epsilon)

    def epsilon_brackets(self, deltas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of epsilon at many deltas."""

        def ends(enclosure: Enclosure, grid: Grid) -> tuple[Array, Array]:
            low, high = enclosure.epsilon(deltas)
            if (deltas == 0).any():  # one loss that is taken or approached suffices
                losses, others = grid.approached()
                most = (losses if order is Order.FORWARD else -others).max(initial=0.0)
                low = np.where(deltas == 0, np.maximum(low, most), low)
            return low, high

        def places(_: Enclosure, low: Array, high: Array) -> Places:
            # at either end, and where the truth may be
            above = np.where(np.isfinite(high), high, low)
            places = np.concatenate([low, above, 0.5 * (low + above)])
            return places, places, places

        return self._refined("epsilon at delta", deltas, order, ends, places)

    def _delta_brackets(self, epsilons: Array, order: Order) -> tuple[Array, Array]:
        def places(*_: object) -> Places:
            return epsilons, epsilons, epsilons

        def ends(enclosure: Enclosure, _: Grid) -> tuple[Array, Array]:
            return enclosure.delta(epsilons)

        return self._refined("delta at epsilon", epsilons, order, ends, places, most=1.0)

    def power_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the power of the best tests at many type I errors."""

        def ends(enclosure: Enclosure, _: Grid) -> tuple[Array, Array]:
            return enclosure.power(alphas)

        places = _thresholds(alphas)
        return self._refined("power at alpha", alphas, order.other, ends, places, most=1.0)

    def _beta_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of type II errors, relatively accurate where they are small."""

        def ends(enclosure: Enclosure, _: Grid) -> tuple[Array, Array]:
            return enclosure.beta(alphas)

        what, places = "type II error at alpha", _thresholds(alphas)
        return self._refined(what, alphas, order.other, ends, places, most=1.0, complement=True)

    def renyi_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the Renyi divergences of many orders."""
        if self._estimated:
            return np.zeros(alphas.shape), np.full(alphas.shape, np.inf)
        found = []
        for alpha in alphas.tolist():
            low, high = self._log_moment(alpha, order)
            # exp and log, and differences from the largest term: on average the entropy of the
            # terms, at most the log of their number, below 16; of the division
            slack = _UNIT * (36 + 4 * abs(low)) if np.isfinite(low) else 0.0
            found.append(((low - slack) / (alpha - 1), (high + slack) / (alpha - 1)))
        lows, highs = np.maximum(np.array(found).reshape(-1, 2).T, 0.0)
        return checked_all("Renyi divergence of order", alphas, (lows, highs), order)

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the log of the integral of P^alpha Q^(1 - alpha)."""
        points = moment_cuts(self._base.points, self._cells(self._base, order), alpha)
        return self._cells(self._base.refined(points), order).enclosure().log_moment(alpha)

    def epsilon_may_exceed(self, epsilons: Array, deltas: Array, order: Order) -> NDArray[np.bool_]:
        """Return whether epsilon at each delta may exceed a number, without solving for a root."""
        return self._delta_brackets(epsilons, order)[1] > deltas

    def power_may_exceed(self, powers: Array, alphas: Array, order: Order) -> NDArray[np.bool_]:
        """Return whether the power at each type I error may exceed a number."""
        return self.power_brackets(alphas, order)[1] > powers

    def _refined(
        self,
        quantity: str,
        at: Array,
        order: Order,
        ends: Callable[[Enclosure, Grid], tuple[Array, Array]],
        places: Callable[[Enclosure, Array, Array], Places],
        *,
        most: float = np.inf,
        complement: bool = False,
    ) -> tuple[Array, Array]:
        """Cut the cells that decide each value until its bracket is narrow.

        ``ends`` returns the brackets of an enclosure, ``places`` the range of losses that decides
        each, and a guess.
        """
        lows, highs = self._narrowed(order, ends, places, complement)
        if self._estimated:
            lows, highs = np.zeros_like(lows), np.full_like(highs, most)
        shown = order.other if quantity.startswith(("power", "type II")) else order
        return checked_all(quantity, at, (lows, highs), shown, most=most)

    def _narrowed(
        self,
        order: Order,
        ends: Callable[[Enclosure, Grid], tuple[Array, Array]],
        places: Callable[[Enclosure, Array, Array], Places],
        complement: bool,
    ) -> tuple[Array, Array]:
        grid, width = self._base, None
        most = grid.points.size + self._most_cuts
        for _ in range(_ROUNDS):
            cells = self._cells(grid, order)
            enclosure = cells.enclosure(complement=complement)
            lows, highs = ends(enclosure, grid)
            with np.errstate(invalid="ignore"):
                before, width = width, np.nan_to_num(highs - lows, nan=0.0)
            open_ = width > _WIDTH * np.maximum(np.abs(lows), TINY)
            if before is not None:  # rounding remains
                open_ &= ~(width > 0.7 * before)
            if not open_.any():
                break
            found = places(enclosure, lows, highs)
            decisive = (part[np.tile(open_, part.size // open_.size)] for part in found)
            finer = grid.refined(_cuts(grid, cells, order, *decisive))
            if finer is grid or finer.points.size > most + 64 * lows.size:
                break
            grid = finer
        return lows, highs

    def _cells(self, grid: Grid, order: Order) -> Cells:
        """Return the cells of a grid in one order of the pair."""
        return grid.cells() if order is Order.FORWARD else grid.cells().reversed

    def _pure_epsilon(self, order: Order) -> float:
        return self._believed.epsilon_bracket(0.0, order)[1]

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return _middle(self._believed.epsilon_brackets(delta, order))

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return _middle(self._believed._delta_brackets(epsilon, order))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.where(alpha < 1, _middle(self._believed._beta_brackets(alpha, order)), 0.0)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return _middle(self._believed.renyi_brackets(alpha, order))


@dataclass(frozen=True, eq=False)
class CellCurve(CellBracketedCurve):
    """Curve of an explicit pair given by its cells.

    The Gaussian parameter mu has no upper end.

    Parameters
    ----------
    grid : Grid
        Cells of the pair; they are cut where it matters.
    rounded : bool, default: True
        Whether rounding counts; else masses and losses are taken as exact.
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


def _thresholds(alphas: Array) -> Callable[[Enclosure, Array, Array], Places]:
    """Return the losses at which the best tests at ``alphas`` are randomised, and guesses."""

    def places(enclosure: Enclosure, low: Array, high: Array) -> Places:
        loss, guess = enclosure.lower.threshold(alphas)
        return loss, loss, guess

    return places


def _cuts(
    grid: Grid, cells: Cells, order: Order, least: Array, greatest: Array, guess: Array
) -> Array:
    """Points at which cells are cut whose losses meet a range [least, greatest].

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
    ends = np.searchsorted(low[rank], greatest, side="right")
    found_cells, found_losses = [np.zeros(0, np.intp)], [np.zeros(0)]
    for at, end, goal in zip(least, ends, guess, strict=True):
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


def _only(brackets: tuple[Array, Array]) -> Bracket:
    """Return the one bracket as numbers."""
    low, high = brackets
    return float(low[0]), float(high[0])


def _middle(brackets: tuple[Array, Array]) -> Array:
    """Return values inside of brackets; 0 where that is not excluded."""
    lows, highs = brackets
    inside = np.where(lows > 0, 0.5 * (lows + highs), 0.0)
    return np.where(np.isfinite(highs), inside, highs)
