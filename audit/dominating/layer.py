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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import erfcx

from audit.dominating.grid import UNIT_ROUNDOFF, GridPair

Array = NDArray[np.float64]
Spectrum = NDArray[np.complex128]
Piece = tuple[GridPair | None, GridPair, int]

# Mass outside of a window, as a share of delta at the tilted mean loss.
_OUTSIDE = 1e-13
# Rounding of an FFT of size N: units per stage. For each entry it is relative to the sum of
# the absolute entries, for the Euclidean norm of all to their norm (Higham 2002, Theorem 24.2, has
# 7 for radix 2; sizes have no other prime factors than 2, 3 and 5).
_UNITS_A_STAGE = 10
_LARGEST_SIZE = 2**24
TILTS: Array = np.append(0.0, np.exp(0.2 * np.arange(-70, 139)))
"""Candidate tilts, from 0 to 1e12."""

# Moment bounds may be larger than the least one by this logarithm: where delta is computed, and
# where layers are chosen.
_LOOSE, LOOSE = 1.0, 3.0
# Bounds on errors are computed in floating point themselves.
_SAFETY = 2.0
# Number of cached sets.
_KEPT = 2
# Number of blocks of cells, over all pairs, in the copies used to choose tilts and windows.
_BLOCKS, _FEWEST_BLOCKS = 1024, 96
# Parts of a spectrum below this are dropped.
_LOG_INACTIVE = -75.0
# Relative rounding of a factor of a power.
_UNITS = 8 * UNIT_ROUNDOFF
# Exponents of weights on the left of the mean, and deviations of the tilted loss; sets that start
# further left are not considered.
_LARGEST_EXPONENT = 600.0
# What sums of up to 2^24 terms that underflow may lack, before they are multiplied.
_UNDERFLOW = 1e-310
_LEFT = 8.0
# Cells around the likeliest one that a lower side tries for its best set.
_MOVES = (-64, -16, -4, -1, 0, 1, 4, 16, 64)


