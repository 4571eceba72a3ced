"""Risks of a training: epsilon at a delta, an attack's advantage, its true positive rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from audit import validate
from audit.curves import Order, PrivacyCurve
from audit.curves.brackets import Bracket
from audit.dominating import DominatingCurve


@dataclass(frozen=True)
class Risk:
    """A number that falls as the noise of a training grows, and the largest one allowed.

    ``bracket`` is that of a dominating pair, ``upper`` what a bound proves.
    """

    text: str
    goal: float
    bracket: Callable[[DominatingCurve], Bracket]
    upper: Callable[[PrivacyCurve], float]


def epsilon_risk(delta: float, goal: float = math.inf) -> Risk:
    """Return epsilon at ``delta``; without a goal where it is asked for."""
    validate.open_unit(delta=delta)
    return Risk(
        f"epsilon at delta {delta:g}",
        goal,
        lambda curve: curve.epsilon_bracket(delta),
        lambda curve: curve.epsilon(delta),
    )


def advantage_risk(goal: float) -> Risk:
    """Return the advantage of the best attack: true minus false positive rate, delta(0)."""
    validate.open_unit(advantage=goal)
    return Risk(
        "the advantage of an attack",
        goal,
        lambda curve: curve.delta_bracket(0.0),
        lambda curve: curve.delta(0.0),
    )


def power_risk(goal: float, fpr: float) -> Risk:
    """Return the true positive rate of the best attack with false positive rate ``fpr``."""
    validate.open_unit(tpr=goal, fpr=fpr)
    if goal <= fpr:
        raise validate.fail("tpr", f"above fpr ({fpr:g}), which guessing attains", goal)

    def bracket(curve: DominatingCurve) -> Bracket:
        both = [curve.power_bracket(fpr, order) for order in Order]
        return max(low for low, _ in both), max(high for _, high in both)

    text = f"the true positive rate of an attack at false positive rate {fpr:g}"
    return Risk(text, goal, bracket, lambda curve: 1 - curve.beta(fpr))
