"""Stored numbers, and whether they come out again to their last digit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WHOLE = 10
"""Digits of numbers that are stored whole: later ones depend on the processor and the libraries."""
_CERTAIN = 1e-6  # relative; the ends of a wide bracket may move by no more
_ZERO = 1e-9  # no report prints a number that is lower than this and may be 0
_ROUNDING = 1e-6  # of a unit, from subtracting two printed numbers


@dataclass(frozen=True)
class Row:
    """Stored numbers that one computation gives again.

    Attributes
    ----------
    name
        File and key, as ``map/points.csv: cyclic A=3 s=0.2``.
    stored
        Plain data: numbers, or texts of numbers as a table has them, in mappings and lists.
        A mapping with ``low`` and ``high`` is a bracket.
    again
        Returns the same data, computed now.
    digits
        Significant digits that are stored; None for texts with a fixed number of decimals.
    """

    name: str
    stored: Any
    again: Callable[[], Any]
    digits: int | None = WHOLE

    def moved(self) -> tuple[Moved, ...]:
        """Compute the row again and return what differs from the stored data."""
        try:
            now = self.again()
        except Exception as error:  # the row is named, and the other rows are computed
            return (Moved(self.name, "", "numbers", f"{type(error).__name__}: {error}"),)
        found = _differences(self.stored, now, self.digits, ())
        return tuple(Moved(self.name, ", ".join(place), *pair) for place, pair in found)


@dataclass(frozen=True)
class Moved:
    """A stored value that does not come out again."""

    row: str
    place: str
    stored: object
    now: object

    def __str__(self) -> str:
        """Return the line that names the row, the place in it and both values."""
        place = f"{self.row}: {self.place}" if self.place else self.row
        return f"{place}: stored {_shown(self.stored)}, now {_shown(self.now)}"


def _shown(value: object) -> str:
    return "nothing" if value in (None, "") else str(value)


def _differences(
    stored: Any, now: Any, digits: int | None, place: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[object, object]]]:
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        if _is_bracket(stored) and _is_bracket(now):
            if not _same_bracket(stored, now, digits or WHOLE):
                yield place, (_bracket(stored), _bracket(now))
            return
        for key in [*stored, *(key for key in now if key not in stored)]:
            yield from _differences(stored.get(key), now.get(key), digits, (*place, str(key)))
    elif isinstance(stored, list | tuple) and isinstance(now, list | tuple):
        if len(stored) != len(now):
            yield (*place, "length"), (len(stored), len(now))
            return
        for number, pair in enumerate(zip(stored, now, strict=True)):
            yield from _differences(*pair, digits, (*place, str(number)))
    elif not _same(stored, now, digits):
        yield place, (stored, now)


def _same(stored: object, now: object, digits: int | None) -> bool:
    """Whether two values agree: numbers to one unit of the last stored digit."""
    first, second = _number(stored), _number(now)
    if first is None or second is None or (isinstance(stored, int) and isinstance(now, int)):
        return ("" if stored is None else stored) == ("" if now is None else now)
    if first == second or (math.isnan(first) and math.isnan(second)):
        return True
    if not math.isfinite(first - second):
        return False
    if digits is None:
        unit = 10.0 ** -len(str(stored).partition(".")[2])
    else:
        unit = _unit(first, second, digits)
        first, second = (float(f"{value:.{digits}g}") for value in (first, second))
    return abs(first - second) <= unit * (1 + _ROUNDING)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _unit(first: float, second: float, digits: int) -> float:
    """Return one unit of the last of so many significant digits."""
    return float(10.0 ** (math.floor(math.log10(max(abs(first), abs(second)))) + 1 - digits))


def _is_bracket(value: Mapping[str, object]) -> bool:
    return {"low", "high"} <= set(value)


def _bracket(value: Mapping[str, Any]) -> tuple[float, float]:
    return float(value["low"]), float(value["high"])


def _same_bracket(stored: Mapping[str, Any], now: Mapping[str, Any], digits: int) -> bool:
    """Whether two brackets of one number agree.

    They overlap, and each end moved by no more than the stored bracket is wide, or by one unit of
    the last digit if it is narrower than that. The ends of a wide one agree to six digits.
    """
    low, high = _bracket(stored)
    ends = _bracket(now)
    if low == ends[0] == 0 and max(high, ends[1]) < _ZERO:
        return True
    if ends[0] > high or low > ends[1]:
        return False
    width = min(high - low, _CERTAIN * abs(low))
    return all(
        abs(new - old) <= width or _same(old, new, digits)
        for old, new in zip((low, high), ends, strict=True)
    )
