"""Privacy curves of two mixtures of normals whose likelihood ratio is enclosed on cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.curves.brackets import Bracket
from audit.exact.cell_curve import CellBracketedCurve
from audit.exact.law import Law
from audit.exact.normal_cells import NormalCells, law_range
from audit.exact.renyi_moments import log_moment_bracket

Array = NDArray[np.float64]

_FEW = 64  # normals, for which more cells cost little


@dataclass(frozen=True, eq=False)
class LawCurve(CellBracketedCurve):
    """Curve of two laws that are mixtures of normals, from cells between points.

    The Gaussian parameter mu has no upper end.

    Attributes
    ----------
    first, second : Law
        Laws of X and X'.
    rate : float, default: inf
        Renyi divergences of order a are at most a times this: from composition, for what the laws
        lose in their tails.
    """

    first: Law
    second: Law
    rate: float = math.inf

    @cached_property
    def _base(self) -> NormalCells:
        return NormalCells.of(self.first, self.second)

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the domain, or of the part of a line where the laws are not all but empty."""
        return law_range((self.first, self.second))

    @property
    def _most_cuts(self) -> int:
        few = max(self.first.means.size, self.second.means.size) <= _FEW
        return 30_000 if few else super()._most_cuts

    @property
    def _estimated(self) -> bool:
        return self.first.estimated or self.second.estimated

    @cached_property
    def _believed(self) -> LawCurve:
        """The curve whose values are given: laws that are estimates are taken as proven."""
        if not self._estimated:
            return self
        first, second = (replace(law, estimated=False) for law in (self.first, self.second))
        return replace(self, first=first, second=second)

    @property
    def _without(self) -> dict[str, LawCurve]:
        causes: dict[str, dict[str, Any]] = {
            "quadrature": {"quadrature": 0.0},
            "rounding": {"rounding": 0.0, "depth_rounding": 0.0},
            "truncation": {"log_lost": -math.inf},
        }
        causes["cells"] = {
            key: value for change in causes.values() for key, value in change.items()
        }
        return {
            name: LawCurve(replace(self.first, **change), replace(self.second, **change), self.rate)
            for name, change in causes.items()
        }

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        grid = self._base if order is Order.FORWARD else self._base.swapped
        return log_moment_bracket(grid, alpha, self.rate)
