"""Privacy curves of mechanisms without a known worst pair, bounded from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.brackets import Bracket
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.curve import DominatingCurve
from audit.dominating.grid_composition import GridComposition

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EnclosedCurve(DominatingCurve):
    """Curve of the worst pair of datasets, between explicit adversaries and an upper bound.

    Parameters
    ----------
    adversaries : tuple of GridComposition
        Compositions that pairs of datasets dominate, in the order of the pair.
    upper : DominatingCurve
        A proven bound for every pair of datasets.
    attained : DominatingCurve, optional
        A curve that some pair of datasets has, whose lower ends are used as well.
    """

    adversaries: tuple[GridComposition, ...]
    upper: DominatingCurve
    attained: DominatingCurve | None = None

    @property
    def limits(self) -> DeltaLimits | None:  # type: ignore[override]
        """Proven bounds that every bracket is compared with: those of the upper bound."""
        return self.upper.limits

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        high = self.upper.epsilon_bracket(delta, order)[1]
        found = [_ordered(one, order).epsilon(delta) for one in self.adversaries]
        if self.attained is not None:
            found.append(self.attained.epsilon_bracket(delta, order)[0])
        return max(found), high

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        high = self.upper.delta_bracket(epsilon, order)[1]
        found = [_ordered(one, order).delta(epsilon) for one in self.adversaries]
        if self.attained is not None:
            found.append(self.attained.delta_bracket(epsilon, order)[0])
        return max(-math.expm1(min(epsilon, 0.0)), *found), high

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
