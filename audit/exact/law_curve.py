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
from audit.exact.renyi_moments import is_infinite, log_moment_bracket, moment_cells

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

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of.

        Parameters
        ----------
        delta : float
            A number in [0, 1).
        order : Order, optional
            Order of the pair. None: the worse of both.

        Returns
        -------
        dict of str to float
            Widths in nats: ``quadrature``, ``rounding`` and ``truncation`` of the laws are what the
            bracket would lose without each; ``cells`` is its width without all of them.

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=9, dataset_size=2, batch_size=2, step_size=1.0, noise_std=0.5,
        ...                    lipschitz=0.1, diameter=4.0)
        >>> law = audit.exact.curve(audit.constructions.TwoSidedWalk(m))
        >>> sorted(law.errors(1e-5)), max(law.errors(1e-5).values()) < 1e-9
        (['cells', 'quadrature', 'rounding', 'truncation'], True)
        """
        causes: dict[str, dict[str, Any]] = {
            "quadrature": {"quadrature": 0.0},
            "rounding": {"rounding": 0.0, "depth_rounding": 0.0},
            "truncation": {"log_lost": -math.inf},
        }
        whole = self._width(delta, order, {})
        without = {name: self._width(delta, order, change) for name, change in causes.items()}
        everything = {key: value for change in causes.values() for key, value in change.items()}
        found = {name: max(whole - width, 0.0) for name, width in without.items()}
        return found | {"cells": self._width(delta, order, everything)}

    def _width(self, delta: float, order: Order | None, change: dict[str, Any]) -> float:
        first, second = (replace(law, **change) for law in (self.first, self.second))
        low, high = LawCurve(first, second, self.rate).epsilon_bracket(delta, order)
        return 0.0 if low == high else high - low

    def _log_moment(self, alpha: float, order: Order) -> Bracket:
        forward = order is Order.FORWARD
        laws = (self.first, self.second) if forward else (self.second, self.first)
        if is_infinite(*laws, alpha):
            return math.inf, math.inf
        grid = moment_cells(self._base, alpha, forward)
        cells = grid.cells() if forward else grid.cells().reversed
        return log_moment_bracket(grid, cells, alpha, forward, self.rate)
