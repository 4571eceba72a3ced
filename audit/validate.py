"""Input validation with uniform messages.

Each function takes values as keywords, uses these names in messages, and raises `ValueError` for
the first value that fails:

>>> positive(noise_std=-1.0)
Traceback (most recent call last):
    ...
ValueError: noise_std must be a positive finite number, got -1.0
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Booleans, integers, floats, and objects, which are converted one by one.
_REAL_KINDS = "biufO"

_BOOLEANS = bool | np.bool_
_MAX_SHOWN = 100  # characters of a value quoted in a message
_MET_BY_CHANCE = 100.0  # units of rounding: share of numbers that others may be in fewer bits


def shown(value: object) -> str:
    """Return the repr of a value for messages, in one line, truncated if long.

    >>> shown("x" * 200) == "'" + "x" * 99 + "..."
    True
    """
    try:
        text = repr(value)
    except Exception:  # a user's class, or an integer with more digits than Python prints
        return with_article(type(value).__name__) + " that cannot be shown"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= _MAX_SHOWN + len("...") else f"{text[:_MAX_SHOWN]}..."


def fail(name: str, requirement: str, value: object) -> ValueError:
    """Return the error of a failed check: ``name must be requirement, got value``."""
    return ValueError(f"{name} must be {requirement}, got {shown(value)}")


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article: ``"a Path"``, ``"an Order"``."""
    vowel = noun[:1] in "AEIOUaeiou" and noun[:3].lower() not in ("uni", "use")
    return f"{'an' if vowel else 'a'} {noun}"


def _is_real(value: object) -> bool:
    """Return whether a value is a number with which Python computes in double precision."""
    if type(value) is float:  # by far the most, and abstract classes take long to ask
        return True
    return isinstance(value, float | Integral) and not isinstance(value, _BOOLEANS)


def _as_float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the largest double
        return math.inf


def convert_numbers(instance: object) -> None:
    """Convert the numbers in the fields of a frozen dataclass to Python's int and float.

    NumPy computes with numbers of fewer bits in their own precision.
    """
    for name, value in vars(instance).items():
        object.__setattr__(instance, name, python_number(value))


def python_number(value: Any) -> Any:
    """Return a number as an int or a float, a tuple with such entries, else the value itself."""
    if type(value) in (int, float, bool, str):
        return value
    if isinstance(value, tuple):
        return tuple(map(python_number, value))
    if isinstance(value, Integral):
        return int(value)
    return _as_float(value) if isinstance(value, Real) else value


def _check(requirement: str, test: Any, named: dict[str, Any]) -> None:
    for name, value in named.items():
        if not _is_real(value) and isinstance(value, Real) and not isinstance(value, _BOOLEANS):
            raise ValueError(f"{name} must be a float, got {shown(value)}; write float(...)")
        if not (_is_real(value) and test(_as_float(value))):
            raise fail(name, requirement, value)


def finite(**named: Any) -> None:
    """Require finite numbers."""
    _check("a finite number", math.isfinite, named)


def positive(**named: Any) -> None:
    """Require finite numbers above 0."""
    _check("a positive finite number", lambda v: math.isfinite(v) and v > 0, named)


def nonnegative(**named: Any) -> None:
    """Require finite numbers of at least 0."""
    _check("a finite number of at least 0", lambda v: math.isfinite(v) and v >= 0, named)


def open_unit(**named: Any) -> None:
    """Require numbers in the open interval (0, 1)."""
    _check("in (0, 1)", lambda v: 0 < v < 1, named)


def half_open_unit(**named: Any) -> None:
    """Require numbers in the half-open interval [0, 1), such as delta."""
    _check("in [0, 1)", lambda v: 0 <= v < 1, named)


def closed_unit(**named: Any) -> None:
    """Require numbers in the closed interval [0, 1]."""
    _check("in [0, 1]", lambda v: 0 <= v <= 1, named)


def above_one(**named: Any) -> None:
    """Require finite numbers above 1, such as Renyi orders."""
    _check("a finite number above 1", lambda v: math.isfinite(v) and v > 1, named)


def integer(minimum: int, **named: Any) -> None:
    """Require whole numbers of at least ``minimum``."""
    for name, value in named.items():
        whole = isinstance(value, Integral) and not isinstance(value, _BOOLEANS)
        if not (whole and int(value) >= minimum):
            raise fail(name, f"a whole number of at least {minimum}", value)


def listed(requirement: str, **named: Any) -> tuple[Any, ...]:
    """Return the one named sequence, or other iterable, as a tuple."""
    ((name, value),) = named.items()
    try:
        return tuple(value)
    except TypeError:
        raise fail(name, requirement, value) from None


