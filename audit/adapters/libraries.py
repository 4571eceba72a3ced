"""Imports of optional libraries, and the curves that libraries claim."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from audit.curves import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.numerics.arrays import Array

_MIN_DELTA = 1e-9  # delta of the last point of a tradeoff function
_POINTS = 128


def load(name: str, *, extra: str) -> Any:
    """Return a module of an optional library."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{name} cannot be imported ({error}): pip install 'noisy-sgd-audit[{extra}]'"
        ) from error


@dataclass(frozen=True, eq=False)
class ClaimedCurve(PrivacyCurve):
    """Curve claimed by a library: an upper bound that this package has neither proven nor checked.

    It is claimed of every neighbouring pair, in both orders. There are no brackets: the true value
    may lie anywhere below, or above if the claim is wrong. Without ``delta_at`` only epsilons are
    claimed. Renyi divergences of other orders than those of ``divergences`` have the value of the
    next larger one, since they increase with the order, and infinity beyond the largest.
    """

    claimant: str
    epsilon_at: Callable[[float], float]
    delta_at: Callable[[float], float] | None = None
    divergences: Mapping[float, float] = field(default_factory=dict)

    @property
    def symmetric(self) -> bool:
        """True if both orders have the same values; true by definition."""
        return True

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([float(self.epsilon_at(float(d))) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        if self.delta_at is None:
            raise ValueError(f"use epsilon instead of delta: {self.claimant} claims no deltas")
        sizes = np.abs(epsilon)
        found = np.array([min(float(self.delta_at(float(e))), 1.0) for e in sizes])
        # the other order at -epsilon
        return np.where(epsilon >= 0, found, 1 - np.exp(-sizes) * (1 - found))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return tradeoff_from_profile(alpha, *self._profile)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        points = profile_points(float(self.epsilon_at(_MIN_DELTA)), _POINTS)
        return points, self._delta(points, Order.FORWARD)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        orders = np.array(sorted(self.divergences))
        values = np.array([self.divergences[o] for o in orders] + [np.inf])
        return values[np.searchsorted(orders, alpha)]
