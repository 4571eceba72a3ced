"""A family of bounds with one free integer, answered at the best member for each question."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.composition import compose
from audit.bounds.subsampling import SubsampledGaussian
from audit.curves.base import PrivacyCurve
from audit.mechanism import Order

Array = NDArray[np.float64]

_COARSE_GRID = 1 << 16  # enough to compare lengths: the winner is computed on the full grid
_SMALLEST_DECADE = 12
_TRADEOFF_DECADES = (2, 5)


@dataclass(frozen=True, eq=False)
class InterpolationCurve(PrivacyCurve):
    """The best of G(crossing/sqrt(m)) composed with ``step`` m times, over m = 1..longest.

    Each m gives a valid bound, so every answer is valid whichever m gives it. The best m is
    searched for at delta = 0.1, 0.01, ..., 1e-12, when first needed: the Renyi divergences, cheap
    for all m at once, say where to look, and a golden-section search on coarse numerical
    compositions finds the place. ``epsilon`` and ``delta`` take the better of the two members on
    either side of the value asked for, ``beta`` that of the members for delta = 1e-2 and 1e-5;
    ``renyi`` is exact in m.

    Parameters
    ----------
    step
        C_p(G(mu)) of one step.
    crossing
        The Gaussian parameter of m = 1.
    longest
        The largest m.
    """

    step: SubsampledGaussian
    crossing: float
    longest: int
    _members: dict[int, PrivacyCurve] = field(default_factory=dict, repr=False)
    _lengths: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def symmetric(self) -> bool:
        """Every member is."""
        return True

    def member(self, length: int) -> PrivacyCurve:
        """Return the bound with ``length`` = t - tau steps."""
        validate.integer(1, length=length)
        if length not in self._members:
            self._members[length] = self._compose(length)
        return self._members[length]

    def best_length(self, decade: int) -> int:
        """Return the t - tau whose epsilon at delta = 10^-decade is smallest, up to the search."""
        validate.integer(1, decade=decade)
        if decade not in self._lengths:
            self._lengths[decade] = self._search(10.0**-decade)
        return self._lengths[decade]

    def _compose(self, length: int, **grid: int) -> PrivacyCurve:
        return compose(self.step, length, self.crossing / math.sqrt(length), **grid)

    def _search(self, delta: float) -> int:
        """Minimise the epsilon of a member over lengths, on a logarithmic scale."""
        guess = self._guess(delta)
        coarse: dict[int, float] = {}

        def at(log_length: float) -> float:
            length = min(max(round(math.exp(log_length)), 1), self.longest)
            if length not in coarse:
                curve = self._compose(length, largest_grid=_COARSE_GRID)
                coarse[length] = curve.epsilon(delta)
            return coarse[length]

        low = math.log(max(guess / 4, 1))
        high = math.log(min(guess * 4, self.longest))
        ratio = (math.sqrt(5) - 1) / 2
        for end in (low, high, math.log(guess)):
            at(end)
        while high - low > 0.02 and math.exp(high) - math.exp(low) > 0.5:
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            if at(left) <= at(right):
                high = right
            else:
                low = left
        return min(coarse, key=lambda length: coarse[length])

    def _guess(self, delta: float) -> int:
        """Best length by the Renyi divergences, each order at its own best length."""
        orders = 1 + np.geomspace(1e-4, 1e4, 81)
        per_step = np.asarray(self.step.renyi(orders))
        lengths = self._best_by_order(orders, per_step)
        bounds = lengths * per_step + orders * self.crossing**2 / (2 * lengths)
        conversion = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
        return int(lengths[int(np.argmin(bounds + conversion))])

    def _best_by_order(self, orders: Array, per_step: Array) -> Array:
        """Integer m that minimises m R + alpha crossing^2/(2 m) for each order."""
        cost = orders * self.crossing**2 / 2
        with np.errstate(divide="ignore"):
            turning_point = np.clip(np.sqrt(cost / per_step), 1, self.longest)
        below, above = np.floor(turning_point), np.minimum(np.ceil(turning_point), self.longest)
        value = np.stack([m * per_step + cost / m for m in (below, above)])
        return np.asarray(np.where(value[0] <= value[1], below, above))

    def _at_decade(self, decade: int) -> PrivacyCurve:
        return self.member(self.best_length(decade))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        result = np.full_like(delta, np.inf)
        place = np.clip(-np.log10(delta), 1, _SMALLEST_DECADE)
        near = np.rint(place)
        # a power of ten is one decade, in spite of rounding
        place = np.where(np.abs(place - near) < 1e-9, near, place)
        for side in (np.floor(place), np.ceil(place)):
            for decade in np.unique(side):
                here = side == decade
                found = self._at_decade(int(decade)).epsilon(delta[here])
                result[here] = np.minimum(result[here], found)
        return result

    def _delta(self, epsilon: Array, order: Order) -> Array:
        result = np.empty_like(epsilon)
        for place, value in enumerate(epsilon):
            low, high = self._decades(abs(float(value)))
            result[place] = min(self._at_decade(k).delta(float(value)) for k in (low, high))
        return result

    def _decades(self, epsilon: float) -> tuple[int, int]:
        """Return the neighbouring decades of delta between which ``epsilon`` lies."""
        low, high = 0, _SMALLEST_DECADE + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._at_decade(middle).epsilon(10.0**-middle) <= epsilon:
                low = middle
            else:
                high = middle
        return max(low, 1), min(high, _SMALLEST_DECADE)

    def _beta(self, alpha: Array, order: Order) -> Array:
        betas = [np.asarray(self._at_decade(k).beta(alpha)) for k in _TRADEOFF_DECADES]
        return np.asarray(np.stack(betas).max(axis=0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        per_step = np.asarray(self.step.renyi(alpha))
        length = self._best_by_order(alpha, per_step)
        result = length * per_step + alpha * self.crossing**2 / (2 * length)
        return np.asarray(result)
