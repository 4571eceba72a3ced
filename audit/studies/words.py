"""How a study writes a number in its words, such as those of an axis."""

from __future__ import annotations


def short(value: float, digits: int = 6) -> str:
    """Return a number as one types it, at most so many digits: ``1e-5``, not ``1e-05``."""
    mantissa, mark, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else mantissa
