"""Scores as arrays of numbers; what NumPy would quietly turn into other numbers is refused."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate

# Booleans, whole and real numbers, and objects, which are turned into floats one by one.
_KINDS = "biufO"


def numbers(**named: ArrayLike) -> ArrayLike:
    """Return the one named value if it can become floats without losing a part or a meaning.

    Raises ``ValueError`` for a masked array, complex numbers, dates and strings.
    """
    ((name, value),) = named.items()
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must be an array without a mask, got a masked one")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return value  # ragged: refused where it is turned into floats
    if array.dtype.kind not in _KINDS:
        raise ValueError(f"{name} must be an array of real numbers, got one of {array.dtype}")
    return array


def sample(**named: ArrayLike) -> NDArray[np.float64]:
    """Return the one named value as `validate.sample` does, if it holds real `numbers`."""
    (name,) = named
    return validate.sample(**{name: numbers(**named)})
