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
from scipy.special import log_ndtr

from audit.numerics.arrays import Array
from audit.numerics.normal import panel_error
from audit.numerics.panels import gauss_legendre

_UNIT_ROUNDOFF = 2.0**-53
# Masses at both ends are normal floating-point numbers.
_MAX_LOG = 640.0
_NODES = 12  # nodes of a cell
_FAR_FACTOR = 32  # sums of narrow laws reach about this many times as far as their cells


@dataclass(frozen=True)
class Algebra:
    """Moments that a law carries beside its probabilities, and how they combine in a sum.

    Moment m of a cell is the expectation over it of a function f_m, in units of e^(degree * point);
    f_0 = 1 and f_1(x) = x. In a sum of independent variables x + y each f_c(x + y) is a sum of
    products f_a(x) f_b(y), over the triples (a, b, c) of ``products``.
    """

    degrees: tuple[float, ...]
    products: tuple[tuple[int, int, int], ...]

    @classmethod
    def additive(cls, *degrees: float) -> Algebra:
        """Return that of sums of functions of the summands, the summand itself first."""
        places = range(1, len(degrees) + 2)
        products = [(0, 0, 0), *((0, c, c) for c in places), *((c, 0, c) for c in places)]
        return cls((0, 1, *degrees), tuple(products))


MEAN = Algebra.additive()
_MASS = Algebra((0,), ((0, 0, 0),))


@dataclass(frozen=True, eq=False)
class GridLaw:
    """A law on [0, infinity] that lies above or below the wanted one in the convex order.

    Cell i stands for an atom near e^(i interval): of probability ``masses[i - first]``, at
    ``means[i - first] / masses[i - first]`` times that point, itself a grid point if ``above``.
    """

    above: bool
    interval: float  # distance of two grid points, in logarithms
    first: int  # index of the first cell
    moments: Array  # means of the algebra's functions (only of 1 above), shape (functions, cells)
    zero: float = 0.0  # probability of the value 0
    beyond: float = 0.0  # E[X; X = infinity]: of a vanishing mass at ever larger values
    rounding: float = 0.0  # bound on the relative error of moments, and of atoms' places
    algebra: Algebra = MEAN

    @property
    def masses(self) -> Array:
        """Probability of each cell."""
        return np.asarray(self.moments[0])

    @property
    def means(self) -> Array:
        """E[X; cell] in units of each grid point."""
        return np.asarray(self.moments[0 if self.above else 1])

    @property
    def points(self) -> Array:
        """Logarithms of the grid points, shape ``(cells,)``."""
        return np.arange(self.first, self.first + self.masses.size, dtype=float) * self.interval

    @property
    def mean(self) -> float:
        """E X."""
        return float(self.means @ np.exp(self.points)) + self.beyond


def normal_exponential(
    above: bool,
    interval: float,
    location: float,
    scale: float,
    *,
    tail: float,
    powers: tuple[float, ...] = (),
) -> GridLaw:
    """Return the law of e^N with N normal, cut where a probability of ``tail`` lies beyond."""
    algebra = Algebra.additive(*powers)
    largest = max(algebra.degrees)
    reach = math.sqrt(2 * math.log(1 / tail)) * scale
    # e^(d N) times the density is that of N(location + d scale^2, scale^2), up to a factor
    first = math.floor((location - reach) / interval)
    last = math.ceil((location + largest * scale * scale + reach) / interval)
    if not max(-first, last) * interval < _MAX_LOG:
        raise ValueError(
            f"location and scale must keep logarithms within {_MAX_LOG:g}, "
            f"got {location:g} and {scale:g}"
        )
    nodes, weights = gauss_legendre(_NODES)
    inner = 0.5 * (nodes + 1) * interval
    logs = np.arange(first, last)[:, None] * interval + inner
    z = (logs - location) / scale
    density = np.exp(-0.5 * z * z) * (0.5 * interval / (scale * math.sqrt(2 * math.pi)) * weights)
    # the rounding of the logarithms, in the steepest part of the density
    size = max(-first, last) * interval + abs(location)
    farthest = reach / scale + largest * scale
    rounding = (64 + 4 * farthest * size / scale) * _UNIT_ROUNDOFF
    rounding += panel_error(_NODES, interval / scale, interval / scale * (farthest + 1))
    degrees = np.array(algebra.degrees, dtype=float)
    log_moments = degrees * location + 0.5 * (degrees * scale) ** 2
    low = np.exp(log_moments + log_ndtr((first * interval - location) / scale - degrees * scale))
    high = np.exp(log_moments + log_ndtr((location - last * interval) / scale + degrees * scale))
    if above:
        share = np.expm1(inner) / math.expm1(interval)
        masses = np.append(density @ (1 - share), 0.0)
        masses[1:] += density @ share
        law = GridLaw(True, interval, first, masses[None], rounding=rounding, algebra=_MASS)
    else:
        moments = np.stack([density @ np.exp(degree * inner) for degree in algebra.degrees])
        law = GridLaw(False, interval, first, moments, rounding=rounding, algebra=algebra)
    return _with_tails(law, low, high)


