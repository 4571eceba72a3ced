"""Type hints, the fields of dataclasses, and what `encode` and `decode` make of them."""

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
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from audit.validate import shown, with_article

NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MISSING = dataclasses.MISSING
# Metadata of a field that has a default in Python but must be given in plain data: the default
# changes what the object is, so leaving it out of a file is probably a mistake.
REQUIRED = MappingProxyType({"required": True})
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_Path = tuple[str | int, ...]
_MAX_ERRORS = 8  # errors listed for one value
# Hints of a union that are tried after all others, in this order.
_WIDE_HINTS = {float: 1, object: 2, Any: 2, str: 3}


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


@dataclasses.dataclass(frozen=True)
class Simple:
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


def encode(value: Any, *, defaults: bool = True) -> Any:
    """Return a value as plain data: mappings, lists, text, numbers, booleans and None.

    The table in `audit.codec` says how. Without ``defaults`` fields that have their default are
    left out. Raises ``TypeError`` if the value, or one inside it, has no plain form.
    """
    if isinstance(value, enum.Enum):
        return encode(value.value)
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))  # inf, -inf or nan
    if isinstance(value, np.generic | np.ndarray):
        return encode(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = kind_of(type(value))
        encoded: dict[str, Any] = {} if kind is None else {"kind": kind}
        for name, field in init_fields(type(value)).items():
            item = getattr(value, name)
            if defaults or not _is_default(item, default_of(field)):
                encoded[name] = encode(item, defaults=defaults)
        return encoded
    if isinstance(value, Mapping):
        return {_encode_key(key): encode(item, defaults=defaults) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [encode(item, defaults=defaults) for item in value]
    raise TypeError(f"value must be made of dataclasses and plain data, got {value!r}")


def _encode_key(key: object) -> str:
    plain = encode(key)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        return repr(plain)
    raise TypeError(f"keys must be text or numbers, got {key!r}")


def _is_default(item: Any, default: Any) -> bool:
    if isinstance(item, np.ndarray) or isinstance(default, np.ndarray):
        return np.array_equal(item, default)
    return default is not MISSING and bool(item == default)


class DecodeError(ValueError):
    """Error for plain data that does not match a type hint.

    ``path`` leads to the offending value inside the decoded one, ``problem`` is the message without
    it, and ``errors`` are those that this one joins (by default itself). Data of another shape than
    the hint takes has a ``requirement``, which says what shape that is.
    """

    requirement = ""

    def __init__(
        self, message: str, path: _Path = (), problem: str = "", errors: Sequence[DecodeError] = ()
    ) -> None:
        super().__init__(message)
        self.path = path
        self.problem = problem
        self.errors = tuple(errors) or (self,)

    @staticmethod
    def joined(errors: Sequence[DecodeError]) -> DecodeError:
        """Return one error for several, in one line; its path is that of the first."""
        first, *others = (one for error in errors for one in error.errors)
        if not others:
            return first
        message = "; ".join(str(one) for one in (first, *others))
        return DecodeError(message, first.path, first.problem, (first, *others))

    @staticmethod
    def at(name: str, path: _Path, problem: str, separator: str = " ") -> DecodeError:
        """Return the error for a value inside the one called ``name``, which may be empty."""
        where = name
        for part in path:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
        return DecodeError(f"{where or 'value'}{separator}{problem}", path, problem)


def decode(hint: Any, plain: Any, name: str = "", *, given: Mapping[str, Any] | None = None) -> Any:
    """Return the value that plain data describes, by a type hint; the inverse of `encode`.

    A value that already has the hinted class is returned unchanged. ``given`` are fields of a
    dataclass that come from elsewhere; ``plain`` must not hold them. Raises `DecodeError`, whose
    message begins with ``name`` and the path of the value: ``"settings[0].mechanism.steps must be a
    whole number, got 'x'"``.
    """
    place = _Place(name)
    return place.decode(hint, plain) if given is None else place.of_dataclass(hint, plain, given)


@dataclasses.dataclass(frozen=True)
class _Place:
    """A place in the plain data of one call of `decode`, with the name of all data in messages."""

    name: str
    path: _Path = ()

    def inside(self, key: str | int) -> _Place:
        return _Place(self.name, (*self.path, key))

    def wrong(self, problem: str, separator: str = " ") -> DecodeError:
        return DecodeError.at(self.name, self.path, problem, separator)

    def error(self, requirement: str, plain: Any, hint: str = "") -> DecodeError:
        return self.wrong(f"must be {requirement}, got {shown(plain)}{hint}")

    def misfit(self, requirement: str, plain: Any) -> DecodeError:
        error = self.error(requirement, plain)
        error.requirement = requirement
        return error

    def no_choice(self, choices: Iterable[Any], plain: Any) -> DecodeError:
        words = [str(choice) for choice in choices]
        requirement = f"one of {', '.join(words)}"
        if not isinstance(plain, (str, *{type(choice) for choice in choices})):
            return self.misfit(requirement, plain)
        return self.error(requirement, plain, did_you_mean(plain, words))

    def decode(self, hint: Any, plain: Any) -> Any:
        """Return the value that plain data stand for; each form of hints has its method."""
        return getattr(self, f"of_{form(hint)}")(hint, plain)

    def of_any(self, hint: Any, plain: Any) -> Any:
        return plain

    def of_checked(self, hint: Any, plain: Any) -> Any:
        """Return a value that a function accepts; the path replaces the name in its error."""
        inner, check = get_args(hint)
        value = self.decode(inner, plain)
        try:
            check(value)
        except ValueError as error:
            raise self.wrong(str(error).partition(" ")[2]) from error
        return value

    def of_simple(self, hint: Any, plain: Any) -> Any:
        if type(plain) is hint:
            return plain
        if hint is float and isinstance(plain, str) and plain in NOT_FINITE:
            return NOT_FINITE[plain]
        whole = hint is int and isinstance(plain, float) and plain.is_integer()
        if not whole and not SIMPLE[hint].fits(plain):
            raise self.misfit(SIMPLE[hint].words, plain)
        try:
            return None if plain is None else hint(plain)
        except OverflowError:
            raise self.error(SIMPLE[hint].words, plain) from None

    def of_literal(self, hint: Any, plain: Any) -> Any:
        choices = get_args(hint)
        for choice in choices:
            if type(choice) is type(plain) and choice == plain:
                return choice
        raise self.no_choice(choices, plain)

    def of_enum(self, hint: type[enum.Enum], plain: Any) -> enum.Enum:
        if isinstance(plain, hint):
            return plain
        for member in hint:
            if plain == member.value and isinstance(plain, bool) == isinstance(member.value, bool):
                return member
        if isinstance(plain, str):
            for member in hint:
                if spelling(plain) in (spelling(str(member.value)), spelling(member.name)):
                    return member
        raise self.no_choice([member.value for member in hint], plain)

    def of_list(self, hint: Any, plain: Any) -> Any:
        if not isinstance(plain, Sequence) or isinstance(plain, str):
            raise self.misfit("a list", plain)
        origin, args = get_origin(hint) or hint, get_args(hint)
        if origin is tuple and args and args[-1] is not Ellipsis:
            if len(args) != len(plain):
                raise self.error(f"a list of {len(args)}", plain)
            hints = args
        else:
            hints = (args[0] if args else Any,) * len(plain)
        found = self.each((i, hints[i], item) for i, item in enumerate(plain)).values()
        return [*found] if origin is list else tuple(found)

    def each(
        self, parts: Iterable[tuple[Any, Any, Any]], errors: Iterable[DecodeError] = ()
    ) -> dict[Any, Any]:
        """Return values by key, from keys, hints and plain data; all errors are raised together."""
        wrong, values = [*errors], {}
        for key, hint, plain in parts:
            if len(wrong) >= _MAX_ERRORS:
                break
            try:
                values[key] = self.inside(key).decode(hint, plain)
            except DecodeError as error:
                wrong.append(error)
        if wrong:
            raise DecodeError.joined(wrong)
        return values

    def of_mapping(self, hint: Any, plain: Any) -> Any:
        if not isinstance(plain, Mapping):
            raise self.misfit("a mapping", plain)
        key_hint, item_hint = get_args(hint) or (str, Any)
        keys = {str(key): self.key(key_hint, key) for key in plain}
        found = self.each((str(key), item_hint, item) for key, item in plain.items())
        return {keys[key]: value for key, value in found.items()}

    def key(self, hint: Any, key: Any) -> Any:
        place, kind = self.inside(str(key)), get_args(hint)[0] if form(hint) == "checked" else hint
        if kind in (int, float) and isinstance(key, str):
            try:
                key = kind(key)
            except ValueError:
                requirement = f"a mapping whose keys are {SIMPLE[kind].words[2:]}s"
                raise self.error(requirement, key) from None
        return place.decode(hint, key)

    def of_union(self, union: Any, plain: Any) -> Any:
        hints = get_args(union)
        if isinstance(plain, bool | int | float | None) and type(plain) in hints:
            return plain
        classes = [hint for hint in hints if form(hint) == "dataclass"]
        if len(classes) > 1 and isinstance(plain, Mapping):
            return self.tagged(classes, plain)
        errors: dict[Any, DecodeError] = {}
        for hint in sorted(hints, key=lambda hint: _WIDE_HINTS.get(hint, 0)):
            try:
                return self.decode(hint, plain)
            except DecodeError as error:
                errors[hint] = error
        in_order = [errors[hint] for hint in hints]
        for wrong in in_order:
            if not wrong.requirement or wrong.path != self.path:
                raise wrong
        raise self.misfit(" or ".join(wrong.requirement for wrong in in_order), plain)

    def tagged(self, classes: Sequence[type], plain: Mapping[Any, Any]) -> Any:
        by_kind = {kind_of(cls): cls for cls in classes}
        if len(by_kind) < len(classes):
            names = ", ".join(cls.__name__ for cls in classes)
            raise TypeError(f"classes of a union must have different kinds, got {names}")
        kinds = [kind for kind in by_kind if kind is not None]
        if "kind" in plain and plain["kind"] not in kinds:
            raise self.inside("kind").no_choice(kinds, plain["kind"])
        if "kind" not in plain and None not in by_kind:
            raise self.inside("kind").wrong(f"must be one of {', '.join(kinds)}, got nothing")
        return self.of_dataclass(by_kind[plain.get("kind")], plain)

    def of_dataclass(self, cls: type, plain: Any, given: Mapping[str, Any] = _NOTHING) -> Any:
        if isinstance(plain, cls):
            return plain
        noun, kind = with_article(cls.__name__), kind_of(cls)
        if hasattr(cls, "expand_shorthand"):
            plain = self.constructed(cls, lambda: cls.expand_shorthand(plain))
        if not isinstance(plain, Mapping):
            raise self.misfit(f"a mapping with the fields of {noun}", plain)
        fields = {name: f for name, f in init_fields(cls).items() if name not in given}
        errors: list[DecodeError] = []
        for key, item in plain.items():
            if key == "kind" and kind is not None:
                if item != kind:
                    raise self.inside("kind").error(kind, item)
            elif key not in fields:
                close = did_you_mean(key, fields) or f"; known are {', '.join(fields) or 'none'}"
                errors.append(self.inside(str(key)).error(f"left out of {noun}", item, close))
        missing = [n for n, f in fields.items() if n not in plain and default_of(f) is MISSING]
        if missing and not errors:  # one that is misspelt would be told twice
            place = self.inside(", ".join(missing))
            errors.append(place.wrong(f"must be given for {noun}, got nothing"))
        parts = ((name, hints_of(cls)[name], plain[name]) for name in fields if name in plain)
        values = self.each(parts, errors)
        return self.constructed(cls, lambda: cls(**given, **values))

    def constructed(self, cls: type, make: Callable[[], Any]) -> Any:
        """Return ``make()``; prepend the path of the value to the message of a `ValueError`."""
        try:
            return make()
        except DecodeError:
            raise
        except ValueError as error:
            word, _, rest = str(error).partition(" ")
            if rest and word.partition(".")[0] in init_fields(cls):
                parts = (*self.path, *word.split("."))
                raise DecodeError.at(self.name, parts, rest) from error
            if not self.path and not self.name:
                raise
            raise self.wrong(str(error), ": ") from error
