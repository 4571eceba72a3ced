"""Layers of a composition, convolved on one grid under a tilt with errors relative to delta.

Losses of independent outcomes add up, so the arrays of the pairs are convolved. A plain FFT errs by
1e-16 of the largest entry, which can exceed a small delta. Therefore P is first tilted by
e^(theta loss), with theta at the saddle point of the requested delta, so that the entries that
matter are the largest ones (Koskela, Jaelkoe and Honkela 2020 use FFTs, Gopi, Lee and Wutschitz
2021 bound their errors; the tilt is that of Cramer's theorem). The window of the FFT ends where
Chernoff's bound is negligible; the mass outside and the rounding of the FFT widen the bracket.

A layer is the measure (base + part)^T - base^T: the runs in which some step has an outcome of
``part``. If the losses in ``part`` are far above those in ``base``, a coarser grid suffices for it.
Large numbers are never subtracted: delta is a sum of positive terms, and the small difference of
the two laws of a lower side, and of a layer, is propagated through the powers.

Errors of arrays are bounded in the Euclidean norm, which transforms preserve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import erfcx

from audit.dominating.grid import UNIT_ROUNDOFF, GridPair
from audit.numerics.arrays import Array, Flags
from audit.numerics.discounted import discounted_sums, sum_units

Spectrum = NDArray[np.complex128]
Piece = tuple[GridPair | None, GridPair, int]

# Mass outside of a window, as a share of delta at the tilted mean loss.
_OUTSIDE_SHARE = 1e-13
# Rounding of an FFT of size N: units per stage. For each entry it is relative to the sum of
# the absolute entries, for the Euclidean norm of all to their norm (Higham 2002, Theorem 24.2, has
# 7 for radix 2; sizes have no other prime factors than 2, 3 and 5).
_UNITS_PER_STAGE = 10
_MAX_SIZE = 2**24
TILTS: Array = np.append(0.0, np.exp(0.2 * np.arange(-70, 139)))
"""Candidate tilts, from 0 to 1e12."""

# Moment bounds may be larger than the least one by this logarithm: where delta is computed, and
# where layers are chosen.
_TILT_EXCESS, LAYER_EXCESS = 1.0, 3.0
# Bounds on errors are computed in floating point themselves.
_ERROR_FACTOR = 2.0
_VOID_ERROR = 1e300  # an error of a side that overflows
# Number of cached sets.
_CACHED_SETS = 2
# Number of blocks of cells, over all pairs, from which tilts and the steps of Chernoff bounds are
# chosen; and how many such steps are compared.
_BLOCKS, _MIN_BLOCKS, _STEPS = 512, 96, 40
# Parts of a spectrum below this are dropped.
_LOG_INACTIVE = -75.0
# Relative rounding of a factor of a power: that of a product of complex numbers (the root of 5
# units, Brent, Percival and Zimmermann 2007) and of a sum; and of a factor of a power less another,
# relative to what moduli give.
_UNITS, _UNITS_OF_DIFFERENCE = 4 * UNIT_ROUNDOFF, 16 * UNIT_ROUNDOFF
_FREQUENCIES_PER_CHUNK = 1 << 14  # frequencies at a time, which fit a cache
_MAX_EXPONENT = 600.0
_MAX_PLACE = 2.0**60  # grid points from 0, which integers hold
# Largest loss of a sum of up to 2^24 terms to underflow, before it is multiplied.
_UNDERFLOW = 1e-310
# Cells around the likeliest one that a lower side tries for its best set.
_MOVES = np.array([-64, -16, -4, -1, 0, 1, 4, 16, 64])


class TooManyCells(ValueError):
    """Error for a composition with too many cells for a transform; a wider grid needs fewer."""

    def __init__(self, interval: float, cells: int) -> None:
        super().__init__(
            f"interval must be so large that the composition fits in {_MAX_SIZE} cells, "
            f"got {interval:g}"
        )
        self.cells = cells


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of a pair with positive mass under both laws.

    ``excess`` is lifted/p - 1; None if it is 0. Cells that underflow under one law are dropped
    under both, which corresponds to an event.
    """

    index: NDArray[np.int64]
    loss: Array
    log_p: Array
    excess: Array | None

    @classmethod
    def of(cls, pair: GridPair) -> _Cells:
        kept = np.flatnonzero(pair.p if pair.above else (pair.p > 0) & (pair.lifted > 0))
        index = kept + pair.first
        p = pair.p[kept]
        excess = None if pair.above else (pair.lifted[kept] - p) / p
        loss = np.asarray(index * pair.interval, dtype=np.float64)
        return cls(index, loss, np.log(p), excess)

    def blocks(self, most: int) -> tuple[Array, Array]:
        """Return log mass and mean loss of blocks of cells, shape ``(blocks,)``."""
        size = self.index.size
        if size <= most:
            return self.log_p, self.loss
        # half of the blocks evenly spaced, half by mass; large tilts see the ends only
        even = np.arange(0, size, -(-2 * size // most))
        p = np.exp(self.log_p)
        ranks = np.cumsum(np.sqrt(np.sqrt(p)))
        massy = np.searchsorted(ranks, np.linspace(0, ranks[-1], most // 2, endpoint=False))
        near = 2 ** np.arange(1, math.floor(math.log2(size)))
        near = np.concatenate([np.arange(1, 16), near])
        starts = np.unique(np.concatenate([even, massy, near, size - near]))
        mass = np.add.reduceat(p, starts)
        return np.log(mass), np.add.reduceat(p * self.loss, starts) / mass

    def log_moment(self, theta: float) -> float:
        """Return the log of the sum of e^(theta loss), of the larger of both laws."""
        exponents = self.log_p + theta * self.loss
        top = float(exponents.max(initial=-1e300))
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        if self.excess is not None:
            total = max(total, total + float(weights @ self.excess))
        return top + math.log(max(total, 1e-300))


class Layer:
    """Runs of independent pairs in which some step has an outcome of its ``part``.

    Pieces are triples (base or None, part, times) of each pair, on one side and one interval.
    Without a base, the layer holds all runs.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = tuple(pieces)
        first = self.pieces[0][1]
        self.above, self.interval = first.above, first.interval
        self.times = np.array([times for _, _, times in pieces], dtype=float)
        # base and part of each pair, or its part only
        self._groups = [
            [_Cells.of(pair) for pair in (base, part) if pair is not None]
            for base, part, _ in pieces
        ]
        most = max(_BLOCKS // len(self.pieces), _MIN_BLOCKS)
        self._copy = []
        for group in self._groups:
            log_mass, loss = map(
                np.concatenate, zip(*(cells.blocks(most) for cells in group), strict=True)
            )
            if not log_mass.size:
                log_mass, loss = np.array([-np.inf]), np.zeros(1)
            self._copy.append((log_mass, loss))
        self._sets: dict[int, Sets] = {}

    def swapped(self) -> Layer:
        """Return the layer of the pairs (Q, P)."""
        pieces = []
        for base, part, times in self.pieces:
            pieces.append((None if base is None else base.swapped(), part.swapped(), times))
        return Layer(pieces)

    def masses(self, *, of_base: bool = False) -> Array:
        """Return the probability under P of the outcomes of each pair, or of its base only."""
        pairs = [[base] if of_base else [base, part] for base, part, _ in self.pieces]
        return np.array([sum(float(p.p.sum()) for p in group if p is not None) for group in pairs])

    @cached_property
    def cumulants(self) -> Array:
        """Approximate log mass, mean and variance of the total loss under `TILTS`."""
        return self.approximate(TILTS)

    def approximate(self, tilts: Array) -> Array:
        """Return approximations of the same under other tilts, which may be negative."""
        total = np.zeros((3, tilts.size))
        for (log, loss), count in zip(self._copy, self.times, strict=True):
            exponents = log + tilts[:, None] * loss
            top = np.maximum(exponents.max(axis=1), -1e300)
            weights = np.exp(exponents - top[:, None])
            sums = np.maximum(weights.sum(axis=1), 1e-300)
            mean = weights @ loss / sums
            spread = np.maximum(weights @ loss**2 / sums - mean**2, 0.0)
            for k in np.flatnonzero(spread < 1e-6 * mean**2):  # where the difference cancels
                spread[k] = weights[k] @ (loss - mean[k]) ** 2 / sums[k]
            total += count * np.array([top + np.log(sums), mean, spread])
        return total

    def epsilon_guess(self, delta: float) -> float:
        """Return the approximate epsilon of ``delta``."""
        return saddle_point_epsilon(TILTS, self.cumulants, delta)

    def tilt(self, epsilon: float, floor: float, loose: float = _TILT_EXCESS) -> int:
        """Return the index of the tilt in `TILTS` for ``epsilon``.

        It is the least one whose log moment bound on delta is at most ``loose`` above the least, or
        below ``floor``, since a smaller tilt has a shorter window.
        """
        logs = self.log_bounds(np.array([epsilon]))[0]
        return int(np.argmax(logs <= max(float(logs.min()) + loose, floor)))

    def log_bounds(self, epsilons: Array) -> Array:
        """Return the logs of the moment bounds on delta of each of `TILTS`, for each epsilon."""
        return np.asarray(self.cumulants[0] - TILTS * epsilons[:, None])

    def sets(self, tilt: int) -> Sets:
        """Return the probabilities of sets of outcomes, accurate around the tilt's mean loss."""
        if tilt not in self._sets:
            while len(self._sets) >= _CACHED_SETS:
                self._sets.pop(next(iter(self._sets)))
            self._sets[tilt] = self._tilted(tilt)
        return self._sets[tilt]

    def _tilted(self, tilt: int) -> Sets:
        theta = float(TILTS[tilt])
        log_outside = self._log_outside(tilt)
        tilted = [[_Tilted(cells, theta) for cells in group] for group in self._groups]
        scales = np.array([np.logaddexp.reduce([one.log_sum for one in group]) for group in tilted])
        here, sizes = float(self.times @ scales), float(self.times @ np.abs(scales))
        # each mass is tilted and divided by the sum
        units = np.array([max(one.units for one in group) for group in tilted])
        units += 2 * np.abs(scales)
        slip = float(self.times @ units) * UNIT_ROUNDOFF
        low, high = self._window(tilt, here, log_outside)
        size = fft.next_fast_len(max(high - low + 1, 16), real=True)
        if size > _MAX_SIZE:
            raise TooManyCells(self.interval, size)
        transform, drift = _Transform(size, low), 0.0
        for group, scale, times in zip(tilted, scales, self.times, strict=True):
            transform.take(group, float(scale), int(times))
            drift += times * sum(one.drift(float(scale)) for one in group)
        p, p_error = transform.law()
        p_error = p_error if slip < _MAX_EXPONENT else math.inf  # then no bound follows
        sums = discounted_sums(np.maximum(p, 0.0), theta * self.interval)
        skews, skew_error = None, 0.0
        if not self.above:
            skew, skew_error = transform.difference()
            fall = (theta + 1) * self.interval
            skews = discounted_sums(skew, fall), discounted_sums(np.abs(skew), fall)
        # the tilted masses times 1 - e^-u, as sums of the sums of later grid points
        gains = discounted_sums(sums[1:], (theta + 1) * self.interval)
        gains *= math.exp(-theta * self.interval) * -math.expm1(-self.interval)
        rounding = 2 * sum_units(size, theta * self.interval) + 4 * (sizes + _MAX_EXPONENT) + 64
        return Sets(
            theta=theta,
            first=low,
            interval=self.interval,
            log_scale=here,
            log_outside=log_outside,
            p=sums,
            gain=gains,
            skews=skews,
            p_error=p_error,
            skew_error=skew_error,
            units=rounding * UNIT_ROUNDOFF,
            masses=math.expm1(slip) if math.isfinite(p_error) else 0.0,
            drift=drift,
        )

    @property
    def size(self) -> int:
        """Approximate number of cells of a transform without a tilt."""
        low, high = self._window(0, float(self.cumulants[0, 0]), self._log_outside(0))
        return high - low + 1

    def _log_outside(self, tilt: int) -> float:
        """Return the log of the tilted mass that may lie outside of a window."""
        return math.log(_OUTSIDE_SHARE * _shares(TILTS[[tilt]], self.cumulants[2, tilt])[0])

    def _log_moment(self, theta: float) -> float:
        """Return an upper bound on the log moment of the total loss, under either law."""
        logs = np.array(
            [np.logaddexp.reduce([c.log_moment(theta) for c in group]) for group in self._groups]
        )
        return float(self.times @ (logs + 1e-12 * (1 + np.abs(logs))))

    def _window(self, tilt: int, here: float, log_outside: float) -> tuple[int, int]:
        """Return grid indices outside of which Chernoff's bound is negligible.

        The steps from theta are those at which a law of the window's scale has its bound.
        """
        theta, h = float(TILTS[tilt]), self.interval
        first = last = 0
        for base, part, times in self.pieces:
            pairs = [pair for pair in (base, part) if pair is not None]
            first += times * min(pair.first for pair in pairs)
            last += times * max(pair.first + pair.p.size - 1 for pair in pairs)
        log, _, variance = self.cumulants[:, tilt]
        width = math.sqrt(variance) + h
        steps = np.geomspace(
            max(1e-3 / width, 1 / ((last - first + 1) * h)), max(40 / width, 20 / h), _STEPS
        )

        def reach(sign: int) -> float:
            """Return the least of Chernoff's bounds on one side, in cells."""
            bounds = (self.approximate(theta + sign * steps)[0] - log - log_outside) / steps
            step = float(steps[np.argmin(bounds)])
            return (self._log_moment(theta + sign * step) - here - log_outside) / step / h

        low, high = max(float(first), -reach(-1)), min(float(last), reach(1))
        low, high = math.floor(low) - 1, math.ceil(high) + 1
        return low, max(high, low + 1)


def saddle_point_epsilon(tilts: Array, cumulants: Array, delta: float) -> float:
    """Return the approximate epsilon of ``delta``, by the saddle point method.

    ``cumulants`` are log mass, mean and variance of the loss under each tilt, shape ``(3, tilts)``.
    """
    log, mean, variance = cumulants
    logs = log - tilts * mean + np.log(_shares(tilts, variance))
    below = np.flatnonzero(logs <= math.log(delta))
    if not below.size:
        return float(mean[-1])
    k = int(below[0])
    if not k:
        return max(float(mean[0]), 0.0)
    step = (math.log(delta) - logs[k - 1]) / (logs[k] - logs[k - 1])
    return max(float(mean[k - 1] + step * (mean[k] - mean[k - 1])), 0.0)


def _shares(tilts: Array, variance: Array | float) -> Array:
    """Return delta at the mean loss over the moment bound, by the saddle point method."""
    spread = np.sqrt(variance / 2)
    shares = 0.5 * (erfcx(tilts * spread) - erfcx((tilts + 1) * spread))
    return np.asarray(np.clip(shares, 1e-300, 1.0))


def _exp(value: float) -> float:
    """Return e^value, infinite where it overflows: a side with such an error says nothing."""
    return math.exp(value) if value < 700 else math.inf


class _Tilted:
    """Tilted masses of some cells, and the log of their sum."""

    def __init__(self, cells: _Cells, theta: float) -> None:
        self.cells = cells
        exponents = cells.log_p + theta * cells.loss
        self._top = top = float(exponents.max(initial=-1e300))
        self.weights = np.exp(exponents - top)
        # logarithms, products, sums and exponentials are each rounded once
        sizes = 2 * np.abs(cells.log_p) + 3 * np.abs(theta * cells.loss) + 2 * np.abs(exponents)
        self.units = 8 + 2 * abs(max(top, -1e4)) + float(sizes[self.weights > 0].max(initial=0.0))
        self.log_sum = top + math.log(max(float(self.weights.sum()), 1e-300))

    def drift(self, log_scale: float) -> float:
        """Return the mean of log lifted/p over all masses over e^log_scale."""
        if self.cells.excess is None:
            return 0.0
        return float(self.scaled(log_scale) @ np.log1p(self.cells.excess))

    def scaled(self, log_scale: float) -> Array:
        """Return the masses over e^log_scale."""
        return self.weights * math.exp(min(self._top - log_scale, 1.0))


@dataclass(eq=False)
class _Measure:
    """Transform of masses with absolute sum ``total``.

    ``entry`` bounds the error of each value, and ``norm`` the Euclidean norm of the inverse
    transform of all errors.
    """

    values: Spectrum
    total: float = 0.0
    entry: float = 0.0
    norm: float = 0.0

    def __add__(self, other: _Measure) -> _Measure:
        return _Measure(
            self.values + other.values,
            self.total + other.total,
            self.entry + other.entry,
            self.norm + other.norm,
        )


class _Transform:
    """Transforms of the law of P, and of the lifted one, on frequencies that are not negligible.

    Of length ``size``; inverse transforms begin at the grid point ``low``.
    """

    def __init__(self, size: int, low: int) -> None:
        self.size, self._low = size, low
        self._units = _UNITS_PER_STAGE * math.log2(size) * UNIT_ROUNDOFF
        self._active: NDArray[np.int64] = np.arange(size // 2 + 1)
        self._log_size = np.zeros(self._active.size)  # upper bound for both laws
        self._errors = np.zeros(self._active.size)  # bound on their errors, relative to that
        self._grown = 0.0
        self._p, self._lifted = _Powers(self._active.size), _Powers(self._active.size)

    def take(self, group: Sequence[_Tilted], log_scale: float, times: int) -> None:
        """Compose with the power of one pair: its base and part, or its part only."""
        laws, skews = [], []
        for one in group:
            masses = one.scaled(log_scale)
            laws.append(self._transformed(one.cells.index, masses))
            if one.cells.excess is not None:
                skew = masses * one.cells.excess
                skews.append(self._transformed(one.cells.index, skew))
                self._grown += times * float(np.abs(skew).sum())
        # bound on the transforms of both laws, from the total sums
        size = sum(np.abs(one.values) + one.entry for one in (*laws, *skews)) + 1e-300
        self._log_size += times * np.log(size)
        self._errors += times * sum(one.entry for one in (*laws, *skews)) / size
        kept = self._log_size > _LOG_INACTIVE
        if not kept.all():
            self._active, self._errors = self._active[kept], self._errors[kept]
            self._log_size = self._log_size[kept]
            for measure in (*laws, *skews):
                measure.values = measure.values[kept]
            for powers in (self._p, self._lifted):
                powers.keep(kept)
        self._layered = len(laws) == 2
        if self._layered:
            self._p.take(laws[0], laws[1], times)
            if skews:
                self._lifted.take(laws[0] + skews[0], laws[1] + skews[1], times)
        else:
            self._p.take(laws[0], skews[0] if skews else None, times)

    def _transformed(self, index: NDArray[np.int64], masses: Array) -> _Measure:
        """Return the active part of the transform."""
        if not index.size:
            return _Measure(np.zeros(self._active.size, dtype=np.complex128))
        total, atom = float(np.abs(masses).sum()), 0.0
        # the transform of an atom at loss 0 is known; without it rare losses keep their digits
        place = int(np.searchsorted(index, 0))
        if place < index.size and index[place] == 0:
            masses = masses.copy()
            atom, masses[place] = float(masses[place]), 0.0
        wrapped = np.bincount(index % self.size, weights=masses, minlength=self.size)
        whole = fft.rfft(wrapped)
        values = whole if self._active.size == whole.size else whole[self._active]
        values += atom
        entry = self._units * (total - abs(atom))
        return _Measure(values, total, entry, self._units * float(np.linalg.norm(wrapped)))

    def law(self) -> tuple[Array, float]:
        """Return the masses under P, and a bound on the norm of their errors."""
        powers = self._p.growth if self._layered else self._p.whole
        return self._back(*powers(self._norm, self._damped))

    def difference(self) -> tuple[Array, float]:
        """Return the masses under P minus the lifted ones, and the same bound for them."""
        values, error = self._p.growth(self._norm, self._damped)
        if not self._layered:
            return self._back(-values, error)
        other, other_error = self._lifted.growth(self._norm, self._damped)
        return self._back(values - other, error + other_error)

    @property
    def _damped(self) -> float:
        """Norm of what the errors of all transforms become, frequency by frequency."""
        return self._norm(np.exp(np.minimum(self._log_size, 700.0)) * self._errors)

    def _back(self, values: Spectrum, error: float) -> tuple[Array, float]:
        last = int(self._active[-1]) if self._active.size else 0
        spectrum = np.zeros(last + 1, dtype=np.complex128)
        spectrum[self._active] = values
        error += self._units * self._norm(values) + _exp(_LOG_INACTIVE + self._grown)
        masses = np.roll(fft.irfft(spectrum, self.size), -(self._low % self.size))
        return masses, min(_ERROR_FACTOR * error, _VOID_ERROR)

    def _norm(self, half: Spectrum | Array) -> float:
        """Return the Euclidean norm of an array whose transform has these moduli."""
        with np.errstate(over="ignore"):  # an infinite error says nothing
            return math.sqrt(2 / self.size) * float(np.linalg.norm(half))


class _Powers:
    """Products of b^T and of (b + d)^T, less the former, with bounds on their errors.

    An error e of b changes b^T by at most T |e| (sum of b)^(T-1), and so on: polynomials with
    positive coefficients are largest at the sums of the masses. Rounding is relative to what the
    absolute values give.
    """

    def __init__(self, count: int) -> None:
        self._base = np.ones(count, dtype=np.complex128)
        self._growth = np.zeros(count, dtype=np.complex128)
        self._log_base, self._log_growth = np.zeros(count), np.zeros(count)
        self._times = 0
        self._log_total = self._log_both = 0.0
        self._base_norm = self._beside_norm = self._part_norm = 0.0

    def keep(self, kept: Flags) -> None:
        """Drop all other frequencies."""
        self._base, self._growth = self._base[kept], self._growth[kept]
        self._log_base, self._log_growth = self._log_base[kept], self._log_growth[kept]

    def take(self, base: _Measure, part: _Measure | None, times: int) -> None:
        """Multiply by the power of a pair."""
        for start in range(0, self._base.size, _FREQUENCIES_PER_CHUNK):
            few = slice(start, start + _FREQUENCIES_PER_CHUNK)
            b = base.values[few]
            power = _power(b, times)
            if part is not None:
                d = part.values[few]
                with np.errstate(over="ignore", invalid="ignore"):
                    grown = _increment(b, d, times)
                    self._growth[few] *= power + grown
                    self._growth[few] += self._base[few] * grown
                size = np.maximum(np.abs(b), 1e-300)
                self._log_base[few] += times * np.log(size)
                self._log_growth[few] += times * np.log1p(np.abs(d) / size)
            self._base[few] *= power
        self._times += times
        total = max(base.total + base.entry, 1e-300)
        self._log_total += times * math.log(total)
        self._base_norm += times * base.norm / total
        if part is not None:
            both = total + part.total + part.entry
            self._log_both += times * math.log(both)
            self._beside_norm += times * base.norm / both
            self._part_norm += times * part.norm / both

    def whole(
        self, norm: Callable[[Array | Spectrum], float], damped: float
    ) -> tuple[Spectrum, float]:
        """Return the product of b^T, and the norm of its error."""
        rounding = math.expm1(self._times * _UNITS)
        error = min(_exp(self._log_total) * self._base_norm, damped)
        return self._base, error + rounding * norm(self._base)

    def growth(
        self, norm: Callable[[Array | Spectrum], float], damped: float
    ) -> tuple[Spectrum, float]:
        """Return the difference of the products, and the norm of its error."""
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.exp(self._log_base) * np.expm1(self._log_growth)
            most = np.where(np.isfinite(most), most, np.exp(self._log_base + self._log_growth))
        both = _exp(self._log_both)
        # without rounding of the difference
        added = both * -math.expm1(min(self._log_total - self._log_both, 0.0))
        error = min(added * self._base_norm, both * self._beside_norm) + both * self._part_norm
        rounding = math.expm1(self._times * _UNITS_OF_DIFFERENCE) + 1e-15
        if not np.isfinite(self._growth).all():
            return np.zeros_like(self._growth), math.inf
        return self._growth, min(error, damped) + rounding * norm(most)


def _power(values: Spectrum, power: int) -> Spectrum:
    """Return a power by squaring: faster than NumPy, with few units of error per factor."""
    result: Spectrum | None = None
    while True:
        if power % 2:
            result = values if result is None else result * values
        power //= 2
        if not power:
            assert result is not None
            return result
        values = values * values


def _increment(b: Spectrum, d: Spectrum, power: int) -> Spectrum:
    """Return (b + d)^power - b^power without cancellation."""
    base, result = b, d
    for bit in bin(power)[3:]:
        result = result * (2 * base + result)
        base = base * base
        if bit == "1":
            result = result * (b + d) + base * d
            base = base * b
    return result


@dataclass(frozen=True, eq=False)
class Sets:
    """Probabilities of the sets {loss >= grid point} of a layer, from which delta follows.

    Each array has an entry for every grid point x from ``first`` on and one more, 0. With u the
    distance of a later grid point from x, they are sums over these points of e^(-theta u) times:
    the tilted masses of P (``p``), those times 1 - e^-u (``gain``), and e^-u times those of
    P - lifted and their absolute values (``skews``). All are over e^(log_scale - theta x). The
    tilted masses of each run have a relative error of ``masses``, and sums another one of
    ``units``.
    """

    theta: float
    first: int
    interval: float
    log_scale: float
    log_outside: float
    p: Array
    gain: Array
    skews: tuple[Array, Array] | None
    p_error: float
    skew_error: float
    units: float
    masses: float
    drift: float

    def deltas(self, epsilons: Array) -> Array:
        """Return bounds on the layer's part of delta, without the rounding of the pairs."""
        places = np.clip(np.ceil(epsilons / self.interval), -_MAX_PLACE, _MAX_PLACE)
        k = places.astype(np.int64) - self.first
        if self.skews is None:
            return (1 + self.masses) * self._from(np.clip(k, 0, self.p.size - 1), epsilons)
        # merged cells, and so their sums, have other losses than their grid points
        k += round(min(max(self.drift / self.interval, -_MAX_PLACE), _MAX_PLACE))
        near = np.clip(k[:, None] + _MOVES, 0, self.p.size - 2)
        found = self._from(near, epsilons[:, None]).max(axis=1)
        return np.asarray((1 - self.masses) * np.maximum(found, 0.0))

    def _from(self, k: NDArray[np.int64], epsilon: Array) -> Array:
        """Return the bounds from the sets that begin at the k-th grid points."""
        h, theta, cells = self.interval, np.float64(self.theta), self.p.size - 1 - k
        start = (self.first + k) * h
        # how far the set begins above epsilon; on a lower side it may begin below
        ahead = np.where(cells == 0, 0.0, np.maximum(start - epsilon, -_MAX_EXPONENT))
        behind = np.maximum(-ahead, 0.0)
        shrink = np.exp(-ahead)
        main = -np.expm1(-ahead) * self.p[k] + shrink * self.gain[k]
        # the norm of e^(-theta (x - start)) |1 - e^(epsilon - x)|: with u = x - epsilon > 0 that is
        # at most e^(theta ahead) min(1, u) e^(-theta u), which rises and falls once; the sum of its
        # squares is at most their integral over h and their maximum
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            most = np.clip(cells * h + ahead, 0.0, 1.0) ** 2
            square = np.minimum(cells * most, min(1 / (2 * theta), 1 / (4 * theta**3)) / h)
            norm = np.sqrt(square + np.minimum(most, 1 / (7 * theta**2)))
            norm *= np.exp(np.minimum(theta * ahead, _MAX_EXPONENT))
            norm += np.expm1(behind) * np.sqrt(behind / h + 1)  # norm of those left of epsilon
            error = self.p_error * norm + _UNDERFLOW * (1 + shrink)
            skew = np.zeros_like(main)
            if self.skews is not None:
                skew = shrink * self.skews[0][k]
                norm = np.sqrt(np.minimum(cells, 1 + 1 / (2 * (theta + 1) * h)))
                error += shrink * (self.skew_error * norm + self.units * self.skews[1][k])
                error += self.units * np.abs(np.expm1(-ahead)) * self.p[k]
        logs = self.log_scale - theta * start
        scale = np.exp(np.minimum(logs, _MAX_EXPONENT))
        # mass outside may lie on any grid point from k on, as the transform is periodic, or beyond
        # both the window and epsilon
        least = np.where(cells == 0, epsilon, np.minimum(epsilon, start))
        outside = self.log_outside + self.log_scale - theta * least
        outside = 4 * np.exp(np.minimum(outside, 0.0) + behind)
        unknown = ~((error < _VOID_ERROR) & np.isfinite(main + skew))
        error = np.where(unknown, 0.0, error)
        with np.errstate(over="ignore"):  # an end that says nothing
            if self.skews is None:
                found = (main * (1 + self.units) + error) * scale + outside
                unknown |= logs > _MAX_EXPONENT
                return np.where(unknown, 1.0, found)
            found = (main * (1 - self.units) + skew - error) * scale - outside
            return np.where(unknown | (behind >= _MAX_EXPONENT), 0.0, found)
