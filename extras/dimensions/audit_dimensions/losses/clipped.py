"""Losses with clipped gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit import validate
from audit_dimensions.domains import Domain
from audit_dimensions.losses.base import Encoded, Floats, Loss


@dataclass(frozen=True)
class Clipped(Loss):
    """Losses of another family with each record's gradient clipped to a norm.

    grad f_i becomes grad f_i min(1, norm/|grad f_i|), the regulariser included, before the mean
    over the batch is taken (Boninsegna 2023, Algorithm 1). A record whose loss is zero loses its
    regulariser too, so that it adds nothing. Clipped gradients need not be gradients of any convex
    loss: convexity and smoothness are those of the losses before clipping.

    Parameters
    ----------
    loss : Loss
        Losses, not clipped themselves.
    norm : float
        Largest norm of a gradient, above 0.

    Raises
    ------
    ValueError
        If the losses are clipped already or ``norm`` is not positive.
    """

    loss: Loss
    norm: float

    def __post_init__(self) -> None:
        validate.instance(Loss, loss=self.loss)
        if self.loss.clip is not None:
            raise validate.fail("loss", "one whose gradients are not clipped yet", self.loss)
        validate.positive(norm=self.norm)

    @property
    def name(self) -> str:
        """The family's name in messages."""
        return f"Clipped {self.loss.name}"

    @property
    def unclipped(self) -> Loss:
        """The losses before clipping."""
        return self.loss

    @property
    def clip(self) -> float | None:
        """The norm."""
        return float(self.norm)

    def dimension(self, records: Floats) -> int:
        """Return d of the losses."""
        return self.loss.dimension(records)

    def ridge(self, dimension: int) -> Floats:
        """Return zeros: a regulariser is clipped with the rest, so it is shared no longer."""
        return np.zeros(dimension)

    def record_gradients(self, records: Floats, points: Floats) -> Floats:
        """Return the clipped gradients, shape (m, n, d)."""
        found = self.loss.gradients(records, points)
        norms = np.linalg.norm(found, axis=2, keepdims=True)
        return np.asarray(found * (self.norm / np.maximum(norms, self.norm)))

    def gradient_norms(self, records: Floats, domain: Domain) -> Floats:
        """Return the norm, or the bound before clipping where that is less."""
        before = self.loss.whole_gradient_norms(records, domain)
        return np.asarray(np.minimum(self.norm, before))

    def gradient_differences(self, first: Floats, second: Floats, domain: Domain) -> Floats:
        """Return the bound before clipping, or twice the norm where that is less.

        Clipping is a projection, so it takes no two gradients farther apart.
        """
        before = self.loss.gradient_differences(first, second, domain)
        return np.asarray(np.minimum(2 * self.norm, before))

    def curvatures(self, records: Floats, domain: Domain) -> tuple[float, float]:
        """Return those before clipping."""
        return self.loss.curvatures(records, domain)

    def variation(self, records: Floats, domain: Domain) -> float:
        """Return that before clipping."""
        return self.loss.variation(records, domain)

    def encoded(self, records: Floats) -> Encoded:
        """Return the tables of the losses, and the norm."""
        return self.loss.encoded(records)._replace(clip=float(self.norm))
