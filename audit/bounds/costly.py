"""Renyi curves of divergences that cost an integral or a search for each order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.curves.renyi import RenyiCurve
from audit.mechanism import Order

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CostlyRenyiCurve(RenyiCurve):
    """A `RenyiCurve` whose tradeoff function takes its orders from one fixed grid.

    A tradeoff function asks for delta at two thousand points; to refine the best order for each of
    them would compute tens of thousands of divergences. The grid is four times as fine as the one
    that other conversions start from. Any order gives a valid bound.
    """

    @cached_property
    def _on_a_grid(self) -> RenyiCurve:
        points = 4 * self.points - 3
        return RenyiCurve(self.divergence, self.lowest, self.highest, self.search, points, 0)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return self._on_a_grid._beta(alpha, order)
