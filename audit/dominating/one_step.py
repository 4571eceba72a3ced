"""One step on a Poisson batch, in closed form."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from audit.curves import Order
from audit.curves.brackets import Bracket
from audit.dominating.closed_form import SampledGaussian
from audit.dominating.curve import Array, RefinedCurve


@dataclass(frozen=True, eq=False)
class OneStepCurve(RefinedCurve):
    """Curve of one step in closed form; beta and Renyi divergences are those of the grid.

    Parameters
    ----------
    pair : SampledGaussian
        The pair.
    """

    pair: SampledGaussian

    @classmethod
    def of(cls, curve: RefinedCurve, pair: SampledGaussian) -> OneStepCurve:
        """Return the curve of one step, given its curve on a grid."""
        fields = {field.name: getattr(curve, field.name) for field in dataclasses.fields(curve)}
        return cls(**fields, pair=pair)

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        return self.pair.epsilon_bracket(delta, order)

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        return self.pair.delta_bracket(epsilon, order)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.array([self._delta_ends(float(e), order)[1] for e in epsilon])
