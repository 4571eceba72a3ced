"""Checks of brackets where they are made."""

from __future__ import annotations

import math

import numpy as np

from audit.curves.base import Order
from audit.numerics.arrays import Array

Bracket = tuple[float, float]

TINY = 1e-320
"""Room for the spacing of doubles near 0, and for positive numbers below their range."""


class BracketError(ValueError):
    """A computed bracket contradicts itself or a theorem, so nothing follows from it.

    The message names the quantity, the order of the pair, both ends and what they violate.
    """


def checked(
    quantity: str, bracket: Bracket, order: Order | None, *, most: float = math.inf
) -> Bracket:
    """Return a bracket whose ends are in order, and between 0 and ``most``."""
    low, high = bracket
    if not 0 <= low <= high <= most:  # false for NaN
        limit = f" <= {most:g}" if math.isfinite(most) else ""
        raise broken(quantity, bracket, order, f"0 <= low <= high{limit}")
    return bracket


def checked_all(
    quantity: str,
    places: Array,
    brackets: tuple[Array, Array],
    order: Order | None,
    *,
    most: float = math.inf,
) -> tuple[Array, Array]:
    """Return brackets at several places, each checked as by `checked`."""
    lows, highs = brackets
    sound = (lows >= 0) & (lows <= highs) & (highs <= most)
    if not sound.all():
        at = int(np.argmin(sound))
        checked(f"{quantity} {places[at]:g}", (float(lows[at]), float(highs[at])), order, most=most)
    return brackets


def broken(quantity: str, bracket: Bracket, order: Order | None, requirement: str) -> BracketError:
    """Return the error for a bracket that violates a requirement."""
    which = f" in {order.value} order" if order is not None else ""
    low, high = bracket
    return BracketError(
        f"the bracket of {quantity}{which} must have {requirement}, got ({low!r}, {high!r})"
    )
