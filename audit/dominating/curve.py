"""Privacy curves of dominating pairs, with a bracket around every value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.bracketed import BracketedCurve, bracket_width, width_beside
from audit.curves.brackets import TINY, Bracket, checked
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.gaussian import NormalPairCurve
from audit.dominating.closed_form import DeltaLimits, SampledGaussian
from audit.dominating.grid import GridPair
from audit.dominating.grid_composition import GridComposition
from audit.dominating.mixture import Tails

Array = NDArray[np.float64]
Moments = Callable[[Array, Order], Array]
Parts = list[tuple[GridPair, int]]

# Epsilon at this delta is a lower end of that at 0.
_LEAST_DELTA = 1e-12
# Largest epsilon of the points from which a tradeoff function is made: that of this delta.
_SMALLEST_DELTA = 1e-9
_POINTS = 256


class PairRun(Protocol):
    """Independent pairs of one kind, which can be discretised on a grid of any interval."""

    @property
    def times(self) -> int:
        """Number of pairs."""

    @property
    def variance(self) -> float:
        """Approximate variance of the total loss."""

    @property
    def limits(self) -> DeltaLimits | None:
        """Proven bounds on the deltas of all pairs, if any are known."""

    @property
    def closed(self) -> SampledGaussian | None:
        """The closed form of all pairs, in both orders, if there is one."""

    def check(self, steps: int) -> None:
        """Raise ``ValueError`` if losses are beyond the range of a grid, for ``steps`` pairs."""

    def reach(self, log_tails: Tails) -> float:
        """Return the length of the range of one pair's losses, but for masses of e^log_tails."""

    def largest_loss(self, order: Order) -> Bracket:
        """Return (low, high) around the largest total loss."""

    def counts(self, losses: Array, tilt: float, order: Order) -> Array:
        """Return how many losses x are expected beyond each of ``losses`` but the last.

        Those are positive and increasing; both signs of x count, each with weight e^(tilt x).
        """

    def sides(
        self, interval: float, log_tails: Tails, inner: int = 0, outer: int | None = None
    ) -> tuple[Parts, Parts]:
        """Return parts that the pairs dominate, and parts that dominate them.

        Absolute losses from ``inner`` to ``outer`` intervals are included, but for neglected tails.
        """


class DominatingCurve(BracketedCurve):
    """Curve of a pair of laws (P, Q), with P that of X, and a bracket around every value.

    ``epsilon`` and ``delta`` are upper ends and ``beta`` is a lower end: they are bounds for
    everything that the pair dominates. Of Renyi divergences only upper ends are computed here:
    `audit.exact` has brackets. Every bracket is compared with the ``limits``, if any are known.
    """

    limits: DeltaLimits | None = None

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        ask = self._epsilon_ends if delta else self._pure_ends
        bracket = checked(f"epsilon at delta {delta:g}", ask(delta, order), order)
        return self._limited(delta, bracket, order)

    def _limited(self, delta: float, bracket: Bracket, order: Order) -> Bracket:
        """Return the part of a bracket within the limits, which it must not contradict."""
        if self.limits is None:
            return bracket
        self.limits.check_epsilon(delta, bracket, order)
        if delta == 0:
            return bracket
        low, high = self.limits.epsilon_bracket(delta, order)
        return max(low, bracket[0]), min(high, bracket[1])

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        bracket = self._delta_ends(epsilon, order)
        low, high = checked(f"delta at epsilon {epsilon:g}", bracket, order, most=1.0)
        if self.limits is not None:
            self.limits.check_delta(epsilon, bracket, order)
        vanishes = self.limits is not None and epsilon >= self.limits.largest(order)
        return low, high if vanishes else min(high + TINY, 1.0)

    def _pure_ends(self, delta: float, order: Order) -> Bracket:
        """Return a bracket of the largest loss; the upper end is infinite if none is known."""
        return self._epsilon_ends(_LEAST_DELTA, order)[0], math.inf

    def _pure_epsilon(self, order: Order) -> float:
        return self._pure_ends(0.0, order)[1]

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        raise NotImplementedError

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        raise NotImplementedError

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        high = float(self._renyi(np.array([alpha]), order)[0])
        return checked(f"Renyi divergence of order {alpha:g}", (0.0, high), order)


@dataclass(frozen=True, eq=False)
class ComposedCurve(DominatingCurve):
    """Curve of a pair between a composition that it dominates and one that dominates it.

    lower, upper: Dominated and dominating composition.
    moments: Upper bounds on Renyi divergences, by order and order of the pair, if any are known.
    same: Whether (Q, P) equals (P, Q), so that one order suffices.
    limits: As in `DominatingCurve`.
    """

    lower: GridComposition
    upper: GridComposition
    moments: Moments | None = None
    same: bool = False
    limits: DeltaLimits | None = None

    def __post_init__(self) -> None:
        if self.lower.above or not self.upper.above:
            raise ValueError("lower must be dominated and upper must dominate, got them otherwise")

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values."""
        return self.same

    def _sides(self, order: Order) -> tuple[GridComposition, GridComposition]:
        if order is Order.FORWARD or self.same:
            return self.lower, self.upper
        return self.lower.swapped, self.upper.swapped

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        return self.epsilon_ends(delta, order)

    def epsilon_ends(self, delta: float, order: Order, near: float | None = None) -> Bracket:
        """Return a bracket of epsilon at ``delta``, in one order, from a start ``near`` it."""
        low, high = (side.epsilon(delta, near) for side in self._sides(order))
        return low, high

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        whole = bracket_width(self.epsilon_bracket(delta, order))
        exact = replace(self, lower=_exact(self.lower), upper=_exact(self.upper))
        left = bracket_width(exact.epsilon_bracket(delta, order))
        return {"rounding": width_beside(whole, left), "grid": left}

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        low, high = (side.delta(epsilon) for side in self._sides(order))
        return low, high

    def _epsilon(self, delta: Array, order: Order) -> Array:
        upper = self._sides(order)[1]
        return np.array([upper.epsilon(float(d)) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return self._sides(order)[1].deltas(epsilon)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return tradeoff_from_profile(alpha, *self._profile)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        """Epsilons, and the larger delta of both orders at each."""
        points = profile_points(self.epsilon(_SMALLEST_DELTA), _POINTS)
        deltas = self._delta(points, Order.FORWARD)
        if not self.same:
            deltas = np.maximum(deltas, self._delta(points, Order.REVERSE))
        return points, deltas

    def _renyi(self, alpha: Array, order: Order) -> Array:
        if self.moments is None:
            return np.full_like(alpha, np.inf)
        return np.asarray(self.moments(alpha, order))


def _exact(side: GridComposition) -> GridComposition:
    """Return a composition of the same pairs, with their masses taken as exact."""
    pairs = [(replace(pair, rounding=0.0, ratio_error=(0.0, 0.0)), n) for pair, n in side.parts]
    return GridComposition(pairs)


class GaussianDominatingCurve(NormalPairCurve, DominatingCurve):
    """Curve of N(mu, 1) against N(0, 1), in closed form."""


def compose(
    parts: Sequence[tuple[GridPair, GridPair, int]],
    moments: Moments | None = None,
    *,
    same: bool = False,
) -> ComposedCurve:
    """Return the curve of pairs (dominated, dominating, times) on one interval, composed."""
    return ComposedCurve(
        GridComposition([(lower, times) for lower, _, times in parts]),
        GridComposition([(upper, times) for _, upper, times in parts]),
        moments,
        same,
    )
