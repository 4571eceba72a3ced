"""Privacy curves of mechanisms without a known dominating pair, bounded from both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.dominating.curve import Bracket, DominatingCurve
from audit.dominating.grid_composition import GridComposition

Array = NDArray[np.float64]

# Relative error of closed forms.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class EnclosedCurve(DominatingCurve):
    """Curve of the worst pair of datasets, between explicit adversaries and an upper bound.

    Parameters
    ----------
    adversaries : tuple of GridComposition
        Compositions that pairs of datasets dominate, in the order of the pair.
    upper : PrivacyCurve
        A proven bound for every pair of datasets. If it is a `DominatingCurve`, the lower ends of
        its brackets are used as well.
    """

    adversaries: tuple[GridComposition, ...]
    upper: PrivacyCurve

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        if isinstance(self.upper, DominatingCurve):
            low, high = self.upper.epsilon_bracket(delta, order)
        else:
            low, high = 0.0, self.upper.epsilon(delta, order) * (1 + _ROUNDING)
        found = [_ordered(one, order).epsilon(delta) for one in self.adversaries]
        return max([low, *found]), high

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        if isinstance(self.upper, DominatingCurve):
            low, high = self.upper.delta_bracket(epsilon, order)
        else:
            low, high = 0.0, min(self.upper.delta(epsilon, order) * (1 + _ROUNDING), 1.0)
        found = [_ordered(one, order).delta(epsilon) for one in self.adversaries]
        return max([low, *found]), high

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.asarray(self.upper.epsilon(delta, order))

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.asarray(self.upper.delta(epsilon, order))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.upper.beta(alpha, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.upper.renyi(alpha, order))


def _ordered(side: GridComposition, order: Order) -> GridComposition:
    return side if order is Order.FORWARD else side.swapped
