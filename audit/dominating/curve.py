"""Privacy curves of dominating pairs: every value has a bracket."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import GaussianCurve, Order
from audit.curves.base import PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.dominating.grid import GridPair
from audit.dominating.grid_composition import GridComposition, TooManyCells

Array = NDArray[np.float64]
Bracket = tuple[float, float]
Moments = Callable[[Array, Order], Array]
Parts = list[tuple[GridPair, int]]

# Epsilon at this delta is a lower end of that at 0.
_LEAST_DELTA = 1e-12
# Largest epsilon of the points from which a tradeoff function is made: that of this delta.
_SMALLEST_DELTA = 1e-9
_POINTS = 256
# How often a grid is made finer, and how wide a bracket may be in units of what is aimed at.
_ROUNDS, _TOLERATED, _SHRINKS = 5, 1.5, 0.7
# How many times as wide a grid may become where a finer one needs too many cells.
_COARSEST = 1000
# Relative error of closed forms.
_ROUNDING = 1e-12


class Run(Protocol):
    """Independent pairs of one kind, which can be put on a grid of any interval."""

    @property
    def times(self) -> int:
        """How many pairs."""

    @property
    def variance(self) -> float:
        """Of the loss of all pairs together, roughly."""

    def reach(self, steps: int) -> float:
        """Length of the range of one pair's losses, where ``steps`` pairs are composed in all."""

    def largest_loss(self, order: Order) -> Bracket:
        """Return (low, high) around the largest loss of all pairs together."""

    def counts(self, losses: Array, tilt: float, order: Order) -> Array:
        """How many losses are expected beyond each but the last, on either side.

        Parameters
        ----------
        losses
            Positive, rising.
        tilt
            A loss x counts e^(tilt x) times.
        order
            Which law comes first.
        """

    def sides(
        self, interval: float, steps: int, inner: int = 0, outer: int | None = None
    ) -> tuple[Parts, Parts]:
        """Return what the pairs dominate, and what dominates them.

        Parameters
        ----------
        interval
            Of the grid.
        steps
            How many pairs are composed in all.
        inner, outer
            In intervals: only outcomes whose losses are as large are meant, on either side.
        """


class DominatingCurve(PrivacyCurve):
    """The curve of a pair of laws (P, Q), P that of X, with a bracket around every value.

    ``epsilon``, ``delta`` and ``beta`` are upper ends: sound for everything that the pair
    dominates.
    """

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around the least epsilon >= 0 at ``delta``.

        Parameters
        ----------
        delta : float
            In [0, 1); at 0 it is the largest loss, infinite where that has no bound.
        order : Order, optional
            Of the pair; None for the worse of both.
        """
        validate.half_open_unit(delta=delta)
        ask = self._epsilon_ends if delta else self._pure_ends
        return self._worse(lambda one: ask(float(delta), one), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return (low, high) around delta at ``epsilon``, any real number.

        Parameters
        ----------
        epsilon : float
            Any real number.
        order : Order, optional
            Of the pair; None for the worse of both.
        """
        validate.finite(epsilon=epsilon)
        return self._worse(lambda one: self._delta_ends(float(epsilon), one), order)

    def _pure_ends(self, delta: float, order: Order) -> Bracket:
        """Return (low, high) around the largest loss: infinite where none is known."""
        return self._epsilon_ends(_LEAST_DELTA, order)[0], math.inf

    def _pure_epsilon(self, order: Order) -> float:
        return self._pure_ends(0.0, order)[1]

    @abstractmethod
    def _epsilon_ends(self, delta: float, order: Order) -> Bracket: ...

    @abstractmethod
    def _delta_ends(self, epsilon: float, order: Order) -> Bracket: ...

    def _worse(self, ask: Callable[[Order], Bracket], order: Order | None) -> Bracket:
        if order is not None:
            validate.instance(Order, order=order)
            return ask(order)
        first = ask(Order.FORWARD)
        if self.symmetric:
            return first
        second = ask(Order.REVERSE)
        return max(first[0], second[0]), max(first[1], second[1])


@dataclass(frozen=True, eq=False)
class ComposedCurve(DominatingCurve):
    """The curve of a pair between a composition below it and one above it.

    Parameters
    ----------
    lower, upper : GridComposition
        Compositions that the pair dominates, and that dominate it.
    moments : Moments, optional
        Upper bounds on Renyi divergences, from orders above 1 and the order of the pair; None if
        nothing finite is known.
    same : bool, default: False
        Whether (Q, P) is the same pair as (P, Q), so that one order serves for both.
    """

    lower: GridComposition
    upper: GridComposition
    moments: Moments | None = None
    same: bool = False

    def __post_init__(self) -> None:
        if self.lower.above or not self.upper.above:
            raise ValueError("lower must be dominated and upper must dominate, got them otherwise")

    @property
    def symmetric(self) -> bool:
        """Whether both orders are the same."""
        return self.same

    def tilt(self, epsilon: float, order: Order) -> float:
        """Return the tilt under which the mean loss is about ``epsilon``."""
        return self._sides(order)[1].tilt(epsilon)

    def tilt_of_delta(self, delta: float, order: Order) -> float:
        """Return the tilt under which the mean loss is about the epsilon of ``delta``."""
        return self._sides(order)[1].tilt_of_delta(delta)

    def _sides(self, order: Order) -> tuple[GridComposition, GridComposition]:
        if order is Order.FORWARD or self.same:
            return self.lower, self.upper
        return self.lower.swapped, self.upper.swapped

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        return self.epsilon_ends(delta, order)

    def epsilon_ends(self, delta: float, order: Order, near: float | None = None) -> Bracket:
        """Return (low, high) around epsilon at ``delta`` in (0, 1), which is about ``near``."""
        low, high = (side.epsilon(delta, near) for side in self._sides(order))
        return min(low, high), high

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        low, high = (side.delta(epsilon) for side in self._sides(order))
        return min(low, high), high

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


