"""Privacy curves from privacy loss distributions (PLDs) on a grid, bounded on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.curves.base import Order
from audit.curves.bracketed import BracketedCurve
from audit.curves.brackets import Bracket, checked
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.renyi import RenyiCurve

Array = NDArray[np.float64]

CERTIFIED_FLOOR = 1e-11
"""Smallest delta for which a numerical composition is certified: rounding is of this size."""

_RUN = 512  # points of a running sum
_BLOCK, _NATS = 8192, 100.0  # largest block of a sum: in points, which fit a cache, and in nats
_SHORT = 64  # points of a block: a loop over such blocks takes longer than their sums


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Law of the privacy loss log(P/Q) under P, on multiples of ``interval`` and at infinity.

    Parameters
    ----------
    interval : float
        Distance between grid points, in nats.
    first : int
        First grid point, in units of ``interval``.
    masses : ndarray
        Probability under P of each grid point, nonnegative, shape ``(points,)``.
    infinite_mass : float, default: 0.0
        Probability under P of an infinite loss.

    Examples
    --------
    >>> import numpy as np
    >>> from audit.curves import LossDistribution
    >>> LossDistribution(1.0, -1, np.array([0.2689, 0.0, 0.7311])).delta(np.array([0.0])).round(3)
    array([0.462])
    """

    interval: float
    first: int
    masses: Array
    infinite_mass: float = 0.0

    @cached_property
    def _tails(self) -> tuple[int, Array, Array]:
        """Return the first index and, for each later point, the mass above it under P and Q.

        Q is scaled by e^loss of the point, so that losses of thousands of nats do not underflow.
        One point is prepended; points with a loss below -interval are dropped, since negative
        epsilons follow from positive ones.
        """
        start = max(self.first, 0)
        above = self.masses[start - self.first :]
        p_tail = _tail_sums(above)
        q_tail = np.concatenate([_discounted_tails(above, self.interval), [0.0]])
        return start - 1, p_tail, q_tail

    @cached_property
    def _falling_profile(self) -> Array:
        """Profile at the points of `_tails`, from the last one on, made monotone."""
        _, p_tail, q_tail = self._tails
        profile = p_tail - q_tail
        profile += self.infinite_mass
        return np.maximum.accumulate(profile[::-1])

    def delta(self, epsilon: Array) -> Array:
        """Return the privacy profile."""
        start, p_tail, q_tail = self._tails
        place = np.clip(np.floor(epsilon / self.interval) - start, 0, p_tail.size - 1).astype(int)
        rest = epsilon - (place + start) * self.interval
        with np.errstate(over="ignore", invalid="ignore"):
            q_mass = np.where(q_tail[place] > 0, np.exp(rest) * q_tail[place], 0.0)
        delta = self.infinite_mass + p_tail[place] - q_mass
        return np.asarray(np.clip(delta, self.infinite_mass, 1.0))

    def epsilon(self, delta: Array) -> Array:
        """Return the smallest epsilon >= 0 with ``self.delta(epsilon) <= delta``."""
        start, p_tail, q_tail = self._tails
        at_points = self._falling_profile
        # the last point whose profile is above delta
        place = at_points.size - 1 - np.searchsorted(at_points, delta, side="right")
        place = np.clip(place, 0, at_points.size - 1)
        surplus = self.infinite_mass + p_tail[place] - delta
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.minimum(np.log(surplus / q_tail[place]), self.interval)
            root = (place + start) * self.interval + step
        root = np.where(surplus > 0, np.maximum(np.nan_to_num(root, nan=0.0), 0.0), 0.0)
        return np.where(delta > self.infinite_mass, root, np.inf)


