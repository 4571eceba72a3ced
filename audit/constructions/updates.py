"""Functions of a `Mapped` update that are more than straight lines, and that samplers compile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate

Floats = NDArray[np.float64]

_STEEPEST = 16.0  # of powers: |x|^16 of any state that is not absurd is a double


@dataclass(frozen=True)
class PolynomialUpdate:
    """x -> the sum of ``coefficients[k] (x - centre)^k``: a double well, for example.

    Raises
    ------
    ValueError
        If there are no coefficients, or a number is not finite.
    """

    coefficients: tuple[float, ...]
    centre: float = 0.0

    def __post_init__(self) -> None:
        validate.finite(centre=self.centre)
        if not self.coefficients:
            raise validate.fail("coefficients", "one or more numbers", self.coefficients)
        validate.finite(**{f"coefficients_{k}": c for k, c in enumerate(self.coefficients)})

    def __call__(self, x: Floats) -> Floats:
        """Apply the map to an array of states, entry by entry."""
        return np.asarray(np.polynomial.polynomial.polyval(x - self.centre, self.coefficients))


@dataclass(frozen=True)
class PowerUpdate:
    """x -> slope x + shift - pull sign(x - centre) |x - centre|^order.

    The gradient of the loss |x - centre|^(1 + order) / (1 + order), which is Hölder continuous
    with exponent ``order`` for orders up to 1. A `Mapped` of it has a kink at ``centre``.

    Raises
    ------
    ValueError
        If a number is not finite, or ``order`` is not in (0, 16].
    """

    pull: float
    order: float
    centre: float = 0.0
    shift: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        validate.finite(pull=self.pull, centre=self.centre, shift=self.shift, slope=self.slope)
        validate.positive(order=self.order)
        if self.order > _STEEPEST:
            raise validate.fail("order", f"in (0, {_STEEPEST:g}]", self.order)

    def __call__(self, x: Floats) -> Floats:
        """Apply the map to an array of states, entry by entry."""
        t = x - self.centre
        return np.asarray(
            self.slope * x + self.shift - self.pull * np.sign(t) * np.abs(t) ** self.order
        )
