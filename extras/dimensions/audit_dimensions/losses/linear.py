"""Linear losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit_dimensions.domains import Domain
from audit_dimensions.losses.base import Encoded, Family, Floats, Loss


@dataclass(frozen=True)
class Linear(Loss):
    """Linear losses f_i(x) = <g_i, x>; a record is its gradient g_i: d numbers."""

    def dimension(self, records: Floats) -> int:
        """Return the width of the records."""
        return int(records.shape[1])

    def ridge(self, dimension: int) -> Floats:
        """Return zeros."""
        return np.zeros(dimension)

    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return g_i at every point."""
        return np.tile(records, (len(points), 1, 1))

    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return |g_i|."""
        return np.asarray(np.linalg.norm(records, axis=1))

    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return |g_i - g'_i|."""
        return np.asarray(np.linalg.norm(first - second, axis=1))

    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return zeros."""
        return 0.0, 0.0

    def variation(self, records: Floats, domain: Domain) -> float:
        """Return zero."""
        return 0.0

    def encoded(self, records: Floats) -> Encoded:
        """Return the gradients."""
        return Encoded(Family.AFFINE, records, self.ridge(records.shape[1]))
