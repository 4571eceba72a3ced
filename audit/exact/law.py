"""Laws of one-dimensional iterates, mixtures of normals between two ends: values and masses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtri

from audit.numerics.arrays import Array
from audit.numerics.display import ShortRepr
from audit.numerics.normal import log_interval

UNIT = 2.0**-53
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Standard deviations of a line beyond the outermost normals: less than 1e-330 of their mass.
WINDOW = 39.0
# Normals farther from a point than this are left out, if they have less than e^-46 of the density.
_NEAR_DEVIATIONS, _LOG_NEGLIGIBLE = 12.0, -46.0
_COLUMNS = ("log_density", "score", "top", "left", "right", "square")
# Points that are evaluated together, in standard deviations and in number.
_BLOCK_WIDTH, _BLOCK_SIZE = 8.0, 512
_FEW_NORMALS = 8  # normals, whose blocks may be of any width


@dataclass(frozen=True, eq=False)
class Law(ShortRepr):
    """Law of an iterate: normals, whose mass beyond the two ends is projected onto them.

    After the last step of noise the law is a mixture of normals around the images of the nodes of
    the state before, clamped to the domain. Its true density is within the factor e^(+-error) of
    the computed one, with the error of `error_at`, up to a lost mass.
    """

    means: Array  #: Means of the normals, rising, shape ``(k,)``.
    stds: Array  #: Their standard deviations, shape ``(k,)``.
    log_masses: Array  #: Their log masses, shape ``(k,)``.
    #: Whether means and deviations are given numbers, rather than rounded ones.
    exact_means: bool = False
    lower: float = -math.inf  #: Lower end of the domain; infinite for none.
    upper: float = math.inf  #: Upper end of the domain; infinite for none.
    #: Log masses that earlier steps left at absorbing ends.
    log_stuck: tuple[float, float] = (-math.inf, -math.inf)
    #: Bound on the relative error of quadrature, everywhere.
    quadrature: float = 0.0
    #: Bound on the relative error of rounding, everywhere.
    rounding: float = 0.0
    #: Bound on the relative error of rounding for each unit of -log density besides.
    depth_rounding: float = 0.0
    log_lost: float = -math.inf  #: Log of a bound on the mass that was left out.
    #: Whether ``quadrature`` is only an estimate, from which nothing is certified.
    estimated: bool = False
    #: Bound on the errors of means, in deviations, and on relative errors of deviations.
    slip: float = 0.0

    @classmethod
    def of(cls, means: Array, stds: Array, log_masses: Array, **others: object) -> Law:
        """Return the law of normals in any order; those without mass are left out.

        Parameters
        ----------
        means, stds, log_masses : ndarray
            The normals, shape ``(k,)`` each.
        **others : object
            Other attributes.

        Returns
        -------
        Law
            The law.
        """
        kept = np.flatnonzero(log_masses > -np.inf)
        rank = kept[np.argsort(means[kept], kind="stable")]
        return cls(means[rank], stds[rank], log_masses[rank], **others)  # type: ignore[arg-type]

    @cached_property
    def narrowest(self) -> float:
        """Smallest standard deviation of a normal; infinite for a law without any."""
        return float(self.stds.min(initial=math.inf))

    @cached_property
    def widest(self) -> float:
        """Largest standard deviation of a normal; 0 for a law without any."""
        return float(self.stds.max(initial=0.0))

    @cached_property
    def position_error(self) -> float:
        """Rounding of the distance from a mean, in standard deviations."""
        if self.exact_means:
            return 0.0  # what is rounded is relative to the distance: part of that of the square
        farthest = float(np.abs(self.means).max(initial=0.0))
        return 4 * UNIT * farthest / self.narrowest

    @cached_property
    def log_outside(self) -> tuple[Array, Array]:
        """Log masses of the normals before each place, and from it on, shape ``(k + 1,)`` each."""
        none = np.full(1, -np.inf)
        below = np.logaddexp.accumulate(np.concatenate([none, self.log_masses]))
        above = np.logaddexp.accumulate(np.concatenate([none, self.log_masses[::-1]]))
        return below, above[::-1]

    @property
    def exact(self) -> bool:
        """Whether the law is that of its normals, on a line, but for relative errors of weights."""
        on_line = self.lower == -math.inf and self.upper == math.inf
        errors = self.quadrature, self.depth_rounding, self.slip, math.exp(self.log_lost)
        return on_line and self.means.size > 0 and max(errors) == 0

    @property
    def lost_mass(self) -> float:
        """Bound on the mass that was left out."""
        return math.exp(self.log_lost)

    @property
    def log_lost_density(self) -> float:
        """Log of a bound on the density of what was left out."""
        return self.log_lost - math.log(self.narrowest) - _LOG_SQRT_TWO_PI

    def error_at(self, log_density: Array, square: Array | float = 0.0) -> Array:
        """Bound the error of log densities at points, and of log masses around them.

        Parameters
        ----------
        log_density : ndarray
            Log densities, or log masses, shape ``(n,)``.
        square : array_like, default: 0.0
            Mean squared distance from the means that lead there, in standard deviations.

        Returns
        -------
        ndarray
            Bounds, shape ``(n,)``.
        """
        depth = self.depth_rounding * np.maximum(-log_density, 0.0)
        own = UNIT * (32 + 3 * np.asarray(square) + 2 * np.abs(log_density))
        own = own + self.position_error * (1 + np.sqrt(square))
        own = own + 2 * self.slip * (1 + np.sqrt(square) + square)
        return np.asarray(self.quadrature + self.rounding + np.where(depth < 1, depth, 1.0) + own)

    @cached_property
    def log_atoms(self) -> tuple[float, float]:
        """Logarithms of the probabilities of the two ends."""
        low, high = log_tail(self, self.lower, -1), log_tail(self, self.upper, 1)
        stuck = self.log_stuck
        return float(np.logaddexp(low, stuck[0])), float(np.logaddexp(high, stuck[1]))

    @property
    def atoms(self) -> tuple[float, float]:
        """Probabilities of the lower and the upper end of the domain."""
        low, high = self.log_atoms
        return math.exp(low), math.exp(high)

    def log_density(self, x: ArrayLike) -> Array:
        """Return the log density.

        It is -inf outside of the domain, and does not include the atoms.

        Parameters
        ----------
        x : array_like
            Points, of any shape.

        Returns
        -------
        ndarray
            Values, shape of ``x``.
        """
        points = np.asarray(x, dtype=np.float64)
        flat = points.ravel()
        result = np.full(flat.shape, -np.inf)
        if self.means.size:
            rank = np.argsort(flat)
            result[rank] = edge_table(self, flat[rank], tails=False).log_density
        outside = (flat < self.lower) | (flat > self.upper)
        return np.where(outside, -np.inf, result).reshape(points.shape)

    def density(self, x: ArrayLike) -> Array:
        """Return the density.

        Parameters
        ----------
        x : array_like
            Points, of any shape.

        Returns
        -------
        ndarray
            Values, shape of ``x``.
        """
        return np.asarray(np.exp(self.log_density(x)))

    def log_probability(self, low: float, high: float) -> float:
        """Return the log probability of the closed interval [low, high].

        It is relatively accurate in the tails.

        Parameters
        ----------
        low, high : float
            Ends of the interval.

        Returns
        -------
        float
            The log probability.
        """
        if low > high:
            return -math.inf
        parts = [
            atom
            for end, atom in zip((self.lower, self.upper), self.log_atoms, strict=True)
            if low <= end <= high
        ]
        a, b = max(low, self.lower), min(high, self.upper)
        if a < b and self.means.size:
            logs = log_interval((a - self.means) / self.stds, (b - self.means) / self.stds)
            parts.append(float(np.logaddexp.reduce(self.log_masses + logs)))
        return float(np.logaddexp.reduce(parts)) if parts else -math.inf

    def probability(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Return the probability of the closed interval [low, high].

        Parameters
        ----------
        low : float, default: -inf
            Lower end of the interval.
        high : float, default: inf
            Upper end of the interval.

        Returns
        -------
        float
            The probability.
        """
        return math.exp(self.log_probability(low, high))

    def cdf(self, x: ArrayLike) -> Array:
        """Return the probability of being at most ``x``.

        Parameters
        ----------
        x : array_like
            Points, of any shape.

        Returns
        -------
        ndarray
            Values, shape of ``x``.
        """
        points = np.asarray(x, dtype=np.float64)
        values = [self.probability(high=point) for point in points.ravel().tolist()]
        return np.array(values).reshape(points.shape)


