"""Joint confidence regions for the rates of an event under two laws.

A region describes one event S and two laws: a high rate under the first law and a low rate under
the second one. A function that increases in the first rate and decreases in the second attains its
minimum on the region's lower right edge. The edge is stored as the corners of a staircase that
lies outside the region, so the minimum over the corners is a valid lower bound.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from audit import validate
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.numerics.arrays import Array, Indices
from audit.numerics.hulls import lower_hull

_MARGIN = 2.0**-53  # by which rates stay inside (0, 1) where rounding could claim too much
# Relative error of a computed limit. 1 - limit has far fewer correct digits than the limit itself,
# so within ``_CLOSE_TO_ONE`` of 1 the error is subtracted before 1 - limit is used.
_LIMIT_ERROR = 2.0**-48
_CLOSE_TO_ONE = 2.0**-20
_LOWEST_SCORE = -8.0  # normal scores below have a tail probability of 1 in double precision
_MIN_USEFUL_SCORE = -0.5  # corners with lower scores of the first rate rarely attain the minimum


class Rates(enum.Enum):
    """Bound on the two rates of an event."""

    SEPARATE = "separate"  # Clopper and Pearson's limit on each, the error shared between them
    JOINT = "joint"  # one exact test of both (`joint`), tighter if both are uncertain


@dataclass(frozen=True)
class Counts:
    """Counts of an event: ``first`` of ``first_total`` samples, and ``second`` of ``second_total``.

    Samples give integers; planning uses expected counts, which need not be integers. Those of
    several tests are arrays.
    """

    first: Any
    first_total: Any
    second: Any
    second_total: Any

    @staticmethod
    def of(tests: Iterable[Counts]) -> Counts:
        """Return the counts of several tests, one entry per test."""
        table = [(one.first, one.first_total, one.second, one.second_total) for one in tests]
        return Counts(*np.array(table).T)

    def __getitem__(self, which: Any) -> Counts:
        columns = self.first, self.first_total, self.second, self.second_total
        return Counts(*(column[which] for column in columns))


@dataclass(frozen=True, eq=False)
class Region:
    """A confidence region: at some corner i, rates are >= first[i] and <= second[i]."""

    first: Array  # rates in [0, 1], shape (corners,); one corner is a rectangle
    second: Array

    def complement(self) -> Region:
        """Return the same region for the complement of the event, with the laws exchanged."""
        rest = 1 - self.first
        short = rest < _CLOSE_TO_ONE
        return Region(1 - self.second, np.where(short, rest + _LIMIT_ERROR, rest))

    def epsilons(self, delta: Array) -> Array:
        """Return log((p - delta) / q) at every corner (last axis); -inf if p is at most delta."""
        gap = self.first - delta[..., None]
        short = gap < _CLOSE_TO_ONE * self.first
        gap = np.maximum(np.where(short, gap - _LIMIT_ERROR * self.first, gap), 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(gap) - np.log(self.second))

    def mus(self) -> Array:
        """Return Phi^-1(p) - Phi^-1(q) at every corner, at most the mu of a mu-GDP pair."""
        first = np.where(1 - self.first < _CLOSE_TO_ONE, self.first - _LIMIT_ERROR, self.first)
        second = np.where(1 - self.second < _CLOSE_TO_ONE, self.second + _LIMIT_ERROR, self.second)
        return np.asarray(ndtri(first) - ndtri(np.minimum(second, 1.0)))

    def renyis(self, alpha: Array) -> Array:
        """Return the Renyi divergence, order ``alpha`` > 1, of two-point laws at every corner.

        It is at most that of the laws (data processing). It is 0 where p is at most q.
        """
        inside = self.first > self.second
        p, q = np.where(inside, (self.first, self.second), 0.5)  # 0.5, 0.5 has divergence 0
        return two_point_renyi(alpha[..., None], p, q)


def two_point_renyi(alpha: Array, p: Array, q: Array) -> Array:
    """Return the Renyi divergence, order alpha > 1, of (p, 1 - p) from (q, 1 - q).

    For 1 > p >= q > 0. Neither form loses digits where it is used: the first for orders near 1, the
    second for orders up to the largest float.
    """
    up, down = np.log(p) - np.log(q), np.log1p(-p) - np.log1p(-q)  # up >= 0 >= down
    power = alpha - 1
    with np.errstate(over="ignore"):
        gain = np.minimum(power * up, 1.0), np.maximum(power * down, -1.0)
        near = np.log1p(p * np.expm1(gain[0]) + (1 - p) * np.expm1(gain[1])) / power
        apart = alpha * (up - down) + np.log(q) - np.log1p(-q)
        far = (1 + 1 / power) * up + np.log(q) / power + np.logaddexp(0.0, -apart) / power
        small = power * np.maximum(up, -down) < 1
    return np.asarray(np.where(small, near, far))


def kept_inside(first: Array, second: Array) -> tuple[Array, Array]:
    """Keep limits away from 1 and 0, so that rounding cannot make a rate exactly 1 or 0."""
    return np.minimum(first, 1 - _MARGIN), np.maximum(second, _MARGIN)


@dataclass(frozen=True)
class JointShape:
    """The shape of a joint region; must be fixed before the counts are seen."""

    angle: float  # in (0, pi/2]: scores of the rates have weights cos(angle) and sin(angle)
    # shares of the error that bound each rate separately; the second one is not needed, and not
    # spent, at an angle of pi/2
    first_guard: float
    second_guard: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.angle <= math.pi / 2:
            raise validate.fail("angle", "in (0, pi/2]", self.angle)
        for name, most in (("first_guard", 0.5), ("second_guard", 1 / 3)):
            if not 0 < getattr(self, name) <= most:
                raise validate.fail(name, f"in (0, 1/{1 / most:g}]", getattr(self, name))


# Clopper and Pearson's limit of each rate at half the error (union bound).
SEPARATE = JointShape(math.pi / 2, 0.5)


def joint(
    counts: Sequence[Counts], error: float, shape: JointShape, corners: int = 256
) -> list[Region]:
    """Return joint regions of one shape, which miss the true rates with probability ``error``.

    They hold the rates that neither a guard of one count nor Stouffer's sum of both exact p-values
    excludes (``docs/explanation/sampled-bounds.md``); rectangles if ``angle`` is pi/2.
    """
    corners = 1 if shape.angle == math.pi / 2 else corners
    edges = joint_edges(Counts.of(counts)[:, None], error, [shape], corners)
    return [Region(first, second) for first, second in zip(*edges, strict=True)]


def joint_edges(
    counts: Counts, error: float, shapes: Sequence[JointShape], corners: int
) -> tuple[Array, Array]:
    """Return the corners of a `joint` region for each shape, (shapes, corners) each.

    With one shape, counts may be columns: the regions of many counts, a row each.
    """
    angle = np.asarray([[shape.angle] for shape in shapes])
    first_guard = np.asarray([[shape.first_guard] for shape in shapes]) * error
    second_guard = np.asarray([[shape.second_guard] for shape in shapes]) * error
    flat = angle == math.pi / 2
    along, across = np.where(flat, 1.0, np.cos(angle)), np.sin(angle)
    guard, top = -ndtri(first_guard), -ndtri(second_guard)
    cut = -ndtri(error - first_guard - second_guard)
    lowest = np.maximum((cut - across * top) / along, _LOWEST_SCORE)
    lowest = np.minimum(np.where(flat, guard, lowest), guard)
    # Scores of the first rate, along which p increases; dense where the minimum usually lies.
    middle = np.clip(_MIN_USEFUL_SCORE, lowest, guard)
    many = corners - corners // 4
    score = np.concatenate(
        [
            guard + (middle - guard) * np.linspace(0, 1, many),
            middle + (lowest - middle) * np.linspace(0, 1, corners - many + 1)[1:],
        ],
        axis=1,
    )
    other = np.minimum((cut - along * score) / across, top)
    least = np.where(flat, first_guard, _tail(score))
    first = lower_limit(counts.first, counts.first_total, least)
    # Between two grid points p is at least that of the first and q at most that of the second;
    # beyond the last one only the guard bounds q. At an angle of pi/2 the second rate has the rest.
    least = np.where(flat, error - first_guard, second_guard)
    errors = np.where(flat, least, np.append(_tail(other[:, 1:]), least, axis=1))
    return kept_inside(first, upper_limit(counts.second, counts.second_total, errors))


def _tail(score: Array) -> Array:
    """Return the normal tail probability, kept inside (0, 1)."""
    return np.asarray(np.clip(ndtr(-score), 1e-300, 1 - 1e-16))


def hull_points(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Return the vertices of an upper bound on a tradeoff function, alpha ascending.

    It is convex and below all points, (0, 1) and (1, 0) (Dong, Roth and Su 2022, Proposition 2.2).
    """
    kept = hull_vertices(alpha, beta)
    lowest = np.concatenate([[1.0], beta[kept], [0.0]])
    return np.concatenate([[0.0], alpha[kept], [1.0]]), lowest


