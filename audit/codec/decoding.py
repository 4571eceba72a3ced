"""Decoding: plain data to values. Every error names the path of the offending value."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

from audit.codec.hints import (
    MISSING,
    NOT_FINITE,
    SIMPLE,
    Form,
    default_of,
    did_you_mean,
    form,
    hints_of,
    init_fields,
    kind_of,
    spelling,
)
from audit.validate import shown, with_article

_Path = tuple[str | int, ...]
_MAX_ERRORS = 8  # errors listed for one value
# Hints of a union that are tried after all others, in this order.
_WIDE_HINTS = {float: 1, object: 2, Any: 2, str: 3}


class DecodeError(ValueError):
    """Error for plain data that does not match a type hint.

    ``path`` leads to the offending value inside the decoded one, ``problem`` is the message without
    it, and ``errors`` are those that this one joins (by default itself). Data of another shape than
    the hint takes has a ``requirement``, which says what shape that is.
    """

    requirement = ""

    def __init__(
        self,
        message: str,
        path: _Path = (),
        problem: str = "",
        errors: Sequence[DecodeError] = (),
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
    return _Decoder(name).decode(hint, plain, (), given or {})


class _Decoder:
    """One call of `decode`, with the name of the value in messages."""

    def __init__(self, name: str) -> None:
        self.name = name

    def error(self, path: _Path, requirement: str, plain: Any, hint: str = "") -> DecodeError:
        return DecodeError.at(self.name, path, f"must be {requirement}, got {shown(plain)}{hint}")

    def misfit(self, path: _Path, requirement: str, plain: Any) -> DecodeError:
        error = self.error(path, requirement, plain)
        error.requirement = requirement
        return error

    def decode(self, hint: Any, plain: Any, path: _Path, given: Mapping[str, Any]) -> Any:
        match form(hint):
            case Form.ANY:
                return plain
            case Form.SIMPLE:
                return self.decode_simple(hint, plain, path)
            case Form.CHECKED:
                return self.decode_checked(hint, plain, path)
            case Form.UNION:
                return self.decode_union(get_args(hint), plain, path)
            case Form.LITERAL:
                return self.decode_literal(get_args(hint), plain, path)
            case Form.DATACLASS:
                return self.decode_dataclass(hint, plain, path, given)
            case Form.ENUM:
                return self.decode_enum(hint, plain, path)
            case Form.MAPPING:
                return self.decode_mapping(hint, plain, path)
            case Form.LIST:
                return self.decode_list(hint, plain, path)

    def decode_checked(self, hint: Any, plain: Any, path: _Path) -> Any:
        """Return a value that a function accepts; the path replaces the name in its error."""
        inner, check = get_args(hint)
        value = self.decode(inner, plain, path, {})
        try:
            check(value)
        except ValueError as error:
            problem = str(error).partition(" ")[2]
            raise DecodeError.at(self.name, path, problem) from error
        return value

    def decode_simple(self, hint: Any, plain: Any, path: _Path) -> Any:
        if type(plain) is hint:
            return plain
        whole = hint is int and isinstance(plain, float) and plain.is_integer()
        if not whole and not SIMPLE[hint].fits(plain):
            raise self.misfit(path, SIMPLE[hint].words, plain)
        if hint in (None, types.NoneType):
            return None
        if hint is float and isinstance(plain, str):
            return NOT_FINITE[plain]
        try:
            return hint(plain)
        except OverflowError:
            raise self.error(path, SIMPLE[hint].words, plain) from None

    def decode_literal(self, choices: tuple[Any, ...], plain: Any, path: _Path) -> Any:
        for choice in choices:
            if type(choice) is type(plain) and choice == plain:
                return choice
        raise self.no_choice(path, choices, plain)

    def decode_enum(self, hint: type[enum.Enum], plain: Any, path: _Path) -> enum.Enum:
        if isinstance(plain, hint):
            return plain
        for member in hint:
            if plain == member.value and isinstance(plain, bool) == isinstance(member.value, bool):
                return member
        if isinstance(plain, str):
            for member in hint:
                if spelling(plain) in (spelling(str(member.value)), spelling(member.name)):
                    return member
        raise self.no_choice(path, [member.value for member in hint], plain)

    def no_choice(self, path: _Path, choices: Sequence[Any], plain: Any) -> DecodeError:
        words = [str(choice) for choice in choices]
        requirement = f"one of {', '.join(words)}"
        if not isinstance(plain, (str, *{type(choice) for choice in choices})):
            return self.misfit(path, requirement, plain)
        return self.error(path, requirement, plain, did_you_mean(plain, words))

    def decode_list(self, hint: Any, plain: Any, path: _Path) -> Any:
        if not isinstance(plain, Sequence) or isinstance(plain, str):
            raise self.misfit(path, "a list", plain)
        origin, args = get_origin(hint) or hint, get_args(hint)
        if origin is tuple and args and args[-1] is not Ellipsis:
            if len(args) != len(plain):
                raise self.error(path, f"a list of {len(args)}", plain)
            hints = args
        else:
            hints = (args[0] if args else Any,) * len(plain)
        found = self.decode_each(((i, hints[i], item) for i, item in enumerate(plain)), path)
        return list(found.values()) if origin is list else tuple(found.values())

    def decode_each(
        self, parts: Iterable[tuple[Any, Any, Any]], path: _Path, errors: Sequence[DecodeError] = ()
    ) -> dict[Any, Any]:
        """Return values by key, from keys, hints and plain data; all errors are raised together."""
        wrong, values = list(errors), {}
        for key, hint, plain in parts:
            if len(wrong) >= _MAX_ERRORS:
                break
            try:
                values[key] = self.decode(hint, plain, (*path, key), {})
            except DecodeError as error:
                wrong.append(error)
        if wrong:
            raise DecodeError.joined(wrong)
        return values

    def decode_mapping(self, hint: Any, plain: Any, path: _Path) -> Any:
        if not isinstance(plain, Mapping):
            raise self.misfit(path, "a mapping", plain)
        key_hint, item_hint = get_args(hint) or (str, Any)
        keys = {str(key): self.decode_key(key_hint, key, path) for key in plain}
        found = self.decode_each(((str(k), item_hint, item) for k, item in plain.items()), path)
        return {keys[key]: value for key, value in found.items()}

    def decode_key(self, hint: Any, key: Any, path: _Path) -> Any:
        place, kind = (*path, str(key)), get_args(hint)[0] if form(hint) is Form.CHECKED else hint
        if kind in (int, float) and isinstance(key, str):
            try:
                key = kind(key)
            except ValueError:
                requirement = f"a mapping whose keys are {SIMPLE[kind].words[2:]}s"
                raise self.error(path, requirement, key) from None
        return self.decode(hint, key, place, {})

    def decode_union(self, hints: tuple[Any, ...], plain: Any, path: _Path) -> Any:
        if isinstance(plain, bool | int | float | None) and type(plain) in hints:
            return plain
        classes = [hint for hint in hints if form(hint) is Form.DATACLASS]
        if len(classes) > 1 and isinstance(plain, Mapping):
            return self.decode_tagged(classes, plain, path)
        errors: dict[Any, DecodeError] = {}
        for hint in sorted(hints, key=lambda hint: _WIDE_HINTS.get(hint, 0)):
            try:
                return self.decode(hint, plain, path, {})
            except DecodeError as error:
                errors[hint] = error
        misfits: list[str] = []
        for hint in hints:
            wrong = errors[hint]
            if not wrong.requirement or wrong.path != path:
                raise wrong
            misfits.append(wrong.requirement)
        raise self.misfit(path, " or ".join(misfits), plain)

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
            fields_of = f"a mapping with the fields of {with_article(cls.__name__)}"
            raise self.misfit(path, fields_of, plain)
        fields = {name: f for name, f in init_fields(cls).items() if name not in given}
        errors: list[DecodeError] = []
        for key, item in plain.items():
            if key == "kind" and kind_of(cls) is not None:
                if item != kind_of(cls):
                    raise self.error((*path, "kind"), str(kind_of(cls)), item)
            elif key not in fields:
                requirement = f"left out of {with_article(cls.__name__)}"
                close = did_you_mean(key, fields) or f"; known are {', '.join(fields) or 'none'}"
                errors.append(self.error((*path, str(key)), requirement, item, close))
        missing = [n for n, f in fields.items() if n not in plain and default_of(f) is MISSING]
        if missing and not errors:  # one that is misspelt would be told twice
            problem = f"must be given for {with_article(cls.__name__)}, got nothing"
            errors.append(DecodeError.at(self.name, (*path, ", ".join(missing)), problem))
        hints = hints_of(cls)
        own = ((name, hints[name], plain[name]) for name in fields if name in plain)
        values = self.decode_each(own, path, errors)
        return self.constructed(path, cls, lambda: cls(**given, **values))

    def constructed(self, path: _Path, cls: type, make: Callable[[], Any]) -> Any:
        """Return ``make()``; prepend the path of the value to the message of a `ValueError`."""
        try:
            return make()
        except DecodeError:
            raise
        except ValueError as error:
            word, _, rest = str(error).partition(" ")
            field = word.partition(".")[0]
            if field in init_fields(cls) and rest:
                parts = tuple(word.split("."))
                raise DecodeError.at(self.name, (*path, *parts), rest) from error
            if not path and not self.name:
                raise
            raise DecodeError.at(self.name, path, str(error), ": ") from error
