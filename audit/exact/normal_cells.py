"""Cells of two mixtures of normals: masses and enclosed likelihood ratios.

Let s be the smallest standard deviation of the normals. The density p of a mixture times
e^(y^2/2s^2) is a sum of log-convex functions, hence log-convex: on a cell [a, b], with t = y - a
and w = b - a, log p lies below its chord plus t (w - t)/2s^2, and above each of its tangents minus
t^2/2s^2 or (w - t)^2/2s^2. The difference of the chord of log p and the tangents of log q, from
which the squares vanish, is piecewise linear: its maximum, at an end or where the tangents meet,
bounds log p - log q.

Normals that have no share of their law's density on a cell do not count for s there: a normal is
log-concave, so that its least and its largest density on a cell are at the ends or at its mean.

Beyond the outermost point of a line, both densities are divided by the outermost normal N of either
one: the widest, and of those the farthest. The log ratio of a normal and N is a quadratic, so that
its least and its largest value are known; the sums of these bound p/N and q/N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from audit.curves.finite_pair import Cells
from audit.exact.cell_curve import Grid
from audit.exact.law import UNIT, WINDOW, EdgeTable, Law, cell_masses, edge_table, log_tail
from audit.numerics.arrays import Array

# Lost densities so far below a density, in logarithms, are less than its rounding.
_LOG_NEGLIGIBLE = 46.0
# Cells of a standard deviation that refinement starts from.
_CELLS_PER_DEVIATION = 4
_MAX_CELLS = 2_000_000
_FEW_NORMALS = 64  # normals
# Beyond the window of a line and between windows, cells double in width, until losses are constant
# but for this or for their rounding, in units of squared distances.
_CONSTANT, _ROUNDING, _DOUBLINGS = 1e-12, 16 * UNIT, 14
# Normals of this share of a density, in logarithms, have none; and where it is looked for.
_LOG_NO_SHARE, _MAX_SHARE_ENTRIES = -80.0, 20_000_000


@dataclass(frozen=True, eq=False)
class NormalCells(Grid):
    """Cells between rising points of the domain of two laws, with half-lines or atoms at the ends.

    ``tables`` are the values of both laws at the points.
    """

    first: Law
    second: Law
    points: Array
    tables: tuple[EdgeTable, EdgeTable]

    @classmethod
    def of(
        cls,
        first: Law,
        second: Law,
        per_deviation: int = _CELLS_PER_DEVIATION,
        reach: tuple[float, float] | None = None,
    ) -> NormalCells:
        """Return cells of a fraction of the smallest standard deviation.

        On a line, exact laws have cells as wide as their normals allow: of a share of deviations
        over ``reach``, or few very wide ones beyond the window of all normals.
        """
        laws = first, second
        if not any(law.means.size for law in laws):
            empty = EdgeTable(*np.zeros((6, 0)))
            return cls(first, second, np.zeros(0), (empty, empty))
        if all(law.exact for law in laws):
            points = _line_points(laws, per_deviation, reach)
        else:
            std = min(law.narrowest for law in laws)
            points = _even_points(*law_range(laws), std, per_deviation)
        return cls(first, second, points, (edge_table(first, points), edge_table(second, points)))

    @property
    def most_cuts(self) -> int:  # type: ignore[override]
        """Number of cuts: of few normals, more cells cost little."""
        few = max(self.first.means.size, self.second.means.size) <= _FEW_NORMALS
        return 30_000 if few else super().most_cuts

    @property
    def proven(self) -> bool:  # type: ignore[override]
        """Whether the errors of both laws are."""
        return not (self.first.estimated or self.second.estimated)

    @property
    def without(self) -> dict[str, NormalCells]:
        """The grid of laws without the error of each cause, or without all of them."""
        causes: dict[str, dict[str, Any]] = {
            "quadrature": {"quadrature": 0.0},
            "rounding": {"rounding": 0.0, "depth_rounding": 0.0},
            "truncation": {"log_lost": -math.inf},
        }
        causes["cells"] = {
            key: value for change in causes.values() for key, value in change.items()
        }
        return {
            name: NormalCells.of(replace(self.first, **change), replace(self.second, **change))
            for name, change in causes.items()
        }

    @property
    def swapped(self) -> NormalCells:
        """The same cells of the two laws in the other order."""
        p, q = self.tables
        return replace(self, first=self.second, second=self.first, tables=(q, p))

    def refined(self, points: Array) -> NormalCells:
        """Return the cells cut at more points."""
        if self.points.size == 0:
            return self
        inside = (points > self.points[0]) & (points < self.points[-1])
        new = np.setdiff1d(points[inside], self.points)
        if new.size == 0:
            return self
        every = np.concatenate([self.points, new])
        rank = np.argsort(every, kind="stable")
        tables = []
        for law, old in zip((self.first, self.second), self.tables, strict=True):
            tables.append(EdgeTable.joined([old, edge_table(law, new)])[rank])
        return replace(self, points=every[rank], tables=(tables[0], tables[1]))

    def end_losses(self) -> tuple[Array, Array, Array, Array]:
        """Losses at the left and right ends of cells between points, and derivatives there."""
        p, q = self.tables
        loss, slope = p.log_density - q.log_density, p.score - q.score
        return loss[:-1], loss[1:], slope[:-1], slope[1:]

    def approached(self) -> tuple[Array, Array]:
        """Lower and upper bounds on losses: at points, and in the limits at the ends of a line."""
        laws, (p, q) = (self.first, self.second), self.tables
        if self.points.size == 0:
            return np.zeros(0), np.zeros(0)
        losses, slack = p.log_density - q.log_density, np.zeros(self.points.size)
        if not any(law.log_lost > -math.inf for law in laws):
            for law, table in zip(laws, self.tables, strict=True):
                slack = slack + law.error_at(table.log_density, table.square)
        else:
            slack = slack + np.inf
        if all(law.exact for law in laws):
            for side in (-1, 1):
                (x, log_p), (y, log_q) = (_outermost(law, side) for law in laws)
                limit = log_p - log_q if x == y else math.inf if x > y else -math.inf
                losses = np.append(losses, limit)
                slack = np.append(slack, 8 * UNIT + laws[0].rounding + laws[1].rounding)
        slack = np.where(np.isfinite(losses), slack, 0.0)
        return losses - slack, losses + slack

    def cells(self) -> Cells:
        """Return the enclosed cells: those between points, then the two ends."""
        laws = self.first, self.second
        lost = [self._log_lost(law, table) for law, table in zip(laws, self.tables, strict=True)]
        logs, errors, shapes = [], [], []
        for law, table in zip(laws, self.tables, strict=True):
            ends = self._end_masses(law)
            masses, rounding = (
                cell_masses(law, self.points, table) if self.points.size else (np.zeros(0),) * 2
            )
            square = np.maximum(table.square[:-1], table.square[1:])
            with np.errstate(invalid="ignore"):
                inner = law.error_at(
                    np.minimum(table.log_density[:-1], table.log_density[1:]), square
                )
            rounding = np.where(masses > -np.inf, rounding, 0.0) + inner
            shapes.append(inner)
            logs.append(np.concatenate([masses, ends]))
            outer = law.error_at(np.maximum(np.array(ends), -1e300), WINDOW**2 / 4)
            errors.append(np.concatenate([rounding, outer]))
        p, q = (table.ends for table in self.tables)
        width, slack = np.diff(self.points), shapes[0] + shapes[1]
        low = -largest_ratio(width, q, p, self.stds) - slack
        high = largest_ratio(width, p, q, self.stds) + slack
        ends_low, ends_high = self._end_ranges(logs, errors)
        low, high = np.concatenate([low, ends_low]), np.concatenate([high, ends_high])
        return Cells(logs[0], logs[1], low, high, errors[0], errors[1], lost[0], lost[1])

    def _end_masses(self, law: Law) -> tuple[float, float]:
        """Log masses of the two ends: atoms of the domain, or half-lines beyond all points."""
        if self.points.size == 0:
            return law.log_stuck
        low = law.lower if math.isfinite(law.lower) else float(self.points[0])
        high = law.upper if math.isfinite(law.upper) else float(self.points[-1])
        below, above = log_tail(law, low, -1), log_tail(law, high, 1)
        low, high = law.log_stuck
        return float(np.logaddexp(below, low)), float(np.logaddexp(above, high))

    def _end_ranges(self, logs: list[Array], errors: list[Array]) -> tuple[Array, Array]:
        """Return bounds on the loss of the lower and of the upper end."""
        lows, highs = [], []
        for side in (-1, 1):
            k = -2 if side < 0 else -1
            end = self.first.lower if side < 0 else self.first.upper
            if math.isinf(end) and self.points.size:
                low, high = self._half_line(side)
            else:  # an atom
                slack = errors[0][k] + errors[1][k]
                with np.errstate(invalid="ignore"):
                    low, high = logs[0][k] - logs[1][k] - slack, logs[0][k] - logs[1][k] + slack
                if math.isnan(low):  # no mass
                    low, high = -np.inf, np.inf
            lows.append(low)
            highs.append(high)
        return np.array(lows), np.array(highs)

    @cached_property
    def stds(self) -> Array | float:
        """Smallest standard deviation of a normal that has a share of a density, by cell."""
        laws = self.first, self.second
        narrowest = min(law.narrowest for law in laws)
        several = any(np.ptp(law.stds) > 0 for law in laws)
        size = self.points.size * sum(law.means.size for law in laws)
        if not several or size > _MAX_SHARE_ENTRIES or not all(law.means.size for law in laws):
            return narrowest
        found = []
        for law in laws:
            z = (self.points[:, None] - law.means) / law.stds
            peaks = law.log_masses - np.log(law.stds)
            logs = peaks - 0.5 * z * z
            least = np.minimum(logs[:-1], logs[1:]).max(axis=1, keepdims=True)
            inside = (z[:-1] < 0) & (z[1:] > 0)
            most = np.where(inside, peaks, np.maximum(logs[:-1], logs[1:]))
            found.append(np.where(most < least + _LOG_NO_SHARE, np.inf, law.stds).min(axis=1))
        return np.asarray(np.minimum(*found))

    def _half_line(self, side: int) -> tuple[float, float]:
        """Bound the loss beyond the outermost point of a line, over either outermost normal."""
        laws, point = (self.first, self.second), float(self.points[0 if side < 0 else -1])
        low, high = -math.inf, math.inf
        if not all(law.exact for law in laws):
            return low, high
        for law in laws:
            reference = _outermost(law, side)[0]
            (least_p, most_p), (least_q, most_q) = (_over(p, reference, side, point) for p in laws)
            low, high = max(low, least_p - most_q), min(high, most_p - least_q)
        return low, high

    def _log_lost(self, law: Law, table: EdgeTable) -> float:
        """Log of the mass that is neither in a cell nor below the rounding of all of them."""
        if self.points.size == 0:
            return law.log_lost
        lost = law.log_lost
        if math.isinf(law.lower) or math.isinf(law.upper):
            return lost
        bend = float(np.max(np.diff(self.points))) ** 2 / (2 * law.narrowest**2)
        least = float(np.min(table.log_density)) - bend
        least = min(least, *(atom for atom in law.log_atoms))
        return -math.inf if max(law.log_lost_density, lost) < least - _LOG_NEGLIGIBLE else lost


def _outermost(law: Law, side: int) -> tuple[tuple[float, float], float]:
    """Return (deviation, ``side`` times mean) of the normal of a tail, and its log mass.

    That is the widest normal, and of those the farthest; they rise in the order of tails.
    """
    places = list(zip(law.stds.tolist(), (side * law.means).tolist(), strict=True))
    farthest = max(places)
    own = [place == farthest for place in places]
    return farthest, float(np.logaddexp.reduce(law.log_masses[own]))


def _over(law: Law, reference: tuple[float, float], side: int, point: float) -> tuple[float, float]:
    """Bound log p/N beyond a point, with N = (deviation, ``side`` times mean) a normal.

    The log ratio of two normals is a quadratic: with slope a at the point and second derivative b,
    it reaches its value there minus a^2/2b if that is farther out.
    """
    std, mean = reference
    z, z_n = (side * point - side * law.means) / law.stds, (side * point - mean) / std
    apart = (law.stds != std) | (side * law.means != mean)
    bend = (law.stds - std) / (law.stds * std) * (1 / law.stds + 1 / std)
    slope = z_n / std - z / law.stds
    log_stds = np.log(std / law.stds)
    gap = np.where(apart, 0.5 * (z_n - z) * (z_n + z) + log_stds, 0.0)
    error = UNIT * (16 + 16 * (z**2 + z_n**2) + 4 * np.abs(log_stds))
    error = np.where(apart, error + law.position_error * (2 + np.abs(z) + abs(z_n)), 0.0)
    about = (8 * UNIT + law.position_error) * (abs(z_n / std) + np.abs(z / law.stds))
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = -0.5 * (np.abs(slope) + about) ** 2 / bend * (1 + 64 * UNIT)
    turn = np.where((bend != 0) & (slope * np.sign(bend) < about), turn, 0.0)
    outer = (law.stds > std) | ((law.stds == std) & (side * law.means > mean))
    limit = np.where(apart, np.where(outer, np.inf, -np.inf), 0.0)
    least = np.minimum(gap - error + np.minimum(turn, 0.0), limit)
    most = np.maximum(gap + error + np.maximum(turn, 0.0), limit)
    slack = law.rounding + 16 * UNIT
    low, high = (float(np.logaddexp.reduce(law.log_masses + end)) for end in (least, most))
    return low - slack, high + slack


def largest_ratio(
    width: Array, p: tuple[EdgeTable, EdgeTable], q: tuple[EdgeTable, EdgeTable], std: Array | float
) -> Array:
    """Bound log p - log q on intervals: the chord of log p minus the tangents of log q.

    Both after t^2/2s^2 is added, with t from the left end, so that both are convex: s is at most
    the deviation of a normal of either law, on all or on each interval. ``p`` and ``q`` are values
    at the left and at the right ends.
    """
    bend = width**2 / (2 * std**2)
    (p0, p1), (q0, q1) = p, q
    left, right = p0.log_density - q0.log_density, p1.log_density - q1.log_density
    rise_p = p1.log_density - p0.log_density + bend
    rise_q = q1.log_density - q0.log_density + bend
    start, end = q0.score * width, q1.score * width + 2 * bend
    turn = np.maximum(end - start, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(turn > 0, np.clip((end - rise_q) / turn, 0.0, 1.0), 0.0)
    # the larger tangent, also where rounding misplaces their intersection
    tangent = np.maximum(start * at, rise_q - end * (1 - at))
    return np.asarray(np.maximum(np.maximum(left, right), left + rise_p * at - tangent))


def law_range(laws: Sequence[Law]) -> tuple[float, float]:
    """Return where the cells begin and end: the domain, or where all normals are far away."""
    low, high = laws[0].lower, laws[0].upper
    if math.isinf(low):
        low = min(float(np.min(law.means - WINDOW * law.stds)) for law in laws)
    if math.isinf(high):
        high = max(float(np.max(law.means + WINDOW * law.stds)) for law in laws)
    return low, high


def _even_points(low: float, high: float, std: float, per_deviation: int) -> Array:
    count = max(math.ceil((high - low) / std * per_deviation), 2)
    if count > _MAX_CELLS:
        raise ValueError(
            "noise_std must be larger for an exact curve: the laws span "
            f"{(high - low) / std:.4g} standard deviations, got {std:g}"
        )
    return np.linspace(low, high, count + 1)


def _line_points(
    laws: tuple[Law, Law], per_deviation: int, reach: tuple[float, float] | None
) -> Array:
    """Return points that are close around narrow normals, and far apart where there are none."""
    means, stds = (np.concatenate([getattr(law, n) for law in laws]) for n in ("means", "stds"))
    low, high = law_range(laws)
    widest = float(stds.max())
    if reach is None:
        parts = [_doubled(laws, -1, low, widest), _doubled(laws, 1, high, widest)]
    else:
        parts = [np.arange(reach[0], low, widest), np.arange(high, reach[1], widest)]
    levels = np.floor(np.log2(stds / stds.min()))
    for level in np.unique(levels):
        own = levels == level
        std = float(stds[own].min())
        starts = np.sort(means[own] - WINDOW * stds[own])
        ends = np.sort(means[own] + WINDOW * stds[own])
        apart = np.flatnonzero(starts[1:] > ends[:-1])  # the union of intervals
        first, last = np.append(0, apart + 1), np.append(apart, starts.size - 1)
        for a, b in zip(ends[apart], starts[apart + 1], strict=True):  # towards the middle of gaps
            steps = std * 2.0 ** np.arange(max(math.ceil(math.log2((b - a) / std)), 1))
            parts += [a + steps[steps < b - a], b - steps[steps < b - a]]
        for a, b in zip(starts[first], ends[last], strict=True):
            parts.append(_even_points(a, b, std, per_deviation))
    return np.unique(np.concatenate(parts))


def _doubled(laws: tuple[Law, Law], side: int, end: float, widest: float) -> Array:
    """Return points beyond the end of a line, as far out as densities change over their normals.

    None where that is so far out that losses are lost in rounding.
    """
    distances = [0.0, *(WINDOW * 2.0**k for k in range(_DOUBLINGS))]
    for k, distance in enumerate(distances):
        at = end + side * distance * widest
        ranges = [_over(law, _outermost(law, side)[0], side, at) for law in laws]
        if max(high - low for low, high in ranges) <= max(_CONSTANT, _ROUNDING * distance**2):
            return end + side * widest * np.array(distances[1 : k + 1])
    return np.zeros(0)
