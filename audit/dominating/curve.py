"""The privacy curve of a composition that is known from both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.dominating.composition import Composition
from audit.dominating.grid import GridPair

Array = NDArray[np.float64]
Bracket = tuple[float, float]

# Largest epsilon of the points from which a tradeoff function is made: that of this delta.
_SMALLEST_DELTA = 1e-9
_POINTS = 256


@dataclass(frozen=True, eq=False)
class DominatingCurve(PrivacyCurve):
    """The curve of a pair of laws, between a composition below it and one above it.

    ``epsilon``, ``delta`` and ``beta`` are those of ``upper``: sound for everything that the pair
    dominates. The true values of the pair lie within the brackets.

    Parameters
    ----------
    lower, upper
        Compositions that the pair dominates, and that dominate it.
    moments
        A curve whose Renyi divergences are upper bounds; None if nothing finite is known.
    """

    lower: Composition
    upper: Composition
    moments: PrivacyCurve | None = None

    def __post_init__(self) -> None:
        if self.lower.above or not self.upper.above:
            raise ValueError("lower must be dominated and upper must dominate, got them otherwise")

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around the least epsilon >= 0 at ``delta``.

        Parameters
        ----------
        delta
            In (0, 1).
        order
            Of the pair; None for the worse of both.
        """
        validate.open_unit(delta=delta)
        return self._bracket(lambda side: side.epsilon(delta), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around delta at ``epsilon``, any real number.

        Parameters
        ----------
        epsilon
            Any real number.
        order
            Of the pair; None for the worse of both.
        """
        validate.finite(epsilon=epsilon)
        return self._bracket(lambda side: side.delta(epsilon), order)

    def _bracket(self, ask: Callable[[Composition], float], order: Order | None) -> Bracket:
        if order is None:
            one, other = self._bracket(ask, Order.FORWARD), self._bracket(ask, Order.REVERSE)
            return max(one[0], other[0]), max(one[1], other[1])
        validate.instance(Order, order=order)
        low, high = (ask(_ordered(side, order)) for side in (self.lower, self.upper))
        return min(low, high), high

    def _epsilon(self, delta: Array, order: Order) -> Array:
        upper = _ordered(self.upper, order)
        return np.array([upper.epsilon(float(d)) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        upper = _ordered(self.upper, order)
        return np.array([upper.delta(float(e)) for e in epsilon])

    def _beta(self, alpha: Array, order: Order) -> Array:
        largest = self.epsilon(_SMALLEST_DELTA)
        points = profile_points(largest, _POINTS)
        deltas = np.maximum(self._delta(points, Order.FORWARD), self._delta(points, Order.REVERSE))
        return tradeoff_from_profile(alpha, points, deltas)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        if self.moments is None:
            return np.full_like(alpha, np.inf)
        return np.asarray(self.moments.renyi(alpha, order))


def compose(
    parts: Sequence[tuple[GridPair, GridPair, int]], moments: PrivacyCurve | None = None
) -> DominatingCurve:
    """Return the curve of independent pairs, run one after another.

    Parameters
    ----------
    parts
        (dominated pair, dominating pair, how often it is run), ...; all on one interval.
    moments
        See `DominatingCurve`.
    """
    return DominatingCurve(
        Composition([(lower, times) for lower, _, times in parts]),
        Composition([(upper, times) for _, upper, times in parts]),
        moments,
    )


def _ordered(side: Composition, order: Order) -> Composition:
    return side if order is Order.FORWARD else side.swapped
