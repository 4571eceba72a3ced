"""Privacy curves given by epsilon(delta) only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit.curves.base import Order
from audit.curves.profile import ProfileCurve
from audit.numerics.arrays import Array


@dataclass(frozen=True)
class TailCurve(ProfileCurve):
    """Claim of the form "(epsilon(delta), delta)-DP for every delta", in both orders.

    Parameters
    ----------
    epsilon_at : callable
        Maps an array of deltas to the claimed epsilons; decreasing.
    delta_at : callable
        Inverse of ``epsilon_at``: maps epsilons of at least 0 to deltas. Values above 1 are treated
        as 1.
    limit : float, default: math.inf
        Largest epsilon that the claim covers; larger values are infinite.
    rho : float, default: math.inf
        Bound D_alpha <= alpha rho, if the claim includes one on Renyi divergences; infinite if not.

    Examples
    --------
    >>> from audit.curves import TailCurve
    >>> round(TailCurve.gaussian(2.0).epsilon(1e-5), 4)
    6.7861
    """

    epsilon_at: Callable[[Array], Array]
    delta_at: Callable[[Array], Array]
    limit: float = math.inf
    rho: float = math.inf

    @classmethod
    def gaussian(
        cls, scale: float, *, factor: float = 1.0, limit: float = math.inf, rho: float = math.inf
    ) -> TailCurve:
        """Return epsilon = scale sqrt(log(factor/delta)).

        Parameters
        ----------
        scale : float
            Factor of the square root.
        factor : float, default: 1.0
            Factor inside the logarithm.
        limit, rho : float, default: math.inf
            As in `TailCurve`.

        Returns
        -------
        TailCurve
            The curve.
        """

        def epsilon_at(delta: Array) -> Array:
            return scale * np.sqrt(np.maximum(math.log(factor) - np.log(delta), 0.0))

        def delta_at(epsilon: Array) -> Array:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                ratio = epsilon / scale
            return factor * np.exp(-np.square(np.minimum(ratio, 1e100)))

        return cls(epsilon_at, delta_at, limit, rho)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        claimed = np.asarray(self.epsilon_at(delta), dtype=np.float64)
        return np.where(claimed <= self.limit * (1 + 1e-12), claimed, np.inf)

    def _profile(self, epsilon: Array, order: Order) -> Array:
        return np.asarray(self.delta_at(np.minimum(epsilon, self.limit)))

    def _last_point(self, order: Order) -> float:
        largest = float(self._epsilon(np.array([1e-12]), order)[0])
        return largest if math.isfinite(largest) else min(self.limit, 100.0)

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return alpha * self.rho
