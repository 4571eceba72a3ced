"""The pointwise minimum of several bounds on one mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit import validate
from audit.curves.base import Order, PrivacyCurve
from audit.numerics.arrays import Array


@dataclass(frozen=True)
class MinimumCurve(PrivacyCurve):
    """Pointwise minimum of curves that are each an upper bound on the same privacy loss.

    ``epsilon``, ``delta`` and ``renyi`` are the smallest over the components, ``beta`` the largest.
    Each value is a valid bound, but ``beta`` need not be convex, and no single pair need attain all
    values. Each component has a label, as reported by `winner`.
    """

    curves: tuple[PrivacyCurve, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "curves", tuple(self.curves))
        object.__setattr__(self, "labels", tuple(self.labels))
        if not self.curves:
            raise ValueError("curves must hold at least one curve, got none")
        if len(self.curves) != len(self.labels):
            raise ValueError(
                f"labels must be as many as curves ({len(self.curves)}), got {len(self.labels)}"
            )
        for curve in self.curves:
            validate.instance(PrivacyCurve, curve=curve)

    def winner(self, delta: float) -> str:
        """Return the label of the component with the smallest epsilon at ``delta``."""
        validate.half_open_unit(delta=delta)
        values = [curve.epsilon(delta) for curve in self.curves]
        return self.labels[int(np.argmin(values))]

    @property
    def symmetric(self) -> bool:
        """Whether every component has the same values in both orders."""
        return all(curve.symmetric for curve in self.curves)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return self._over("epsilon", delta, order, np.minimum)

    def _pure_epsilon(self, order: Order) -> float:
        return min(curve.epsilon(0.0, order) for curve in self.curves)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return self._over("delta", epsilon, order, np.minimum)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return self._over("beta", alpha, order, np.maximum)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self._over("renyi", alpha, order, np.minimum)

    def _over(self, name: str, at: Array, order: Order, best: np.ufunc) -> Array:
        return np.asarray(best.reduce([getattr(curve, name)(at, order) for curve in self.curves]))