def hull_vertices(alpha: Array, beta: Array) -> Indices:
    """Return the lower convex hull's vertices, by ascending alpha, of points, (0, 1) and (1, 0)."""
    useful = np.flatnonzero((beta < 1 - alpha) & (alpha > 0))
    useful = useful[np.lexsort((beta[useful], alpha[useful]))]
    lowest = np.minimum.accumulate(beta[useful])
    falls = np.ones(useful.size, dtype=np.bool_)
    falls[1:] = lowest[1:] < lowest[:-1]
    useful = useful[falls]
    points = zip(alpha[useful].tolist(), beta[useful].tolist(), useful.tolist(), strict=True)
    hull = lower_hull([(0.0, 1.0, -1), *points, (1.0, 0.0, -1)])
    return np.asarray([index for _, _, index in hull[1:-1]], dtype=np.intp)


def hull_renyi(orders: Array, alpha: Array, beta: Array) -> Array:
    """Return the Renyi divergence of the pair whose tradeoff function is piecewise linear.

    By Blackwell (1953) and data processing, pairs with a lower tradeoff function have a larger one.
    """
    p, q = np.diff(alpha), -np.diff(beta)
    p, q = p[p > 0], q[p > 0]  # a segment without first mass contributes nothing
    loss = np.log(p) - np.log(q)
    highest = float(np.max(loss))
    power = orders[:, None] - 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        small = np.maximum(highest, -float(np.min(loss))) * power[:, 0] < 1
        gain = np.expm1(np.clip(power * loss, -1.0, 1.0))
        near = np.log1p(np.maximum(gain @ p, 0.0)) / power[:, 0]
        rest = np.log(np.sum(q * np.exp(np.maximum(orders[:, None] * (loss - highest), -745)), 1))
        far = (1 + 1 / power[:, 0]) * highest + rest / power[:, 0]
    return np.asarray(np.maximum(np.where(small, near, far), 0.0))
