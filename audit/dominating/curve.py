"""Compositions on a grid, and privacy curves of dominating pairs with a bracket around every value.

A composition is on one side of the true one: its delta is a sum over layers, each with its own
grid. A curve is between two of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Self

import numpy as np

from audit.curves import Order
from audit.curves.bracketed import BracketedCurve, bracket_width, width_beside
from audit.curves.brackets import TINY, Bracket, checked
from audit.curves.duality import power_bracket, profile_points, tradeoff_from_profile
from audit.curves.gaussian import NormalPairCurve
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair
from audit.dominating.layer import LAYER_EXCESS, TILTS, Layer, Piece
from audit.numerics.arrays import Array, Flags
from audit.numerics.display import ShortRepr
from audit.numerics.roots import certified_crossing

# Largest excess of a tilt's log moment bound over the least, and number of corrections.
_TILT_EXCESS, _TILT_ROUNDS = 6.0, 4
# Layers with a smaller share of delta (in logs) need no better tilt.
_LOG_SMALL_SHARE = -30.0
# A delta above this is found to its last digits by transforms whose errors are absolute.
_ABSOLUTE_FROM = 1e-3


class GridComposition(ShortRepr):
    """Composition of independent pairs on one side.

    parts: Pairs on the same side with the same interval, and the number of repetitions of each.
    layers: Additional runs, in which some step has an outcome missing from ``parts``: for each
        (base, part, times) of every pair, on a grid of another interval. Base and part of one layer
        together are the base of the next. The last layer holds all outcomes.
    """

    def __init__(
        self, parts: Sequence[tuple[GridPair, int]], layers: Sequence[Sequence[Piece]] = ()
    ) -> None:
        parts = tuple((pair, times) for pair, times in parts if times)
        if not parts or len({(pair.above, pair.interval) for pair, _ in parts}) != 1:
            raise ValueError(f"parts must be on one side and one interval, got {len(parts)} parts")
        self.parts = parts
        self.above, self.interval = parts[0][0].above, parts[0][0].interval
        last = layers[-1] if layers else [(None, pair, times) for pair, times in parts]
        # outcomes of P only, of a step: in the base if it has all of a pair's losses
        self._alone = [(part.p_only + (base.p_only if base else 0.0), n) for base, part, n in last]
        self._layers = [Layer([(None, pair, times) for pair, times in parts])]
        self._layers += [Layer(pieces) for pieces in layers]
        for one, other in itertools.pairwise(self._layers):
            if not np.allclose(one.masses(), other.masses(of_base=True), rtol=0, atol=1e-9):
                raise ValueError(
                    "layers must begin with the outcomes of earlier layers, got masses "
                    f"{one.masses()} and {other.masses(of_base=True)}"
                )

    def tilt(self, epsilon: float) -> float:
        """Return the tilt under which the mean loss of all runs is about ``epsilon``."""
        last = self._layers[-1]
        return float(TILTS[last.tilt(epsilon, -math.inf, LAYER_EXCESS)])

    def epsilon_guess(self, delta: float) -> float:
        """Return the approximate epsilon of ``delta``."""
        return self._layers[-1].epsilon_guess(delta)

    @property
    def window(self) -> float:
        """Length of the range of a transform without a tilt, in nats."""
        return self._layers[-1].size * self._layers[-1].interval

    def log_bound(self, epsilon: float) -> float:
        """Return the approximate log of the moment bound on delta at ``epsilon``."""
        return float(self._layers[-1].log_bounds(np.array([epsilon])).min())

    @cached_property
    def swapped(self) -> GridComposition:
        """The composition of the pairs (Q, P)."""
        first, *others = self._layers
        return GridComposition(
            [(part.swapped(), times) for _, part, times in first.pieces],
            [layer.swapped().pieces for layer in others],
        )

    @cached_property
    def p_only(self) -> float:
        """Probability under P of outcomes that Q does not have."""
        if max(mass for mass, _ in self._alone) >= 1:
            return 1.0
        return -math.expm1(sum(times * math.log1p(-mass) for mass, times in self._alone))

    @cached_property
    def rounding(self) -> float:
        """Bound on the relative error of a product of the probabilities of all parts."""
        return math.expm1(
            sum(times * (pair.rounding + UNIT_ROUNDOFF) for pair, times in self.parts)
        )

    @cached_property
    def _proves_nothing(self) -> bool:
        """Whether all outcomes of a dominated pair underflow under one of its laws."""
        return not self.above and any(
            not any(np.any((pair.p > 0) & (pair.lifted > 0)) for pair in (base, part) if pair)
            for base, part, _ in self._layers[-1].pieces
        )

    def epsilon(self, delta: float) -> float:
        """Return a bound on the least epsilon >= 0 with delta(epsilon) <= ``delta``.

        It is an upper bound if the pairs dominate, and a lower one if they are dominated.
        """
        if self.above and delta <= self.p_only * (1 + self.rounding):
            return math.inf
        if not self.above and delta < self.p_only * (1 - self.rounding):
            return math.inf
        if self._proves_nothing:
            return 0.0
        start = self.epsilon_guess(max(delta, 1e-300))
        floor = math.log(max(delta, 1e-300)) + _LOG_SMALL_SHARE
        found: list[float] = []
        for _ in range(_TILT_ROUNDS):
            tilts = self._tilts(start, floor)
            found.append(self._crossing(tilts, delta, start))
            if not math.isfinite(found[-1]) or self._near(tilts, np.array(found[-1:]), floor)[0]:
                break
            # a lower side without a result was tilted too far
            start = found[-1] or 0.5 * start
        return min(found) if self.above else max(found)

    def _crossing(self, tilts: Sequence[int], delta: float, start: float) -> float:
        """Return a place where the bound crosses ``delta``, on the side of the pairs."""
        bound, level = self._bound(tilts), max(delta, TINY)

        def excess(place: float) -> float:
            value = float(bound(np.array([place]))[0])
            log = math.log(max(value, TINY) / level)
            return max(log, TINY) if value > delta else min(log, 0.0)

        return certified_crossing(excess, start, above=self.above)

    def _tilts(self, epsilon: float, floor: float) -> list[int]:
        return [layer.tilt(epsilon, floor) for layer in self._layers]

    def _near(self, tilts: Sequence[int], epsilons: Array, floors: Array | float) -> Flags:
        """Return whether the tilts are suitable for each epsilon."""
        result = np.ones(epsilons.shape, dtype=np.bool_)
        for layer, tilt in zip(self._layers, tilts, strict=True):
            logs = layer.log_bounds(epsilons)
            result &= logs[:, tilt] <= np.maximum(logs.min(axis=1), floors) + _TILT_EXCESS
        return result

    def delta(self, epsilon: float) -> float:
        """Return a bound on delta(``epsilon``), from the side of the pairs."""
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: Array) -> Array:
        """Return `delta` at several numbers; similar ones share their tilts."""
        result = np.empty(epsilons.shape)
        for place in np.flatnonzero(epsilons < 0):
            result[place] = self._below_zero(float(epsilons[place]))
        places = np.flatnonzero(epsilons >= 0)
        if self._proves_nothing:
            result[places] = max(self.p_only * (1 - self.rounding), 0.0)
            return result
        places = places[np.argsort(epsilons[places])]
        floors = self._layers[-1].log_bounds(epsilons[places]).min(axis=1) + _LOG_SMALL_SHARE
        while places.size:
            first = float(epsilons[places[0]])
            tilts = self._tilts(first, float(floors[0]))
            near = self._near(tilts, epsilons[places], floors)
            count = max(int(np.argmin(np.append(near, False))), 1)
            result[places[:count]] = self._bound(tilts)(epsilons[places[:count]])
            places, floors = places[count:], floors[count:]
        return np.clip(result, 0.0, 1.0)

    def profile(self, epsilons: Array) -> Array:
        """Return `delta` at many epsilons >= 0 from one transform, whose error is absolute."""
        if self._proves_nothing:
            return self.deltas(epsilons)
        return np.clip(self._bound([0] * len(self._layers))(epsilons), 0.0, 1.0)

    def _below_zero(self, epsilon: float) -> float:
        # P(S) - e^eps Q(S) = 1 - e^eps + e^eps (Q - e^-eps P)(complement of S)
        least = -math.expm1(epsilon)
        # beside a large term an absolute error will do, for which one transform serves all epsilons
        ask = self.swapped.profile if least > _ABSOLUTE_FROM else self.swapped.deltas
        value = math.exp(epsilon) * float(ask(np.array([-epsilon]))[0]) + least
        return value * (1 + (8 if self.above else -8) * UNIT_ROUNDOFF)

    def _bound(self, tilts: Sequence[int]) -> Callable[[Array], Array]:
        """Return delta as a function of epsilon, with every error taken toward its side."""
        sets = [layer.sets(tilt) for layer, tilt in zip(self._layers, tilts, strict=True)]
        side = 1 if self.above else -1
        scale = 1 + side * self.rounding
        # the error of the sum of the losses
        error = sum(times * pair.loss_errors[0] for pair, times in self.parts)
        stretch = max(pair.loss_errors[1] for pair, _ in self.parts)

        def bound(epsilons: Array) -> Array:
            places = epsilons - side * (error + stretch * np.abs(epsilons))
            total = np.sum([one.deltas(places) for one in sets], axis=0)
            return np.asarray(scale * total + scale * self.p_only)

        return bound


Moments = Callable[[Array, Order], Array]

# Epsilon at this delta is a lower end of that at 0.
_PURE_DELTA = 1e-12
# Largest epsilon of the points from which a tradeoff function is made: that of this delta.
_TRADEOFF_DELTA = 1e-9
_POINTS = 256


class DominatingCurve(BracketedCurve):
    """Curve of a pair of laws (P, Q), with P that of X, and a bracket around every value.

    ``epsilon`` and ``delta`` are upper ends and ``beta`` is a lower end: they are bounds for
    everything that the pair dominates. Of Renyi divergences only upper ends are computed here:
    `audit.exact` has brackets. Every bracket is compared with the ``limits``, if any are known.

    moments: Upper bounds on Renyi divergences, by order and order of the pair, if any are known.
    same: Whether (Q, P) equals (P, Q), so that one order suffices.
    """

    limits: DeltaLimits | None = None
    moments: Moments | None = None
    same: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether both orders have the same values."""
        return self.same

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        ends = self._epsilon_ends(delta, order) if delta else self._pure_ends(order)
        return self._limited(delta, ends, order)

    def _limited(self, delta: float, bracket: Bracket, order: Order) -> Bracket:
        """Return the part of a bracket within the limits, which it must not contradict."""
        checked(f"epsilon at delta {delta:g}", bracket, order)
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

    def _pure_ends(self, order: Order) -> Bracket:
        """Return a bracket of the largest loss; the upper end is infinite if none is known."""
        return self._epsilon_ends(_PURE_DELTA, order)[0], math.inf

    def _pure_epsilon(self, order: Order) -> float:
        return self._pure_ends(order)[1]

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        raise NotImplementedError

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        raise NotImplementedError

    def _renyi(self, alpha: Array, order: Order) -> Array:
        if self.moments is None:
            return np.full_like(alpha, np.inf)
        return np.asarray(self.moments(alpha, order))

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        high = float(self._renyi(np.array([alpha]), order)[0])
        return checked(f"Renyi divergence of order {alpha:g}", (0.0, high), order)