def point(above: bool, interval: float, value: float) -> GridLaw:
    """Return the law of the constant ``value``, positive."""
    place = math.log(value) / interval
    first = math.floor(place)
    rest = (place - first) * interval
    rounding = 8 * _UNIT_ROUNDOFF
    if above:
        share = math.expm1(rest) / math.expm1(interval)
        masses = np.array([[1 - share, share]])
        return GridLaw(True, interval, first, masses, rounding=rounding, algebra=_MASS)
    moments = np.array([[1.0], [math.exp(rest)]])
    return GridLaw(False, interval, first, moments, rounding=rounding)


def _with_tails(law: GridLaw, low: Array, high: Array) -> GridLaw:
    """Return the law with both outer parts, of these moments, moved to or merged into it."""
    degrees = np.array((0, 1) if law.above else law.algebra.degrees, dtype=float)
    points = law.points
    low, high = low * np.exp(-degrees * points[0]), high * np.exp(-degrees * points[-1])
    moments = law.moments.copy()
    if not law.above:
        moments[:, 0] += low
        moments[:, -1] += high
        return replace(law, moments=moments)
    moved = min(low[1], low[0])
    moments[0, 0] += moved
    moments[0, -1] += high[0]
    return replace(
        law,
        moments=moments,
        zero=law.zero + float(low[0] - moved),
        beyond=law.beyond + max(float(high[1] - high[0]), 0.0) * math.exp(points[-1]),
    )


def trimmed(law: GridLaw, tail: float) -> GridLaw:
    """Return the law without the outer cells that hold at most ``tail``.

    Probability counts at the lower end, and the share of every moment at the upper end.
    """
    degrees = np.array((0, 1) if law.above else law.algebra.degrees, dtype=float)
    moments = np.stack([law.masses, law.means]) if law.above else law.moments
    whole = moments * np.exp(degrees[:, None] * law.points)
    below, above = np.cumsum(whole[0]), np.cumsum(whole[:, ::-1], axis=1)[:, ::-1]
    stop = int(np.count_nonzero((above > tail * above[:, :1]).any(axis=0)))
    start = min(int(np.searchsorted(below, tail * below[-1], side="right")), stop - 1)
    inner = replace(law, first=law.first + start, moments=law.moments[:, start:stop])
    return _with_tails(inner, whole[:, :start].sum(axis=1), whole[:, stop:].sum(axis=1))


def halved(law: GridLaw) -> GridLaw:
    """Return the same law on a grid of half the interval."""
    moments = np.zeros((law.moments.shape[0], 2 * law.masses.size))
    moments[:, ::2] = law.moments
    return replace(law, interval=law.interval / 2, first=2 * law.first, moments=moments)


def add(a: GridLaw, b: GridLaw) -> GridLaw:
    """Return the law of the sum of independent variables with laws ``a`` and ``b``.

    Both must be on the same side, have the same interval and carry the same moments.
    """
    first, h = min(a.first, b.first), a.interval
    size = max(a.first + a.masses.size, b.first + b.masses.size) - first
    # sums of narrow laws lie far beyond all cells of both, for which no room is kept then
    apart = abs(a.first - b.first)
    low = max(a.first, b.first) - first + math.floor(math.log1p(math.exp(-apart * h)) / h) - 1
    start = low if low > max(size, _FAR_FACTOR * (a.masses.size + b.masses.size)) else 0
    inner = max(apart - max(a.masses.size, b.masses.size), 0)
    sums = _Sums(a.above, h, a.algebra, size, start, math.log1p(math.exp(-inner * h)) / h)
    zero = a.zero * b.zero
    x = a.moments, a.first - first
    if a is b:
        sums.add(x, x, range(1, size))
        sums.moments *= 2
        sums.add(x, x, range(1))
    else:
        y = b.moments, b.first - first
        sums.add(x, y, range(size))
        sums.add(y, x, range(1, size))
    for one, other in ((a, b), (b, a)):
        place = one.first - first
        if other.zero and start:  # atoms above are split between 0 and the first cell
            masses = other.zero * one.masses
            shares = np.exp((np.arange(place, place + masses.size) - start) * h)
            sums.moments[0, 0] += masses @ shares
            zero += float(masses @ (1 - shares))
        elif other.zero:
            sums.moments[:, place : place + one.masses.size] += other.zero * one.moments
    cells = a.masses.size + b.masses.size if start else size
    terms = 4 * len(a.algebra.products) * cells + 16
    return replace(
        a,
        first=first + start,
        moments=sums.moments,
        zero=zero,
        beyond=a.beyond + b.beyond,
        rounding=a.rounding + b.rounding + 2 * terms * _UNIT_ROUNDOFF,
    )


