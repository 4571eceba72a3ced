"""Parts of claims files: plain data with its lines; every error has its file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from audit import codec
from audit.codec.hints import did_you_mean
from audit.codec.yaml_text import Lines, YamlError, read_yaml
from audit.validate import shown

_Value = TypeVar("_Value")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class Location:
    """A file and a line, for messages."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class InputError:
    """An error in a claims file and its place; ``line`` is None for the file as a whole."""

    file: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class InvalidInput(ValueError):
    """A part of a claims file cannot be read; the text has one line per complaint."""

    def __init__(self, *complaints: InputError) -> None:
        super().__init__("\n".join(str(complaint) for complaint in complaints))
        self.complaints = complaints


class InputErrors(list[InputError]):
    """Errors of parts that are read one after the other."""

    def tried(
        self, read: Callable[_Arguments, _Value], *args: _Arguments.args, **keys: _Arguments.kwargs
    ) -> _Value | None:
        """Return what a function reads; None if it is broken, whose complaints are added."""
        try:
            return read(*args, **keys)
        except InvalidInput as error:
            self.extend(error.complaints)
            return None


def invalid(location: Location, message: str) -> InvalidInput:
    """Return the error of one complaint; line breaks in ``message`` become spaces."""
    return InvalidInput(InputError(location.file, location.line, " ".join(message.split())))


@dataclass(frozen=True)
class Part:
    """A value in a claims file, as plain data, with the lines of its parts."""

    file: Path
    value: Any
    lines: Lines

    @property
    def location(self) -> Location:
        """Beginning of the value."""
        return Location(self.file, self.lines.line)

    def bad(self, name: str, requirement: str) -> InvalidInput:
        """Return the error of a wrong value: ``name must be requirement, got value``."""
        match self.value:
            case list():
                got = "a list" if self.value else "an empty list"
            case dict():
                got = "a mapping"
            case _:
                got = "nothing" if self.value is None else shown(self.value)
        return invalid(self.location, f"{name} must be {requirement}, got {got}")

    def fields(
        self,
        name: str,
        allowed: Iterable[str] | None = None,
        complaints: list[InputError] | None = None,
    ) -> dict[str, Part]:
        """Return the values of a mapping by key.

        A key that is not ``allowed`` is an error: it is raised, or added to ``complaints``.
        """
        if not isinstance(self.value, dict):
            raise self.bad(name, "a mapping")
        known = None if allowed is None else list(allowed)
        found: dict[str, Part] = {}
        wrong: list[InputError] = []
        for key, value in self.value.items():
            line, lines = self.lines.of(key)
            if isinstance(key, str) and (known is None or key in known):
                found[key] = Part(self.file, value, lines)
                continue
            problem = f"a key of {name} must be a word, got {shown(key)}"
            if known is not None and isinstance(key, str):
                hint = did_you_mean(key, known) or f"; known: {', '.join(known)}"
                problem = f"unknown key {shown(key)} in {name}{hint}"
            wrong.extend(invalid(Location(self.file, line), problem).complaints)
        if complaints is not None:
            complaints.extend(wrong)
        elif wrong:
            raise InvalidInput(*wrong)
        return found

    def items(self, name: str) -> tuple[Part, ...]:
        """Return the values of a list that must not be empty."""
        if not isinstance(self.value, list) or not self.value:
            raise self.bad(name, "a list with at least one entry")
        of = self.lines.of
        return tuple(Part(self.file, one, of(index)[1]) for index, one in enumerate(self.value))

    def text(self, name: str) -> str:
        """Return a text that must not be empty."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.bad(name, "a text")
        return self.value

    def moved(self, location: Location) -> Part:
        """Return the value as if it was written at ``location``.

        Errors then name the place that uses a value, not the place that it was taken from.
        """
        return Part(location.file, self.value, Lines(location.line))

    def decode(self, hint: Any, name: str = "") -> Any:
        """Return the typed value, by the hints of `audit.codec`; every error is a complaint."""
        return self.decoded(lambda plain: codec.decode(hint, plain, name))

    def decoded(self, make: Callable[[Any], _Value]) -> _Value:
        """Return the value that ``make`` builds from the plain data; raises like `decode`."""
        try:
            return make(self.value)
        except codec.DecodeError as error:
            places = [Location(self.file, self.lines.at(one.path)) for one in error.errors]
            each = map(invalid, places, map(str, error.errors))
            raise InvalidInput(*(one for wrong in each for one in wrong.complaints)) from None
        except ValueError as error:
            raise invalid(self.location, str(error)) from None


Fields = Mapping[str, Part]


def joined(fields: Fields, location: Location) -> Part:
    """Return a mapping of some fields."""
    parts = {key: (part.lines.line, part.lines) for key, part in fields.items()}
    values = {key: part.value for key, part in fields.items()}
    return Part(location.file, values, Lines(location.line, parts))


def read_part(path: Path) -> Part:
    """Read a YAML file."""
    try:
        return Part(path, *read_yaml(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise InvalidInput(InputError(path, None, f"cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise invalid(Location(path, line), "must be UTF-8 text") from None
    except YamlError as error:
        raise invalid(Location(path, error.line), str(error)) from None