@dataclass(frozen=True, eq=False)
class ComposedCurve(DominatingCurve):
    """Curve of a pair between a composition that it dominates and one that dominates it.

    lower, upper: Dominated and dominating composition; the rest is that of `DominatingCurve`.
    """

    lower: GridComposition
    upper: GridComposition
    moments: Moments | None = None
    same: bool = False
    limits: DeltaLimits | None = None

    def __post_init__(self) -> None:
        if self.lower.above or not self.upper.above:
            raise ValueError("lower must be dominated and upper must dominate, got them otherwise")

    @classmethod
    def of(cls, lower: GridPair, upper: GridPair, times: int) -> ComposedCurve:
        """Return the curve of repeated pairs, one dominated and one dominating."""
        return cls(GridComposition([(lower, times)]), GridComposition([(upper, times)]))

    def _sides(self, order: Order) -> tuple[GridComposition, GridComposition]:
        if order is Order.FORWARD or self.same:
            return self.lower, self.upper
        return self.lower.swapped, self.upper.swapped

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        low, high = (side.epsilon(delta) for side in self._sides(order))
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
        points = profile_points(self.epsilon(_TRADEOFF_DELTA), _POINTS)
        deltas = self._delta(points, Order.FORWARD)
        if not self.same:
            deltas = np.maximum(deltas, self._delta(points, Order.REVERSE))
        return points, deltas


