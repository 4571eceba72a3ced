"""Risks of a training: epsilon at a delta, an attack's advantage, its true positive rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from audit import validate
from audit.curves import Order, PrivacyCurve
from audit.curves.brackets import Bracket
from audit.dominating import DominatingCurve

_LEAST_LOG = -50.0  # smallest logarithm of a tangent's slope
_STEPS = (1e-3, 1e-2, 0.1)  # relative steps of slopes around the best tangent


class Risk(Protocol):
    """A number that falls as the noise of a training grows."""

    @property
    def text(self) -> str:
        """Name of the number in a sentence."""

    @property
    def goal(self) -> float | None:
        """Largest number allowed; None where it is asked for."""

    def bracket(self, curve: DominatingCurve) -> Bracket:
        """Return a bracket of the number for a pair."""

    def upper(self, curve: PrivacyCurve) -> float:
        """Return the number that a bound proves."""


@dataclass(frozen=True)
class EpsilonRisk:
    """Epsilon at ``delta``, at most ``goal``."""

    delta: float
    goal: float | None = None

    def __post_init__(self) -> None:
        validate.open_unit(delta=self.delta)
        if self.goal is not None:
            validate.positive(epsilon=self.goal)

    @property
    def text(self) -> str:
        """Name of the number in a sentence."""
        return f"epsilon at delta {self.delta:g}"

    def bracket(self, curve: DominatingCurve) -> Bracket:
        """Return a bracket of epsilon."""
        return curve.epsilon_bracket(self.delta)

    def upper(self, curve: PrivacyCurve) -> float:
        """Return the epsilon of a bound."""
        return curve.epsilon(self.delta)


@dataclass(frozen=True)
class AdvantageRisk:
    """Advantage of the best attack: its largest true minus false positive rate, delta(0)."""

    goal: float

    text = "the advantage of an attack"

    def __post_init__(self) -> None:
        validate.open_unit(advantage=self.goal)

    def bracket(self, curve: DominatingCurve) -> Bracket:
        """Return a bracket of the total variation of the pair."""
        return curve.delta_bracket(0.0)

    def upper(self, curve: PrivacyCurve) -> float:
        """Return the total variation of a bound."""
        return curve.delta(0.0)


@dataclass(frozen=True)
class PowerRisk:
    """True positive rate of the best attack with false positive rate ``fpr``."""

    goal: float
    fpr: float

    def __post_init__(self) -> None:
        validate.open_unit(tpr=self.goal, fpr=self.fpr)
        if self.goal <= self.fpr:
            raise validate.fail(
                "tpr", f"above fpr ({self.fpr:g}), which guessing attains", self.goal
            )

    @property
    def text(self) -> str:
        """Name of the number in a sentence."""
        return f"the true positive rate of an attack at false positive rate {self.fpr:g}"

    def bracket(self, curve: DominatingCurve) -> Bracket:
        """Return a bracket of the larger power of both orders."""
        both = [_power(curve, self.fpr, order) for order in Order]
        return max(low for low, _ in both), max(high for _, high in both)

    def upper(self, curve: PrivacyCurve) -> float:
        """Return the power of a bound."""
        return 1 - curve.beta(self.fpr)


def _power(curve: DominatingCurve, fpr: float, order: Order) -> Bracket:
    """Return a bracket of the power at ``fpr``, min over x of f(x) = delta(log x) + x fpr.

    Every x gives an upper end. The lower end rests on f being convex: where f is larger at both
    neighbours of x, its minimum is between them, and above the lines through x and a neighbour.
    """
    from scipy.optimize import minimize_scalar  # takes a while to import

    def ends(log_x: float) -> Bracket:
        low, high = curve.delta_bracket(log_x, order)
        return low + fpr * math.exp(log_x), high + fpr * math.exp(log_x)

    found = minimize_scalar(
        lambda log_x: ends(log_x)[1],
        bounds=(_LEAST_LOG, -math.log(fpr)),
        method="bounded",
        options={"xatol": _STEPS[0]},
    )
    low, high = ends(found.x)
    for step in _STEPS:
        left, right = ends(found.x + math.log1p(-step)), ends(found.x + math.log1p(step))
        if min(left[0], right[0]) > high:
            return max(2 * low - max(left[1], right[1]), fpr), min(high, 1.0)
    return fpr, min(high, 1.0)