@dataclass(frozen=True, eq=False)
class EdgeTable(ShortRepr):
    """Values of a law at points, shape (n,) each.

    The log density with its derivative ``score``; a logarithm ``top`` near it; masses above each
    point of the normals with means below it (``left``) and masses below it of the others
    (``right``), both divided by e^top; and the mean ``square`` of the distances from the means, in
    standard deviations.
    """

    log_density: Array
    score: Array
    top: Array
    left: Array
    right: Array
    square: Array

    @classmethod
    def joined(cls, tables: list[EdgeTable]) -> EdgeTable:
        """Return the table of all points."""
        return cls(*(np.concatenate([getattr(t, name) for t in tables]) for name in _COLUMNS))

    def __getitem__(self, chosen: slice | NDArray[np.intp]) -> EdgeTable:
        return EdgeTable(*(getattr(self, name)[chosen] for name in _COLUMNS))

    @property
    def ends(self) -> tuple[EdgeTable, EdgeTable]:
        """Values at the left and at the right ends of the cells between the points."""
        return self[:-1], self[1:]


def edge_table(law: Law, points: Array, *, tails: bool = True) -> EdgeTable:
    """Return the values of a law at rising points; ``left`` and ``right``, costly, if wanted."""
    found = [_block(law, points[block], tails) for block in _blocks(law, points)]
    return EdgeTable.joined(found) if found else EdgeTable(*np.zeros((6, 0)))


