"""Cells of two mixtures of normals: masses and enclosed likelihood ratios.

Let s be the smallest standard deviation of the normals. The density p of a mixture times
e^(y^2/2s^2) is a sum of log-convex functions, hence log-convex: on a cell [a, b], with t = y - a
and w = b - a, log p lies below its chord plus t (w - t)/2s^2, and above each of its tangents minus
t^2/2s^2 or (w - t)^2/2s^2. The difference of the chord of log p and the tangents of log q, from
which the squares vanish, is piecewise linear: its maximum, at an end or where the tangents meet,
bounds log p - log q.

Beyond the outermost point of a line, each density of normals of one width is divided by its
outermost normal: what is left is monotone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.curves.cells import Cells
from audit.exact.law import WINDOW, EdgeTable, Law

Array = NDArray[np.float64]

# Lost densities so far below a density, in logarithms, are less than its rounding.
_NEGLIGIBLE = 46.0
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Cells of a standard deviation that refinement starts from.
_CELLS = 4
_MOST_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Cells between points of the domain of two laws, with half-lines or atoms at the ends.

    Parameters
    ----------
    first, second : Law
        Laws of X and X', on one domain.
    points : ndarray
        Ends of the cells, rising, shape ``(n + 1,)``.
    tables : tuple of (EdgeTable, EdgeTable)
        Values of both laws at the points.
    """

    first: Law
    second: Law
    points: Array
    tables: tuple[EdgeTable, EdgeTable]

    @classmethod
    def of(cls, first: Law, second: Law, per_deviation: int = _CELLS) -> NormalCells:
        """Return cells of a fraction of the smallest standard deviation."""
        laws = first, second
        if not any(law.means.size for law in laws):
            empty = EdgeTable(*np.zeros((6, 0)))
            return cls(first, second, np.zeros(0), (empty, empty))
        std = min(law.narrowest for law in laws)
        low, high = law_range(laws)
        count = max(math.ceil((high - low) / std * per_deviation), 2)
        if count > _MOST_CELLS:
            raise ValueError(
                "noise_std must be larger for an exact curve: the laws span "
                f"{(high - low) / std:.4g} standard deviations, got {std:g}"
            )
        points = np.linspace(low, high, count + 1)
        return cls(first, second, points, (first.table(points), second.table(points)))

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
            tables.append(EdgeTable.joined([old, law.table(new)])[rank])
        return replace(self, points=every[rank], tables=(tables[0], tables[1]))

    @property
    def ratios(self) -> tuple[Array, Array]:
        """Log p - log q at the points, and its derivative."""
        p, q = self.tables
        return p.log_density - q.log_density, p.score - q.score

    def cells(self) -> Cells:
        """Return the enclosed cells: those between points, then the two ends."""
        laws = self.first, self.second
        lost = [self._log_lost(law, table) for law, table in zip(laws, self.tables, strict=True)]
        logs, errors, shapes = [], [], []
        for law, table in zip(laws, self.tables, strict=True):
            ends = self._end_masses(law)
            masses, rounding = (
                law.cell_masses(self.points, table) if self.points.size else (np.zeros(0),) * 2
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
        low, high = self._loss_ranges()
        slack = shapes[0] + shapes[1]
        low, high = low - slack, high + slack
        ends_low, ends_high = self._end_ranges(logs, errors)
        return Cells(
            logs[0],
            logs[1],
            np.concatenate([low, ends_low]),
            np.concatenate([high, ends_high]),
            errors[0],
            errors[1],
            lost[0],
            lost[1],
        )

    def _loss_ranges(self) -> tuple[Array, Array]:
        p, q = (table.ends for table in self.tables)
        width = np.diff(self.points)
        std = min(self.first.narrowest, self.second.narrowest)
        return -largest_ratio(width, q, p, std), largest_ratio(width, p, q, std)

    def _end_masses(self, law: Law) -> tuple[float, float]:
        """Log masses of the two ends: atoms of the domain, or half-lines beyond all points."""
        if self.points.size == 0:
            return law.log_stuck
        low = law.lower if math.isfinite(law.lower) else float(self.points[0])
        high = law.upper if math.isfinite(law.upper) else float(self.points[-1])
        tails = law.tail_masses(low, high)
        return (
            float(np.logaddexp(tails[0], law.log_stuck[0])),
            float(np.logaddexp(tails[1], law.log_stuck[1])),
        )

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

    def _half_line(self, side: int) -> tuple[float, float]:
        """Bound the loss beyond the outermost point of a line.

        With the outermost normal N of a law, p = N f with f monotone, from the weight of N at
        infinity to p/N at the point. The ratio of the two normals is log-linear.
        """
        laws = self.first, self.second
        if any(np.ptp(law.stds) > 0 for law in laws) or laws[0].stds[0] != laws[1].stds[0]:
            return -math.inf, math.inf
        point = float(self.points[0 if side < 0 else -1])
        std = float(laws[0].stds[0])
        at = 0 if side < 0 else -1
        means = [float(law.means[at]) for law in laws]
        bounds = []
        for law, table, mean in zip(laws, self.tables, means, strict=True):
            weight = float(np.logaddexp.reduce(law.log_masses[law.means == mean]))
            normal = -0.5 * ((point - mean) / std) ** 2 - math.log(std) - _LOG_SQRT_TWO_PI
            slack = float(law.error_at(table.log_density[at], table.square[at]))
            bounds.append((weight - slack, float(table.log_density[at]) - normal + slack))
        (least_p, most_p), (least_q, most_q) = bounds
        low, high = least_p - most_q, most_p - least_q
        gap = (means[0] - means[1]) * (2 * point - means[0] - means[1]) / (2 * std**2)
        slack = (
            16
            * 2.0**-53
            * (abs(gap) + (abs(point) + abs(means[0])) * abs(means[0] - means[1]) / std**2)
        )
        if means[0] == means[1]:
            return low, high
        # the ratio of the normals falls or rises without limit from its value at the point
        if (means[0] - means[1]) * side > 0:
            return low + gap - slack, math.inf
        return -math.inf, high + gap + slack

    def _log_lost(self, law: Law, table: EdgeTable) -> float:
        """Log of the mass that is neither in a cell nor below the rounding of all of them."""
        if self.points.size == 0:
            return law.log_lost
        lost = law.log_lost
        if math.isinf(law.lower) or math.isinf(law.upper):
            return lost
        bend = float(np.max(np.diff(self.points))) ** 2 / (2 * law.narrowest**2)
        least = float(np.min(table.log_density)) - bend
        density = lost - math.log(law.narrowest) - _LOG_SQRT_TWO_PI
        least = min(least, *(atom for atom in law.log_atoms))
        return -math.inf if max(density, lost) < least - _NEGLIGIBLE else lost


def largest_ratio(
    width: Array, p: tuple[EdgeTable, EdgeTable], q: tuple[EdgeTable, EdgeTable], std: float
) -> Array:
    """Bound log p - log q on intervals: the chord of log p minus the tangents of log q.

    Both after t^2/2s^2 is added, with t from the left end, so that both are convex.

    Parameters
    ----------
    width
        Widths of the intervals, shape ``(n,)``.
    p, q
        Values of each law at the left and at the right ends.
    std
        Smallest standard deviation of a normal of either law.
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
