"""Exact lower bounds of a pair, at the pessimistic end of every numerical error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit import exact
from audit.claims.discrete import DiscreteLaws, gaussian_mu, gaussian_power_bracket
from audit.claims.pairs import GivenPair, Mixtures, Pair
from audit.claims.points import Point, Quantity
from audit.constructions.base import Construction
from audit.exact import GaussianPairCurve, LawCurve, NormalLaw
from audit.mechanism import Order

Array = NDArray[np.float64]
Bracket = tuple[float, float]

# Where a Gaussian parameter is looked for: epsilon on both sides of 0, finer where it is small.
_EPSILONS = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 36)])
_ROUNDING = 1e-9


class ExactEvidence(Protocol):
    """A pair whose numbers are computed, not sampled."""

    def bracket(self, point: Point, order: Order) -> Bracket:
        """Return (low, high) around the true number at a point; ``low`` is certified."""

    def mu_place(self, order: Order) -> float:
        """Return the epsilon at which the pair's delta proves the most about mu."""

    def exceeds(self, point: Point, order: Order, level: float) -> bool:
        """Whether the number at a point can be above ``level``: False is certain, and quick."""


def exact_evidence(pair: Pair) -> ExactEvidence:
    """Compute the exact laws of a pair."""
    if isinstance(pair, Mixtures):
        normal = _normal_pair(pair)
        if normal is not None:
            return GaussianEvidence(normal)
    if not isinstance(pair, Construction):
        return CellEvidence(pair)
    curve = exact.curve(pair)
    return GaussianEvidence(curve) if isinstance(curve, GaussianPairCurve) else LawEvidence(curve)


@dataclass(frozen=True, eq=False)
class GaussianEvidence:
    """Two normal laws of one variance."""

    curve: GaussianPairCurve

    def bracket(self, point: Point, order: Order) -> Bracket:
        """Return (low, high) around the true number at a point."""
        if point.quantity is Quantity.EPSILON:
            assert point.at is not None
            return self.curve.epsilon_bracket(point.at)
        if point.quantity is Quantity.RENYI:
            assert point.at is not None
            return self.curve.renyi_bracket(point.at)
        low, high = (math.sqrt(value) for value in self.curve.renyi_bracket(2.0))
        if point.quantity is Quantity.MU:
            return low, high
        assert point.at is not None
        return gaussian_power_bracket((low, high), point.at)

    def mu_place(self, order: Order) -> float:
        """Return 0: two normal laws prove their mu at every epsilon."""
        return 0.0

    def exceeds(self, point: Point, order: Order, level: float) -> bool:
        """Return True: the bracket is as quick."""
        return True


@dataclass(frozen=True, eq=False)
class LawEvidence:
    """Two laws computed step by step."""

    curve: LawCurve

    def bracket(self, point: Point, order: Order) -> Bracket:
        """Return (low, high) around the true number at a point."""
        if point.quantity is Quantity.MU:
            return self._mu(order)[0], math.inf
        assert point.at is not None
        if point.quantity is Quantity.EPSILON:
            return self.curve.epsilon_bracket(point.at, order)
        if point.quantity is Quantity.RENYI:
            return self.curve.renyi_bracket(point.at, order)
        low, high = self.curve.beta_bracket(point.at, order)
        return 1 - high, 1 - low

    def mu_place(self, order: Order) -> float:
        """Return the epsilon at which the pair's delta proves the most about mu."""
        return self._mu(order)[1]

    def exceeds(self, point: Point, order: Order, level: float) -> bool:
        """Whether the number at a point can be above ``level``; one delta in place of a root."""
        if point.quantity is not Quantity.EPSILON or point.at is None:
            return True
        return self.curve.delta_bracket(level, order)[1] > point.at

    def _mu(self, order: Order) -> tuple[float, float]:
        return gaussian_mu(lambda e: self.curve.delta_bracket(e, order)[0], _EPSILONS)


@dataclass(frozen=True, eq=False)
class CellEvidence:
    """A pair given by numbers, cut into cells: every low end is a bound by data processing.

    The high end adds the distance to a cut that is half as fine; for finite laws both are exact.
    """

    pair: GivenPair

    @cached_property
    def _fine(self) -> DiscreteLaws:
        return self.pair.cells(2)

    @cached_property
    def _coarse(self) -> DiscreteLaws:
        return self.pair.cells(1)

    def bracket(self, point: Point, order: Order) -> Bracket:
        """Return (low, high) around the true number at a point."""
        if point.quantity is Quantity.MU:
            fine, coarse = (_mu(laws, order)[0] for laws in (self._fine, self._coarse))
            low = high = fine
        else:
            fine, coarse = (_value(laws, point, order) for laws in (self._fine, self._coarse))
            if math.isinf(fine):
                return fine, fine
            low, high = _value_bracket(self._fine, point, order)
        error = _ROUNDING * max(1.0, abs(fine))
        return max(low - error, 0.0), high + abs(fine - coarse) + error

    def mu_place(self, order: Order) -> float:
        """Return the epsilon at which the pair's delta proves the most about mu."""
        return _mu(self._fine, order)[1]

    def exceeds(self, point: Point, order: Order, level: float) -> bool:
        """Return True: cells are few."""
        return True


def _normal_pair(pair: Mixtures) -> GaussianPairCurve | None:
    """Return the curve of two single normals of one variance, else None."""
    laws = [
        NormalLaw(m, s) for law in (pair.first, pair.second) for m in law.means for s in law.stds
    ]
    if len(laws) != 2 or laws[0].std != laws[1].std:
        return None
    return GaussianPairCurve(abs(laws[0].mean - laws[1].mean) / laws[0].std, *laws)


def _value(laws: DiscreteLaws, point: Point, order: Order) -> float:
    assert point.at is not None
    if point.quantity is Quantity.EPSILON:
        return laws.epsilon(point.at, order)
    if point.quantity is Quantity.RENYI:
        return laws.renyi(point.at, order)
    return laws.power(point.at, order)


def _value_bracket(laws: DiscreteLaws, point: Point, order: Order) -> Bracket:
    assert point.at is not None
    if point.quantity is Quantity.EPSILON:
        return laws.epsilon_bracket(point.at, order)
    if point.quantity is Quantity.RENYI:
        return laws.renyi_bracket(point.at, order)
    return laws.power_bracket(point.at, order)


def _mu(laws: DiscreteLaws, order: Order) -> tuple[float, float]:
    return laws.mu_bound(_EPSILONS, order)
