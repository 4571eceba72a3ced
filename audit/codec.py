"""Dataclasses to plain data and back, driven by their type hints.

Everything that the package reads from or writes to YAML and JSON goes through `encode` and
`decode`: mechanisms, neighbouring pairs, claims, found pairs, witnesses and results. The schema of
a thing is its dataclass fields; `json_schema` writes the same hints as a JSON Schema.

=========================================  =====================================================
Python                                     plain data
=========================================  =====================================================
dataclass                                  mapping of its fields, in their order
dataclass with ``kind: ClassVar[str]``     the same, with ``kind`` first
enum member                                its value, in lower-case words
tuple, list, NumPy array                   list
mapping                                    mapping with keys that are text
path                                       text
infinite or undefined float                ``"inf"``, ``"-inf"`` or ``"nan"``
None, bool, int, float, str                itself
=========================================  =====================================================

``kind`` distinguishes the dataclasses of a union, one of which may have none. A class may accept
shorter spellings of itself: its class method ``expand_shorthand(plain)`` returns the full mapping,
or its argument unchanged.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from audit.validate import shown, with_article

_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MISSING = dataclasses.MISSING
# Metadata of a field that has a default in Python and must be given in plain data: its default
# makes another, simpler thing of the object, so that to leave it out of a file is a slip.
REQUIRED = MappingProxyType({"required": True})

_Path = tuple[str | int, ...]


class DecodeError(ValueError):
    """Plain data that does not fit the hint.

    Attributes
    ----------
    path
        Keys and indices that lead to the wrong value, from the value that was decoded.
    problem
        The message without the path: ``"must be a whole number, got 'x'"``.
    """

    def __init__(self, message: str, path: _Path = (), problem: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.problem = problem

    @staticmethod
    def at(name: str, path: _Path, problem: str, separator: str = " ") -> DecodeError:
        """Return the error for the value at a path inside the value called ``name``."""
        where = _dotted(name, path) or "value"
        return DecodeError(f"{where}{separator}{problem}", path, problem)


def encode(value: Any, *, defaults: bool = True) -> Any:
    """Return a value as plain data: mappings, lists, text, numbers, booleans and None.

    Parameters
    ----------
    value
        Dataclasses, enum members, tuples, lists, mappings, NumPy arrays, paths and plain values,
        nested in any way.
    defaults
        Whether fields at their default are written.

    Raises
    ------
    TypeError
        If the value, or one inside it, is of another type.

    Examples
    --------
    >>> from audit.mechanism import Batching
    >>> encode({"batching": Batching.WITHOUT_REPLACEMENT, "bracket": (1.5, float("inf"))})
    {'batching': 'without replacement', 'bracket': [1.5, 'inf']}
    """
    if isinstance(value, enum.Enum):
        return encode(value.value)
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return _encode_float(float(value))
    if isinstance(value, np.generic | np.ndarray):
        return encode(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_fields(value, defaults)
    if isinstance(value, Mapping):
        return {_encode_key(key): encode(item, defaults=defaults) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [encode(item, defaults=defaults) for item in value]
    raise TypeError(f"value must be made of dataclasses and plain data, got {value!r}")


def decode(hint: Any, plain: Any, name: str = "", *, given: Mapping[str, Any] | None = None) -> Any:
    """Return the value that plain data stands for; the inverse of `encode`.

    Parameters
    ----------
    hint
        A type hint: a dataclass, an enum, ``float``, ``int``, ``bool``, ``str``, ``Path``,
        ``None``, ``Literal``, a union, ``tuple[X, ...]``, ``tuple[X, Y]``, ``list[X]``,
        ``Sequence[X]``, ``Mapping[str, X]``, a NumPy array or ``Any``.
    plain
        The data, as a YAML or JSON reader returns it. Enum members are read in any spelling:
        value or name, upper or lower case, with spaces, hyphens or underscores. A value that has
        the hinted class already stays as it is.
    name
        What messages call the value.
    given
        Fields of a dataclass that come from elsewhere; ``plain`` must not hold them.

    Raises
    ------
    DecodeError
        If the data does not fit; a `ValueError` whose message begins with the path of the value:
        ``"settings[0].mechanism.steps must be a whole number, got 'x'"``.

    Notes
    -----
    A union of ``float`` and ``str`` reads the texts ``inf``, ``-inf`` and ``nan`` as numbers, and
    values hinted ``Any`` are not converted.

    Examples
    --------
    >>> from audit.mechanism import Batching
    >>> decode(tuple[Batching, ...], ["poisson", "WITHOUT_REPLACEMENT"])
    (<Batching.POISSON: 'poisson'>, <Batching.WITHOUT_REPLACEMENT: 'without replacement'>)
    """
    return _Decoder(name).decode(hint, plain, (), given or {})


def json_schema(hint: Any, *, title: str, id: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what `encode` writes for a hint.

    Parameters
    ----------
    hint
        A type hint that `decode` takes.
    title, id
        The schema's ``title`` and ``$id``.

    Notes
    -----
    Objects refuse unknown properties; required are the fields without a default, and ``kind``.
    Every dataclass and enum is described once, under ``$defs``.
    """
    schemas = _Schemas()
    described = schemas.of(hint)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id,
        "title": title,
        **described,
        "$defs": dict(sorted(schemas.definitions.items())),
    }