def _tail_sums(masses: Array) -> Array:
    """Return, for each j up to the number of masses, the sum over k >= j of masses[k].

    The sums run within short blocks, since one long running sum of 2^18 masses errs by 1e-13.
    """
    rows = -(-(masses.size + 1) // _RUN)
    sums = np.zeros(rows * _RUN)
    sums[1 : masses.size + 1] = masses[::-1]
    blocks = sums.reshape(rows, _RUN)
    np.cumsum(blocks, axis=1, out=blocks)
    blocks[1:] += np.cumsum(blocks[:-1, -1])[:, None]
    return sums[masses.size :: -1]


def _discounted_tails(masses: Array, interval: float) -> Array:
    """Return, for each j, the sum over k >= j of masses[k] e^(-(k - j + 1) interval).

    The sums run block by block from the end. Weights within a block differ by a factor of at most
    e^100, so that none underflows. Where blocks would be short, sums of 1, 2, 4, ... terms are
    added up until the weights vanish.
    """
    falling = masses[::-1]
    length = max(int(min(_BLOCK, _NATS / interval, falling.size)), 1)
    if length < _SHORT:
        sums, lag = math.exp(-interval) * falling, 1
        while lag < sums.size and (weight := math.exp(-interval * lag)) > 0:
            sums[lag:] += weight * sums[:-lag]
            lag *= 2
        return sums[::-1]
    weights = np.exp(-interval * np.arange(length))
    shrink = math.exp(-interval)
    result = np.empty(falling.size)
    last = 0.0
    for begin in range(0, falling.size, length):
        block = falling[begin : begin + length]
        own = weights[: block.size]
        sums = shrink * own * (np.cumsum(block / own) + last)
        result[begin : begin + block.size] = sums
        last = float(sums[-1])
    return result[::-1]


@dataclass(frozen=True, eq=False)
class PLDCurve(BracketedCurve):
    """Upper bound on a composition from its privacy loss distribution, with a lower bound.

    The pair must be symmetric: both orders have the same profile. ``epsilon`` and ``delta`` come
    from ``upper``, a pair that dominates the composition, increased by ``rounding``. ``lower``
    gives a pair that the composition dominates; it is called when a bracket is first asked for.
    The true value lies within `epsilon_bracket` and `delta_bracket`. Below ``floor`` the numerical
    composition is not certified; ``epsilon`` and ``delta`` then come from the exact Renyi
    divergences ``moments``, which are valid at every delta, and the bracket is correspondingly
    wider.

    Parameters
    ----------
    upper : LossDistribution
        Dominating loss distribution.
    rounding : float
        Bound on the change of delta by rounding and truncation.
    moments : RenyiCurve
        Renyi divergences of the composition, used for ``renyi`` and small delta.
    lower : callable
        Returns a dominated loss distribution and its rounding.
    floor : float, optional
        Smallest delta for which ``upper`` is used.
    """

    upper: LossDistribution
    rounding: float
    moments: RenyiCurve
    lower: Callable[[], tuple[LossDistribution, float]]
    floor: float = CERTIFIED_FLOOR

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values; true by assumption."""
        return True

    @cached_property
    def _lower(self) -> tuple[LossDistribution, float]:
        return self.lower()

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        lower, rounding = self._lower
        # the lower end is 0 where delta plus rounding reaches 1
        low = lower.epsilon(np.array([min(delta + rounding, 1.0)]))[0]
        high = self._epsilon(np.array([delta]), order)[0]
        return checked(f"epsilon at delta {delta:g}", (float(low), float(high)), None)

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        lower, rounding = self._lower
        low = max(float(lower.delta(np.array([abs(epsilon)]))[0]) - rounding, 0.0)
        if epsilon < 0:
            low = math.exp(epsilon) * low - math.expm1(epsilon)
        high = float(self._delta(np.array([epsilon]), order)[0])
        return checked(f"delta at epsilon {epsilon:g}", (low, high), None, most=1.0)

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        high = float(self.moments.renyi(alpha))
        return checked(f"Renyi divergence of order {alpha:g}", (0.0, high), None)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        certified = delta > self.floor
        result = np.full_like(delta, np.inf)
        result[certified] = self.upper.epsilon(delta[certified] - self.rounding)
        # finite below the floor, and no larger just above it
        small = delta < 1e3 * self.floor
        if np.any(small):
            result[small] = np.minimum(result[small], self.moments.epsilon(delta[small]))
        return result

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        result = np.maximum(self.upper.delta(size) + self.rounding, self.floor)
        small = result < 1e3 * self.floor
        if np.any(small):
            result[small] = np.minimum(result[small], self.moments.delta(size[small]))
        result = np.minimum(result, 1.0)
        return np.where(epsilon >= 0, result, 1 - np.exp(-size) * (1 - result))

    def _beta(self, alpha: Array, order: Order) -> Array:
        # smaller deltas change little and cost most
        largest = float(self.upper.epsilon(np.array([2e3 * self.floor]))[0])
        points = profile_points(largest, 4096)
        return tradeoff_from_profile(alpha, points, self._delta(points, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.moments.renyi(alpha))