Placed = tuple[Array, int]  # moments of cells, and the index of the first one


class _Sums:
    """The cells of a sum from ``start`` on, to which pairs (i, i - d) of cells are added.

    No sum is more than ``most`` cells beyond the larger one of its pair.
    """

    def __init__(
        self, above: bool, interval: float, algebra: Algebra, size: int, start: int, most: float
    ) -> None:
        self.above, self.interval, self.algebra = above, interval, algebra
        self.size, self.start = size, start
        self.moments = np.zeros((len(algebra.degrees), size - start + math.ceil(most) + 2))

    def add(self, large: Placed, small: Placed, offsets: range) -> None:
        """Add the pairs of cell i of ``large`` and cell i - d of ``small``, d in ``offsets``."""
        h = self.interval
        # from this offset on the sum lies in the cell of the larger one
        far = min(math.ceil(-math.log(math.expm1(h)) / h) + 1, offsets.stop)
        shifted = self._split if self.above else self._merge
        (x, start), (y, other) = large, small
        # laws of small variables are narrow, and may be far apart
        nearest = max(offsets.start, start - other - y.shape[1] + 1)
        for d in range(nearest, min(far, start + x.shape[1] - other)):
            low = max(start, other + d)
            high = min(start + x.shape[1], other + d + y.shape[1])
            both = x[:, low - start : high - start], y[:, low - d - other : high - d - other]
            shifted(*both, low - self.start, d, math.log1p(math.exp(-d * h)) / h)
        if far < offsets.stop:
            self._add_far(self._placed(*large), self._placed(*small), far)

    def _placed(self, moments: Array, start: int) -> Array:
        """Moments on all cells."""
        placed = np.zeros((moments.shape[0], self.size))
        placed[:, start : start + moments.shape[1]] = moments
        return placed

    def _split(self, large: Array, small: Array, low: int, d: int, rise: float) -> None:
        h = self.interval
        pairs = large[0] * small[0]
        k = math.floor(rise)
        share = math.expm1((rise - k) * h) / math.expm1(h)
        place = slice(low + k, low + k + pairs.size)
        self.moments[0, place] += (1 - share) * pairs
        pairs *= share
        self.moments[0, place.start + 1 : place.stop + 1] += pairs

    def _merge(self, large: Array, small: Array, low: int, d: int, rise: float) -> None:
        h, degrees = self.interval, self.algebra.degrees
        k = round(rise)
        place = slice(low + k, low + k + large.shape[1])
        for a, b, c in self.algebra.products:
            pairs = large[a] * small[b]
            factor = math.exp(-(degrees[b] * d + degrees[c] * k) * h)
            if factor != 1:
                pairs *= factor
            self.moments[c, place] += pairs

    def _add_far(self, large: Array, small: Array, far: int) -> None:
        """Add all pairs of offset ``far`` or more."""
        from scipy.signal import lfilter  # slow to import

        h, stop, degrees = self.interval, self.size, self.algebra.degrees

        def smaller(moment: int, degree: float) -> Array:
            """E[f; cell <= i - far] in units of point i."""
            decay = math.exp(-degree * h)
            start = [math.exp(-degree * far * h)]
            return np.asarray(lfilter(start, [1.0, -decay], small[moment, : stop - far]))

        if self.above:
            mass = smaller(0, 0)
            share = np.minimum(smaller(0, 1) / math.expm1(h), mass)
            self.moments[0, far:stop] += large[0, far:] * (mass - share)
            self.moments[0, far + 1 : stop + 1] += large[0, far:] * share
            return
        for a, b, c in self.algebra.products:
            self.moments[c, far:stop] += large[a, far:] * smaller(b, degrees[b])


def iid_sum(law: GridLaw, count: int, *, cells: int, tail: float) -> GridLaw:
    """Return the law of the sum of ``count`` independent variables with this law."""
    sums = {1: law}

    def of(number: int) -> GridLaw:
        if number not in sums:
            one, other = of(number // 2), of(number - number // 2)
            pair = _matched(_fine(one, cells), _fine(other, cells))
            if one is other:
                pair = pair[0], pair[0]
            sums[number] = trimmed(add(*pair), tail)
        return sums[number]

    return of(count)


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
