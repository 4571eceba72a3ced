"""Composition of pairs on a grid of losses, with errors that are relative to delta.

Losses of independent outcomes add up, so the arrays of the pairs are convolved. A plain FFT errs by
1e-16 of the largest entry, which would swamp a small delta. Here P is tilted by e^(theta loss)
first, with theta at the saddle point of the wanted delta: the entries that decide then are the
largest ones (Koskela, Jaelkoe and Honkela 2020 use FFTs, Gopi, Lee and Wutschitz 2021 bound their
errors; the tilt is that of Cramer's theorem). The window of the FFT is cut where Chernoff's bound
leaves nothing, and what is left is part of the bracket, as is the rounding of the FFT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import erfcx, logsumexp

from audit.dominating.grid import UNIT_ROUNDOFF, GridPair

Array = NDArray[np.float64]

# What a window leaves out, as a share of the tilted law.
_LOG_OUTSIDE = math.log(1e-18)
# Rounding of an FFT of size N, relative to the sum of the absolute entries: this many units a
# stage (Higham 2002, section 24.1, has 7 for radix 2).
_UNITS_A_STAGE = 10
_LARGEST_SIZE = 2**24
# Tilts are rounded to this in logarithms, and so many are kept.
_LOG_TILTS = 0.2
_SMALLEST = 1e-290
# Deviations of the tilted loss within which its tilt serves.
_NEAR = 2.5
_KEPT = 6
# Cells of the copy on which tilts and windows are looked for; it proves nothing.
_COARSE = 1024


class TooManyCells(ValueError):
    """A composition needs more cells than a transform may have; a wider grid needs fewer."""


@dataclass(frozen=True)
class _Sets:
    """P and Q of the sets {grid point >= (first + k) interval}, k = 0, 1, ..., with errors.

    Probabilities are e^log_scale times the arrays; Q also times e^-reference.
    """

    first: int
    log_scale: float
    reference: float
    p: Array
    q: Array
    p_error: Array
    q_error: Array


class GridComposition:
    """The pair of independent runs of pairs on one side: (pair, how many times), ...

    Parameters
    ----------
    parts
        Pairs on the same side with the same interval, and how often each is run.

    Raises
    ------
    ValueError
        If sides or intervals differ, or there is nothing to compose.
    """

    def __init__(self, parts: Sequence[tuple[GridPair, int]]) -> None:
        parts = tuple((pair, times) for pair, times in parts if times)
        if not parts or len({(pair.above, pair.interval) for pair, _ in parts}) != 1:
            raise ValueError(f"parts must be on one side and one interval, got {len(parts)} parts")
        self.parts = parts
        self.above, self.interval = parts[0][0].above, parts[0][0].interval
        with np.errstate(divide="ignore"):
            self._log_p = tuple(np.log(pair.p) for pair, _ in parts)
            self._log_lifted = (
                self._log_p if self.above else tuple(np.log(pair.lifted) for pair, _ in parts)
            )
        self._sets: dict[float, _Sets] = {}

    @cached_property
    def _coarse(self) -> tuple[tuple[Array, Array, int], ...]:
        """Log masses, losses and times of a copy with few cells."""
        copies = []
        for pair, times in self.parts:
            # half of the cells evenly, half where the masses are
            even = np.arange(0, pair.p.size, -(-pair.p.size // _COARSE))
            ranks = np.cumsum(np.sqrt(np.sqrt(pair.p)))
            massy = np.searchsorted(ranks, np.linspace(0, ranks[-1], _COARSE, endpoint=False))
            starts = np.union1d(even, massy)
            p = np.add.reduceat(pair.p, starts)
            kept = p > 0
            losses = np.add.reduceat(pair.p * pair.losses, starts)[kept] / p[kept]
            copies.append((np.log(p[kept]), losses, times))
        return tuple(copies)

    def _coarse_cumulants(self, theta: float) -> tuple[float, float, float]:
        """Log of the moment generating function, and mean and variance of the tilted loss."""
        log, mean, variance = 0.0, 0.0, 0.0
        for log_p, losses, times in self._coarse:
            exponents = log_p + theta * losses
            top = float(exponents.max())
            weights = np.exp(exponents - top)
            total = float(weights.sum())
            one = float(weights @ losses) / total
            log += times * (top + math.log(total))
            mean += times * one
            variance += times * float(weights @ (losses - one) ** 2) / total
        return log, mean, variance

    @cached_property
    def swapped(self) -> GridComposition:
        """The composition of the pairs (Q, P)."""
        return GridComposition([(pair.swapped(), times) for pair, times in self.parts])

    @cached_property
    def p_only(self) -> float:
        """Probability under P of outcomes that Q does not have."""
        logs = [times * math.log1p(-min(pair.p_only, 1.0)) for pair, times in self.parts]
        return -math.expm1(sum(logs)) if max(p.p_only for p, _ in self.parts) < 1 else 1.0

    @cached_property
    def rounding(self) -> float:
        """Bound on the relative error of a product of the probabilities of all parts."""
        total = sum(times * (pair.rounding + 4 * UNIT_ROUNDOFF) for pair, times in self.parts)
        return math.expm1(total)

    def log_moment(self, theta: float) -> float:
        """Log of the sum of p e^(theta loss): the moment generating function under P."""
        return self._log_moment(self._log_p, theta)

    def _mean(self, theta: float) -> float:
        """Return the mean of the tilted loss."""
        total = 0.0
        for (pair, times), log_p in zip(self.parts, self._log_p, strict=True):
            exponents = log_p + theta * pair.losses
            weights = np.exp(exponents - exponents.max())
            total += times * float(weights @ pair.losses) / float(weights.sum())
        return total

    def _log_moment(self, logs: Sequence[Array], theta: float) -> float:
        return float(
            sum(
                times * logsumexp(one + theta * pair.losses)
                for (pair, times), one in zip(self.parts, logs, strict=True)
            )
        )

    def epsilon(self, delta: float) -> float:
        """Return a bound on the least epsilon >= 0 with delta(epsilon) <= ``delta``.

        An upper bound if the pairs dominate, and a lower one if they are dominated.
        """
        if self.above and delta <= self.p_only * (1 + self.rounding):
            return math.inf
        theta = self._tilt_of_delta(max(delta, 1e-300))
        found: list[float] = []
        for _ in range(3):
            found.append(self._epsilon_at(self._at(theta), delta))
            _, mean, variance = self._coarse_cumulants(theta)
            near = abs(found[-1] - mean) < _NEAR * math.sqrt(variance)
            again = self._tilt_of_epsilon(found[-1]) if math.isfinite(found[-1]) else theta / 2
            if near or again == theta:
                break
            theta = again
        return min(found) if self.above else max(found)

    def _epsilon_at(self, sets: _Sets, delta: float) -> float:
        p, q = self._bounds(sets)
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.log(p - delta) - np.log(q) + (sets.reference - sets.log_scale)
        if not self.above:
            # what may have underflowed proves nothing
            certain = (p > delta) & (q > _SMALLEST)
            return max(float(np.max(roots, where=certain, initial=0.0)), 0.0)
        # the last grid point whose delta is not below the wanted one; the root comes after it
        h = self.interval
        points = (sets.first + np.arange(p.size)) * h
        with np.errstate(over="ignore", invalid="ignore"):
            larger = p - q * np.exp(points - (sets.reference - sets.log_scale)) > delta
        k = int(np.flatnonzero(larger)[-1]) + 1 if larger.any() else 0
        if k >= p.size:
            return math.inf
        start = points[k] - h
        if p[k] <= delta:
            return max(float(start), 0.0)
        return max(min(max(float(roots[k]), float(start)), float(points[k])), 0.0)

    def delta(self, epsilon: float) -> float:
        """Return a bound on delta(``epsilon``), from above or from below as the pairs are."""
        if epsilon < 0:
            # P(S) - e^eps Q(S) = 1 - e^eps + e^eps (Q - e^-eps P)(complement of S)
            other = self.swapped.delta(-epsilon)
            return -math.expm1(epsilon) + math.exp(epsilon) * other
        sets = self._at(self._tilt_of_epsilon(epsilon))
        near = slice(None)
        if self.above:
            k = math.floor(epsilon / self.interval) + 1 - sets.first
            if k <= 0:
                return 1.0
            near = slice(min(k, sets.p.size) - 1, k + 1)
        p, q = self._bounds(sets, near)
        with np.errstate(over="ignore", invalid="ignore"):
            gain = p - q * np.exp(min(epsilon - sets.reference + sets.log_scale, 700.0))
        return min(max(float(np.max(gain)), 0.0), 1.0)

    def _bounds(self, sets: _Sets, near: slice = slice(None)) -> tuple[Array, Array]:
        """Return P and the scaled Q of sets, with every error for or against them."""
        side = 1 if self.above else -1
        rounding = self.rounding + sets.p.size * UNIT_ROUNDOFF
        scale = math.exp(sets.log_scale)
        p = (sets.p[near] + side * sets.p_error[near]) * scale + self.p_only
        q = np.maximum(sets.q[near] - side * sets.q_error[near], 0.0)
        return p * (1 + side * rounding), q * (1 - side * rounding)

    def _tilt_of_delta(self, delta: float) -> float:
        """Return the theta at the epsilon of ``delta``, by the saddle point method."""

        def excess(theta: float) -> float:
            log, mean, variance = self._coarse_cumulants(theta)
            spread = math.sqrt(variance / 2)
            share = 0.5 * float(erfcx(theta * spread) - erfcx((theta + 1) * spread))
            return theta * mean - log - math.log(max(share, 1e-300)) + math.log(delta)

        return self._rising_root(excess)

    def _tilt_of_epsilon(self, epsilon: float) -> float:
        """Return the theta under which the mean loss is ``epsilon``, at least 0."""
        return self._rising_root(lambda theta: self._coarse_cumulants(theta)[1] - epsilon)

    def _rising_root(self, function: Callable[[float], float]) -> float:
        """Return a root of at least 0, rounded down so that near questions share it."""
        if function(0.0) >= 0:
            return 0.0
        low, high = math.log(1e-6), math.log(1e6)
        while high - low > 0.1 * _LOG_TILTS:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if function(math.exp(middle)) < 0 else (low, middle)
        return math.exp(math.floor(low / _LOG_TILTS) * _LOG_TILTS)

    def _at(self, theta: float) -> _Sets:
        if theta not in self._sets:
            while len(self._sets) >= _KEPT:
                self._sets.pop(next(iter(self._sets)))
            self._sets[theta] = self._tilted(theta)
        return self._sets[theta]

    def _tilted(self, theta: float) -> _Sets:
        low, high = self._window(theta)
        size = fft.next_fast_len(max(high - low + 1, 16), real=True)
        if size > _LARGEST_SIZE:
            raise TooManyCells(
                f"interval must be so large that {_LARGEST_SIZE} cells hold the composition, "
                f"got {self.interval:g}"
            )
        p = self._convolved(self._log_p, theta, low, size)
        q = p if self.above else self._convolved(self._log_lifted, theta, low, size)
        # at the mean of the tilted law the scale below is at most 1
        middle = min(max(round(self._mean(theta) / self.interval), low), high)
        steps = (np.arange(low, low + size) - middle) * self.interval
        # weights stay finite; sets that start further left are not looked at
        kept = (theta + 1) * steps > -600
        steps = steps[kept]
        weights = np.exp(-theta * steps)
        outside = 4 * math.exp(_LOG_OUTSIDE)

        def tails(values: tuple[Array, float], weights: Array) -> tuple[Array, Array]:
            total = np.cumsum((values[0][kept] * weights)[::-1])[::-1]
            error = values[1] * np.cumsum(weights[::-1])[::-1] + outside * weights
            return total, error

        (p_sets, p_error), (q_sets, q_error) = (
            tails(p, weights),
            tails(q, weights * np.exp(-steps)),
        )
        reference = middle * self.interval
        return _Sets(
            first=low + size - steps.size,
            log_scale=self.log_moment(theta) - theta * reference,
            reference=reference,
            p=p_sets,
            q=q_sets,
            p_error=p_error,
            q_error=q_error,
        )

    def _window(self, theta: float) -> tuple[int, int]:
        """Return grid indices outside of which Chernoff leaves next to nothing of the tilted law.

        The steps from theta are those at which a law of the window's scale has its bound.
        """
        first = sum(times * pair.first for pair, times in self.parts)
        last = sum(times * (pair.first + pair.p.size - 1) for pair, times in self.parts)
        steps = np.geomspace(10.0 / ((last - first + 1) * self.interval), 20.0 / self.interval, 60)
        here, rough = self.log_moment(theta), self._coarse_cumulants(theta)[0]

        def reach(sign: int) -> float:
            """Cells beyond which Chernoff leaves next to nothing, on one side."""
            found = [
                (self._coarse_cumulants(theta + sign * step)[0] - rough - _LOG_OUTSIDE) / step
                for step in steps
            ]
            step = steps[int(np.argmin(found))]
            moment = self._largest_log_moment(theta + sign * step)
            return float((moment - here - _LOG_OUTSIDE) / step / self.interval)

        low, high = max(float(first), -reach(-1)), min(float(last), reach(1))
        return math.floor(low) - 1, math.ceil(high) + 1

    def _largest_log_moment(self, theta: float) -> float:
        """Return the larger one of those of p and of lifted; they differ if dominated."""
        here = self.log_moment(theta)
        return here if self.above else max(here, self._log_moment(self._log_lifted, theta))

    def _convolved(
        self, logs: Sequence[Array], theta: float, low: int, size: int
    ) -> tuple[Array, float]:
        """Return the tilted composition on the cells from ``low``, and its absolute error."""
        stages = _UNITS_A_STAGE * math.log2(size) * UNIT_ROUNDOFF
        log_error: Array | float = 0.0
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        for (pair, times), log_p, log in zip(self.parts, self._log_p, logs, strict=True):
            shift = theta * pair.losses
            tilted = np.exp(log + (shift - logsumexp(log_p + shift)))
            wrapped = np.zeros(size)
            start = pair.first % size
            for begin in range(-start, tilted.size, size):  # once around a circle of cells
                part = tilted[max(begin, 0) : begin + size]
                wrapped[max(-begin, 0) : max(-begin, 0) + part.size] += part
            one = fft.rfft(wrapped)
            moduli = np.abs(one)
            moduli = moduli * (1 + 8 * UNIT_ROUNDOFF) + stages * float(tilted.sum())
            log_error = log_error + times * np.log(moduli)
            spectrum *= _power(one, times)
        values = np.abs(spectrum)
        # the mean over both halves of the spectrum
        error = float(np.mean(np.exp(log_error) - values)) + stages * float(np.mean(values))
        result = np.roll(fft.irfft(spectrum, size), -(low % size))
        return np.maximum(result, 0.0), 2 * error


def _power(values: NDArray[np.complex128], power: int) -> NDArray[np.complex128]:
    """Return a power by squaring: many times faster than NumPy's, with a few units a factor."""
    result: NDArray[np.complex128] | None = None
    while True:
        if power % 2:
            result = values if result is None else result * values
        power //= 2
        if not power:
            assert result is not None
            return result
        values = values * values
