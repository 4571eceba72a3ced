"""Privacy curves of two mixtures of normals whose likelihood ratio is enclosed on cells.

Renyi moments are computed by quadrature with an error bound. With s the smallest deviation, every
normal is a mixture of normals of deviation s.

The integrand f = p^alpha q^(1 - alpha) is analytic where q has no zero. With y and t real,
|p(y + it)| <= e^(t^2/2s^2) p(y), and |q(y + it)| >= e^(t^2/2s^2) q(y) ((1 - r) cos(t w) - r) if all
but a share r of the normals, weighted by their densities at y, have scores in a range of 2w: their
phases differ by 2 t w at most. So
|f(y + it)| <= e^(t^2/2s^2) f(y) ((1 - r) cos(t w) - r)^(1 - alpha).

That bounds f on the ellipses around panels of `audit.numerics.panels.log_panel_error`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from audit.curves import Order
from audit.curves.brackets import Bracket
from audit.curves.finite_pair import Cells
from audit.exact.cell_curve import CellCurve, moment_cuts
from audit.exact.law import UNIT, WINDOW, EdgeTable, Law, edge_table, score_range
from audit.exact.normal_cells import NormalCells, law_range
from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_fsum
from audit.numerics.panels import ellipse, gauss_legendre, log_panel_error


@dataclass(frozen=True, eq=False)
class LawCurve(CellCurve):
    """Curve of two laws that are mixtures of normals, from cells between points.

    The Gaussian parameter mu has no upper end.
    """

    first: Law  #: Law of X.
    second: Law  #: Law of X'.
    #: Renyi divergences of order a are at most a times this: from composition, for what the laws
    #: lose in their tails.
    rate: float = math.inf

    @cached_property
    def grid(self) -> NormalCells:  # type: ignore[override]
        """The cells that refinement starts from."""
        return NormalCells.of(self.first, self.second)

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the domain, or of the part of a line where the laws are not all but empty."""
        return law_range((self.first, self.second))

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        grid = self.grid if order is Order.FORWARD else self.grid.swapped
        return log_moment_bracket(grid, alpha, self.rate)


_NODES, _RHO = 20, 3.0
_EXEMPT_SHARE = 1e-9  # share of the normals that may have any score
# Largest growth of the bounds on the ellipse, in logarithms: leaves some 1e-15 of an integral.
_MAX_GROWTH = 6.0
_LOG_NEGLIGIBLE = 50.0
_LOG_CERTAIN = 40.0  # logarithms by which laws exceed the lost mass where they are certain
_MAX_POINTS = 4_000_000
_MAX_MOVED = 1e-6  # rounding of a node, in deviations
# Rounds and parts of cells that are cut before a moment.
_ROUNDS, _PARTS, _MAX_CELLS = 12, 8, 1_000_000
# Deviations of a tilted normal beyond which nothing matters, and pairs of normals that are tried.
_CUT, _MAX_PAIRS = 12.0, 4_000_000


