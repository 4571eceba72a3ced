"""The exact privacy curve of a pair, with a bracket that contains the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.exact.bracketed import EPSILONS, Bracket, BracketedCurve, MuBracket, gaussian_mu
from audit.exact.law import Law
from audit.exact.pair import LawPair
from audit.mechanism import Order

Array = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, eq=False)
class LawCurve(BracketedCurve):
    """The curve of two computed laws.

    ``first`` and ``second`` are the laws of X and X' at the fine resolution; ``coarse`` holds both
    at a coarser one. Values come from the fine laws. A bracket takes in

    - the discretisation error, as the distance between the two resolutions (convergence is
      geometric, so the fine value is closer to the truth than to the coarse value by far);
    - the relative rounding error rho of either law: (1 +- rho) on every probability, which moves
      epsilon by log((1 + rho)/(1 - rho)) and delta by a factor 1 +- rho;
    - the mass that left a truncated line, by which an event's probability may be off.
    """

    first: Law
    second: Law
    coarse: tuple[Law, Law]
    _pairs: dict[tuple[Order, bool], LawPair] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        x, y = self.coarse
        pairs = {
            (Order.FORWARD, True): LawPair(self.first, self.second),
            (Order.REVERSE, True): LawPair(self.second, self.first),
            (Order.FORWARD, False): LawPair(x, y),
            (Order.REVERSE, False): LawPair(y, x),
        }
        object.__setattr__(self, "_pairs", pairs)

    @property
    def relative_error(self) -> float:
        """Bound on the relative rounding error of either law."""
        return max(self.first.relative_error, self.second.relative_error)

    def epsilon_bracket(self, delta: float, order: Order | None = None) -> Bracket:
        """Return (low, high) that contain the true epsilon at ``delta``."""
        validate.open_unit(delta=delta)
        return worse_bracket(lambda o: self._epsilon_bracket(delta, o), order)

    def delta_bracket(self, epsilon: float, order: Order | None = None) -> Bracket:
        """Return (low, high) that contain the true delta at ``epsilon``."""
        validate.finite(epsilon=epsilon)
        return worse_bracket(lambda o: self._delta_bracket(epsilon, o), order)

    def renyi_bracket(self, alpha: float, order: Order | None = None) -> Bracket:
        """Return (low, high) that contain the true Renyi divergence of order ``alpha``."""
        validate.above_one(alpha=alpha)
        return worse_bracket(lambda o: self._renyi_bracket(alpha, o), order)

    def beta_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return (low, high) that contain the true type II error at type I error ``alpha``.

        ``alpha`` moves by the errors of the laws, so that the bracket is as wide as the slope of
        the tradeoff function demands: it is steep near alpha = 0.
        """
        validate.open_unit(alpha=alpha)
        rho = self.relative_error
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        gap = abs(fine.beta(alpha) - coarse.beta(alpha)) + 8 * _UNIT_ROUNDOFF
        most = fine.beta_range((alpha - lost_p) / (1 + rho))[1]
        least = fine.beta_range((alpha + lost_p) / (1 - rho))[0]
        low, high = least * (1 - rho) - lost_q - gap, most * (1 + rho) + lost_q + gap
        return max(low, 0.0), min(high, 1.0)

    def power_bracket(self, alpha: float, order: Order) -> Bracket:
        """Return (low, high) that contain the power 1 - beta of the best test at ``alpha``."""
        low, high = self.beta_bracket(alpha, order)
        return 1 - high, 1 - low

    def mu_bracket(self, order: Order) -> MuBracket:
        """Return a bracket of the least mu of the pair in one order, open above."""
        low, epsilon = gaussian_mu(lambda e: self.delta_bracket(e, order)[0], EPSILONS)
        return MuBracket(low, math.inf, epsilon)

    def may_exceed(self, epsilon: float, delta: float, order: Order) -> bool:
        """Whether epsilon at ``delta`` can be above ``epsilon``: one delta in place of a root."""
        return self.delta_bracket(epsilon, order)[1] > delta

    def _lost(self, order: Order) -> tuple[float, float]:
        lost = self.first.lost_mass, self.second.lost_mass
        return lost if order is Order.FORWARD else (lost[1], lost[0])

    def _epsilon_bracket(self, delta: float, order: Order) -> Bracket:
        rho = self.relative_error
        shift = math.log1p(rho) - math.log1p(-rho)
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        value, other = fine.epsilon(math.log(delta)), coarse.epsilon(math.log(delta))
        if not math.isfinite(value):
            return (0.0, math.inf)
        gap = abs(value - other)
        least = (delta - lost_p) / (1 + rho)
        high = math.inf if least <= 0 else fine.epsilon(math.log(least)) + shift + gap
        most = (delta + math.exp(min(value + shift, 700.0)) * lost_q) / (1 - rho)
        low = 0.0 if most >= 1 else fine.epsilon(math.log(most)) - shift - gap
        return max(low, 0.0), high

    def _delta_bracket(self, epsilon: float, order: Order) -> Bracket:
        rho = self.relative_error
        shift = math.log1p(rho) - math.log1p(-rho)
        lost_p, lost_q = self._lost(order)
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        gap = abs(math.exp(fine.log_delta(epsilon)) - math.exp(coarse.log_delta(epsilon)))
        high = (1 + rho) * math.exp(fine.log_delta(epsilon - shift)) + lost_p + gap
        low = (1 - rho) * math.exp(fine.log_delta(epsilon + shift)) - gap
        low -= math.exp(min(epsilon, 700.0)) * lost_q
        return max(low, 0.0), min(high, 1.0)

    def _renyi_bracket(self, alpha: float, order: Order) -> Bracket:
        fine, coarse = (self._pairs[order, level] for level in (True, False))
        value, complete = fine.renyi_and_rest(alpha)
        if not math.isfinite(value):
            # where one law vanishes and the other does not, or nothing was followed
            return (value, value) if value > 0 and fine.followed.all() else (0.0, math.inf)
        other, coarse_complete = coarse.renyi_and_rest(alpha)
        # a divergence of order above 1 may gain without limit in the lost tails
        lost = max(self._lost(order)) > 0 or not (complete and coarse_complete)
        rho = self.relative_error
        # the coarse law is followed less far: it may lack what the fine one has, never the reverse
        gap = abs(value - other) if coarse_complete and complete else max(value - other, 0.0)
        slack = (alpha * math.log1p(rho) - (alpha - 1) * math.log1p(-rho)) / (alpha - 1) + gap
        return max(value - slack, 0.0), math.inf if lost else value + slack

    def _epsilon(self, delta: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([pair.epsilon(math.log(d)) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([min(1.0, math.exp(pair.log_delta(float(e)))) for e in epsilon])

    def _beta(self, alpha: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([pair.beta(float(a)) for a in alpha])

    def _renyi(self, alpha: Array, order: Order) -> Array:
        pair = self._pairs[order, True]
        return np.array([pair.renyi(float(a)) for a in alpha])


def worse_bracket(bracket: Callable[[Order], Bracket], order: Order | None) -> Bracket:
    """Return the bracket of one order, or that of the worse one where none is named."""
    if order is not None:
        validate.instance(Order, order=order)
        return bracket(order)
    (low_a, high_a), (low_b, high_b) = bracket(Order.FORWARD), bracket(Order.REVERSE)
    return max(low_a, low_b), max(high_a, high_b)
