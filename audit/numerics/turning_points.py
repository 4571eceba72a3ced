"""Turning points of the ratio of two interpolated functions between the nodes of its panels.

On a panel the functions are e^(a x) P(x) and e^(b x) Q(x) with polynomials P and Q. The derivative
of the logarithm of their ratio is N / (P Q) with the polynomial N = P' Q - P Q' + (a - b) P Q, so
that the ratio is monotone where N has one sign. A Chebyshev series c_0 + c_1 T_1 + ... is at most
|c_1| + |c_2| + ... away from c_0, which proves signs without looking at every point.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from audit.numerics.arrays import Array
from audit.numerics.panels import LogInterpolants, gauss_legendre, interpolate
from audit.numerics.roots import decreasing_root

_UNIT_ROUNDOFF = 2.0**-53
_FLAT = 1e-13  # a logarithm of a ratio that varies less is as good as constant
_SLIGHT = 1e-10  # of a ratio that varies less, the error is counted relatively
_MOST_HALVINGS = 6
_LOST = 1e-11  # of the largest values on a panel: interpolants are lost in rounding below
_AT_ONCE = 512  # panels or intervals that are looked at together


@dataclass(frozen=True, eq=False)
class TurningPoints:
    """Places between which, and between the nodes and ends of panels, a ratio is monotone.

    Where rounding leaves this open, the ratio varies little, or the functions are small.

    Attributes
    ----------
    panels
        The panel of each place, shape (places,), rising.
    places
        Numbers in (-1, 1), rising on each panel.
    slack
        Bound on what the logarithm of the ratio varies by, and is not seen at these places, but
        for ``hidden_panels``.
    hidden_panels
        Panels with an interval on which it may vary by more, shape (intervals,).
    hidden_logs
        Logarithms of bounds on the integrals of the first and the second function over those
        intervals, times e and what the logarithm of the ratio varies by, at most 1; for panels of
        width 2. Shape (2, intervals).
    """

    panels: NDArray[np.intp]
    places: Array
    slack: float
    hidden_panels: NDArray[np.intp]
    hidden_logs: Array


def turning_points(interpolants: LogInterpolants) -> TurningPoints:
    """Find where the logarithm of the ratio of two interpolated functions turns.

    ``interpolants`` hold the first and the second function on the same panels. Panels on which one
    of them vanishes at a node are left out, and so are places where an interpolant is lost in
    rounding.
    """
    first, second = interpolants.factors
    tilt = interpolants.slopes[0] - interpolants.slopes[1]
    known = np.flatnonzero(np.all((first > 0) & (second > 0), axis=1))
    order = first.shape[1]
    rule = _rule(order)
    places = [(np.empty(0, dtype=np.intp), np.empty(0))]
    hidden = [(np.empty(0, dtype=np.intp), np.empty((2, 0)))]
    slack = 0.0
    for k in range(0, known.size, _AT_ONCE):
        own = known[k : k + _AT_ONCE]
        derivative = rule.sampled(first[own], second[own], tilt[own])
        stacked = np.stack([derivative.values, *derivative.parts])
        series = (stacked @ rule.cells).reshape(3, own.size, order + 1, -1)
        noise = derivative.noise
        open_ = np.abs(series[0, ..., 0]) - _beyond(series[0]) <= noise[:, None]
        rows, cells = np.nonzero(open_)
        series = series[:, rows, cells]
        intervals = _Intervals(rows, rule.ends[cells], rule.ends[cells + 1])
        for halving in range(_MOST_HALVINGS + 1):
            rows = intervals.rows
            if rows.size == 0:
                break
            noise = derivative.noise[rows] + halving * derivative.rounding[rows]
            monotone, turned, at = _single_turns(series[0], noise, intervals)
            places.append((own[rows[turned]], at))
            middles, spreads = np.abs(series[..., 0]), _beyond(series)
            middle, spread = middles[0], spreads[0]
            most, lowest = middles[1:] + spreads[1:], series[1:, :, 0] - spreads[1:]
            least = np.prod(np.maximum(lowest, 0.0), axis=0)
            lost = np.prod(most, axis=0) <= _LOST
            length = intervals.high - intervals.low
            with np.errstate(divide="ignore"):
                varies = np.where(least > 0, (middle + spread + noise) * length / least, np.inf)
            left = (middle - spread <= noise) & ~monotone & ~lost
            small = (varies <= _FLAT) | (middle + spread <= 4 * noise) | (halving == _MOST_HALVINGS)
            slight = left & small & (varies <= _SLIGHT)
            slack = max(slack, float(np.max(varies[slight], initial=0.0)))
            some = left & small & ~slight & (varies <= 1)
            chosen = own[rows[some]]
            slopes = interpolants.slopes[:, chosen]
            heights = np.maximum(slopes * intervals.low[some], slopes * intervals.high[some])
            logs = interpolants.tops[:, chosen] + heights + np.log(most[:, some] * length[some])
            # what a wrong set gains, p - e^c q or e^c q - p, is below e^v v p where the logarithm
            # of the ratio is within v <= 1 of c
            hidden.append((chosen, logs + 1 + np.log(varies[some])))
            # halves are told apart by the value between them
            split = left & ~small
            low, halves, high = intervals.halved(split)
            places.append((own[low.rows], halves))
            intervals = _Intervals.joined(low, high)
            series = np.concatenate([series[:, split] @ half for half in rule.halves], axis=1)
    panels, at = (np.concatenate(parts) for parts in zip(*places, strict=True))
    rank = np.lexsort((at, panels))
    owners, found = zip(*hidden, strict=True)
    return TurningPoints(
        panels[rank], at[rank], slack, np.concatenate(owners), np.concatenate(found, axis=1)
    )


@dataclass(frozen=True, eq=False)
class _Intervals:
    """Parts of panels, from ``low`` to ``high``, shape (intervals,)."""

    rows: NDArray[np.intp]
    low: Array
    high: Array

    def halved(self, chosen: NDArray[np.bool_]) -> tuple[_Intervals, Array, _Intervals]:
        rows, low, high = self.rows[chosen], self.low[chosen], self.high[chosen]
        middle = 0.5 * (low + high)
        return _Intervals(rows, low, middle), middle, _Intervals(rows, middle, high)

    @staticmethod
    def joined(*parts: _Intervals) -> _Intervals:
        return _Intervals(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class _Rule:
    """Matrices for one number of nodes: values and slopes at Chebyshev points, and series.

    Attributes
    ----------
    values, slopes
        From values at the nodes to those of the polynomial, and of its derivative, at the
        Chebyshev points of the panel; shape (nodes, points).
    cells
        From values at the points to the series between any two neighbours among the nodes and
        ends, side by side.
    halves
        From the series on an interval to those on its lower and its upper half.
    ends
        The nodes and the ends.
    """

    values: Array
    slopes: Array
    cells: Array
    halves: tuple[Array, Array]
    ends: Array

    def sampled(self, first: Array, second: Array, tilt: Array) -> _Derivative:
        """Return N, and what it is made of, at the points of each panel."""
        p, q = first @ self.values, second @ self.values
        dp, dq = first @ self.slopes, second @ self.slopes
        values = dp * q - p * dq + tilt[:, None] * p * q
        # rounding of sums over nodes, of values of at most 1; and of series over the points
        sizes = [np.abs(part).max(axis=1) for part in (p, q)]
        steep = [np.abs(part).max(axis=1) + np.abs(tilt) for part in (dp, dq)]
        size, steepness = (np.abs(part).sum(axis=0).max() for part in (self.values, self.slopes))
        sums = len(self.values) * (steepness * sum(sizes) + size * sum(steep))
        rounding = 4 * _UNIT_ROUNDOFF * p.shape[1] * np.abs(values).max(axis=1)
        return _Derivative(values, 4 * _UNIT_ROUNDOFF * sums + rounding, rounding, (p, q))


@dataclass(frozen=True, eq=False)
class _Derivative:
    """The polynomial N on each panel.

    Attributes
    ----------
    values
        At the Chebyshev points, shape (panels, points).
    noise
        Bound on its rounding anywhere on a panel, in the series between nodes; shape (panels,).
    rounding
        Bound on what each halving of an interval adds to it, shape (panels,).
    parts
        P and Q there.
    """

    values: Array
    noise: Array
    rounding: Array
    parts: tuple[Array, Array]


@cache
def _rule(order: int) -> _Rule:
    nodes, _ = gauss_legendre(order)
    # polynomials through the nodes are also series through as many Chebyshev points
    few, own = _chebyshev(order)
    series = np.stack([interpolate(unit, few) for unit in np.eye(order)]) @ own
    points, _ = _chebyshev(2 * order - 1)  # a product of two interpolants takes as many
    values, slopes = (
        np.asarray(chebyshev.chebval(points, part.T), dtype=np.float64)
        for part in (series, _derived(series))
    )
    ends = np.concatenate([[-1.0], nodes, [1.0]])
    _, transform = _chebyshev(points.size)
    cells = [transform @ _restriction(points.size, *cell) for cell in itertools.pairwise(ends)]
    lower, upper = (_restriction(points.size, *half) for half in ((-1.0, 0.0), (0.0, 1.0)))
    return _Rule(values, slopes, np.concatenate(cells, axis=1), (lower, upper), ends)


@cache
def _chebyshev(count: int) -> tuple[Array, Array]:
    """Return Chebyshev points, and the matrix from values there to coefficients."""
    angles = (np.arange(count) + 0.5) * np.pi / count
    transform = 2 / count * np.cos(angles[:, None] * np.arange(count))
    transform[:, 0] /= 2
    return np.cos(angles), transform


def _restriction(count: int, low: float, high: float) -> Array:
    """Return the matrix from series on [-1, 1] to series on [low, high]."""
    points, transform = _chebyshev(count)
    at = 0.5 * (low + high) + 0.5 * (high - low) * points
    return np.asarray(chebyshev.chebvander(at, count - 1).T @ transform)


def _beyond(series: Array) -> Array:
    """Return the largest distance of a series from its first coefficient."""
    return np.asarray(np.abs(series[..., 1:]).sum(axis=-1))


def _derived(series: Array) -> Array:
    return np.asarray(chebyshev.chebder(series, axis=1), dtype=np.float64)


def _single_turns(
    series: Array, noise: Array, intervals: _Intervals
) -> tuple[NDArray[np.bool_], NDArray[np.intp], Array]:
    """Return where N is monotone, the intervals on which it then changes its sign, and where."""
    slopes = _derived(series)
    # errors grow as the derivatives of polynomials do (Markov)
    shaken = noise * series.shape[1] ** 2 * 0.5 * (intervals.high - intervals.low)
    monotone = np.abs(slopes[:, 0]) - _beyond(slopes) > shaken
    start, end = chebyshev.chebval(np.array([-1.0, 1.0]), series.T).T
    turned = np.flatnonzero(monotone & (start * end < 0))
    own = series[turned].T * np.sign(start[turned])

    def height(at: Array) -> Array:
        return np.asarray(chebyshev.chebval(at, own, tensor=False))

    root = decreasing_root(height, np.full(turned.size, -1.0), np.ones(turned.size), xtol=1e-12)
    low, high = intervals.low[turned], intervals.high[turned]
    return monotone, turned, 0.5 * (low + high) + 0.5 * (high - low) * root
