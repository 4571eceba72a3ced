"""Privacy curves of two laws whose likelihood ratio is enclosed on cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.curves.brackets import TINY, Bracket, checked_all
from audit.curves.cells import Cells
from audit.exact.bracketed import EPSILONS, BracketedCurve, MuBracket, gaussian_mu
from audit.exact.law import Law
from audit.exact.normal_cells import NormalCells, law_range
from audit.exact.renyi_moments import log_moment_bracket

Array = NDArray[np.float64]

# Rounds of refinement, and the relative width at which it ends.
_ROUNDS, _WIDTH = 6, 4e-14
# Where a cell is cut besides the place of the loss: shares of the cell around it.
_AROUND = np.array([0.0, 1e-6, -1e-6, 1e-4, -1e-4, 1e-2, -1e-2, 0.1, -0.1])
_EVEN = np.arange(9) / 9
_MOST_CUTS = 8_000  # and 64 for each value asked for
_ULP = 2.0**-50
Places = tuple[Array, Array, Array]  # the least and the largest loss that decides, and a guess


@dataclass(frozen=True, eq=False)
class LawCurve(BracketedCurve):
    """Curve of two laws, with brackets from merged and from split cells.

    A bracket contains the truth by data processing: merged cells are a post-processing of the pair,
    which is a post-processing of split cells (`audit.curves.cells`). Cells whose losses straddle
    what decides a value are cut until the bracket is narrow. The laws' own errors and all rounding
    are counted in the masses of the cells.

    Attributes
    ----------
    first, second : Law
        Laws of X and X'.
    rate : float, default: inf
        Renyi divergences of order a are at most a times this: from composition, for what the laws
        lose in their tails.
    """

    many_at_once = True

    first: Law
    second: Law
    rate: float = math.inf

    @cached_property
    def _base(self) -> NormalCells:
        return NormalCells.of(self.first, self.second)

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the domain, or of the part of a line where the laws are not all but empty."""
        return law_range((self.first, self.second))

    @property
    def _estimated(self) -> bool:
        return self.first.estimated or self.second.estimated

    @cached_property
    def _believed(self) -> LawCurve:
        """The curve whose values are given: laws that are estimates are taken as proven."""
        if not self._estimated:
            return self
        first, second = (replace(law, estimated=False) for law in (self.first, self.second))
        return replace(self, first=first, second=second)

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return a bracket of epsilon at ``delta``."""
        validate.half_open_unit(delta=delta)
        return worse_bracket(lambda o: _only(self.epsilon_brackets(np.array([delta]), o)), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return a bracket of delta at ``epsilon``."""
        validate.finite(epsilon=epsilon)
        return worse_bracket(lambda o: _only(self._delta_brackets(np.array([epsilon]), o)), order)

    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return a bracket of the Renyi divergence of order ``alpha``."""
        validate.above_one(alpha=alpha)
        return worse_bracket(lambda o: _only(self.renyi_brackets(np.array([alpha]), o)), order)

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
        return MuBracket(low, math.inf, epsilon)

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of.

        Parameters
        ----------
        delta : float
            A number in [0, 1).
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        dict of str to float
            Widths in nats: ``quadrature``, ``rounding`` and ``truncation`` of the laws are what the
            bracket would lose without each; ``cells`` is its width without all of them.

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=9, dataset_size=2, batch_size=2, step_size=1.0, noise_std=0.5,
        ...                    lipschitz=0.1, diameter=4.0)
        >>> law = audit.exact.curve(audit.constructions.TwoSidedWalk(m))
        >>> sorted(law.errors(1e-5)), max(law.errors(1e-5).values()) < 1e-9
        (['cells', 'quadrature', 'rounding', 'truncation'], True)
        """
        causes: dict[str, dict[str, Any]] = {
            "quadrature": {"quadrature": 0.0},
            "rounding": {"rounding": 0.0, "depth_rounding": 0.0},
            "truncation": {"log_lost": -math.inf},
        }
        whole = self._width(delta, order, {})
        without = {name: self._width(delta, order, change) for name, change in causes.items()}
        everything = {key: value for change in causes.values() for key, value in change.items()}
        found = {name: max(whole - width, 0.0) for name, width in without.items()}
        return found | {"cells": self._width(delta, order, everything)}

    def _width(self, delta: float, order: Order | None, change: dict[str, Any]) -> float:
        first, second = (replace(law, **change) for law in (self.first, self.second))
        low, high = LawCurve(first, second, self.rate).epsilon_bracket(delta, order)
        return 0.0 if low == high else high - low

    def epsilon_brackets(self, deltas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of epsilon at many deltas."""

        def ends(cells: Cells) -> tuple[Array, Array]:
            merged, split = cells.merged(), cells.split()
            most = deltas * (1 + merged.rounding)
            low = merged.epsilon(most)
            if cells.log_lost_q > -np.inf:
                with np.errstate(over="ignore"):
                    low = merged.epsilon(most + np.exp(low + cells.log_lost_q))
            high = split.epsilon(deltas * (1 - split.rounding))
            return low * (1 - _ULP), high * (1 + _ULP)

        def places(cells: Cells, low: Array, high: Array) -> Places:
            # at either end, and where the truth may be
            above = np.where(np.isfinite(high), high, low)
            places = np.concatenate([low, above, 0.5 * (low + above)])
            return places, places, places

        return self._refined("epsilon at delta", deltas, order, ends, places)

    def _delta_brackets(self, epsilons: Array, order: Order) -> tuple[Array, Array]:
        def ends(cells: Cells) -> tuple[Array, Array]:
            merged, split = cells.merged(), cells.split()
            with np.errstate(over="ignore"):
                lost = np.exp(epsilons + cells.log_lost_q)
            beside = np.abs(epsilons) * _ULP
            low = merged.delta(epsilons + beside) / (1 + merged.rounding + 4 * _ULP) - lost - TINY
            high = split.delta(epsilons - beside) * (1 + split.rounding + 4 * _ULP)
            high = np.where(high > 0, high + TINY, high)
            return np.maximum(low, 0.0), np.minimum(high, 1.0)

        def places(cells: Cells, low: Array, high: Array) -> Places:
            return epsilons, epsilons, epsilons

        return self._refined("delta at epsilon", epsilons, order, ends, places, most=1.0)

    def power_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the power of the best tests at many type I errors."""

        def ends(cells: Cells) -> tuple[Array, Array]:
            merged, split = cells.merged(), cells.split()
            spent = np.maximum(alphas / (1 + merged.rounding) - math.exp(cells.log_lost_q), 0.0)
            low = merged.power(spent) / (1 + merged.rounding)
            high = split.power(alphas * (1 + split.rounding)) * (1 + split.rounding)
            return low, np.minimum(high, 1.0)

        return self._refined(
            "power at alpha", alphas, order.other, ends, _thresholds(alphas), most=1.0
        )

    def _beta_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of type II errors, relatively accurate where they are small."""

        def ends(cells: Cells) -> tuple[Array, Array]:
            merged, split = cells.merged(complement=True), cells.split(complement=True)
            spent = np.maximum(alphas / (1 + merged.rounding) - math.exp(cells.log_lost_q), 0.0)
            high = merged.beta(spent) * (1 + merged.rounding) + math.exp(cells.log_lost_p)
            low = split.beta(alphas * (1 + split.rounding)) / (1 + split.rounding)
            return low, np.minimum(high, 1.0)

        return self._refined(
            "type II error at alpha", alphas, order.other, ends, _thresholds(alphas), most=1.0
        )

    def renyi_brackets(self, alphas: Array, order: Order) -> tuple[Array, Array]:
        """Return brackets of the Renyi divergences of many orders."""
        found = [self._renyi_bracket(float(alpha), order) for alpha in alphas]
        lows, highs = np.array(found).reshape(-1, 2).T
        return checked_all("Renyi divergence of order", alphas, (lows, highs), order)

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        if self._estimated:
            return 0.0, math.inf
        forward = order is Order.FORWARD
        cells = self._base.cells() if forward else self._base.cells().reversed
        low, high = log_moment_bracket(self._base, cells, alpha, forward, self.rate)
        slack = 2.0**-50 * (1 + abs(low)) / (alpha - 1)
        low, high = low / (alpha - 1) - slack, high / (alpha - 1) + slack
        return max(low, 0.0), max(high, 0.0)

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
        ends: Callable[[Cells], tuple[Array, Array]],
        places: Callable[[Cells, Array, Array], Places],
        *,
        most: float = math.inf,
    ) -> tuple[Array, Array]:
        """Cut the cells that decide each value until its bracket is narrow.

        ``ends`` returns the brackets from cells, ``places`` the range of losses that decides each,
        and a guess.
        """
        lows, highs = self._narrowed(order, ends, places)
        if self._estimated:
            lows, highs = np.zeros_like(lows), np.full_like(highs, most)
        shown = order.other if quantity.startswith(("power", "type II")) else order
        return checked_all(quantity, at, (lows, highs), shown, most=most)

    def _narrowed(
        self,
        order: Order,
        ends: Callable[[Cells], tuple[Array, Array]],
        places: Callable[[Cells, Array, Array], Places],
    ) -> tuple[Array, Array]:
        grid, width = self._base, None
        most = grid.points.size + _MOST_CUTS
        sign = 1.0 if order is Order.FORWARD else -1.0
        for _ in range(_ROUNDS):
            cells = grid.cells()
            cells = cells if order is Order.FORWARD else cells.reversed
            lows, highs = ends(cells)
            with np.errstate(invalid="ignore"):
                before, width = width, np.nan_to_num(highs - lows, nan=0.0)
            open_ = width > _WIDTH * np.maximum(np.abs(lows), TINY)
            if before is not None:  # rounding remains
                open_ &= ~(width > 0.7 * before)
            if not open_.any():
                break
            found = places(cells, lows, highs)
            decisive = (part[np.tile(open_, part.size // open_.size)] for part in found)
            finer = grid.refined(_cuts(grid, cells, sign, *decisive))
            if finer is grid or finer.points.size > most + 64 * lows.size:
                break
            grid = finer
        return lows, highs

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


def _thresholds(alphas: Array) -> Callable[[Cells, Array, Array], Places]:
    """Return the losses at which the best tests at ``alphas`` are randomised, and guesses."""

    def places(cells: Cells, low: Array, high: Array) -> Places:
        loss, guess = cells.merged().threshold(alphas)
        return loss, loss, guess

    return places


def _cuts(
    grid: NormalCells, cells: Cells, sign: float, least: Array, greatest: Array, guess: Array
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
    loss = sign * np.concatenate(found_losses)
    left, width = grid.points[own], np.diff(grid.points)[own]
    ratio, slope = grid.ratios
    f0, f1 = ratio[own] - loss, ratio[own + 1] - loss
    d0, d1 = slope[own] * width, slope[own + 1] * width
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.nan_to_num(np.clip(f0 / (f0 - f1), 0.0, 1.0), nan=0.5)
        c2, c3 = 3 * (f1 - f0) - 2 * d0 - d1, 2 * (f0 - f1) + d0 + d1
        for _ in range(8):  # Newton's method
            value = f0 + at * (d0 + at * (c2 + at * c3))
            rate = d0 + at * (2 * c2 + at * 3 * c3)
            at = np.clip(at - np.nan_to_num(value / rate, posinf=0, neginf=0), 0.0, 1.0)
    # cells that are met only because their ranges are wide are divided evenly
    met = ((at > 0) & (at < 1))[:, None]
    places = np.where(met, at[:, None] + _AROUND, _EVEN)
    points = left[:, None] + width[:, None] * places
    inside = (points > left[:, None]) & (points < (left + width)[:, None])
    return np.unique(points[inside])


def worse_bracket(bracket: Callable[[Order], Bracket], order: Order | None) -> Bracket:
    """Return the bracket of one order, or that of the worse one for None."""
    if order is not None:
        validate.instance(Order, order=order)
        return bracket(order)
    (low_a, high_a), (low_b, high_b) = bracket(Order.FORWARD), bracket(Order.REVERSE)
    return max(low_a, low_b), max(high_a, high_b)


def _only(brackets: tuple[Array, Array]) -> Bracket:
    """Return the one bracket as numbers."""
    low, high = brackets
    return float(low[0]), float(high[0])


def _middle(brackets: tuple[Array, Array]) -> Array:
    """Return values inside of brackets; 0 where that is not excluded."""
    lows, highs = brackets
    inside = np.where(lows > 0, 0.5 * (lows + highs), 0.0)
    return np.where(np.isfinite(highs), inside, highs)
