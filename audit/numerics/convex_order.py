"""Sums of independent nonnegative variables, bracketed in the convex order on a logarithmic grid.

X is below Y in the convex order if E f(X) <= E f(Y) for every convex f; the means are then equal.
Splitting an atom between two points with its mean raises a law in this order, and replacing the
part of a law in any set by its mean lowers it. Both moves survive sums with independent variables,
so a sum that is computed with one of the moves after every addition is above, or below, the true
one. Either move changes a law by the square of the grid's interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from audit.numerics.panels import gauss_legendre

Array = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53
# Masses at both ends are normal floating-point numbers.
_LARGEST_LOGARITHM = 640.0


@dataclass(frozen=True, eq=False)
class GridLaw:
    """A law on [0, infinity] that lies above or below the wanted one in the convex order.

    Cell i stands for an atom near e^(i interval): of probability ``masses[i - first]``, at
    ``means[i - first] / masses[i - first]`` times that point.

    Parameters
    ----------
    above
        Whether the law is above the wanted one; the atoms are then grid points.
    interval
        Distance of two grid points, in logarithms.
    first
        Index of the first cell.
    masses, means
        Probability of each cell, and E[X; cell] e^(-i interval); shape ``(cells,)``.
    zero
        Probability of the value 0.
    beyond
        E[X; X = infinity]: what a vanishing probability at an ever larger value adds to the mean.
    rounding
        Bound on the relative error of ``masses`` and ``means``, and of every atom's place.
    """

    above: bool
    interval: float
    first: int
    masses: Array
    means: Array
    zero: float = 0.0
    beyond: float = 0.0
    rounding: float = 0.0

    @property
    def points(self) -> Array:
        """Logarithms of the grid points, shape ``(cells,)``."""
        return np.arange(self.first, self.first + self.masses.size, dtype=float) * self.interval

    @property
    def mean(self) -> float:
        """E X."""
        return float(self.means @ np.exp(self.points)) + self.beyond


def normal_exponential(
    above: bool, interval: float, location: float, scale: float, *, tail: float
) -> GridLaw:
    """Return the law of e^N with N normal, cut where a probability of ``tail`` lies beyond.

    Parameters
    ----------
    above
        The side of the convex order.
    interval
        Distance of two grid points, in logarithms.
    location, scale
        Mean and standard deviation of N.
    tail
        Probability, and share of the mean, that is moved to 0 or to infinity (``above``), or
        merged into the outermost cells.
    """
    reach = scale * _normal_reach(tail)
    # e^n times the density is that of N(location + scale^2, scale^2), times the mean
    first = math.floor((location - reach) / interval)
    last = math.ceil((location + scale * scale + reach) / interval)
    if not max(-first, last) * interval < _LARGEST_LOGARITHM:
        raise ValueError(
            f"location and scale must keep logarithms within {_LARGEST_LOGARITHM:g}, "
            f"got {location:g} and {scale:g}"
        )
    nodes, weights = gauss_legendre(12)
    inner = 0.5 * (nodes + 1) * interval
    logs = np.arange(first, last)[:, None] * interval + inner
    z = (logs - location) / scale
    density = np.exp(-0.5 * z * z) * (0.5 * interval / (scale * math.sqrt(2 * math.pi)) * weights)
    outer = [first * interval, last * interval]
    size = location + 0.5 * scale * scale
    low, low_mean = (
        math.exp(log_ndtr((outer[0] - location) / scale)),
        math.exp(size + log_ndtr((outer[0] - location) / scale - scale)),
    )
    high, high_mean = (
        math.exp(log_ndtr((location - outer[1]) / scale)),
        math.exp(size + log_ndtr((location - outer[1]) / scale + scale)),
    )
    # the rounding of the logarithms, in the steepest part of the density
    steepness = (reach / scale + 1) * (max(map(abs, outer)) + abs(location)) / scale
    rounding = (64 + 4 * steepness) * _UNIT_ROUNDOFF
    if not above:
        masses, means = density.sum(axis=1), density @ np.exp(inner)
        law = GridLaw(False, interval, first, masses, means, rounding=rounding)
    else:
        share = np.expm1(inner) / math.expm1(interval)
        masses = np.append(density @ (1 - share), 0.0)
        masses[1:] += density @ share
        law = GridLaw(True, interval, first, masses, masses, rounding=rounding)
    return _with_tails(law, (low, low_mean), (high, high_mean))


def _normal_reach(tail: float) -> float:
    """Return x with Phi(-x) <= tail."""
    return math.sqrt(2 * math.log(1 / tail))


def _with_tails(law: GridLaw, low: tuple[float, float], high: tuple[float, float]) -> GridLaw:
    """Return the law with (probability, mean) of both outer parts moved to, or merged into, it."""
    points = law.points
    masses, means = law.masses.copy(), law.means.copy()
    low_moved, high_moved = low[1] * math.exp(-points[0]), high[1] * math.exp(-points[-1])
    if not law.above:
        masses[0] += low[0]
        means[0] += low_moved
        masses[-1] += high[0]
        means[-1] += high_moved
        return replace(law, masses=masses, means=means)
    low_moved = min(low_moved, low[0])
    masses[0] += low_moved
    masses[-1] += high[0]
    return replace(
        law,
        masses=masses,
        means=masses,
        zero=law.zero + low[0] - low_moved,
        beyond=law.beyond + max(high[1] - high[0] * math.exp(points[-1]), 0.0),
    )


def point(above: bool, interval: float, value: float) -> GridLaw:
    """Return the law of the constant ``value``, positive."""
    place = math.log(value) / interval
    first = math.floor(place)
    rest = (place - first) * interval
    if above:
        share = math.expm1(rest) / math.expm1(interval)
        masses = np.array([1 - share, share])
        return GridLaw(True, interval, first, masses, masses, rounding=8 * _UNIT_ROUNDOFF)
    masses, means = np.array([1.0]), np.array([math.exp(rest)])
    return GridLaw(False, interval, first, masses, means, rounding=8 * _UNIT_ROUNDOFF)


def trimmed(law: GridLaw, tail: float) -> GridLaw:
    """Return the law without the outer cells that hold at most ``tail``.

    Probability counts at the lower end, and share of the mean at the upper end.
    """
    weighted = law.means * np.exp(law.points)
    below, above = np.cumsum(law.masses), np.cumsum(weighted[::-1])[::-1]
    start = int(np.searchsorted(below, tail * below[-1], side="right"))
    stop = int(np.count_nonzero(above > tail * above[0]))
    start = min(start, stop - 1)
    kept = slice(start, stop)
    inner = replace(law, first=law.first + start, masses=law.masses[kept], means=law.means[kept])
    low = float(law.masses[:start].sum()), float(weighted[:start].sum())
    high = float(law.masses[stop:].sum()), float(weighted[stop:].sum())
    return _with_tails(inner, low, high)


def halved(law: GridLaw) -> GridLaw:
    """Return the same law on a grid of half the interval."""
    h = law.interval / 2
    size = law.masses.size
    masses, means = np.zeros(2 * size), np.zeros(2 * size)
    masses[::2], means[::2] = law.masses, law.means
    return replace(law, interval=h, first=2 * law.first, masses=masses, means=means)


def add(a: GridLaw, b: GridLaw) -> GridLaw:
    """Return the law of the sum of independent variables with laws ``a`` and ``b``.

    Both must be on the same side and have the same interval.
    """
    first, h = min(a.first, b.first), a.interval
    size = max(a.first + a.masses.size, b.first + b.masses.size) - first
    masses = np.zeros(size + math.ceil(math.log(2) / h) + 2)
    sums = _Sums(a.above, h, masses, masses if a.above else np.zeros_like(masses))
    x = _placed(a, first, size)
    if a is b:
        sums.add(x, x, range(1, size))
        sums.double()
        sums.add(x, x, range(1))
    else:
        y = _placed(b, first, size)
        sums.add(x, y, range(size))
        sums.add(y, x, range(1, size))
    for one, other in ((a, b), (b, a)):
        if other.zero:
            place = slice(one.first - first, one.first - first + one.masses.size)
            sums.masses[place] += other.zero * one.masses
    return GridLaw(
        a.above,
        h,
        first,
        sums.masses,
        sums.means,
        a.zero * b.zero,
        a.beyond + b.beyond,
        a.rounding + b.rounding + 2 * (4 * size + 16) * _UNIT_ROUNDOFF,
    )


def _placed(law: GridLaw, first: int, size: int) -> tuple[Array, Array]:
    """Masses and means on the cells from ``first`` on."""
    masses = np.zeros(size)
    place = slice(law.first - first, law.first - first + law.masses.size)
    masses[place] = law.masses
    if law.above:
        return masses, masses
    means = np.zeros(size)
    means[place] = law.means
    return masses, means


class _Sums:
    """The cells of a sum, to which pairs (i, i - d) of cells are added."""

    def __init__(self, above: bool, interval: float, masses: Array, means: Array) -> None:
        self.above, self.interval = above, interval
        self.masses, self.means = masses, means

    def double(self) -> None:
        """Double all cells."""
        self.masses *= 2
        if not self.above:
            self.means *= 2

    def add(self, large: tuple[Array, Array], small: tuple[Array, Array], offsets: range) -> None:
        """Add the pairs of cell i of ``large`` and cell i - d of ``small``, d in ``offsets``."""
        h = self.interval
        # from this offset on the sum lies in the cell of the larger one
        far = min(math.ceil(-math.log(math.expm1(h)) / h) + 1, offsets.stop)
        for d in range(offsets.start, far):
            rise = math.log1p(math.exp(-d * h)) / h
            self._shifted(large, small, d, rise)
        if far < offsets.stop:
            self._far(large, small, far)

    def _shifted(
        self, large: tuple[Array, Array], small: tuple[Array, Array], d: int, rise: float
    ) -> None:
        h = self.interval
        size = large[0].size
        pairs = large[0][d:] * small[0][: size - d]
        if self.above:
            k = math.floor(rise)
            share = math.expm1((rise - k) * h) / math.expm1(h)
            self.masses[d + k : size + k] += (1 - share) * pairs
            pairs *= share
            self.masses[d + k + 1 : size + k + 1] += pairs
            return
        k = round(rise)
        self.masses[d + k : size + k] += pairs
        means = large[1][d:] * small[0][: size - d]
        means += math.exp(-d * h) * (large[0][d:] * small[1][: size - d])
        means *= math.exp(-k * h)
        self.means[d + k : size + k] += means

    def _far(self, large: tuple[Array, Array], small: tuple[Array, Array], far: int) -> None:
        """Add all pairs of offset ``far`` or more."""
        from scipy.signal import lfilter  # slow to import

        h, size = self.interval, large[0].size
        mass = np.cumsum(small[0][: size - far])
        # E[small; cell <= i - far] in units of point i
        decay = math.exp(-h)
        mean = lfilter([math.exp(-far * h)], [1.0, -decay], small[1][: size - far])
        if self.above:
            share = np.minimum(mean / math.expm1(h), mass)
            self.masses[far:size] += large[0][far:] * (mass - share)
            self.masses[far + 1 : size + 1] += large[0][far:] * share
            return
        self.masses[far:size] += large[0][far:] * mass
        self.means[far:size] += large[1][far:] * mass + large[0][far:] * mean


def iid_sum(law: GridLaw, count: int, *, cells: int, tail: float) -> GridLaw:
    """Return the law of the sum of ``count`` independent variables with this law.

    Parameters
    ----------
    law
        The law of one variable.
    count
        How many, at least 1; by doubling and its binary digits.
    cells
        The interval is halved before an addition that takes fewer cells than half of this.
    tail
        What is cut off after an addition, see `trimmed`.
    """
    total: GridLaw | None = None
    while True:
        law = _fine(law, cells)
        if count % 2:
            total = law if total is None else trimmed(add(*_matched(total, law)), tail)
        count //= 2
        if not count:
            assert total is not None
            return total
        law = trimmed(add(law, law), tail)


def _fine(law: GridLaw, cells: int) -> GridLaw:
    while law.masses.size <= cells // 2:
        law = halved(law)
    return law


def _matched(a: GridLaw, b: GridLaw) -> tuple[GridLaw, GridLaw]:
    while a.interval > b.interval * 1.5:
        a = halved(a)
    while b.interval > a.interval * 1.5:
        b = halved(b)
    return a, b
