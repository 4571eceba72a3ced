"""Privacy curves of mechanisms without a known worst pair, bounded from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.bracketed import bracket_width, width_beside
from audit.curves.brackets import Bracket
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.curve import DominatingCurve
from audit.dominating.grid_composition import GridComposition

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EnclosedCurve(DominatingCurve):
    """Curve of the worst pair of datasets, between explicit adversaries and an upper bound.

    adversaries: Compositions that pairs of datasets dominate, in the order of the pair.
    upper: A proven bound for every pair of datasets.
    attained: A curve that some pair of datasets has, whose lower ends are used as well.
    lost: Bound on the probability of outcomes that the other curves leave out, of all steps.
    """

    adversaries: tuple[GridComposition, ...]
    upper: DominatingCurve
    attained: DominatingCurve | None = None
    lost: float = 0.0

    @property
    def limits(self) -> DeltaLimits | None:  # type: ignore[override]
        """Proven bounds that every bracket is compared with: those of the upper bound."""
        return None if self.lost else self.upper.limits

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        found = self.upper.errors(delta, order)
        whole = bracket_width(self.epsilon_bracket(delta, order))
        return {**found, "enclosure": width_beside(whole, sum(found.values()))}

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        less, more = delta - self.lost, delta + self.lost
        high = self.upper.epsilon_bracket(less, order)[1] if less > 0 else math.inf
        found = [_ordered(one, order).epsilon(more) for one in self.adversaries]
        if self.attained is not None:
            found.append(self.attained.epsilon_bracket(more, order)[0])
        return max(found), high

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        high = self.upper.delta_bracket(epsilon, order)[1]
        found = [_ordered(one, order).delta(epsilon) for one in self.adversaries]
        if self.attained is not None:
            found.append(self.attained.delta_bracket(epsilon, order)[0])
        low = max(found) - self.lost
        return max(-math.expm1(min(epsilon, 0.0)), low), min(high + self.lost, 1.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        left = delta - self.lost
        found = self.upper.epsilon(np.where(left > 0, left, 0.5), order)
        return np.where(left > 0, found, np.inf)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.minimum(np.asarray(self.upper.delta(epsilon, order)) + self.lost, 1.0)

    def _beta(self, alpha: Array, order: Order) -> Array:
        found = self.upper.beta(np.minimum(alpha + self.lost, 1.0), order)
        return np.maximum(np.asarray(found) - self.lost, 0.0)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        # rare outcomes may have losses of any size
        return np.asarray(self.upper.renyi(alpha, order)) + (np.inf if self.lost else 0.0)


def _ordered(side: GridComposition, order: Order) -> GridComposition:
    return side if order is Order.FORWARD else side.swapped
