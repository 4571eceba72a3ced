"""Curves known through a privacy loss distribution on a grid, bracketed from both sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.renyi import RenyiCurve

Array = NDArray[np.float64]

CERTIFIED_FLOOR = 1e-11
"""Numerical compositions are not certified below this delta: rounding is of that size."""


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Law of the privacy loss log(P/Q) under P, on multiples of ``interval`` and at infinity.

    Parameters
    ----------
    interval : float
        Distance of two grid points, in nats.
    first : int
        The first grid point, in units of ``interval``.
    masses : ndarray
        Probability under P of each grid point, shape ``(points,)``, not negative.
    infinite_mass : float, default: 0.0
        Probability under P of an infinite loss.
    """

    interval: float
    first: int
    masses: Array
    infinite_mass: float = 0.0

    @cached_property
    def _tails(self) -> tuple[int, Array, Array]:
        """First index, and for each point from there on the mass above it under P and Q.

        Q is scaled by e^loss of the point, so that losses of thousands of nats do not underflow.
        One point is put before the first; those below loss -interval are left out, since negative
        epsilons follow from positive ones.
        """
        from scipy.signal import lfilter  # slow to import, and needed by numerical curves only

        start = max(self.first, 0)
        above = self.masses[start - self.first :]
        p_tail = np.concatenate([np.cumsum(above[::-1])[::-1], [0.0]])
        shrink = float(np.exp(-self.interval))
        q_tail = np.concatenate([lfilter([shrink], [1.0, -shrink], above[::-1])[::-1], [0.0]])
        return start - 1, p_tail, q_tail

    def delta(self, epsilon: Array) -> Array:
        """Return the privacy profile at each ``epsilon >= 0``, shape as given."""
        start, p_tail, q_tail = self._tails
        place = np.clip(np.floor(epsilon / self.interval) - start, 0, p_tail.size - 1).astype(int)
        rest = epsilon - (place + start) * self.interval
        with np.errstate(over="ignore", invalid="ignore"):
            q_mass = np.where(q_tail[place] > 0, np.exp(rest) * q_tail[place], 0.0)
        delta = self.infinite_mass + p_tail[place] - q_mass
        return np.asarray(np.clip(delta, self.infinite_mass, 1.0))

    def epsilon(self, delta: Array) -> Array:
        """Return the smallest epsilon >= 0 with ``self.delta(epsilon) <= delta``, shape as given.

        Infinite where ``delta`` is not above the infinite mass.
        """
        start, p_tail, q_tail = self._tails
        at_points = np.maximum.accumulate((self.infinite_mass + p_tail - q_tail)[::-1])
        # the last point whose profile is still above delta
        place = at_points.size - 1 - np.searchsorted(at_points, delta, side="right")
        place = np.clip(place, 0, at_points.size - 1)
        surplus = self.infinite_mass + p_tail[place] - delta
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.minimum(np.log(surplus / q_tail[place]), self.interval)
            root = (place + start) * self.interval + step
        root = np.where(surplus > 0, np.maximum(np.nan_to_num(root, nan=0.0), 0.0), 0.0)
        return np.where(delta > self.infinite_mass, root, np.inf)


@dataclass(frozen=True, eq=False)
class PLDCurve(PrivacyCurve):
    """Upper bound on a composition, from its privacy loss distribution, with a lower twin.

    The pair must be symmetric: both orders have the same profile. ``epsilon`` and ``delta`` come
    from ``upper``, a pair that dominates the composition, raised by ``rounding``; ``lower`` is a
    pair that the composition dominates. The true value lies between the ends of
    `epsilon_bracket` and `delta_bracket`. Below ``floor`` the numerical composition is not
    certified: there ``epsilon`` and ``delta`` come from the exact Renyi divergences ``moments``,
    which stay valid at every delta, and the bracket is as wide as that.

    Parameters
    ----------
    upper, lower : LossDistribution
        The dominating and the dominated loss distribution.
    rounding, lower_rounding : float
        What rounding and truncation can change delta by, on each side.
    moments : RenyiCurve
        Renyi divergences of the composition; they serve ``renyi`` and small delta.
    floor : float, optional
        The smallest delta for which ``upper`` is trusted.
    """

    upper: LossDistribution
    lower: LossDistribution
    rounding: float
    lower_rounding: float
    moments: RenyiCurve
    floor: float = CERTIFIED_FLOOR

    @property
    def symmetric(self) -> bool:
        """Both orders have the same profile."""
        return True

    def epsilon_bracket(self, delta: ArrayLike) -> tuple[float | Array, float | Array]:
        """Return a lower and an upper bound on the epsilon of the composition at ``delta``.

        Parameters
        ----------
        delta : array_like
            One number or an array, in (0, 1).

        Raises
        ------
        ValueError
            If a delta lies outside (0, 1).
        """
        d = validate.array_in(0, 1, open_ends=True, delta=delta)
        flat = np.atleast_1d(d).ravel()
        # where delta plus rounding reaches 1 the lower end says nothing
        low = self.lower.epsilon(np.minimum(flat + self.lower_rounding, 1.0))
        high = self._epsilon(flat, Order.FORWARD)
        low = np.minimum(low, high)
        if d.ndim == 0:
            return float(low[0]), float(high[0])
        return low.reshape(d.shape), high.reshape(d.shape)

    def delta_bracket(self, epsilon: ArrayLike) -> tuple[float | Array, float | Array]:
        """Return a lower and an upper bound on delta at ``epsilon >= 0``, shapes as given."""
        e = validate.array_in(0, np.inf, open_ends=False, epsilon=epsilon)
        flat = np.atleast_1d(e).ravel()
        low = np.maximum(self.lower.delta(flat) - self.lower_rounding, 0.0)
        high = self._delta(flat, Order.FORWARD)
        low = np.minimum(low, high)
        if e.ndim == 0:
            return float(low[0]), float(high[0])
        return low.reshape(e.shape), high.reshape(e.shape)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        certified = delta > self.floor
        result = np.full_like(delta, np.inf)
        result[certified] = self.upper.epsilon(delta[certified] - self.rounding)
        # a finite answer below the floor, and never a worse one just above it
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
        # below that delta the points add next to nothing, and cost most
        largest = float(self.upper.epsilon(np.array([2e3 * self.floor]))[0])
        points = profile_points(largest, 4096)
        return tradeoff_from_profile(alpha, points, self._delta(points, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.moments.renyi(alpha))