class TooManyCells(ValueError):
    """Error for a composition with too many cells for a transform; a wider grid needs fewer."""


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

    def blocks(self, most: int) -> tuple[Array, Array, Array, Array]:
        """Return log mass, mean loss and ends of blocks of cells, shape ``(blocks,)``."""
        size = self.index.size
        if not size:
            return np.array([-np.inf]), np.zeros(1), np.zeros(1), np.zeros(1)
        if size <= most:
            return self.log_p, self.loss, self.loss, self.loss
        # half of the blocks evenly spaced, half by mass; large tilts see the ends only
        even = np.arange(0, size, -(-2 * size // most))
        p = np.exp(self.log_p)
        ranks = np.cumsum(np.sqrt(np.sqrt(p)))
        massy = np.searchsorted(ranks, np.linspace(0, ranks[-1], most // 2, endpoint=False))
        near = 2 ** np.arange(1, math.floor(math.log2(size)))
        near = np.concatenate([np.arange(1, 16), near])
        starts = np.unique(np.concatenate([even, massy, near, size - near]))
        mass = np.add.reduceat(p, starts)
        mean = np.add.reduceat(p * self.loss, starts) / mass
        ends = np.append(starts[1:], size) - 1
        return np.log(mass), mean, self.loss[starts], self.loss[ends]

    def lifted(self) -> _Cells:
        """Return the cells with lifted masses in place of those under P."""
        if self.excess is None:
            return self
        return _Cells(self.index, self.loss, self.log_p + np.log1p(self.excess), None)


def _stacked(rows: Sequence[Array], fill: float) -> Array:
    """Return rows of different lengths as one array."""
    result = np.full((len(rows), max(row.size for row in rows)), fill)
    for target, row in zip(result, rows, strict=True):
        target[: row.size] = row
    return result


@dataclass(frozen=True, eq=False)
class _Copy:
    """Few blocks of each pair, with sums close to those over all cells."""

    log_mass: Array
    loss: Array
    # masses split between the ends of each block, which only raises moments
    log_ends: Array
    ends: Array

    @classmethod
    def of(cls, groups: Sequence[Sequence[_Cells]], most: int) -> _Copy:
        columns: tuple[list[Array], ...] = ([], [], [], [])
        for group in groups:
            blocks = [one.blocks(most) for one in group]
            log_mass, mean, low, high = (np.concatenate(part) for part in zip(*blocks, strict=True))
            with np.errstate(divide="ignore", invalid="ignore"):
                up = np.where(high > low, np.clip((mean - low) / (high - low), 0.0, 1.0), 0.0)
                ends = np.concatenate([log_mass + np.log1p(-up), log_mass + np.log(up)])
            for column, row in zip(
                columns, (log_mass, mean, ends, np.concatenate([low, high])), strict=True
            ):
                column.append(row)
        return cls(
            _stacked(columns[0], -np.inf),
            _stacked(columns[1], 0.0),
            _stacked(columns[2], -np.inf),
            _stacked(columns[3], 0.0),
        )

    def moments(self, times: Array) -> tuple[Array, Array, Array]:
        """Return log mass, mean and variance of the composed loss under each of `TILTS`."""
        total = np.zeros((3, TILTS.size))
        for log, loss, count in zip(self.log_mass, self.loss, times, strict=True):
            kept = np.isfinite(log)
            log, loss = log[kept], loss[kept]
            exponents = log + TILTS[:, None] * loss
            top = exponents.max(axis=1)
            weights = np.exp(exponents - top[:, None])
            sums = weights.sum(axis=1)
            mean = weights @ loss / sums
            spread = np.maximum(weights @ loss**2 / sums - mean**2, 0.0)
            near = spread < 1e-6 * mean**2  # where the difference cancels
            for k in np.flatnonzero(near):
                spread[k] = weights[k] @ (loss - mean[k]) ** 2 / sums[k]
            total += count * np.array([top + np.log(sums), mean, spread])
        return total[0], total[1], total[2]

    def largest(self, thetas: Array) -> Array:
        """Return upper bounds on the logs of the sums of each pair, shape ``(pairs, thetas)``."""
        result = np.empty((self.ends.shape[0], thetas.size))
        for row, log, places in zip(result, self.log_ends, self.ends, strict=True):
            exponents = log + thetas[:, None] * places
            top = np.maximum(exponents.max(axis=1), -1e300)
            sums = np.exp(exponents - top[:, None]).sum(axis=1)
            row[:] = top + np.log(np.maximum(sums, 1e-300))
        return np.asarray(result + 1e-12 * (1 + np.abs(result)))


class Layer:
    """Runs of independent pairs in which some step has an outcome of its ``part``.

    Parameters
    ----------
    pieces : sequence of Piece
        Triple (base or None, part, times) of each pair, all on one side and with one interval.
        Without a base, the layer holds all runs.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = tuple(pieces)
        first = self.pieces[0][1]
        self.above, self.interval = first.above, first.interval
        self.times = np.array([times for _, _, times in pieces], dtype=float)
        self._part = [_Cells.of(part) for _, part, _ in pieces]
        self._base = [_Cells.of(base) for base, _, _ in pieces if base is not None]
        most = max(_BLOCKS // len(self.pieces), _FEWEST_BLOCKS)
        groups = zip(self._base, self._part, strict=True) if self._base else zip(self._part)
        both = [*groups]
        self._copy = _Copy.of(both, most)
        self._lifted_copy: _Copy | None = None
        if not self.above:
            self._lifted_copy = _Copy.of([[c.lifted() for c in group] for group in both], most)
        self._sets: dict[int, _Sets] = {}

    def swapped(self) -> Layer:
        """Return the layer of the pairs (Q, P)."""
        return Layer(
            [
                (None if base is None else base.swapped(), part.swapped(), times)
                for base, part, times in self.pieces
            ]
        )

    def masses(self, *, of_base: bool = False) -> Array:
        """Return the probability under P of the outcomes of each pair, or of its base only."""
        pairs = [[base] if of_base else [base, part] for base, part, _ in self.pieces]
        return np.array([sum(float(p.p.sum()) for p in group if p is not None) for group in pairs])

    @cached_property
    def cumulants(self) -> tuple[Array, Array, Array]:
        """Return approximate log mass, mean and variance of the total loss under `TILTS`."""
        return self._copy.moments(self.times)

    @cached_property
    def _shares(self) -> Array:
        return _shares(TILTS, self.cumulants[2])

    def epsilon_guess(self, delta: float) -> float:
        """Return the approximate epsilon of ``delta``."""
        return saddle_point_epsilon(TILTS, np.array(self.cumulants), delta)

    def tilt(self, epsilon: float, floor: float, loose: float = _LOOSE) -> int:
        """Return the index of the tilt in `TILTS` for ``epsilon``.

        It is the least one whose log moment bound on delta is at most ``loose`` above the least, or
        below ``floor``, since a smaller tilt has a shorter window.
        """
        logs = self.log_bounds(epsilon)
        return int(np.argmax(logs <= max(float(logs.min()) + loose, floor)))

    def log_bounds(self, epsilon: float) -> Array:
        """Return the logs of the moment bounds on delta of each of `TILTS`."""
        return np.asarray(self.cumulants[0] - TILTS * epsilon)

    def sets(self, tilt: int) -> _Sets:
        """Return the probabilities of sets of outcomes, accurate around the tilt's mean loss."""
        if tilt not in self._sets:
            while len(self._sets) >= _KEPT:
                self._sets.pop(next(iter(self._sets)))
            self._sets[tilt] = self._tilted(tilt)
        return self._sets[tilt]

    def _tilted(self, tilt: int) -> _Sets:
        theta = float(TILTS[tilt])
        tilted = [_Tilted(cells, theta) for cells in self._part]
        under = [_Tilted(cells, theta) for cells in self._base]
        scales = np.array([one.log_sum for one in tilted])
        if under:
            scales = np.logaddexp(scales, [one.log_sum for one in under])
        here, sizes = float(self.times @ scales), float(self.times @ np.abs(scales))
        # each mass is tilted and divided by the sum
        groups = (tilted, under) if under else (tilted,)
        units = np.max([[one.units for one in group] for group in groups], axis=0)
        units = units + 2 * np.abs(scales)
        log_outside = math.log(_OUTSIDE * self._shares[tilt])
        low, high = self._window(tilt, here, log_outside)
        mean = sum(
            times * one.sum_of(one.cells.loss, float(scale))
            for group in groups
            for one, scale, times in zip(group, scales, self.times, strict=True)
        )
        middle = min(max(round(mean / self.interval), low), high)
        size = fft.next_fast_len(max(high - low + 1, 16), real=True)
        if size > _LARGEST_SIZE:
            raise TooManyCells(
                f"interval must be so large that the composition fits in {_LARGEST_SIZE} cells, "
                f"got {self.interval:g}"
            )
        transform = _Transform(size, -(low % size))
        drift = 0.0
        for number, (part, scale) in enumerate(zip(tilted, scales, strict=True)):
            base = under[number] if under else None
            transform.take(base, part, float(scale), int(self.times[number]))
            all_cells = [part] if base is None else [base, part]
            drift += self.times[number] * sum(one.drift(float(scale)) for one in all_cells)
        (p, p_error), skew = transform.law(), None
        skew_error = _Error(0.0, 0.0)
        if not self.above:
            skew, skew_error = transform.difference()
        # keeps weights finite
        left = min(_LARGEST_EXPONENT / (theta + 1), _LEFT * math.sqrt(self.cumulants[2][tilt]))
        leftmost = middle - math.floor(left / self.interval)
        cut = min(max(leftmost - low, 0), size - 1)
        steps = np.arange(low + cut - middle, low + size - middle) * self.interval
        weights = np.exp(-theta * steps)
        fall = np.exp(-steps)
        p_tails = _tails(np.maximum(p[cut:], 0.0) * weights)
        skews = None
        if skew is not None:
            terms = skew[cut:] * weights * fall
            skews = _tails(terms), _tails(np.abs(terms))
        reference = middle * self.interval
        return _Sets(
            theta=theta,
            first=low + cut,
            interval=self.interval,
            reference=reference,
            log_scale=here - theta * reference,
            log_outside=log_outside,
            p=p_tails,
            gain=_tails(p_tails * fall),
            skews=skews,
            p_error=p_error,
            skew_error=skew_error,
            units=(2 * steps.size + 4 * (sizes + _LARGEST_EXPONENT) + 64) * UNIT_ROUNDOFF,
            masses=math.expm1(float(self.times @ units) * UNIT_ROUNDOFF),
            complete=cut == 0,
            drift=drift,
        )

    def _window(self, tilt: int, here: float, log_outside: float) -> tuple[int, int]:
        """Return grid indices outside of which Chernoff's bound is negligible.

        The steps from theta are those at which a law of the window's scale has its bound.
        """
        ends = [(times * least, times * most) for least, most, times in map(_ends_of, self.pieces)]
        first, last = sum(low for low, _ in ends), sum(high for _, high in ends)
        theta = float(TILTS[tilt])
        width = math.sqrt(float(self.cumulants[2][tilt])) + self.interval
        steps = np.geomspace(max(1e-3 / width, 1 / ((last - first + 1) * self.interval)),
                             max(40.0 / width, 20.0 / self.interval), 40)  # fmt: skip

        def reach(sign: int) -> float:
            """Cells beyond which Chernoff leaves next to nothing, on one side."""
            thetas = theta + sign * steps
            moments = self.times @ self._copy.largest(thetas)
            if self._lifted_copy is not None:
                moments = np.maximum(moments, self.times @ self._lifted_copy.largest(thetas))
            return float(np.min((moments - here - log_outside) / steps)) / self.interval

        low, high = max(float(first), -reach(-1)), min(float(last), reach(1))
        low, high = math.floor(low) - 1, math.ceil(high) + 1
        return low, max(high, low + 1)


def _shares(tilts: Array, variance: Array) -> Array:
    """Return delta at the mean loss over the moment bound, by the saddle point method."""
    spread = np.sqrt(variance / 2)
    shares = 0.5 * (erfcx(tilts * spread) - erfcx((tilts + 1) * spread))
    return np.asarray(np.clip(shares, 1e-300, 1.0))


def saddle_point_epsilon(tilts: Array, cumulants: Array, delta: float) -> float:
    """Return the approximate epsilon of ``delta`` by the saddle point method.

    Parameters
    ----------
    tilts
        Increasing numbers of at least 0, shape ``(n,)``.
    cumulants
        Log mass, mean and variance of the loss under each tilt, shape ``(3, n)``.
    delta
        A positive number.
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


def _ends_of(piece: Piece) -> tuple[int, int, int]:
    pairs = [pair for pair in piece[:2] if pair is not None]
    ends = [(pair.first, pair.first + pair.p.size - 1) for pair in pairs]
    return min(low for low, _ in ends), max(high for _, high in ends), piece[2]


def _exp(value: float) -> float:
    """Return e^value, infinite where it overflows: a side with such an error says nothing."""
    return math.exp(value) if value < 700 else math.inf


def _tails(values: Array) -> Array:
    """Return the sums of all entries from each index on."""
    return np.cumsum(values[::-1])[::-1]


class _Tilted:
    """Tilted masses of some cells, and the log of their sum."""

    def __init__(self, cells: _Cells, theta: float) -> None:
        self.cells = cells
        exponents = cells.log_p + theta * cells.loss
        top = float(exponents.max(initial=-1e300))
        self.weights = np.exp(exponents - top)
        self._top = top
        # of logarithms, products, sums and exponentials, each rounded once
        sizes = 2 * np.abs(cells.log_p) + 3 * np.abs(theta * cells.loss) + 2 * np.abs(exponents)
        self.units = 8 + 2 * abs(max(top, -1e4)) + float(sizes[self.weights > 0].max(initial=0.0))
        self.log_sum = top + math.log(max(float(self.weights.sum()), 1e-300))

    def drift(self, log_scale: float) -> float:
        """Return the mean of log lifted/p over all masses over e^log_scale."""
        if self.cells.excess is None:
            return 0.0
        return self.sum_of(np.log1p(self.cells.excess), log_scale)

    def sum_of(self, values: Array, log_scale: float) -> float:
        """Return the sum of values weighted by the masses over e^log_scale."""
        return self._factor(log_scale) * float(self.weights @ values)

    def scaled(self, log_scale: float) -> Array:
        """Return the masses over e^log_scale."""
        return self.weights * self._factor(log_scale)

    def _factor(self, log_scale: float) -> float:
        return math.exp(min(self._top - log_scale, 1.0))


class _Transform:
    """Spectra of the powers, on frequencies where they are not negligible.

    Pairs (b, d) represent b^T and (b + d)^T - b^T. Their majorants use absolute values, with and
    without the rounding of the FFT.
    """

    def __init__(self, size: int, roll: int) -> None:
        self.size, self.roll = size, roll
        self.stages = _UNITS_A_STAGE * math.log2(size) * UNIT_ROUNDOFF
        self.active: NDArray[np.int64] = np.arange(size // 2 + 1)
        self.log_size = np.zeros(self.active.size)  # upper bound for the law of P
        self.grown = 0.0
        self.p: _Power | None = None
        self.lifted: _Power | None = None
        self._buffer = np.zeros(size)

    def take(self, base: _Tilted | None, part: _Tilted, log_scale: float, times: int) -> None:
        """Compose with the power of one pair."""
        sources = [part] if base is None else [base, part]
        spectra = []
        for one in sources:
            masses = one.scaled(log_scale)
            spectra.append(self._spectrum(one.cells.index, masses))
            if one.cells.excess is not None:
                skew = masses * one.cells.excess
                spectra.append(self._spectrum(one.cells.index, skew))
                self.grown += times * float(np.abs(skew).sum())
        exact = part.cells.excess is None
        # bound on the transforms of both laws, from the total sums
        size = sum(np.abs(one.values) + one.entry for one in spectra)
        self.log_size += times * np.log(size)
        kept = self.log_size > _LOG_INACTIVE
        if not kept.all():
            self.active, self.log_size = self.active[kept], self.log_size[kept]
            spectra = [replace(one, values=one.values[kept]) for one in spectra]
            for power in (self.p, self.lifted):
                if power is not None:
                    power.keep(kept)
        if base is None:
            p = _Power(spectra[0], None if exact else spectra[1], times)
            self.p = p if self.p is None else self.p.times(p)
        elif exact:
            p = _Power(spectra[0], spectra[1], times)
            self.p = p if self.p is None else self.p.times(p)
        else:
            b, more_b, d, more_d = spectra
            p = _Power(b, d, times)
            lifted = _Power(b + more_b, d + more_d, times)
            self.p = p if self.p is None else self.p.times(p)
            self.lifted = lifted if self.lifted is None else self.lifted.times(lifted)
        self.layered = base is not None

    def _spectrum(self, index: NDArray[np.int64], masses: Array) -> _Spectrum:
        """Return the active part of the transform."""
        if not index.size:
            return _Spectrum(np.zeros(self.active.size, dtype=np.complex128), 0.0, 0.0, 0.0)
        place = index % self.size
        if index[-1] - index[0] < self.size:
            self._buffer[:] = 0.0
            self._buffer[place] = masses
            wrapped = self._buffer
        else:
            wrapped = np.bincount(place, weights=masses, minlength=self.size).astype(float)
        whole = fft.rfft(wrapped)
        values = whole if self.active.size == whole.size else whole[self.active]
        total = float(np.abs(masses).sum())
        norm = float(np.linalg.norm(wrapped))
        return _Spectrum(values, total, self.stages * total, self.stages * norm)

    def law(self) -> tuple[Array, _Error]:
        """Return the masses under P, and their error."""
        assert self.p is not None
        return self._back(self.p.increments() if self.layered else self.p.powers())

    def difference(self) -> tuple[Array, _Error]:
        """Return the masses under P minus the lifted ones, and their error."""
        assert self.p is not None
        if not self.layered:
            found = self.p.increments()
            return self._back(replace(found, values=-found.values))
        assert self.lifted is not None
        one, other = self.p.increments(), self.lifted.increments()
        return self._back(
            _Powers(
                one.values - other.values,
                one.most + other.most,
                one.errors + other.errors,
                max(one.rounding, other.rounding),
                one.norm + other.norm,
            )
        )

    def _back(self, found: _Powers) -> tuple[Array, _Error]:
        spectrum = np.zeros(self.size // 2 + 1, dtype=np.complex128)
        spectrum[self.active] = found.values
        modulus = np.abs(found.values)
        left_out = _exp(_LOG_INACTIVE + self.grown)
        # mean over both halves of the spectrum, and the dropped part
        entry = 2 * float(found.errors.sum()) / self.size + left_out
        entry += self.stages * 2 * float(modulus.sum()) / self.size
        # by Parseval's identity
        norm = min(self._norm(found.errors), found.norm + found.rounding * self._norm(found.most))
        norm += self.stages * self._norm(modulus) + left_out
        error = _Error(_SAFETY * min(entry, norm), _SAFETY * norm)
        return np.roll(fft.irfft(spectrum, self.size), self.roll), error

    def _norm(self, half: Array) -> float:
        """Return the Euclidean norm of an array whose transform has these moduli."""
        return math.sqrt(2 / self.size) * float(np.linalg.norm(half))


@dataclass(frozen=True)
class _Error:
    """Bounds on the error of each entry of an array, and on the Euclidean norm of all errors."""

    entry: float
    norm: float


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Transform of masses with absolute sum ``total``.

    ``entry`` bounds the error of each value, and ``norm`` the Euclidean norm of the inverse
    transform of all errors.
    """

    values: Spectrum
    total: float
    entry: float
    norm: float

    def __add__(self, other: _Spectrum) -> _Spectrum:
        return _Spectrum(
            self.values + other.values,
            self.total + other.total,
            self.entry + other.entry,
            self.norm + other.norm,
        )


@dataclass(frozen=True, eq=False)
class _Powers:
    """Spectra with majorants ``most`` and ``errors``.

    The rounding errors are ``rounding * most``, and ``norm`` bounds the consequences of the
    transforms' errors in the Euclidean norm.
    """

    values: Spectrum
    most: Array
    errors: Array
    rounding: float
    norm: float


class _Power:
    """The powers b^T and (b + d)^T - b^T, with majorants that bound their errors.

    An error e of b changes the first by at most T |e| (sum of b)^(T-1), and likewise the second:
    polynomials with positive coefficients are largest at the sums of the masses.
    """

    def __init__(self, base: _Spectrum, part: _Spectrum | None, times: int) -> None:
        b = base.values
        modulus = np.abs(b)
        least = np.maximum(modulus * (1 - _UNITS), 1e-300)
        most = np.maximum(modulus * (1 + _UNITS) + base.entry, 1e-300)
        self._log_least = times * np.log(least)
        self._log_most = times * np.log(most)
        self.base = _power(b, times)
        self._times = times
        total = max(base.total + base.entry, 1e-300)
        self._log_total = times * math.log(total)
        self._base_norm = times * base.norm / total
        self.part: Spectrum | None = None
        if part is not None:
            d = part.values
            self.part = _increment(b, d, times)
            size = np.abs(d)
            self._grow_least = times * np.log1p(size * (1 - _UNITS) / least)
            self._grow_most = times * np.log1p((size * (1 + _UNITS) + part.entry) / most)
            both = total + part.total + part.entry
            self._log_both = times * math.log(both)
            self._beside_part = times * base.norm / both
            self._part_norm = times * part.norm / both

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other frequencies."""
        self.base = self.base[kept]
        self._log_least, self._log_most = self._log_least[kept], self._log_most[kept]
        if self.part is not None:
            self.part = self.part[kept]
            self._grow_least, self._grow_most = self._grow_least[kept], self._grow_most[kept]

    def times(self, other: _Power) -> _Power:
        """Return the product."""
        if self.part is not None and other.part is not None:
            self.part = self.part * (other.base + other.part) + self.base * other.part
            self._grow_least = self._grow_least + other._grow_least
            self._grow_most = self._grow_most + other._grow_most
            self._log_both += other._log_both
            self._beside_part += other._beside_part
            self._part_norm += other._part_norm
        self.base = self.base * other.base
        self._log_least = self._log_least + other._log_least
        self._log_most = self._log_most + other._log_most
        self._times += other._times
        self._log_total += other._log_total
        self._base_norm += other._base_norm
        return self

    @property
    def _rounding(self) -> float:
        """Return the rounding error relative to the majorants."""
        return math.expm1(2 * self._times * _UNITS) + 1e-15

    def powers(self) -> _Powers:
        """Return b^T and its errors."""
        most = np.exp(self._log_most)
        errors = most - np.abs(self.base) * (1 - 1e-15)
        norm = math.exp(self._log_total) * self._base_norm
        return _Powers(self.base, most, errors, self._rounding, norm)

    def increments(self) -> _Powers:
        """Return (b + d)^T - b^T and its errors."""
        assert self.part is not None
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.exp(self._log_most) * np.expm1(self._grow_most)
            least = np.exp(self._log_least) * np.expm1(self._grow_least)
        least = np.where(np.isfinite(least), least, 0.0)
        errors = np.maximum(most - least, 0.0) + 1e-15 * most
        both = _exp(self._log_both)
        # without rounding of the difference
        added = both * -math.expm1(min(self._log_total - self._log_both, 0.0))
        norm = min(added * self._base_norm, both * self._beside_part) + both * self._part_norm
        return _Powers(self.part, most, errors, self._rounding, norm)


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
class _Sets:
    """Probabilities of the sets {loss >= grid point} of a layer, from which delta follows.

    With s the distance of a grid point from ``reference``: ``p`` are the sums of P, ``gain`` of
    e^-s times those, and ``skews`` those of e^-s (P - lifted) and of its absolute value, all over
    the grid points from one on and times e^-log_scale. The tilted masses of each run have a
    relative error of ``masses``, and sums of them another one of ``units``.
    """

    theta: float
    first: int
    interval: float
    reference: float
    log_scale: float
    log_outside: float
    p: Array
    gain: Array
    skews: tuple[Array, Array] | None
    p_error: _Error
    skew_error: _Error
    units: float
    masses: float
    complete: bool
    drift: float

    def delta(self, epsilon: float) -> float:
        """Return a bound on the layer's part of delta, without the rounding of the pairs."""
        side = 1 if self.skews is None else -1
        return (1 + side * self.masses) * self._delta(epsilon, side)

    def _delta(self, epsilon: float, side: int) -> float:
        k = math.ceil(epsilon / self.interval) - self.first
        if side > 0:
            return self._from(min(max(k, 0), self.p.size), epsilon)
        # merged cells, and so their sums, have other losses than their grid points
        k += round(self.drift / self.interval)
        near = {min(max(k + move, 0), self.p.size - 1) for move in _MOVES}
        return max(0.0, *(self._from(k, epsilon) for k in near))

    def _from(self, k: int, epsilon: float) -> float:
        h, size = self.interval, self.p.size
        place = epsilon - self.reference
        if self.skews is None and not self.complete and epsilon < self.first * h:
            return 1.0  # left of the window
        step = (self.first + k) * h - self.reference
        above = self.skews is None
        main = skew = error = 0.0
        ahead = place - step  # at most 0 above
        if not above and max(place, ahead) > _LARGEST_EXPONENT:
            return 0.0
        if place > _LARGEST_EXPONENT:  # P alone bounds delta from above
            if k < size:
                main, error = float(self.p[k]), self.p_error.entry * self._weights(self.theta, k)
        elif k < size:
            p = float(self.p[k])
            rest = float(self.gain[k + 1]) if k + 1 < size else 0.0
            # sum over j >= k of P_j (1 - e^(epsilon - x_j)), by summation by parts
            main = -math.expm1(ahead) * p + math.exp(place) * math.expm1(h) * rest
            sums = self._weights(self.theta, k), self._weights(self.theta + 1, k)
            if math.isinf(sums[1]):
                return 1.0 if above else 0.0
            gains = abs(sums[0] - math.exp(place) * sums[1]) + 1e-12 * sums[0]
            largest = self._largest_gain(place, k)
            # products and squares may underflow where their roots do not
            norm = self.p_error.norm * math.sqrt(largest) * math.sqrt(gains)
            error = min(self.p_error.entry * gains, norm)
            if self.skews is not None:
                skew = math.exp(place) * float(self.skews[0][k])
                squares = self._weights(2 * self.theta + 2, k, power=0.5)
                error += math.exp(place) * min(
                    self.skew_error.entry * sums[1], self.skew_error.norm * squares
                )
                error += self.units * math.exp(place) * float(self.skews[1][k])
                error += self.units * abs(math.expm1(ahead)) * p
        if above and self.log_scale > _LARGEST_EXPONENT:
            return 1.0  # sums that underflow may stand for any probability
        error += _UNDERFLOW * (1 + math.exp(min(place, _LARGEST_EXPONENT)))
        # mass outside may lie on any grid point from k on, as the transform is periodic, or beyond
        # both the window and epsilon
        least = place if k >= size else min(place, step)
        lost = self.log_outside - self.theta * least + self.log_scale
        outside = 4 * math.exp(min(lost, 0.0))
        scale = math.exp(min(self.log_scale, _LARGEST_EXPONENT))  # below, less is certified
        if above:
            return (main * (1 + self.units) + error) * scale + outside
        return (main * (1 - self.units) + skew - error) * scale - outside

    def _largest_gain(self, place: float, k: int) -> float:
        """Return a bound on e^(-theta s) |1 - e^(place - s)| over the grid points from k."""
        first = (self.first + k) * self.interval - self.reference
        last = first + (self.p.size - 1 - k) * self.interval
        # increasing from place to the point where e^(place - s) is theta/(1 + theta)
        best = place + math.log1p(1 / self.theta) if self.theta else math.inf
        points = (first, min(max(best, first), last))
        return 1.000001 * max(
            math.exp(-self.theta * s) * abs(math.expm1(place - s)) for s in points
        )

    def _weights(self, rate: float, k: int, power: float = 1.0) -> float:
        """Return a power of the sum of e^(-rate s) over the grid points from k.

        It is infinite if too large.
        """
        count = self.p.size - k
        exponent = -rate * ((self.first + k) * self.interval - self.reference) * power
        if exponent > _LARGEST_EXPONENT:
            return math.inf
        start = math.exp(exponent)
        fall = rate * self.interval
        if fall * count < 1e-9:
            return float(start * count**power)
        return float(start * (math.expm1(-fall * count) / math.expm1(-fall)) ** power)
