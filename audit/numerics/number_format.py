"""Number formatting: certain digits only, bounds rounded outward."""

from __future__ import annotations

import enum
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

MISSING = "–"
_INFINITE = "inf"
_END_DIGITS = 4  # digits of either end of a bracket
_MIN_CERTAIN_DIGITS = 3  # with fewer certain digits, both ends of a bracket are written
_MIN_FIXED, _MAX_FIXED = Decimal("1e-4"), Decimal("1e6")


class Rounding(enum.Enum):
    """To which side a number is rounded."""

    NEAREST = ROUND_HALF_EVEN
    DOWN = ROUND_FLOOR
    UP = ROUND_CEILING


def number(value: float, digits: int = 5, rounding: Rounding = Rounding.NEAREST) -> str:
    """Return ``value`` with ``digits`` significant digits."""
    if math.isinf(value):
        return f"-{_INFINITE}" if value < 0 else _INFINITE
    if math.isnan(value):
        return "nan"
    if value == 0:
        return "0"
    return _written(_rounded(Decimal(repr(float(value))), digits, rounding))


def short(value: float, digits: int, rounding: Rounding) -> str:
    """Return a number with at most ``digits`` significant digits, without zeros behind them."""
    return _without_zeros(number(value, digits, rounding))


def telling(low: float, high: float, least: int, most: int = 17) -> int:
    """Return how many digits tell a number, rounded up, from a larger one, rounded down."""
    for digits in range(least, most + 1):
        if float(number(low, digits, Rounding.UP)) < float(number(high, digits, Rounding.DOWN)):
            return digits
    return least


def plain(value: object) -> str:
    """Return a parameter as one would type it: ``1e-5``, ``0.05``, ``1000``, at most 6 digits."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return short(value, 6, Rounding.NEAREST)
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value)
    return str(value)


def bracket(ends: tuple[float, float], digits: int = 6) -> str:
    """Return the value inside a bracket with the digits that both ends round to.

    At most ``digits`` of them; where fewer than three are certain, the two ends themselves, the
    lower one rounded down and the upper one up.
    """
    return "".join(_parts(ends, digits))


def exceeding(ends: tuple[float, float], claimed: float, digits: int = 6) -> str:
    """Return a bracket; its lower end alone where only that shows that it exceeds a claim."""
    least = telling(claimed, ends[0], _END_DIGITS)
    digits = max(digits, least)
    parts = _parts(ends, digits)
    if ends[0] <= claimed or float(parts[1]) > float(number(claimed, least, Rounding.UP)):
        return "".join(parts)
    return f"≥ {number(ends[0], digits, Rounding.DOWN)}"


def _parts(ends: tuple[float, float], digits: int) -> tuple[str, str, str]:
    """Return what stands before the first number of a bracket, that number, and what follows."""
    low, high = ends
    if math.isinf(low):
        return "", number(low), ""
    if math.isinf(high):
        return "≥ ", number(low, digits, Rounding.DOWN), ""
    if low == high:
        return "", number(low, digits), ""
    if low > 0 or high < 0:
        exact_low, exact_high = Decimal(repr(float(low))), Decimal(repr(float(high)))
        for count in range(digits, _MIN_CERTAIN_DIGITS - 1, -1):
            exponent = max(exact_low.adjusted(), exact_high.adjusted()) - count + 1
            unit = Decimal(1).scaleb(exponent)
            rounded = exact_low.quantize(unit)
            if rounded == exact_high.quantize(unit):
                return "", _written(rounded), ""
    end = f" to {number(high, _END_DIGITS, Rounding.UP)}"
    return "", number(low, _END_DIGITS, Rounding.DOWN), end


def ratio(value: float | None) -> str:
    """Return a ratio with three decimals or four digits; one below 1 never reads as 1.000."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return number(value)
    if value >= 10:
        return number(value, 4)
    for decimals in range(3, 17):
        text = f"{value:.{decimals}f}"
        if value >= 1 or float(text) < 1:
            return text
    return repr(value)


def share(part: float, whole: float) -> str:
    """Return ``part / whole`` as a percentage, rounded down."""
    return f"{math.floor(100 * part / whole)}%"


def count(value: int) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,}"


def duration(seconds: float) -> str:
    """Return a time in seconds, or in minutes and seconds from two minutes on."""
    if seconds < 120:
        return f"{number(seconds, 3)} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _rounded(value: Decimal, digits: int, rounding: Rounding) -> Decimal:
    unit = Decimal(1).scaleb(value.adjusted() - digits + 1)
    rounded = value.quantize(unit, rounding=rounding.value)
    if rounded.adjusted() == value.adjusted():
        return rounded
    return rounded.quantize(unit.scaleb(1))  # 9.99 rounded up to 10.0 has a digit more, a zero


def _written(value: Decimal) -> str:
    """Write middling numbers out, others with an exponent, with the digits that they carry."""
    if value == 0:
        return "0"
    carries_units = int(value.as_tuple().exponent) <= 0
    if carries_units and _MIN_FIXED <= abs(value) < _MAX_FIXED:
        return f"{value:f}"
    mantissa, exponent = f"{value:e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _without_zeros(text: str) -> str:
    mantissa, mark, exponent = text.partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return mantissa + mark + exponent