def log_moment_bracket(grid: NormalCells, alpha: float, rate: float) -> tuple[float, float]:
    """Return bounds on the log of the integral of p^alpha q^(1 - alpha), atoms included.

    Where the laws p and q of a grid lose mass, their far tails A may hold more of the integral than
    is computed. With k > 1, Hoelder's inequality bounds that by the power 1/k of the whole integral
    of order k alpha, which is at most e^((k alpha - 1) k alpha rate), times Q(A)^(1 - 1/k); the
    ``rate`` bounds D_a / a for every a.
    """
    p, q = grid.first, grid.second
    if _is_infinite(p, q, alpha):
        return math.inf, math.inf
    grid = _moment_cells(grid, alpha)
    cells, count = grid.cells(), max(grid.points.size - 1, 0)
    lost = cells.log_lost_p, cells.log_lost_q
    merged, upper = _terms(cells, alpha)
    certain = np.isfinite(upper) | (cells.log_p == -np.inf)
    if max(lost) > -np.inf:  # where laws are far above what is lost
        certain &= (cells.log_p > lost[0] + _LOG_CERTAIN) & (cells.log_q > lost[1] + _LOG_CERTAIN)
    tail = -math.inf
    if max(lost) > -np.inf or not certain.all():
        mass = log_fsum(np.append((cells.log_q + cells.error_q)[~certain], lost[1]))
        k = 1 + np.geomspace(1e-3, 10.0, 60)
        tail = float(np.min((k * alpha - 1) * alpha * rate + (1 - 1 / k) * mass))
        if p.exact_means and q.exact_means:
            ends = ((-1, 0, -2), (1, -1, -1))
            missed = {side: float(grid.points[k]) for side, k, cell in ends if not certain[cell]}
            exact = log_tail_moment(p, q, alpha, missed)
            tail = min(tail, exact + alpha * (p.rounding + q.rounding))
    integrated = certain & _kept(merged, upper, certain)
    integrated[count:] = False
    integrals = None
    if tail < math.inf:
        integrals = _integrals(grid, np.flatnonzero(integrated), alpha, lost)
    if integrals is None:  # the cells enclose the moment, too
        integrals = -math.inf, -math.inf, -math.inf
        if max(lost) == -math.inf:
            cells = grid.refined(moment_cuts(grid.points, cells, alpha)).cells()
            certain = np.append(np.full(cells.log_p.size - 2, True), certain[-2:])
        integrated = np.zeros(certain.size, dtype=np.bool_)
    low, high, quadrature = integrals
    others = cells.part(certain & ~integrated)
    if max(lost) > -np.inf:
        beside = [np.exp(part) for part in (lost[0] - others.log_p, lost[1] - others.log_q)]
        others = replace(
            others,
            low=others.low - sum(beside),
            high=others.high + sum(beside),
            error_p=others.error_p + beside[0],
            error_q=others.error_q + beside[1],
        )
    least, most = others.enclosure().log_moment(alpha)
    total = log_fsum(np.array([low, least]))
    share = math.exp(min(quadrature - total, 0.0))
    least = total + math.log1p(-share) if share < 1 else -math.inf
    # a bound that says nothing is none
    beyond = tail if tail < total - 1 else math.inf
    return least, log_fsum(np.array([high, quadrature, most, beyond]))


def _integrals(
    grid: NormalCells, cells: NDArray[np.intp], alpha: float, lost: tuple[float, float]
) -> tuple[float, float, float] | None:
    """Return logs of the least and the largest sum over cells, and of the quadrature's error.

    None if it would need too many nodes.
    """
    if cells.size == 0:
        return -math.inf, -math.inf, -math.inf
    p, q = grid.first, grid.second
    std = min(p.narrowest, q.narrowest)
    reach = float(ellipse(1.0, _RHO)[1])
    starts = np.flatnonzero(np.diff(cells, prepend=-2) > 1)
    middles, widths, turns = [], [], []
    for run in np.split(cells, starts[1:]):  # neighbours
        left, right = grid.points[run], grid.points[run + 1]
        # the ellipse of a part reaches 5/6 of its width from its middle
        scores = score_range(q, left - std, right + std, std, _EXEMPT_SHARE)
        most = max(float(scores.max()), 1e-300)
        turn = min(math.sqrt(2 * (_MAX_GROWTH - 2) / alpha), 1.0) / most
        length = float(right[-1] - left[0])
        parts = max(math.ceil(length * reach / min(turn, 0.5 * std)), 1)
        if parts * _NODES > _MAX_POINTS:
            return None
        middles.append(left[0] + length / parts * (np.arange(parts) + 0.5))
        widths.append(np.full(parts, length / parts))
        turns.append(np.full(parts, most))
    middle, h, score = (np.concatenate(part) for part in (middles, widths, turns))
    nodes, weights = gauss_legendre(_NODES)
    points = (middle[:, None] + 0.5 * h[:, None] * nodes).ravel()
    at_p, at_q = edge_table(p, points, tails=False), edge_table(q, points, tails=False)
    moved = 4 * UNIT * np.abs(points)
    if moved.max() > _MAX_MOVED * std:
        return None
    logs = alpha * at_p.log_density - (alpha - 1) * at_q.log_density
    log_weights = np.log((0.5 * h[:, None] * weights).ravel())
    logs = logs + log_weights
    error = alpha * p.error_at(at_p.log_density, at_p.square)
    error = error + (alpha - 1) * q.error_at(at_q.log_density, at_q.square)
    # rounding of nodes, times the slope of the integrand's logarithm and its bend, and of weights
    slope = alpha * np.abs(at_p.score) + (alpha - 1) * np.abs(at_q.score)
    error = error + moved * slope + 2 * alpha * (moved / std) ** 2
    error = error + UNIT * (16 + 4 * np.abs(log_weights))
    for law, values, log_lost, share in ((p, at_p, lost[0], alpha), (q, at_q, lost[1], alpha - 1)):
        if log_lost > -math.inf:
            beside = np.minimum(law.log_lost_density - values.log_density, 0.0)
            error = error + share * np.exp(beside)
    # the maximum on the ellipse
    a, b = ellipse(h, _RHO)
    ends_p, ends_q = (
        (edge_table(law, middle - a, tails=False), edge_table(law, middle + a, tails=False))
        for law in (p, q)
    )
    largest = _largest(2 * a, ends_p, ends_q, std, alpha)
    least_cos = (1 - _EXEMPT_SHARE) * np.cos(np.minimum(b * score, 1.5)) - _EXEMPT_SHARE * np.exp(
        b**2 / (2 * std**2)
    )
    growth = b**2 / (2 * std**2) - (alpha - 1) * np.log(least_cos)
    bound = log_panel_error(_NODES, h, _RHO, largest + growth)
    return log_fsum(logs - error), log_fsum(logs + error), log_fsum(bound)


