"""What every family of losses is: gradients, their bounds, and tables for the compiled loop."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.simulation.dimensions.domains import Domain

Floats = NDArray[np.float64]


class Family(enum.IntEnum):
    """The shapes of a gradient that the compiled loop knows."""

    AFFINE = 0  # v
    HUBER = 1  # (x - v) min(curvature, cap/|x - v|)
    LOGISTIC = 2  # -v/(1 + e^<v, x>)


class Encoded(NamedTuple):
    """A loss for the compiled loop: l_i by ``family`` and its row of ``vectors``.

    ``ridge`` has one number a coordinate. Gradients of f_i are clipped to the norm ``clip``, which
    is infinite where they are not.
    """

    family: Family
    vectors: Floats
    ridge: Floats
    curvature: float = 0.0
    cap: float = np.inf
    clip: float = np.inf


@dataclass(frozen=True)
class Loss(ABC):
    """A family of losses f_i = l_i + r, one a record, on d-dimensional points.

    The regulariser r is shared by all records: its gradient is ``ridge * x``, coordinate by
    coordinate. A record whose loss is replaced by zero keeps it (l_i = 0). Bounds are suprema over
    a domain, or upper bounds of them where a supremum has no closed form, so that what they admit
    is admissible.
    """

    @property
    def name(self) -> str:
        """The family's name in messages."""
        return type(self).__name__

    @property
    def unclipped(self) -> Loss:
        """The losses whose gradients these are, before any clipping."""
        return self

    @property
    def clip(self) -> float | None:
        """The norm to which each record's gradient is clipped, or None."""
        return None

    @abstractmethod
    def dimension(self, records: Floats) -> int:
        """Return d for ``records`` of shape (n, width), which are checked.

        Raises
        ------
        ValueError
            If the rows are no records of this family.
        """

    @abstractmethod
    def ridge(self, dimension: int) -> Floats:
        """Return the regulariser's curvatures, shape (d,)."""

    @abstractmethod
    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return grad l_i, shape (m, n, d), at ``points`` of shape (m, d)."""

    @abstractmethod
    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return a bound on |grad l_i| over the domain, shape (n,)."""

    @abstractmethod
    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return a bound on |grad f_i - grad f'_i| over the domain, shape (n,), row against row.

        Rows broadcast: either argument may have one row only.
        """

    @abstractmethod
    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return the least and the largest curvature of the losses f_i in any direction."""

    @abstractmethod
    def variation(self, records: Floats, domain: Domain) -> float:
        """Return a bound on |grad f_i(x) - grad f_i(y)| over two points of the domain."""

    @abstractmethod
    def encoded(self, records: Floats) -> Encoded:
        """Return the tables of the records for the compiled loop."""

    def whole_gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return a bound on |grad f_i| over the domain, the regulariser included, shape (n,)."""
        d = self.dimension(records)
        steepest = float(np.max(np.abs(self.ridge(d))))
        shared = steepest * float(domain.farthest(np.zeros((1, d)))[0]) if steepest else 0.0
        return self.gradient_norms(records, domain) + shared

    def gradients(self, records: Floats, points: Floats, zeroed: int | None = None) -> Floats:
        """Return grad f_i, shape (m, n, d), at ``points`` of shape (m, d).

        ``zeroed`` is the index of a record whose l_i is zero.
        """
        found = self.record_gradients(records, points)
        if zeroed is not None:
            found[:, zeroed] = 0.0
        return found + (self.ridge(points.shape[1]) * points)[:, None, :]
