"""The pointwise minimum of several bounds on one mechanism."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves.base import Order, PrivacyCurve

Array = NDArray[np.float64]


def _stack(values: Iterable[float | Array]) -> Array:
    return np.stack([np.asarray(value, dtype=np.float64) for value in values])


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
        return np.asarray(_stack(curve.epsilon(delta, order) for curve in self.curves).min(axis=0))

    def _pure_epsilon(self, order: Order) -> float:
        return min(curve.epsilon(0.0, order) for curve in self.curves)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        return np.asarray(_stack(curve.delta(epsilon, order) for curve in self.curves).min(axis=0))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(_stack(curve.beta(alpha, order) for curve in self.curves).max(axis=0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(_stack(curve.renyi(alpha, order) for curve in self.curves).min(axis=0))
