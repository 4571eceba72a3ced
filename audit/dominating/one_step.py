"""One pair of normal mixtures in closed form: the best events are half-lines."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from audit.curves import Order
from audit.dominating.curve import Array, Bracket, RefinedCurve
from audit.dominating.mixture import MixturePair

# Relative error of the terms of delta, and of epsilon.
_ROUNDING = 1e-12
_STEPS = 200


@dataclass(frozen=True, eq=False)
class OneStepCurve(RefinedCurve):
    """Curve of one step in closed form; beta and Renyi divergences are those of the grid.

    Parameters
    ----------
    pair : MixturePair
        A one-sided pair.
    """

    pair: MixturePair

    @classmethod
    def of(cls, curve: RefinedCurve, pair: MixturePair) -> OneStepCurve:
        """Return the curve of one step, given its curve on a grid."""
        fields = {field.name: getattr(curve, field.name) for field in dataclasses.fields(curve)}
        return cls(**fields, pair=pair)

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        low = self._least(delta, order, above=False)
        return low * (1 - _ROUNDING), self._least(delta, order, above=True) * (1 + _ROUNDING)

    def _least(self, delta: float, order: Order, *, above: bool) -> float:
        """Return where delta crosses a number, on the requested side."""
        side = 1 if above else 0
        if self._delta_ends(0.0, order)[side] <= delta:
            return 0.0
        high = 1e-300
        while self._delta_ends(high, order)[side] > delta:
            high *= 1e3 if high < 1e-20 else 2
        low = 0.0
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            if not low < middle < high or high - low < 1e-15 * high:
                break
            if self._delta_ends(middle, order)[side] > delta:
                low = middle
            else:
                high = middle
        return high if above else low

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        pair = self.pair
        forward = order is Order.FORWARD
        edge = float(pair.place(np.array(epsilon if forward else -epsilon)))
        if not math.isfinite(edge):
            value = -math.expm1(epsilon) if forward and epsilon < 0 else 0.0
            return max(value, 0.0) * (1 - _ROUNDING), max(value, 0.0) * (1 + _ROUNDING)
        sign = -1.0 if forward else 1.0
        zero = math.exp(log_ndtr(sign * edge / pair.noise))
        moved = math.exp(log_ndtr(sign * (edge - pair.mean) / pair.noise))
        # the difference of both laws is q (moved - zero): only these cancel
        q = pair.rate
        if forward:
            gains, losses = q * moved, (math.expm1(epsilon) + q) * zero
        else:
            gains, losses = zero * (-math.expm1(epsilon) + math.exp(epsilon) * q), 0.0
            losses = math.exp(epsilon) * q * moved
        error = _ROUNDING * (abs(gains) + abs(losses))
        value = gains - losses
        return max(value - error, 0.0), min(max(value, 0.0) + error, 1.0)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.array([self._delta_ends(float(e), order)[1] for e in epsilon])