def _largest(
    width: Array,
    p: tuple[EdgeTable, EdgeTable],
    q: tuple[EdgeTable, EdgeTable],
    std: float,
    alpha: float,
) -> Array:
    """Bound the log of p^alpha q^(1 - alpha) on intervals, as `largest_ratio` bounds log p - log q.

    With u from 0 at the left end to 1 at the right one, it is at most alpha times a chord minus
    alpha - 1 times the larger of two tangents minus u^2 w^2/2s^2: concave where one tangent is the
    larger one, and at most its value with either tangent.
    """
    bend = width**2 / (2 * std**2)
    (p0, p1), (q0, q1) = p, q
    rise = alpha * (p1.log_density - p0.log_density + bend)
    start = alpha * p0.log_density - (alpha - 1) * q0.log_density
    end = alpha * p0.log_density + rise - (alpha - 1) * (q1.log_density + bend)
    slope = rise - (alpha - 1) * q0.score * width
    last = rise - (alpha - 1) * (q1.score * width + 2 * bend)
    # the tangents at the left and at the right end: start + slope u, end - last (1 - u)
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = np.nan_to_num(np.clip((end - last - start) / (slope - last), 0.0, 1.0), nan=0.5)
        tops = np.clip(np.stack([slope, last]) / (2 * bend), 0.0, 1.0)
    left, right = np.minimum(tops[0], meet), np.maximum(tops[1], meet)
    at_left = start + slope * left - bend * left**2
    at_right = end - last * (1 - right) - bend * right**2
    return np.asarray(np.maximum(at_left, at_right))


def _terms(cells: Cells, alpha: float) -> tuple[Array, Array]:
    """Return logs of each cell's part of the moment: merged, from below, and bounded above."""
    with np.errstate(invalid="ignore"):
        merged = alpha * cells.log_p - (alpha - 1) * cells.log_q
        upper = cells.log_p + cells.error_p + (alpha - 1) * cells.high
    none = cells.log_p == -np.inf
    return np.where(none, -np.inf, merged), np.where(none, -np.inf, upper)


def _kept(merged: Array, upper: Array, certain: NDArray[np.bool_] | None = None) -> Any:
    """Return which cells may have a share of the moment."""
    top = log_fsum(merged[np.isfinite(upper) if certain is None else certain])
    return upper > top - _LOG_NEGLIGIBLE - math.log(max(merged.size, 1))


def _is_infinite(p: Law, q: Law, alpha: float) -> bool:
    """Whether the integral of p^alpha q^(1 - alpha) is certainly infinite, by the widest normals.

    It is where alpha/s^2 < (alpha - 1)/s'^2, with the deviation s of p's widest normal and s' of
    q's: far out the integrand rises.
    """
    if not (p.exact and q.exact):
        return False
    widest, other = float(p.stds.max()), float(q.stds.max())
    return alpha * other**2 * (1 + 16 * UNIT) < (alpha - 1) * widest**2 * (1 - 16 * UNIT)


