"""YAML text as a tree that knows the line of everything in it.

Numbers are read as in YAML 1.2, where ``1e-5`` is a number and ``on`` is a word. No tag makes an
object: a claims file holds data only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from audit.claims.claim import Location


@dataclass(frozen=True)
class Complaint:
    """What is wrong in a claims file, and where; ``line`` is None for the file as a whole."""

    file: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class Broken(ValueError):
    """Part of a claims file cannot be read; its text has one line a complaint."""

    def __init__(self, *complaints: Complaint) -> None:
        super().__init__("\n".join(str(complaint) for complaint in complaints))
        self.complaints = complaints


def broken(location: Location, message: str) -> Broken:
    """Build the error of one complaint; line breaks in ``message`` become spaces."""
    return Broken(Complaint(location.file, location.line, " ".join(message.split())))


@dataclass(frozen=True)
class Scalar:
    """A number, a text, true or false, or nothing."""

    value: str | int | float | bool | None
    location: Location


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    location: Location


@dataclass(frozen=True)
class Pairs:
    """A mapping, in the order of the file; no key is there twice."""

    pairs: tuple[tuple[Scalar, Node], ...]
    location: Location


Node = Scalar | Items | Pairs

_STANDARD = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9](_?[0-9])*",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)"
    r"|\.(nan|NaN|NAN)",
}.items():
    _Loader.add_implicit_resolver(_STANDARD + _tag, re.compile(f"^(?:{_pattern})$"), None)


def parse(text: str, file: Path) -> Node:
    """Read YAML text.

    Parameters
    ----------
    text
        The content of a file with one document.
    file
        Its name, for complaints.

    Raises
    ------
    Broken
        If the text is no YAML, repeats a key, or has tags or circles that a claims file has no use
        for.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise broken(Location(file, line), f"not YAML: {reason}") from None
    except yaml.YAMLError as error:
        raise broken(Location(file, _line_of(error, text)), f"not YAML: {error}") from None
    except RecursionError:
        raise broken(Location(file, 1), "not readable: nested too deeply") from None
    if root is None:
        return Scalar(None, Location(file, 1))
    return _Converter(file).node(root)


def _line_of(error: yaml.YAMLError, text: str) -> int:
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 1


class _Converter:
    """Turns PyYAML's nodes into ours; aliases of one node become one node."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def node(self, source: yaml.Node) -> Node:
        key = id(source)
        if key in self._done:
            return self._done[key]
        location = Location(self._file, source.start_mark.line + 1)
        if key in self._open:
            raise broken(location, "an alias must not stand inside what it names")
        self._open.add(key)
        made = self._make(source, location)
        self._open.discard(key)
        self._done[key] = made
        return made

    def _make(self, source: yaml.Node, location: Location) -> Node:
        if isinstance(source, yaml.MappingNode):
            self._check_tag(source, location, "map")
            return Pairs(self._pairs(source), location)
        if isinstance(source, yaml.SequenceNode):
            self._check_tag(source, location, "seq")
            return Items(tuple(self.node(item) for item in source.value), location)
        return Scalar(_scalar(source, location), location)

    def _check_tag(self, source: yaml.Node, location: Location, name: str) -> None:
        if source.tag != _STANDARD + name:
            raise broken(location, f"tags must be left out, got {source.tag!r}")

    def _pairs(self, source: yaml.MappingNode) -> tuple[tuple[Scalar, Node], ...]:
        pairs: list[tuple[Scalar, Node]] = []
        seen: dict[object, int] = {}
        for key_source, value_source in source.value:
            key = self.node(key_source)
            if not isinstance(key, Scalar):
                raise broken(key.location, "a key must be a word or a number")
            if key.value in seen:
                first = seen[key.value]
                raise broken(
                    key.location, f"key {key.value!r} is here twice, first on line {first}"
                )
            seen[key.value] = key.location.line
            pairs.append((key, self.node(value_source)))
        return tuple(pairs)


def _scalar(source: yaml.Node, location: Location) -> str | int | float | bool | None:
    text = str(source.value)
    kind = source.tag.removeprefix(_STANDARD)
    if kind == "str":
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(re.sub(r"^([-+]?)\.(inf|nan)$", r"\1\2", text.lower()))
    except ValueError:
        raise broken(location, f"not readable as a number: {text[:40]!r}") from None
    raise broken(location, f"tags must be left out, got {source.tag!r}")
