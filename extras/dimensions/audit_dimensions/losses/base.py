"""The interface of losses: gradients, their bounds, and tables for the compiled loop."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit_dimensions.domains import Domain

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
    """Family of losses f_i = l_i + r, one per record, on d-dimensional points.

    The regulariser r is shared by all records: its gradient is ``ridge * x``, coordinate by
    coordinate. A record whose loss is replaced by zero keeps it (l_i = 0). Batches of random size
    have it once, not once per record. Bounds are suprema over a domain, or upper bounds of them
    where a supremum has no closed form, so that what they admit is admissible.
    """

    @property
    def name(self) -> str:
        """Name of the family in messages."""
        return type(self).__name__

    @property
    def unclipped(self) -> Loss:
        """Losses before any clipping."""
        return self

    @property
    def clip(self) -> float | None:
        """Norm to which each record's gradient is clipped, or None."""
        return None

    @abstractmethod
    def dimension(self, records: Floats) -> int:
        """Return the dimension of the losses of some records.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.

        Returns
        -------
        int
            Number of coordinates d.

        Raises
        ------
        ValueError
            If the rows are not records of this family.
        """

    @abstractmethod
    def ridge(self, dimension: int) -> Floats:
        """Return the regulariser's curvatures.

        Parameters
        ----------
        dimension : int
            Number of coordinates d.

        Returns
        -------
        ndarray
            Curvatures, shape ``(d,)``.
        """

    @abstractmethod
    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return the gradients of the l_i.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.
        points : ndarray
            Points, shape ``(m, d)``.

        Returns
        -------
        ndarray
            Gradients, shape ``(m, n, d)``.
        """

    @abstractmethod
    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return a bound on |grad l_i| over the domain.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.
        domain : Domain
            Domain of the iterates.

        Returns
        -------
        ndarray
            Bounds, shape ``(n,)``.
        """

    @abstractmethod
    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return a bound on |grad f_i - grad f'_i| over the domain, row by row.

        Rows broadcast: either argument may have one row only.

        Parameters
        ----------
        first, second : ndarray
            Records, shape ``(n, width)`` or ``(1, width)``.
        domain : Domain
            Domain of the iterates.

        Returns
        -------
        ndarray
            Bounds, shape ``(n,)``.
        """

    @abstractmethod
    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return the least and the largest curvature of the losses f_i in any direction.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.
        domain : Domain
            Domain of the iterates.

        Returns
        -------
        tuple of (float, float)
            Least and largest curvature.
        """

    @abstractmethod
    def variation(self, records: Floats, domain: Domain) -> float:
        """Return a bound on |grad f_i(x) - grad f_i(y)| over two points of the domain.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.
        domain : Domain
            Domain of the iterates.

        Returns
        -------
        float
            The bound.
        """

    @abstractmethod
    def encoded(self, records: Floats) -> Encoded:
        """Return the tables of the records for the compiled loop.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.

        Returns
        -------
        Encoded
            The tables.
        """

    def whole_gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return a bound on |grad f_i| over the domain, including the regulariser.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.
        domain : Domain
            Domain of the iterates.

        Returns
        -------
        ndarray
            Bounds, shape ``(n,)``.
        """
        d = self.dimension(records)
        steepest = float(np.max(np.abs(self.ridge(d))))
        shared = steepest * float(domain.farthest(np.zeros((1, d)))[0]) if steepest else 0.0
        return self.gradient_norms(records, domain) + shared

    def gradients(self, records: Floats, points: Floats, zeroed: int | None = None) -> Floats:
        """Return the gradients of the f_i.

        Parameters
        ----------
        records : ndarray
            Records, shape ``(n, width)``.
        points : ndarray
            Points, shape ``(m, d)``.
        zeroed : int, optional
            Index of a record whose l_i is zero.

        Returns
        -------
        ndarray
            Gradients, shape ``(m, n, d)``.
        """
        found = self.record_gradients(records, points)
        if zeroed is not None:
            found[:, zeroed] = 0.0
        return found + (self.ridge(points.shape[1]) * points)[:, None, :]