def score_range(law: Law, low: Array, high: Array, std: float, share: float) -> Array:
    """Return half the range of scores that hold all but a share of the law on rising intervals.

    A wider normal is one of deviation ``std`` around a normal centre, so that the law is a mixture
    of normals of this width; the score of one at y is (centre - y)/std^2. The weights of the
    centres at y are an exponential family in y: their quantiles rise in y, so that the lower
    quantile at the low end and the upper one at the high end hold everywhere between.
    """
    ends = []
    reach = -float(ndtri(0.25 * share))
    for points, side in ((low, -1), (high, 1)):
        found = np.empty(points.size)
        for block in _blocks(law, points):
            near, _, logs = _logs(law, points[block])
            means, stds = law.means[near], law.stds[near]
            y = points[block, None]
            # given y, centres are normal; std**2 may round above the square of the same deviation
            pull = 1 - (std / stds) ** 2
            centres = means + (y - means) * pull + side * reach * std * np.sqrt(pull)
            if np.ptp(stds) > 0:
                rank = np.argsort(centres, axis=1)
                centres, logs = (np.take_along_axis(a, rank, axis=1) for a in (centres, logs))
            terms = np.exp(logs - logs.max(axis=1, keepdims=True))
            sums = terms.cumsum(axis=1) / terms.sum(axis=1, keepdims=True)
            # rounding takes some of a quarter of the share
            limit = 0.25 * share - 4 * UNIT * logs.shape[1]
            at = (sums < (limit if side < 0 else 1 - limit)).sum(axis=1)
            at = np.clip(at, 0, centres.shape[1] - 1)
            found[block] = np.take_along_axis(centres, at[:, None], axis=1)[:, 0]
        ends.append(found)
    return np.asarray((ends[1] - ends[0]) / (2 * std**2))


def cell_masses(law: Law, points: Array, table: EdgeTable) -> tuple[Array, Array]:
    """Return log masses of the cells between rising points, and bounds on their errors.

    Each normal's mass is the difference of its tails on the side of its mean, so that nothing
    cancels but within a standard deviation.
    """
    top = np.maximum(table.top[:-1], table.top[1:])
    here, there = np.exp(table.top[:-1] - top), np.exp(table.top[1:] - top)
    outer = here * table.left[:-1] + there * table.right[1:]
    inner = there * table.left[1:] + here * table.right[:-1]
    at = np.searchsorted(law.means, points, side="left")
    own = np.repeat(np.arange(top.size), np.diff(at))
    between = np.exp(law.log_masses[at[0] : at[-1]] - top[own])
    whole = np.bincount(own, between, minlength=top.size)
    mass = np.maximum(outer + whole - inner, 0.0)
    square = np.maximum(table.square[:-1], table.square[1:])
    size = (outer + inner + whole) * (UNIT * (16 + 3 * square) + 2 * law.position_error)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(size < mass, size / (mass - size), np.inf)
        logs = np.log(mass) + top
    # where differences are lost in rounding, the densities at the ends bound the mass
    width = np.diff(points)
    lost = ~(error < 1e-6)
    if lost.any():
        low, high = (
            f(table.log_density[:-1], table.log_density[1:]) for f in (np.minimum, np.maximum)
        )
        bend = width**2 / (8 * law.narrowest**2)
        slope = np.maximum(np.abs(table.score[:-1]), np.abs(table.score[1:])) * width
        least = low - slope - 4 * bend + np.log(width)
        most = high + bend + np.log(width)
        between = 0.5 * (least + most)
        bound = 0.5 * (most - least) + UNIT * (32 + 8 * square + np.abs(most))
        better = lost & (bound < np.where(np.isnan(error), np.inf, error))
        logs, error = np.where(better, between, logs), np.where(better, bound, error)
    return logs, error + 4 * UNIT * np.abs(np.nan_to_num(logs, neginf=0.0))


