"""Forms of type hints, and the fields of dataclasses in plain data."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import math
import types
from collections.abc import Iterable, Mapping, Sequence
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


Form = Literal[
    "any", "checked", "union", "literal", "dataclass", "enum", "mapping", "list", "simple"
]


@functools.cache
def form(hint: Any) -> Form:
    """Return the form of a type hint; raise ``TypeError`` if plain data has none."""
    if hint in (Any, object):
        return "any"
    origin = get_origin(hint) or hint
    if origin is Annotated:
        return "checked"
    if origin in (Union, types.UnionType):
        return "union"
    if origin is Literal:
        return "literal"
    if origin in (dict, Mapping):
        return "mapping"
    if origin in (tuple, list, Sequence):
        return "list"
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return "dataclass"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "enum"
    if hint in SIMPLE:
        return "simple"
    raise TypeError(f"hint must be one that has a plain form, got {hint!r}")


class Simple(NamedTuple):
    """A type that is not made of others: in words, in JSON Schema, and as classes."""

    words: str
    json_type: str
    classes: tuple[type, ...]

    def fits(self, plain: Any) -> bool:
        """Return whether plain data are of the type; a truth value is no number."""
        truth = isinstance(plain, bool | np.bool_)
        return isinstance(plain, self.classes) and truth == (self.json_type == "boolean")


_NULL = Simple("null", "null", (types.NoneType,))
SIMPLE: Mapping[Any, Simple] = {
    None: _NULL,
    types.NoneType: _NULL,
    bool: Simple("true or false", "boolean", (bool, np.bool_)),
    int: Simple("a whole number", "integer", (Integral,)),
    float: Simple("a number", "number", (Real,)),  # or one of NOT_FINITE
    str: Simple("text", "string", (str,)),
    Path: Simple("a path", "string", (str, Path)),
}