def _moment_cells(grid: NormalCells, alpha: float) -> NormalCells:
    """Return cells of exact laws over all places that may matter to a moment, and narrow there."""
    p, q = grid.first, grid.second
    if not (p.exact and q.exact) or p.means.size * q.means.size > _MAX_PAIRS:
        return grid
    grid = NormalCells.of(p, q, reach=_moment_range(grid, alpha))
    for _ in range(_ROUNDS):
        merged, upper = _terms(grid.cells(), alpha)
        wide = np.diff(grid.points) > 0.5 * grid.stds
        chosen = np.flatnonzero(_kept(merged, upper)[: wide.size] & wide)
        if chosen.size == 0 or chosen.size * _PARTS > _MAX_CELLS:
            break
        left, right = grid.points[chosen], grid.points[chosen + 1]
        grid = grid.refined(np.linspace(left, right, _PARTS + 1)[1:-1].ravel())
    return grid


def _moment_range(grid: NormalCells, alpha: float) -> tuple[float, float]:
    """Interval of the mass of tilted normals, wide enough for all bounded losses."""
    p, q = grid.first, grid.second
    logs, centres, precisions = _tilted(p, q, alpha)
    best = np.argmin(logs, axis=1)[:, None]
    centres, precisions = (np.take_along_axis(a, best, axis=1) for a in (centres, precisions))
    some = np.isfinite(centres)
    # beyond, `log_tail_moment` is small in spite of its factor
    far = np.sqrt((_CUT**2 + 2 * (alpha - 1) * math.log(p.means.size)) / precisions[some])
    cells, count = grid.cells(), grid.points.size - 1
    outer = cells.high[[0, count - 1, count, count + 1]]
    most = max(float(outer[np.isfinite(outer)].max(initial=0.0)), 0.0)
    window = math.sqrt(WINDOW**2 + 2 * (alpha - 1) * most)
    low = min(float(np.min(law.means - window * law.stds)) for law in (p, q))
    high = max(float(np.max(law.means + window * law.stds)) for law in (p, q))
    return (
        float(np.min(centres[some] - far, initial=low)),
        float(np.max(centres[some] + far, initial=high)),
    )


def log_tail_moment(p: Law, q: Law, alpha: float, ends: dict[int, float]) -> float:
    """Bound the log of the integral of p^alpha q^(1 - alpha) below (-1) and above (1) ends.

    With n normals, (a_1 + ... + a_n)^alpha <= n^(alpha - 1) (a_1^alpha + ... + a_n^alpha); and q is
    at least any one of its normals. What is left are integrals of e to a quadratic.
    """
    if p.means.size * q.means.size > _MAX_PAIRS:
        return math.inf
    logs, centres, precisions = _tilted(p, q, alpha)
    total = -math.inf
    cancelled = 8 * UNIT * alpha / p.stds[:, None] ** 2 / precisions
    for side, end in ends.items():
        with np.errstate(invalid="ignore"):
            distance = side * (end - centres) * np.sqrt(precisions)
            beyond = log_ndtr(-distance)
            moved = np.abs(end) + np.abs(centres) + np.abs(p.means[:, None])
            moved = (1 + np.abs(distance)) * moved * np.sqrt(precisions)
            size = np.abs(logs) + np.abs(beyond) + alpha * np.abs(p.log_masses[:, None]) + 8
            bounds = logs + beyond + (cancelled + 8 * UNIT) * (size + moved)
        least = np.min(np.where(np.isnan(bounds), np.inf, bounds), axis=1)
        total = float(np.logaddexp(total, np.logaddexp.reduce(least)))
    return total + (alpha - 1) * math.log(p.means.size)


def _tilted(p: Law, q: Law, alpha: float) -> tuple[Array, Array, Array]:
    """For normals of p and q: log of the integral of a^alpha b^(1 - alpha), its centre, precision.

    Infinite where it is, or where that may be rounding.
    """
    mean, std, log_p = (a[:, None] for a in (p.means, p.stds, p.log_masses))
    precision = alpha / std**2 - (alpha - 1) / q.stds**2
    precision = np.where(precision > 1e-6 * alpha / std**2, precision, np.nan)
    gap = q.means - mean
    logs = alpha * (log_p - np.log(std)) - (alpha - 1) * (q.log_masses - np.log(q.stds))
    logs = logs - 0.5 * np.log(precision)
    logs = logs + alpha * (alpha - 1) * gap**2 / (2 * precision * std**2 * q.stds**2)
    centre = mean - (alpha - 1) * gap / q.stds**2 / precision
    return np.where(np.isnan(logs), np.inf, logs), centre, precision
