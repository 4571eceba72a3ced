"""Logistic losses, with or without a regulariser."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from audit import validate
from audit_dimensions.dataset import matrix
from audit_dimensions.domains import Domain
from audit_dimensions.losses.base import Encoded, Family, Floats, Loss


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic losses f_i(x) = log(1 + e^(-y_i <z_i, x>)) + (regularisation/2) |x|^2.

    A record is its d features z_i and its label y_i, -1 or +1: d + 1 numbers (`rows`).

    Parameters
    ----------
    regularisation : float, default: 0.0
        Curvature of the regulariser shared by all records, at least 0.

    Raises
    ------
    ValueError
        If ``regularisation`` is negative.
    """

    regularisation: float = 0.0

    def __post_init__(self) -> None:
        validate.nonnegative(regularisation=self.regularisation)

    @staticmethod
    def rows(features: ArrayLike, labels: ArrayLike) -> Floats:
        """Return the records of features and labels.

        Parameters
        ----------
        features : array_like
            Features, shape ``(n, d)``.
        labels : array_like
            Labels, -1 or +1, shape ``(n,)``.

        Returns
        -------
        ndarray
            Records, shape ``(n, d + 1)``.

        Raises
        ------
        ValueError
            If the numbers of rows differ.
        """
        z, y = matrix(features=features), validate.sample(labels=labels)
        if y.size != len(z):
            raise ValueError(f"labels must be one for each of {len(z)} rows, got {y.size} labels")
        return np.column_stack([z, y])

    def dimension(self, records: Floats) -> int:
        """Return the number of features; labels must be -1 or +1."""
        if records.shape[1] < 2:
            raise ValueError(
                "records must have features and a label for logistic losses, "
                f"got {records.shape[1]} column"
            )
        wrong = np.abs(records[:, -1]) != 1
        if np.any(wrong):
            raise validate.fail("labels", "-1 or +1", float(records[wrong, -1][0]))
        return int(records.shape[1]) - 1

    def ridge(self, dimension: int) -> Floats:
        """Return the regularisation, shape (d,)."""
        return np.full(dimension, float(self.regularisation))

    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return -y z/(1 + e^(y <z, x>)), shape (m, n, d)."""
        signed = _signed(records)
        return np.asarray(-expit(-(points @ signed.T))[:, :, None] * signed)

    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return |z_i| times the largest probability of a wrong label."""
        signed = _signed(records)
        return np.asarray(np.linalg.norm(signed, axis=1) * expit(domain.support(signed)))

    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return the largest |p y z - p' y' z'| over the ranges that p and p' have on the domain.

        The norm is convex in (p, p'), so it is largest at a corner.
        """
        corners = []
        u, v = _signed(first), _signed(second)
        high_u, high_v = domain.support(u), domain.support(v)
        for sign, sign_prime in itertools.product((-1, 1), repeat=2):
            p, p_prime = expit(sign * high_u)[:, None], expit(sign_prime * high_v)[:, None]
            corners.append(np.linalg.norm(p * u - p_prime * v, axis=1))
        return np.asarray(np.max(corners, axis=0))

    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return the regularisation, and |z_i|^2/4 more."""
        steepest = float(np.max(np.sum(_signed(records) ** 2, axis=1))) / 4
        return float(self.regularisation), float(self.regularisation) + steepest

    def variation(self, records: Floats, domain: Domain) -> float:
        """Return how far the record's gradient and that of the regulariser may change."""
        signed = _signed(records)
        high = domain.support(signed)
        spread = np.linalg.norm(signed, axis=1) * (expit(high) - expit(-high))
        diameter = domain.diameter_in(signed.shape[1])
        shared = self.regularisation * diameter if self.regularisation else 0.0
        return float(np.max(spread) + shared)

    def encoded(self, records: Floats) -> Encoded:
        """Return y z and the regularisation."""
        signed = _signed(records)
        return Encoded(Family.LOGISTIC, signed, self.ridge(signed.shape[1]))


def _signed(records: Floats) -> Floats:
    """Return y_i z_i, shape (n, d): the loss depends on the two through their product."""
    return np.asarray(records[:, :-1] * records[:, -1:])