class Composed(Protocol):
    """A composition on a grid of this multiple of an interval, with layers for this tilt."""

    def __call__(
        self, share: float, tilt: float = 0.0, order: Order = Order.FORWARD
    ) -> ComposedCurve:
        """Return the composition."""


@dataclass(frozen=True, eq=False)
class RefinedCurve(DominatingCurve):
    """The curve of a composition on a grid that is made finer where a bracket of epsilon is wide.

    Parameters
    ----------
    composed
        Maps a multiple of the first grid's interval to the curve on that grid; where its layers end
        follows from a tilt.
    accuracy
        The relative width of brackets of epsilon that is aimed at.
    finest
        The least multiple to ask for.
    rough
        A composition on a coarse grid, from which tilts are taken.
    runs
        What is composed.
    same
        Whether both orders are the same.
    """

    composed: Composed
    accuracy: float
    finest: float
    rough: Callable[[], ComposedCurve]
    runs: tuple[Run, ...]
    same: bool

    @property
    def symmetric(self) -> bool:
        """Whether both orders are the same."""
        return self.same

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        tilt, share = self.rough().tilt_of_delta(delta, order), 1.0
        low, high = 0.0, np.inf
        for _ in range(_ROUNDS):
            try:
                near = high if low > 0.999 * high else None
                ends = self._at(share, tilt, order).epsilon_ends(delta, order, near)
            except TooManyCells:
                if np.isfinite(high) or share > _COARSEST:
                    break
                share *= 2
                continue
            before = high - low
            low, high = max(low, ends[0]), min(high, ends[1])
            if np.isfinite(before) and high - low > _SHRINKS * before:
                break  # rounding keeps it wide, not the grid
            wide = (high - low) / (self.accuracy * high) if 0 < high < np.inf else 0.0
            if wide <= _TOLERATED or share <= self.finest:
                break
            # the width of a bracket goes with the square of the interval
            share = max(share * min(max(0.8 / wide**0.5, 0.03), 0.5), self.finest)
        return low, high

    def _pure_ends(self, delta: float, order: Order) -> Bracket:
        ends = [run.largest_loss(order) for run in self.runs]
        return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)

    def _at(self, share: float, tilt: float, order: Order) -> ComposedCurve:
        # tilts are rounded up, so that near ones share their layers
        rounded = math.exp(math.ceil(2 * math.log(tilt)) / 2) if tilt > 1e-3 else 0.0
        return self.composed(share, rounded, order)

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        tilt = self.rough().tilt(epsilon, order)
        return self._at(1.0, tilt, order)._delta_ends(epsilon, order)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([self._epsilon_ends(float(d), order)[1] for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        tilt = self.rough().tilt(float(epsilon.max()), order)
        return self._at(1.0, tilt, order)._delta(epsilon, order)

    def _beta(self, alpha: Array, order: Order) -> Array:
        tilt = self.rough().tilt_of_delta(_SMALLEST_DELTA, order)
        return self._at(1.0, tilt, order)._beta(alpha, order)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self.composed(1.0)._renyi(alpha, order)


@dataclass(frozen=True, eq=False)
class GaussianDominatingCurve(DominatingCurve):
    """N(mu, 1) against N(0, 1), in closed form.

    Parameters
    ----------
    mu
        Distance of the two means in units of the noise.
    """

    mu: float

    @property
    def symmetric(self) -> bool:
        """Both orders are the same."""
        return True

    @cached_property
    def _curve(self) -> GaussianCurve:
        return GaussianCurve(self.mu)

    def _pure_ends(self, delta: float, order: Order) -> Bracket:
        return math.inf, math.inf

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        value = self._curve.epsilon(delta)
        return value * (1 - _ROUNDING), value * (1 + _ROUNDING)

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        value = self._curve.delta(epsilon)
        return value * (1 - _ROUNDING), min(value * (1 + _ROUNDING), 1.0)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.asarray(self._curve.epsilon(delta))

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.asarray(self._curve.delta(epsilon))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self._curve.beta(alpha))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self._curve.renyi(alpha))


def compose(
    parts: Sequence[tuple[GridPair, GridPair, int]],
    moments: Moments | None = None,
    *,
    same: bool = False,
) -> ComposedCurve:
    """Return the curve of independent pairs, run one after another.

    Parameters
    ----------
    parts : sequence of tuple of (GridPair, GridPair, int)
        (dominated pair, dominating pair, how often it is run), ...; all on one interval.
    moments : Moments, optional
        See `ComposedCurve`.
    same : bool, default: False
        See `ComposedCurve`.
    """
    return ComposedCurve(
        GridComposition([(lower, times) for lower, _, times in parts]),
        GridComposition([(upper, times) for _, upper, times in parts]),
        moments,
        same,
    )
