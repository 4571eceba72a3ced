"""Privacy curves that a library claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order, PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile

Array = NDArray[np.float64]

_SMALLEST_DELTA = 1e-9  # of the points from which a tradeoff function is made
_POINTS = 128


@dataclass(frozen=True, eq=False)
class ClaimedCurve(PrivacyCurve):
    """What a library claims: one-sided, an upper bound that nothing here has proven or checked.

    It is claimed of every pair of neighbours, in both orders. There are no brackets: what is true
    may lie anywhere below, and above where the claim is wrong.

    Parameters
    ----------
    claimant
        Who claims it, for people.
    epsilon_at, delta_at
        Map delta in (0, 1) to epsilon, and epsilon >= 0 to delta; None where only epsilons are
        claimed.
    divergences
        Claimed Renyi divergences by order; empty for none. An order that is not there gets that of
        the next larger one, as divergences rise with the order; infinity beyond the largest.
    """

    claimant: str
    epsilon_at: Callable[[float], float]
    delta_at: Callable[[float], float] | None = None
    divergences: Mapping[float, float] = field(default_factory=dict)

    @property
    def symmetric(self) -> bool:
        """The claim is one for both orders."""
        return True

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([float(self.epsilon_at(float(d))) for d in delta])

    def _delta(self, epsilon: Array, order: Order) -> Array:
        if self.delta_at is None:
            raise ValueError(f"epsilon must be asked for: {self.claimant} claims no deltas")
        sizes = np.abs(epsilon)
        found = np.array([min(float(self.delta_at(float(e))), 1.0) for e in sizes])
        # the other order at -epsilon
        return np.where(epsilon >= 0, found, 1 - np.exp(-sizes) * (1 - found))

    def _beta(self, alpha: Array, order: Order) -> Array:
        return tradeoff_from_profile(alpha, *self._profile)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        points = profile_points(float(self.epsilon_at(_SMALLEST_DELTA)), _POINTS)
        return points, self._delta(points, Order.FORWARD)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        orders = np.array(sorted(self.divergences))
        values = np.array([self.divergences[o] for o in orders] + [np.inf])
        return values[np.searchsorted(orders, alpha)]
