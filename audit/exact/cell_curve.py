"""Privacy curves of pairs whose likelihood ratio is enclosed on cells, and cells of explicit pairs.

Between two means, Laplace mixtures of one scale b have such densities, u e^(x/b) + v e^(-x/b); so
do exponential densities on an interval. The ratio of two of them is monotone, so that the losses at
the ends of a cell enclose those within. Beyond all means the ratio is constant.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from audit.constructions.explicit import Densities, Finite, LaplaceMixtures
from audit.constructions.explicit_laws import DiscreteGaussian
from audit.curves import Enclosure, Order
from audit.curves.bracketed import BracketedCurve, Brackets, Measure, bracket_width, width_beside
from audit.curves.brackets import TINY, Bracket, checked_all
from audit.curves.finite_pair import Cells
from audit.exact.law import UNIT
from audit.numerics.arrays import Array
from audit.numerics.display import ShortRepr

# Rounds of refinement, and the relative width at which it ends.
_ROUNDS, _CONVERGENCE = 24, 4e-14
# Offsets of cuts from the place of the loss, as shares of the cell.
_CUT_OFFSETS = np.array([0.0, 1e-6, -1e-6, 1e-4, -1e-4, 1e-2, -1e-2, 0.1, -0.1])
_EVEN_CUTS = np.arange(9) / 9
_MOMENT_CELLS = 200_000  # cells over which a Renyi moment is summed


class Grid(ShortRepr, ABC):
    """A partition of the outcomes of a pair, in the order FORWARD.

    Its first cells lie between rising ``points`` on a line, where they can be cut. By default there
    are none, and each cell has one loss. Unless ``proven``, errors of the laws are estimates.
    """

    points: Array
    most_cuts: int = 8_000  # besides 128 for each value asked for
    proven: bool = True

    @abstractmethod
    def cells(self) -> Cells:
        """Return the enclosed cells."""

    @property
    @abstractmethod
    def without(self) -> Mapping[str, Grid]:
        """The grid without the error of each cause, and without all of them for ``cells``."""

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


class CellCurve(BracketedCurve):
    """Curve of a pair given by its cells, which are cut where it matters.

    A bracket contains the truth by data processing: merged cells are a post-processing of the pair,
    which is a post-processing of split cells (`audit.curves.Enclosure`). Cells whose losses
    straddle what decides a value are cut until the bracket is narrow. The pair's own errors and all
    rounding are counted in the masses of the cells. Mu has no upper end.
    """

    many_at_once = True

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        whole = bracket_width(self.epsilon_bracket(delta, order))
        found = {}
        for cause, grid in self.grid.without.items():
            left = bracket_width(CellCurve(grid).epsilon_bracket(delta, order))
            found[cause] = left if cause == "cells" else width_beside(whole, left)
        return found

    def _brackets(self, asked: Measure, at: Array, order: Order) -> Brackets:
        if not self.grid.proven:
            return np.zeros(at.shape), np.full(at.shape, asked.most)
        return self._computed(asked, at, order)

    def _computed(self, asked: Measure, at: Array, order: Order) -> Brackets:
        """Return brackets for which the laws' errors are taken as proven."""
        if asked is Measure.RENYI:
            return self._renyi_brackets(at, order)
        # the null hypothesis of a test is the second law
        test = asked in (Measure.POWER, Measure.BETA)
        return self._narrowed(asked, at, order.other if test else order)

    def _narrowed(self, asked: Measure, at: Array, order: Order) -> Brackets:
        """Cut the cells that decide each value until its bracket is narrow."""
        grid, width = self.grid, None
        most = grid.points.size + grid.most_cuts + 128 * at.size
        for _ in range(_ROUNDS):
            cells = _ordered(grid.cells(), order)
            enclosure = cells.enclosure(complement=asked is Measure.BETA)
            lows, highs = getattr(enclosure, asked.name.lower())(at)
            if asked is Measure.EPSILON and (at == 0).any():  # one loss that is approached suffices
                losses, others = grid.approached()
                largest = (losses if order is Order.FORWARD else -others).max(initial=0.0)
                lows = np.where(at == 0, np.maximum(lows, largest), lows)
            with np.errstate(invalid="ignore"):
                before, width = width, np.nan_to_num(highs - lows, nan=0.0)
            open_ = width > _CONVERGENCE * np.maximum(np.abs(lows), TINY)
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
            slack = UNIT * (36 + 4 * abs(low)) if np.isfinite(low) else 0.0
            found.append(((low - slack) / (alpha - 1), (high + slack) / (alpha - 1)))
        lows, highs = np.maximum(np.array(found).reshape(-1, 2).T, 0.0)
        return lows, highs

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the log of the integral of P^alpha Q^(1 - alpha)."""
        points = moment_cuts(self.grid.points, _ordered(self.grid.cells(), order), alpha)
        cells = self.grid.refined(points).cells()
        return _ordered(cells, order).enclosure().log_moment(alpha)

    def _value(self, asked: Measure, at: Array, order: Order) -> Array:
        """Return values inside of brackets; 0 where that is not excluded."""
        quantity, most = asked.value
        ends = self._computed(asked, at, order)
        lows, highs = checked_all(quantity, at, ends, order, most=most)
        inside = np.where(lows > 0, 0.5 * (lows + highs), 0.0)
        return np.where(np.isfinite(highs), inside, highs)

    def _pure_epsilon(self, order: Order) -> float:
        return float(self._computed(Measure.EPSILON, np.zeros(1), order)[1][0])

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return self._value(Measure.EPSILON, delta, order)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return self._value(Measure.DELTA, epsilon, order)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.where(alpha < 1, self._value(Measure.BETA, alpha, order), 0.0)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self._value(Measure.RENYI, alpha, order)


def _ordered(cells: Cells, order: Order) -> Cells:
    return cells if order is Order.FORWARD else cells.reversed


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
    # before the first, no range reaches as high
    firsts = np.searchsorted(np.maximum.accumulate(high[rank]), losses, side="left")
    ends = np.searchsorted(low[rank], losses, side="right")
    found_cells, found_losses = [np.zeros(0, np.intp)], [np.zeros(0)]
    for at, first, end, goal in zip(losses, firsts, ends, guesses, strict=True):
        chosen = rank[first:end]
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
    places = np.where(met, at[:, None] + _CUT_OFFSETS, _EVEN_CUTS)
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


@dataclass(frozen=True, eq=False)
class FiniteCells(Grid):
    """Outcomes of repeated draws from two finite laws, as cells of one loss that are never cut."""

    outcomes: Cells
    # nothing lies on a line
    points: Array = field(init=False, default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, pair: Finite, *, open_ends: bool = False) -> FiniteCells:
        """Return the counts of each outcome, a sufficient statistic of the draws.

        With ``open_ends`` the losses rise, and the first and the last outcome stand for tails. A
        logarithm, a product with it and a sum over outcomes err by a unit of rounding each, and
        log n! by five. Probabilities that are written down need not sum to 1 in their last digits.
        """
        with np.errstate(divide="ignore"):
            logs = np.log([pair.first, pair.second])
        ways, factors, added = np.zeros(len(pair.first)), 0.0, 1
        if pair.times > 1:  # one draw needs no table, which many outcomes would make too large
            counts = _counts(pair.times, len(pair.first))
            table = _log_factorials(pair.times)
            factorials = table[counts.astype(np.intp)].sum(axis=1)
            ways, factors, added = table[-1] - factorials, table[-1] + factorials, counts.shape[1]
            with np.errstate(invalid="ignore"):
                logs = np.stack([np.where(counts > 0, counts * k, 0.0).sum(axis=1) for k in logs])
        units = UNIT * (6 + added)
        size = np.where(np.isfinite(logs), -logs, 0.0)
        off = np.abs([math.fsum(law) - 1 for law in (pair.first, pair.second)])[:, None]
        errors = units * (size + factors + 2) + 2 * pair.times * off
        some = (logs > -np.inf).any(axis=0)
        loss = logs[0, some] - logs[1, some]
        slack = (units * (size + 1) + 2 * pair.times * off).sum(axis=0)[some]
        low, high = loss - slack, loss + slack
        if open_ends:  # of one draw
            low[[0, -1]], high[[0, -1]] = (-np.inf, low[-2]), (high[1], np.inf)
        log_p, log_q = (ways + logs)[:, some]
        return cls(Cells(log_p, log_q, low, high, *errors[:, some]))

    def cells(self) -> Cells:
        """Return the cells."""
        return self.outcomes

    @property
    def without(self) -> dict[str, FiniteCells]:
        """The cells with masses and losses that are taken as exact."""
        return dict.fromkeys(("rounding", "cells"), FiniteCells(self.outcomes.without_errors))


class DiscreteGaussianCurve(CellCurve):
    """Curve of one discrete Gaussian mechanism; its tails are cells without a largest loss."""

    def __init__(self, pair: DiscreteGaussian) -> None:
        once = replace(pair, times=1)
        super().__init__(FiniteCells.of(once.distributions(), open_ends=True))
        self._distance, self._reach = pair.sensitivity / pair.noise_std, pair.reach / pair.noise_std
        self._rate = pair.sampling_rate

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket, with what the tails add by formula.

        Complete squares: on a tail, P^alpha Q^(1 - alpha) is e^(alpha (alpha - 1) s^2/2) times the
        mass of a discrete normal around alpha s, which at d from it is at most e^(-d^2/2). If P is
        a mixture with Q, by convexity the moment is at most that, and Q of the tails; the other one
        is at most (1 - rate)^(1 - alpha) times Q of the tails.
        """
        cells = _ordered(self.grid.cells(), order)
        inner = cells.part(slice(1, -1)).enclosure().log_moment(alpha)[1]
        s, reach = self._distance, self._reach
        whole = alpha * (alpha - 1) * s * s / 2
        far = max(s + reach - alpha * s, 0.0), alpha * s + reach
        tails = [-reach * reach / 2 + math.log(2), *(whole - d * d / 2 for d in far)]
        if order is Order.REVERSE and self._rate < 1:
            tails = [tails[0] - (alpha - 1) * math.log1p(-self._rate)]
        slack = UNIT * (64 + 16 * (whole + far[1] ** 2))
        high = float(np.logaddexp.reduce([inner, *(tail + slack for tail in tails)]))
        return cells.enclosure().log_moment(alpha)[0], high + 8 * UNIT