def kind_of(cls: type) -> str | None:
    """Return the tag of a dataclass in a union, None where it has none."""
    kind = getattr(cls, "kind", None)
    return kind if isinstance(kind, str) and "kind" not in _init_fields(cls) else None


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` where a choice is spelt like the word, else nothing."""
    spelt = {_spelling(choice): choice for choice in choices}
    close = difflib.get_close_matches(_spelling(str(word)), spelt, n=1)
    return f"; did you mean {spelt[close[0]]!r}?" if close else ""


@functools.cache
def _init_fields(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _default(field: dataclasses.Field[Any]) -> Any:
    """Return what stands for a field that is left out of plain data, ``_MISSING`` for nothing."""
    if field.metadata.get("required"):
        return _MISSING
    if field.default_factory is not _MISSING:
        return field.default_factory()
    return field.default


def _dotted(name: str, path: _Path) -> str:
    text = name
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _spelling(text: str) -> str:
    return text.lower().replace("-", " ").replace("_", " ").strip()


# encoding


def _encode_float(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _encode_key(key: object) -> str:
    plain = encode(key)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        return repr(plain)
    raise TypeError(f"keys must be text or numbers, got {key!r}")


def _encode_fields(value: Any, defaults: bool) -> dict[str, Any]:
    cls: type = type(value)
    kind = kind_of(cls)
    encoded: dict[str, Any] = {} if kind is None else {"kind": kind}
    for name, field in _init_fields(cls).items():
        item = getattr(value, name)
        if defaults or not _is_default(item, field):
            encoded[name] = encode(item, defaults=defaults)
    return encoded


def _is_default(item: Any, field: dataclasses.Field[Any]) -> bool:
    default = _default(field)
    if isinstance(item, np.ndarray) or isinstance(default, np.ndarray):
        return np.array_equal(item, default)
    return default is not _MISSING and bool(item == default)


# decoding


class _Form(enum.Enum):
    """The sorts of type hints."""

    ANY = enum.auto()
    UNION = enum.auto()
    LITERAL = enum.auto()
    DATACLASS = enum.auto()
    ENUM = enum.auto()
    MAPPING = enum.auto()
    ARRAY = enum.auto()
    LIST = enum.auto()
    SIMPLE = enum.auto()


@functools.cache
def _form(hint: Any) -> _Form:
    if hint in (Any, object):
        return _Form.ANY
    origin = get_origin(hint) or hint
    if origin in (Union, types.UnionType):
        return _Form.UNION
    if origin is Literal:
        return _Form.LITERAL
    if origin in (dict, Mapping):
        return _Form.MAPPING
    if origin in (tuple, list, Sequence):
        return _Form.LIST
    if origin is np.ndarray:
        return _Form.ARRAY
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _Form.DATACLASS
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _Form.ENUM
    if hint in _SIMPLE:
        return _Form.SIMPLE
    raise TypeError(f"hint must be one that has a plain form, got {hint!r}")


def _is_number(plain: Any) -> bool:
    return isinstance(plain, Real) and not isinstance(plain, bool | np.bool_)


def _is_whole(plain: Any) -> bool:
    return isinstance(plain, Integral) and not isinstance(plain, bool | np.bool_)


def _could_fit(hint: Any, plain: Any) -> bool:
    """Whether the data has the shape that the hint takes, whatever it holds."""
    match _form(hint):
        case _Form.ANY | _Form.UNION:
            return True
        case _Form.LITERAL:
            return isinstance(plain, tuple({type(choice) for choice in get_args(hint)}))
        case _Form.DATACLASS:
            shorthand = hasattr(hint, "expand_shorthand")
            return isinstance(plain, Mapping | hint) or (shorthand and _is_number(plain))
        case _Form.ENUM:
            return isinstance(plain, str | hint)
        case _Form.MAPPING:
            return isinstance(plain, Mapping)
        case _Form.LIST | _Form.ARRAY:
            return isinstance(plain, Sequence | np.ndarray) and not isinstance(plain, str)
        case _Form.SIMPLE:
            return _fits_simple(hint, plain)


def _fits_simple(hint: Any, plain: Any) -> bool:
    if hint is float:
        return _is_number(plain) or (isinstance(plain, str) and plain in _NOT_FINITE)
    if hint is int:
        return _is_whole(plain)
    if hint is bool:
        return isinstance(plain, bool | np.bool_)
    if hint in (None, types.NoneType):
        return plain is None
    return isinstance(plain, str | hint)


def _preference(hint: Any) -> int:
    """Rank of a hint in a union: the narrower one is tried first."""
    if hint is str:
        return 3
    return 2 if hint in (Any, object) else 1 if hint is float else 0


class _Decoder:
    """One run of `decode`; knows what messages call the value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def error(self, path: _Path, requirement: str, plain: Any, hint: str = "") -> DecodeError:
        return DecodeError.at(self.name, path, f"must be {requirement}, got {shown(plain)}{hint}")

    def decode(self, hint: Any, plain: Any, path: _Path, given: Mapping[str, Any]) -> Any:
        match _form(hint):
            case _Form.ANY:
                return plain
            case _Form.SIMPLE:
                return self.decode_simple(hint, plain, path)
            case _Form.UNION:
                return self.decode_union(get_args(hint), plain, path)
            case _Form.LITERAL:
                return self.decode_literal(get_args(hint), plain, path)
            case _Form.DATACLASS:
                return self.decode_dataclass(hint, plain, path, given)
            case _Form.ENUM:
                return self.decode_enum(hint, plain, path)
            case _Form.MAPPING:
                return self.decode_mapping(hint, plain, path)
            case _Form.ARRAY:
                return self.decode_array(hint, plain, path)
            case _Form.LIST:
                return self.decode_list(hint, plain, path)

    def decode_simple(self, hint: Any, plain: Any, path: _Path) -> Any:
        if type(plain) is hint:
            return plain
        whole = hint is int and isinstance(plain, float) and plain.is_integer()
        if not whole and not _fits_simple(hint, plain):
            raise self.error(path, _SIMPLE[hint], plain)
        if hint in (None, types.NoneType):
            return None
        if hint is float and isinstance(plain, str):
            return _NOT_FINITE[plain]
        try:
            return hint(plain)
        except OverflowError:
            raise self.error(path, _SIMPLE[hint], plain) from None

    def decode_literal(self, choices: tuple[Any, ...], plain: Any, path: _Path) -> Any:
        for choice in choices:
            if type(choice) is type(plain) and choice == plain:
                return choice
        words = [str(choice) for choice in choices]
        raise self.error(path, f"one of {', '.join(words)}", plain, did_you_mean(plain, words))

    def decode_enum(self, hint: type[enum.Enum], plain: Any, path: _Path) -> enum.Enum:
        if isinstance(plain, hint):
            return plain
        for member in hint:
            if plain == member.value and isinstance(plain, bool) == isinstance(member.value, bool):
                return member
        if isinstance(plain, str):
            for member in hint:
                if _spelling(plain) in (_spelling(str(member.value)), _spelling(member.name)):
                    return member
        words = [str(member.value) for member in hint]
        raise self.error(path, f"one of {', '.join(words)}", plain, did_you_mean(plain, words))

    def decode_list(self, hint: Any, plain: Any, path: _Path) -> Any:
        if not _could_fit(hint, plain):
            raise self.error(path, "a list", plain)
        origin, args = get_origin(hint) or hint, get_args(hint)
        if origin is tuple and args and args[-1] is not Ellipsis:
            if len(args) != len(plain):
                raise self.error(path, f"a list of {len(args)}", plain)
            hints = args
        else:
            hints = (args[0] if args else Any,) * len(plain)
        items = [
            self.decode(hint, item, (*path, i), {})
            for i, (hint, item) in enumerate(zip(hints, plain, strict=True))
        ]
        return items if origin is list else tuple(items)

    def decode_array(self, hint: Any, plain: Any, path: _Path) -> Any:
        if not _could_fit(hint, plain):
            raise self.error(path, "a list of numbers", plain)
        args = get_args(hint)
        kinds = get_args(args[1]) if len(args) > 1 else ()
        dtype = kinds[0] if kinds and isinstance(kinds[0], type) else np.float64
        try:
            return np.array(_numbers(plain), dtype=dtype)
        except (TypeError, ValueError, OverflowError):
            raise self.error(path, "a list of numbers", plain) from None

    def decode_mapping(self, hint: Any, plain: Any, path: _Path) -> Any:
        if not isinstance(plain, Mapping):
            raise self.error(path, "a mapping", plain)
        key_hint, item_hint = get_args(hint) or (str, Any)
        return {
            self.decode_key(key_hint, key, path): self.decode(
                item_hint, item, (*path, str(key)), {}
            )
            for key, item in plain.items()
        }

    def decode_key(self, hint: Any, key: Any, path: _Path) -> Any:
        if hint in (int, float) and isinstance(key, str):
            try:
                return hint(key)
            except ValueError:
                requirement = f"a mapping whose keys are {_SIMPLE[hint][2:]}s"
                raise self.error(path, requirement, key) from None
        return self.decode(hint, key, (*path, str(key)), {})

    def decode_union(self, hints: tuple[Any, ...], plain: Any, path: _Path) -> Any:
        if isinstance(plain, bool | int | float | None) and type(plain) in hints:
            return plain
        fitting = [hint for hint in hints if _could_fit(hint, plain)]
        tagged = [hint for hint in fitting if _form(hint) is _Form.DATACLASS]
        if len(tagged) > 1 and not isinstance(plain, tuple(tagged)):
            return self.decode_tagged(tagged, plain, path)
        if not fitting:
            requirement = " or ".join(_described(hint) for hint in hints)
            raise self.error(path, requirement, plain)
        first: ValueError | None = None
        for hint in sorted(fitting, key=_preference):
            try:
                return self.decode(hint, plain, path, {})
            except DecodeError as error:
                first = first or error
        assert first is not None  # nothing was returned
        raise first

    def decode_tagged(self, classes: Sequence[type], plain: Any, path: _Path) -> Any:
        by_kind = {kind_of(cls): cls for cls in classes}
        if len(by_kind) < len(classes):
            names = ", ".join(cls.__name__ for cls in classes)
            raise TypeError(f"classes of a union must have different kinds, got {names}")
        if None in by_kind and "kind" not in plain:
            return self.decode_dataclass(by_kind[None], plain, path, {})
        kinds = [str(kind) for kind in by_kind if kind is not None]
        if "kind" not in plain:
            problem = f"must be one of {', '.join(kinds)}, got nothing"
            raise DecodeError.at(self.name, (*path, "kind"), problem)
        kind = plain["kind"]
        if kind not in kinds:
            close = did_you_mean(kind, kinds)
            raise self.error((*path, "kind"), f"one of {', '.join(kinds)}", kind, close)
        return self.decode_dataclass(by_kind[kind], plain, path, {})

    def decode_dataclass(self, cls: type, plain: Any, path: _Path, given: Mapping[str, Any]) -> Any:
        if isinstance(plain, cls):
            return plain
        if hasattr(cls, "expand_shorthand"):
            plain = self.constructed(path, cls, lambda: cls.expand_shorthand(plain))
        if not isinstance(plain, Mapping):
            raise self.error(path, _described(cls), plain)
        fields = {name: f for name, f in _init_fields(cls).items() if name not in given}
        for key, item in plain.items():
            if key == "kind" and kind_of(cls) is not None:
                if item != kind_of(cls):
                    raise self.error((*path, "kind"), str(kind_of(cls)), item)
            elif key not in fields:
                requirement = f"left out of {with_article(cls.__name__)}"
                close = did_you_mean(key, fields) or f"; known are {', '.join(fields) or 'none'}"
                raise self.error((*path, str(key)), requirement, item, close)
        for name, field in fields.items():
            if name not in plain and _default(field) is _MISSING:
                problem = f"must be given for {with_article(cls.__name__)}, got nothing"
                raise DecodeError.at(self.name, (*path, name), problem)
        hints = _hints(cls)
        values = {
            name: self.decode(hints[name], plain[name], (*path, name), {})
            for name in fields
            if name in plain
        }
        return self.constructed(path, cls, lambda: cls(**given, **values))

    def constructed(self, path: _Path, cls: type, make: Callable[[], Any]) -> Any:
        """Return ``make()``; the message of a `ValueError` gets the path of the value."""
        try:
            return make()
        except DecodeError:
            raise
        except ValueError as error:
            word, _, rest = str(error).partition(" ")
            field = word.partition(".")[0]
            if field in _init_fields(cls) and rest:
                parts = tuple(word.split("."))
                raise DecodeError.at(self.name, (*path, *parts), rest) from error
            if not path and not self.name:
                raise
            raise DecodeError.at(self.name, path, str(error), ": ") from error


_SIMPLE: Mapping[Any, str] = {
    None: "null",
    types.NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}


def _described(hint: Any) -> str:
    """Return what a hint takes, for a message."""
    match _form(hint):
        case _Form.SIMPLE:
            return _SIMPLE[hint]
        case _Form.LITERAL:
            return f"one of {', '.join(str(choice) for choice in get_args(hint))}"
        case _Form.ENUM:
            return f"one of {', '.join(str(member.value) for member in hint)}"
        case _Form.DATACLASS:
            return f"a mapping with the fields of {with_article(hint.__name__)}"
        case _Form.MAPPING:
            return "a mapping"
        case _Form.LIST | _Form.ARRAY:
            return "a list"
        case _Form.ANY | _Form.UNION:
            return "anything"


def _numbers(plain: Any) -> Any:
    """Return nested lists of numbers; the words for infinite and undefined ones are read."""
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        return [_numbers(item) for item in plain]
    if isinstance(plain, str):
        if plain not in _NOT_FINITE:
            raise ValueError
        return _NOT_FINITE[plain]
    return plain


# schemas


class _Schemas:
    """Schemas of hints; those of classes are collected in ``definitions``."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self.names: dict[type, str] = {}

    def of(self, hint: Any) -> dict[str, Any]:
        match _form(hint):
            case _Form.ANY:
                return {}
            case _Form.UNION:
                return {"anyOf": [self.of(part) for part in get_args(hint)]}
            case _Form.LITERAL:
                return {"enum": list(get_args(hint))}
            case _Form.DATACLASS | _Form.ENUM:
                return {"$ref": f"#/$defs/{self.define(hint)}"}
            case _Form.MAPPING:
                _, item = get_args(hint) or (str, Any)
                return {"type": "object", "additionalProperties": self.of(item)}
            case _Form.ARRAY:
                return {"type": "array"}
            case _Form.LIST:
                return self.of_list(hint)
            case _Form.SIMPLE if hint is float:
                return {"anyOf": [{"type": "number"}, {"enum": list(_NOT_FINITE)}]}
            case _Form.SIMPLE:
                return {"type": _SCHEMA_TYPES[hint]}

    def of_list(self, hint: Any) -> dict[str, Any]:
        args = get_args(hint)
        if not args:
            return {"type": "array"}
        if get_origin(hint) is not tuple or args[-1] is Ellipsis:
            return {"type": "array", "items": self.of(args[0])}
        return {
            "type": "array",
            "prefixItems": [self.of(arg) for arg in args],
            "items": False,
            "minItems": len(args),
        }

    def define(self, cls: type) -> str:
        """Return the name of a class under ``$defs``, and describe the class there."""
        if cls in self.names:
            return self.names[cls]
        name = cls.__name__
        if name in self.names.values():
            name = f"{cls.__module__}.{cls.__qualname__}"
        self.names[cls] = name
        described = {"description": text} if (text := _first_line(cls)) else {}
        if issubclass(cls, enum.Enum):
            self.definitions[name] = {**described, "enum": [encode(member) for member in cls]}
        else:
            self.definitions[name] = {**described, **self.of_fields(cls)}
        return name

    def of_fields(self, cls: type) -> dict[str, Any]:
        kind = kind_of(cls)
        properties: dict[str, Any] = {} if kind is None else {"kind": {"const": kind}}
        required = list(properties)
        for name, field in _init_fields(cls).items():
            properties[name] = self.of(_hints(cls)[name])
            if _default(field) is _MISSING:
                required.append(name)
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


_SCHEMA_TYPES: Mapping[Any, str] = {
    None: "null",
    types.NoneType: "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    Path: "string",
}


def _first_line(cls: type) -> str:
    """Return the first line of a class's docstring, unless `dataclass` wrote it."""
    text = cls.__doc__ or ""
    if dataclasses.is_dataclass(cls) and text.startswith(f"{cls.__name__}("):
        return ""
    return inspect.cleandoc(text).partition("\n")[0]