def floats(name: str, requirement: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a value as an array of floats; complex numbers and strings are refused."""
    try:
        given = np.asarray(value)
    except Exception as error:
        if isinstance(value, list | tuple):
            raise fail(name, requirement, value) from None
        # raised by a tensor: it requires grad, or NumPy lacks its type
        kind, reason = with_article(type(value).__name__), " ".join(str(error).split())
        raise ValueError(f"{name} must be {requirement}, got {kind} ({reason})") from None
    if given.dtype.kind not in _REAL_KINDS:  # a cast would drop imaginary parts and parse strings
        raise fail(name, requirement, value)
    if given.dtype.kind == "O":
        for place, entry in enumerate(given.flat):
            if isinstance(entry, str | bytes):
                problem = f"{name} must be {requirement}, got {shown(entry)} at position {place}"
                raise ValueError(problem)
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise fail(name, requirement, value) from None


def array_in(
    low: float, high: float, *, open_ends: bool, open_high: bool = False, **named: ArrayLike
) -> NDArray[np.float64]:
    """Return the one named value as a float array, requiring entries between the ends.

    ``open_high`` excludes the upper end only.
    """
    ((name, value),) = named.items()
    open_high = open_ends or open_high
    requirement = f"in {'(' if open_ends else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    array = floats(name, requirement, value)
    inside = ((array > low) if open_ends else (array >= low)) & (
        (array < high) if open_high else (array <= high)
    )
    if not np.all(inside):
        bad = array[~inside].flat[0] if array.ndim else array[()]
        raise fail(name, requirement, float(bad))
    return array


def sample(**named: ArrayLike) -> NDArray[np.float64]:
    """Return the one named value as a non-empty one-dimensional float array of finite numbers."""
    ((name, value),) = named.items()
    array = floats(name, "a one-dimensional array of numbers", value)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} must be a non-empty one-dimensional array, got shape {array.shape}"
        )
    if not np.all(np.isfinite(array)):
        first = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(
            f"{name} must hold finite numbers only, got {array[first]} at position {first}"
        )
    return array


def one_of(choices: Sequence[str], **named: Any) -> None:
    """Require one of the strings in ``choices``."""
    for name, value in named.items():
        if value not in choices:
            raise fail(name, f"one of {', '.join(choices)}", value)


def reference(**named: Any) -> None:
    """Require names of functions, with their modules."""
    for name, value in named.items():
        module, _, function = value.partition(":") if isinstance(value, str) else ("", "", "")
        if not (module and function):
            raise fail(name, "package.module:function", value)


def instance(kind: type, **named: Any) -> None:
    """Require instances of ``kind``."""
    for name, value in named.items():
        if not isinstance(value, kind):
            refused = fail(name, with_article(kind.__name__), value)
            raise ValueError(f"{refused}{_member(kind, value)}")


def _member(kind: type, value: object) -> str:
    """Return a hint at the member of an enumeration that a string spells.

    >>> _member(Verdict := enum.Enum("Verdict", {"NOT_TRIED": "not tried"}), "not tried")
    '; write Verdict.NOT_TRIED'
    """
    if not issubclass(kind, enum.Enum) or not isinstance(value, str):
        return ""
    spelt = value.upper().replace(" ", "_")
    known = [one.name for one in kind if spelt in (one.name, str(one.value).upper())]
    known = known or [one.name for one in kind]
    return f"; write {' or '.join(f'{kind.__name__}.{name}' for name in known)}"


def real_numbers(**named: ArrayLike) -> ArrayLike:
    """Return the one named value if converting it to floats loses nothing.

    Raises ``ValueError`` for a masked array, complex numbers, dates and strings.
    """
    ((name, value),) = named.items()
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must be an array without a mask, got a masked one")
    try:
        array = np.asarray(value)
    except Exception:  # ragged, or a tensor: refused by the conversion to floats
        return value
    if array.dtype.kind not in _REAL_KINDS:
        raise ValueError(f"{name} must be an array of real numbers, got one of {array.dtype}")
    return array


def real_sample(**named: ArrayLike) -> NDArray[np.float64]:
    """Return the one named value as `sample` does, requiring `real_numbers`."""
    (name,) = named
    return sample(**{name: real_numbers(**named)})


def same_precision(**named: ArrayLike) -> None:
    """Require one precision of two samples: rounding would tell equal scores apart.

    Files have no types: values of one must not be those of the other in fewer bits, but by chance.
    """
    wrong = f"{' and '.join(named)} must be of one precision, got"
    given = [np.asarray(value) for value in named.values()]
    kinds = dict.fromkeys(value.dtype.name for value in given if value.dtype.kind == "f")
    if len(kinds) > 1:
        raise ValueError(f"{wrong} {' and '.join(kinds)}")
    sides = [value.astype(np.float64) for value in given]
    for (coarse, fine), kind in itertools.product((sides, sides[::-1]), ("float32", "float16")):
        with np.errstate(over="ignore"):
            if np.array_equal(coarse, coarse.astype(kind)):
                rounded = fine.astype(kind)
                met = rounded[rounded != fine]
                met = met[np.isin(met, coarse)] if met.size else met
                # what is nearly 1 is 1 in half precision
                several = np.unique(met).size > (kind == "float16")
                if several and met.size > 1 + _MET_BY_CHANCE * np.finfo(kind).eps * fine.size:
                    raise ValueError(f"{wrong} one that is rounded to {kind}")