def _exact(side: GridComposition) -> GridComposition:
    """Return a composition of the same pairs, with their masses taken as exact."""
    pairs = [(replace(pair, rounding=0.0, ratio_error=(0.0, 0.0)), n) for pair, n in side.parts]
    return GridComposition(pairs)


class GaussianDominatingCurve(NormalPairCurve, DominatingCurve):
    """Curve of N(mu, 1) against N(0, 1), in closed form."""


@dataclass(frozen=True, eq=False)
class EnclosedCurve(DominatingCurve):
    """Curve of the worst pair of datasets, between explicit adversaries and an upper bound.

    adversaries: Compositions that pairs of datasets dominate, in the order of the pair.
    upper: A proven bound for every pair of datasets.
    attained: A curve that some pair of datasets has, whose lower ends are used as well.
    """

    adversaries: tuple[GridComposition, ...]
    upper: DominatingCurve
    attained: DominatingCurve | None = None

    @property
    def limits(self) -> DeltaLimits | None:  # type: ignore[override]
        """Proven bounds that every bracket is compared with: those of the upper bound."""
        return self.upper.limits

    @property
    def unrefined(self) -> Self:
        """The curve with upper ends for which no grid is refined."""
        return replace(self, upper=self.upper.unrefined)

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        found = self.upper.errors(delta, order)
        whole = bracket_width(self.epsilon_bracket(delta, order))
        return {**found, "enclosure": width_beside(whole, sum(found.values()))}

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        found = [_ordered(one, order).epsilon(delta) for one in self.adversaries]
        if self.attained is not None:
            found.append(self.attained.epsilon_bracket(delta, order)[0])
        return max(found), self.upper.epsilon_bracket(delta, order)[1]

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        found = [_ordered(one, order).delta(epsilon) for one in self.adversaries]
        if self.attained is not None:
            found.append(self.attained.delta_bracket(epsilon, order)[0])
        low = max(-math.expm1(min(epsilon, 0.0)) * (1 - 4 * UNIT_ROUNDOFF), *found)
        return low, self.upper.delta_bracket(epsilon, order)[1]

    def _power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return a bracket of the power of one pair: slopes' largest deltas may be of several."""
        most = cache(lambda epsilon: self.upper.delta_bracket(epsilon, order.other)[1])
        bracket = cache(lambda curve: curve.power_bracket(alpha, order))  # both may be one curve
        found = [alpha]
        for side in (_ordered(one, order.other) for one in self.adversaries):

            def delta(epsilon: float, side: GridComposition = side) -> Bracket:
                return side.delta(epsilon), most(epsilon)

            found.append(power_bracket(delta, alpha)[0])
        if self.attained is not None:
            found.append(bracket(self.attained)[0])
        return max(found), bracket(self.upper)[1]

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