def _log_factorials(most: int) -> Array:
    """Return log n! up to a number: of integers, and by Stirling's series for n above 32.

    The series errs by less than its next term, 1/(1188 n^9) (Whittaker and Watson 1927, section
    12.33), and the rounding of n log n is at most 1.4 times that of the sum.
    """
    n = np.arange(33.0, most + 1)
    series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
    large = n * np.log(n) - n + (0.5 * np.log(2 * math.pi * n) + series)
    small = [math.log(math.factorial(k)) for k in range(min(most, 32) + 1)]
    return np.concatenate([small, large])


def _counts(times: int, outcomes: int) -> Array:
    """Return every way to spread ``times`` draws over the outcomes, shape (ways, outcomes)."""
    last = times + outcomes - 1
    bars = list(itertools.combinations(range(last), outcomes - 1))  # between stars, one a draw
    ends = np.array([(-1, *each, last) for each in bars], dtype=np.float64)
    return np.diff(ends, axis=1) - 1


_CELLS = 2_000  # cells of all pieces from which refinement starts


@dataclass(frozen=True, eq=False)
class ExponentialCells(Grid):
    """Cells between points, and the two ends."""

    points: Array  # ends of the cells, rising, all kinks among them
    kinks: Array  # ends of the pieces, rising, shape (k + 1,)
    scale: float  # b
    # logs of b times the parts of each density at the right and at the left ends of pieces, (2, k)
    rising: Array
    falling: Array
    outside: Array  # log masses of both laws below and above all pieces, shape (2, 2)
    error: float  # bound on the relative error of the parts
    rounded: bool = True  # whether errors count

    @classmethod
    def of(cls, pair: LaplaceMixtures | Densities, per_pair: int = _CELLS) -> ExponentialCells:
        """Return the cells of one draw of a pair: some number of them in all."""
        if isinstance(pair, Densities):
            kinks, scale = np.array([pair.low, pair.high]), 1 / pair.slope
            log_size = -math.log(-math.expm1(-(pair.high - pair.low) * pair.slope))
            none, some = np.array([-np.inf]), np.array([log_size])
            rising, falling = np.stack([some, none]), np.stack([none, some])
            outside, sums = np.full((2, 2), -np.inf), 0.0
        else:
            kinks, scale = np.unique(pair.means), pair.scale
            laws = np.array([pair.first, pair.second])[:, None, :]
            gaps = np.subtract.outer(kinks, pair.means) / scale
            with np.errstate(divide="ignore"):
                logs = np.log(laws) - math.log(2)
            at_or_right = np.logaddexp.reduce(np.where(gaps <= 0, logs + gaps, -np.inf), axis=2)
            at_or_left = np.logaddexp.reduce(np.where(gaps >= 0, logs - gaps, -np.inf), axis=2)
            rising, falling = at_or_right[:, 1:], at_or_left[:, :-1]
            outside = np.stack([at_or_right[:, 0], at_or_left[:, -1]], axis=1)
            sums = max(abs(math.fsum(law) - 1) for law in (pair.first, pair.second))
        count = max(math.ceil(per_pair / max(kinks.size - 1, 1)), 2)
        between = [np.linspace(a, b, count + 1)[1:] for a, b in itertools.pairwise(kinks)]
        points = np.concatenate([kinks[:1], *between])
        finite = [np.abs(part[np.isfinite(part)]) for part in (rising, falling, outside)]
        largest = float(np.concatenate(finite).max())
        error = 2 * sums + UNIT * (16 + kinks.size + 4 * largest)
        return cls(points, kinks, scale, rising, falling, outside, error)

    def refined(self, points: Array) -> ExponentialCells:
        """Return the cells cut at more points."""
        every = np.union1d(self.points, points)
        return self if every.size == self.points.size else replace(self, points=every)

    def cells(self) -> Cells:
        """Return the enclosed cells: those between points, then the two ends."""
        up, down = self._parts(self.points[1:], 0), self._parts(self.points[:-1], 1)
        width = np.diff(self.points) / self.scale
        with np.errstate(divide="ignore"):
            inner = np.logaddexp(up, down) + np.log(-np.expm1(-width))
        logs = np.concatenate([inner, self.outside], axis=1)
        reach = np.append(np.diff(self.kinks)[self._pieces] / self.scale, [0.0, 0.0])
        size = np.abs(np.where(np.isfinite(logs), logs, 0.0))
        errors = self.error + UNIT * (16 + 8 * reach + 4 * size)
        left, right, *_ = self.end_losses()
        slack = errors[0] + errors[1]
        with np.errstate(invalid="ignore"):
            ends = self.outside[0] - self.outside[1]
        low = np.append(np.minimum(left, right), np.where(np.isnan(ends), -np.inf, ends)) - slack
        high = np.append(np.maximum(left, right), np.where(np.isnan(ends), np.inf, ends)) + slack
        cells = Cells(logs[0], logs[1], low, high, errors[0], errors[1])
        return cells if self.rounded else cells.without_errors

    @property
    def without(self) -> dict[str, ExponentialCells]:
        """The cells with masses and losses that are taken as exact."""
        return dict.fromkeys(("rounding", "cells"), replace(self, rounded=False))

    def end_losses(self) -> tuple[Array, Array, Array, Array]:
        """Losses at the left and right ends of cells between points, and derivatives there."""
        losses, slopes = [], []
        for at in (self.points[:-1], self.points[1:]):
            up, down = self._parts(at, 0), self._parts(at, 1)
            whole = np.logaddexp(up, down)
            slope = (np.exp(up - whole) - np.exp(down - whole)) / self.scale
            losses.append(whole[0] - whole[1])
            slopes.append(slope[0] - slope[1])
        return losses[0], losses[1], slopes[0], slopes[1]

    def approached(self) -> tuple[Array, Array]:
        """Lower and upper bounds on losses: those at the ends of cells."""
        left, right, *_ = self.end_losses()
        cells, count = self.cells(), self.points.size - 1
        slack = np.tile((cells.error_p + cells.error_q)[:count], 2)
        losses = np.append(left, right)
        return losses - slack, losses + slack

    @property
    def _pieces(self) -> NDArray[np.intp]:
        """The piece of each cell."""
        return np.searchsorted(self.kinks, self.points[:-1], side="right") - 1

    def _parts(self, at: Array, falling: int) -> Array:
        """Return logs of b times the rising or falling part of both densities, one place a cell."""
        piece = self._pieces
        if falling:
            return np.asarray(self.falling[:, piece] - (at - self.kinks[piece]) / self.scale)
        return np.asarray(self.rising[:, piece] - (self.kinks[piece + 1] - at) / self.scale)
