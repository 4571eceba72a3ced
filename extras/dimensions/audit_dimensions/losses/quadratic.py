"""Quadratic losses of one curvature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from audit import validate
from audit_dimensions.domains import Domain
from audit_dimensions.losses.base import Encoded, Family, Floats, Loss


@dataclass(frozen=True)
class Quadratic(Loss):
    """Quadratic losses f_i(x) = sum_j (curvature_j/2) (x_j - a_ij)^2.

    A record is its centre a_i: d numbers. The loss is treated as a regulariser shared by all
    records, sum_j (curvature_j/2) x_j^2, plus a linear loss l_i of gradient -curvature a_i, as in
    `audit.constructions.QuadraticPair`: a Lipschitz constant bounds l_i, and a record whose loss is
    zero keeps the regulariser.

    Parameters
    ----------
    curvature : float or tuple of float, default: 1.0
        One number, or one per coordinate. Other shared matrices become diagonal in the coordinates
        of their eigenvectors, which changes neither the noise, nor a ball, nor the whole space.

    Raises
    ------
    ValueError
        If a curvature is out of range.
    """

    curvature: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.curvature, Iterable):
            values = validate.sample(curvature=self.curvature)
            object.__setattr__(self, "curvature", tuple(values.tolist()))
        else:
            validate.finite(curvature=self.curvature)

    def dimension(self, records: Floats) -> int:
        """Return the width of the records, which must be that of the curvature if it has one."""
        width = int(records.shape[1])
        if isinstance(self.curvature, tuple) and len(self.curvature) != width:
            raise ValueError(
                f"curvature must be one number or one for each of {width} coordinates, "
                f"got {len(self.curvature)} numbers"
            )
        return width

    def ridge(self, dimension: int) -> Floats:
        """Return the curvatures, shape (d,)."""
        return np.array(np.broadcast_to(np.asarray(self.curvature, np.float64), (dimension,)))

    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return -curvature a_i at every point."""
        return np.tile(self._slopes(records), (len(points), 1, 1))

    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return |curvature a_i|."""
        return np.asarray(np.linalg.norm(self._slopes(records), axis=1))

    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return |curvature (a_i - a'_i)|."""
        return np.asarray(np.linalg.norm(self._slopes(first - second), axis=1))

    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return the least and the largest curvature."""
        ridge = self.ridge(records.shape[1])
        return float(np.min(ridge)), float(np.max(ridge))

    def variation(self, records: Floats, domain: Domain) -> float:
        """Return the largest curvature times the diameter."""
        largest = float(np.max(np.abs(self.ridge(records.shape[1]))))
        return largest * domain.diameter_in(records.shape[1]) if largest else 0.0

    def encoded(self, records: Floats) -> Encoded:
        """Return the linear losses and the curvatures."""
        return Encoded(Family.AFFINE, self._slopes(records), self.ridge(records.shape[1]))

    def _slopes(self, records: Floats) -> Floats:
        return np.asarray(-self.ridge(records.shape[1]) * records)
