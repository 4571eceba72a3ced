"""Forms of type hints, and the fields of dataclasses in plain data."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_origin, get_type_hints

import numpy as np

NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MISSING = dataclasses.MISSING
# Metadata of a field that has a default in Python but must be given in plain data: the default
# changes what the object is, so leaving it out of a file is probably a mistake.
REQUIRED = MappingProxyType({"required": True})


class Tagged:
    """A class that plain data distinguish from others by its name, under ``kind``."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = cls.__name__


def kind_of(cls: type) -> str | None:
    """Return the tag of a dataclass in a union."""
    kind = getattr(cls, "kind", None)
    return kind if isinstance(kind, str) and "kind" not in init_fields(cls) else None


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Return a suggestion for a misspelt word, for the end of a message."""
    spelt = {spelling(choice): choice for choice in choices}
    close = difflib.get_close_matches(spelling(str(word)), spelt, n=1)
    return f"; did you mean {spelt[close[0]]!r}?" if close else ""


@functools.cache
def init_fields(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass's constructor by name; none for other classes."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


@functools.cache
def hints_of(cls: type) -> Mapping[str, Any]:
    """Return the type hints of a class by name."""
    return get_type_hints(cls, include_extras=True)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field in plain data; ``MISSING`` if it must be given."""
    if field.metadata.get("required"):
        return MISSING
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def spelling(text: str) -> str:
    """Return the canonical spelling of a choice."""
    return text.lower().replace("-", " ").replace("_", " ").strip()


class Form(enum.Enum):
    """Forms of type hints."""

    ANY = enum.auto()
    CHECKED = enum.auto()
    UNION = enum.auto()
    LITERAL = enum.auto()
    DATACLASS = enum.auto()
    ENUM = enum.auto()
    MAPPING = enum.auto()
    LIST = enum.auto()
    SIMPLE = enum.auto()


@functools.cache
def form(hint: Any) -> Form:
    """Return the form of a type hint; raise ``TypeError`` if plain data has none."""
    if hint in (Any, object):
        return Form.ANY
    origin = get_origin(hint) or hint
    if origin is Annotated:
        return Form.CHECKED
    if origin in (Union, types.UnionType):
        return Form.UNION
    if origin is Literal:
        return Form.LITERAL
    if origin in (dict, Mapping):
        return Form.MAPPING
    if origin in (tuple, list, Sequence):
        return Form.LIST
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Form.DATACLASS
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Form.ENUM
    if hint in SIMPLE:
        return Form.SIMPLE
    raise TypeError(f"hint must be one that has a plain form, got {hint!r}")


class Simple(NamedTuple):
    """A type that is not made of others: in words, in JSON Schema, and what fits it."""

    words: str
    json_type: str
    fits: Callable[[Any], bool]


def _is(kind: Any) -> Callable[[Any], bool]:
    """Return a test for a kind of number, which a truth value is none of."""
    return lambda plain: isinstance(plain, kind) and not isinstance(plain, bool | np.bool_)


def _is_float(plain: Any) -> bool:
    return _is(Real)(plain) or (isinstance(plain, str) and plain in NOT_FINITE)


_NULL = Simple("null", "null", lambda plain: plain is None)
SIMPLE: Mapping[Any, Simple] = {
    None: _NULL,
    types.NoneType: _NULL,
    bool: Simple("true or false", "boolean", lambda plain: isinstance(plain, bool | np.bool_)),
    int: Simple("a whole number", "integer", _is(Integral)),
    float: Simple("a number", "number", _is_float),
    str: Simple("text", "string", lambda plain: isinstance(plain, str)),
    Path: Simple("a path", "string", lambda plain: isinstance(plain, str | Path)),
}