def log_tail(law: Law, end: float, side: int) -> float:
    """Return the log mass of the normals at or beyond an end of one side."""
    if math.isinf(end) or law.means.size == 0:
        return -math.inf
    logs = law.log_masses + log_ndtr(side * (law.means - end) / law.stds)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _blocks(law: Law, points: Array) -> Iterator[slice]:
    start = 0
    width = math.inf if law.means.size <= _FEW_NORMALS else _BLOCK_WIDTH * law.narrowest
    while start < points.size:
        stop = int(np.searchsorted(points, points[start] + width))
        stop = min(max(stop, start + 1), start + _BLOCK_SIZE)
        yield slice(start, stop)
        start = stop


def _logs(law: Law, points: Array) -> tuple[slice, Array, Array]:
    """Return the normals that matter at points of a block, with distances and log densities.

    All others together have no share of a density that rounding would leave.
    """
    reach = math.inf if law.means.size <= _FEW_NORMALS else _NEAR_DEVIATIONS
    while True:
        far = reach * law.widest
        first, last = np.searchsorted(law.means, (points[0] - far, points[-1] + far))
        near = slice(int(first), int(last))
        z = points[:, None] - law.means[near]
        z /= law.stds[near]
        logs = z * z
        logs *= -0.5
        logs += law.log_masses[near] - np.log(law.stds[near])
        if near.start == 0 and near.stop == law.means.size:
            return near, z, logs
        left_out = _left_out(law, points, reach) - math.log(law.narrowest)
        if left_out < float(logs.max(axis=1, initial=-np.inf).min()) + _LOG_NEGLIGIBLE:
            return near, z, logs
        reach *= 2


def _left_out(law: Law, points: Array, reach: float) -> float:
    """Bound the log of the densities of normals beyond a reach, times their deviations.

    In shells that double in width: of each, the mass on either side of one of its ends.
    """
    farthest = max(points[-1] - law.means[0], law.means[-1] - points[0])
    shells = 2 + max(math.ceil(math.log2(farthest / (reach * law.widest))), 0)
    reaches = reach * 2.0 ** np.arange(shells)
    first = np.searchsorted(law.means, points[0] - reaches * law.widest)
    last = np.searchsorted(law.means, points[-1] + reaches * law.widest)
    below, above = law.log_outside
    left = np.minimum(below[first[:-1]], above[first[1:]])
    right = np.minimum(above[last[:-1]], below[last[1:]])
    return float(np.logaddexp.reduce(np.logaddexp(left, right) - 0.5 * reaches[:-1] ** 2))


def _block(law: Law, points: Array, tails: bool) -> EdgeTable:
    # in place, as fresh arrays of this size cost more than what is computed in them
    near, z, terms = _logs(law, points)
    stds = law.stds[near]
    top = terms.max(axis=1)
    terms -= top[:, None]
    np.exp(terms, out=terms)
    total = terms.sum(axis=1)
    left = right = np.zeros(points.size)
    if tails:
        masses = np.abs(z)
        masses /= math.sqrt(2)
        erfcx(masses, out=masses)
        masses *= terms
        masses *= stds * _SQRT_HALF_PI
        above = masses * (z <= 0)
        right = above.sum(axis=1)
        masses -= above
        left = masses.sum(axis=1)
    terms *= z
    score = -(terms / stds).sum(axis=1) / total
    terms *= z
    square = terms.sum(axis=1) / total
    log_density = top + np.log(total) - _LOG_SQRT_TWO_PI
    return EdgeTable(log_density, score, top - _LOG_SQRT_TWO_PI, left, right, square)
