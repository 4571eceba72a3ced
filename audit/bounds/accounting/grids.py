"""Privacy losses of a symmetric pair on a grid, rounded up or down.

`pessimistic_grid` is the connect-the-dots discretisation of Doroshenko et al. (2022), the one of
Google's dp-accounting library. The library takes second differences of the whole profile, which
leaves masses of 1e-16/interval where there are none. Here the symmetry of the pair gives the left
half from the right one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.bounds.accounting.subsampling import SubsampledGaussian
from audit.curves.base import PrivacyCurve
from audit.curves.pld import LossDistribution

Array = NDArray[np.float64]

_MANY = 1 << 16  # points whose exponentials are worth avoiding
_BLOCK = 1 << 12  # points of a block of a sum, at most
_EXPONENT = 50.0  # largest exponent of a weight


@dataclass(frozen=True)
class HalfGrid:
    """Masses of a symmetric pair under P at the grid points 0, 1, ... and at minus those points.

    They, ``infinite_mass`` and ``dropped`` add up to 1. Where rounding makes the masses away from 0
    larger than 1, ``dropped`` is negative: the excess counts.
    """

    right: Array
    left: Array
    infinite_mass: float
    dropped: float = 0.0

    def wrapped(self, size: int) -> Array:
        """Return the masses at the residues of the grid points modulo ``size``."""
        result = np.zeros(size)
        index = np.arange(self.right.size)
        np.add.at(result, index % size, self.right)
        np.add.at(result, -index % size, self.left)
        return result

    def transform_change(self, size: int) -> NDArray[np.complex128]:
        """Return the Fourier transform of the masses at residues modulo ``size``, less 1.

        Of rare losses the transform is near 1, and its powers would multiply the rounding of 1.
        """
        masses = self.wrapped(size)
        masses[0] -= self.right[0]
        transform = np.fft.rfft(masses)
        transform -= transform[0].real + self.infinite_mass + self.dropped
        return transform

    def cumulants(self, interval: float) -> tuple[float, float]:
        """Return the mean and the variance of the loss."""
        losses = interval * np.arange(self.right.size)
        mean = float(np.sum((self.right - self.left) * losses))
        return mean, float(np.sum((self.right + self.left) * losses**2)) - mean**2

    @cached_property
    def _logs(self) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            return np.log(self.right), np.log(self.left)

    def log_moment(self, power: float, interval: float) -> float:
        """Return log of the sum of mass * e^(power * loss)."""
        if self.right.size > _MANY:
            rate = power * interval
            return float(np.logaddexp(_log_sum(self.right, rate), _log_sum(self.left, -rate)))
        exponent = power * interval * np.arange(self.right.size)
        right, left = self._logs
        terms = np.concatenate([right + exponent, left - exponent])
        top = float(np.max(terms))
        with np.errstate(under="ignore"):
            return top + math.log(float(np.sum(np.exp(terms - top))))


def _log_sum(masses: Array, rate: float) -> float:
    """Return the log of the sum of masses[k] e^(rate k), by blocks with bounded weights."""
    block = int(min(masses.size, _BLOCK, max(_EXPONENT / max(abs(rate), 1e-300), 1)))
    rows = -(-masses.size // block)
    padded = np.zeros(rows * block)
    padded[: masses.size] = masses
    sums = padded.reshape(rows, block) @ np.exp(rate * np.arange(block))
    with np.errstate(divide="ignore"):
        return float(np.logaddexp.reduce(np.log(sums) + rate * block * np.arange(rows)))


def pessimistic_grid(step: PrivacyCurve, interval: float, points: int) -> HalfGrid:
    """Spread the losses of a symmetric pair over their two neighbouring grid points.

    Both laws keep their masses, so the result dominates ``step`` (Doroshenko et al. 2022,
    Algorithm 1): its profile connects those of ``step`` at the grid points by lines in e^epsilon.
    Losses above the last of the ``points + 1`` grid points become infinite.
    """
    profile = np.asarray(step.delta(interval * np.arange(points + 1)))
    drop = -np.diff(np.minimum.accumulate(profile))
    shrink, gap = math.exp(-interval), -math.expm1(-interval)
    right = np.zeros(points + 1)
    right[1:-1] = np.maximum(drop[:-1] - shrink * drop[1:], 0.0) / gap
    right[-1] = drop[-1] / gap
    left = right * np.exp(-interval * np.arange(points + 1))
    infinite = float(profile[-1])
    left[0] = 0.0
    return _completed(right, left, infinite)


def _completed(right: Array, left: Array, infinite: float) -> HalfGrid:
    """Return the grid with the remaining mass at loss 0."""
    rest = 1 - infinite - float(np.sum(right) + np.sum(left))
    right[0] = max(rest, 0.0)
    return HalfGrid(right, left, infinite, min(rest, 0.0))


def optimistic_grid(step: SubsampledGaussian, interval: float, points: int) -> HalfGrid:
    """Merge the losses of one step in cells of three grid intervals: ``step`` dominates the result.

    A merged cell has one loss, log of its mass under P over its mass under Q, which is then split
    over the two adjacent grid points. Merging loses more than splitting adds back as long as the
    cell below the upper point has an average loss of at most the lower one, or the mirror image of
    that; a cell where neither holds is rounded down, by adding mass to Q.
    """
    cells = max(points // 3, 1)
    edges = np.asarray(interval * (3 * np.arange(cells + 1) + 1.5), dtype=np.float64)
    log_p, log_q = (np.append(tail, -np.inf) for tail in step.log_tails(edges))
    p, loss = _cell(log_p[:-1], log_q[:-1], log_p[1:], log_q[1:])
    middle = max(1 - math.exp(log_p[0]) - math.exp(log_q[0]), 0.0)
    kept = (p > 0) & np.isfinite(loss) & (loss > 0)
    p, loss = p[kept], loss[kept]
    first = np.floor(loss / interval).astype(int)
    low = first * interval
    # sub-cells below the upper point, and above the lower point
    upper_tails, lower_tails = step.log_tails(low + interval), step.log_tails(low)
    ends = (log_p[:-1][kept], log_q[:-1][kept]), (log_p[1:][kept], log_q[1:][kept])
    _, below = _cell(*ends[0], *upper_tails)
    _, above = _cell(*lower_tails, *ends[1])
    with np.errstate(invalid="ignore"):
        sound = ((below <= low) | (above >= low + interval)) & (first < points)
    share = np.clip(np.expm1(low - loss) / math.expm1(-interval), 0, 1)
    p_high = np.where(sound, p * share, 0.0)
    p_low = p - p_high
    # the mirror image of rounding down is rounding up, away from 0
    q_high = np.where(sound, p_high * np.exp(-low - interval), p * np.exp(-loss))
    q_low = np.where(sound, p_low * np.exp(-low), 0.0)
    size = int(np.max(first, initial=0)) + 2
    # the open last cell comes down to the last point, and its mirror image is left out, which
    # lowers P: far losses would spoil the tail bounds
    q_high[first >= points] = 0.0
    right = np.bincount(np.minimum(first, points), p_low, size)
    right += np.bincount(first + 1, p_high, size)
    left = np.bincount(first, q_low, size) + np.bincount(first + 1, q_high, size)
    right[0] += middle + left[0]
    left[0] = 0.0
    dropped = math.fsum([1.0, *(-right).tolist(), *(-left).tolist()])
    return HalfGrid(np.asarray(right, np.float64), np.asarray(left, np.float64), 0.0, dropped)


def _cell(low_p: Array, low_q: Array, high_p: Array, high_q: Array) -> tuple[Array, Array]:
    """Return the mass under P between two tails, and the log of its ratio to the mass under Q."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_p = low_p + np.log(-np.expm1(high_p - low_p))
        log_q = low_q + np.log(-np.expm1(high_q - low_q))
        return np.nan_to_num(np.exp(log_p), nan=0.0), log_p - log_q


def rounded_up(law: LossDistribution, interval: float) -> HalfGrid:
    """Spread the masses of a symmetric law over the points of another grid, as `pessimistic_grid`.

    Only masses at positive losses are read: the others are their mirror images.
    """
    start = max(1 - law.first, 0)
    masses = law.masses[start:]
    losses = law.interval * (law.first + start + np.arange(masses.size))
    below = np.floor(losses / interval)
    share = np.clip(np.expm1(below * interval - losses) / math.expm1(-interval), 0.0, 1.0)
    places, up = below.astype(np.int64), masses * share
    right = np.bincount(places, masses - up, int(places[-1]) + 2).astype(np.float64)
    right += np.bincount(places + 1, up, right.size)
    left = right * np.exp(-interval * np.arange(right.size))
    right[0] = left[0] = 0.0
    return _completed(right, left, law.infinite_mass)
