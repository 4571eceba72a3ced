"""YAML text as a tree that stores the line of every value.

Numbers are read as in YAML 1.2, where ``1e-5`` is a number and ``on`` is a word. Tags create no
objects: a claims file holds data only. `decode` converts a part of the tree to typed values with
`audit.codec`, and adds the file and the line to every error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from audit import codec
from audit.codec.hints import did_you_mean
from audit.validate import shown

_Value = TypeVar("_Value")

_MOST_PARTS = 1_000_000


@dataclass(frozen=True)
class Location:
    """A file and a line, for messages."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Complaint:
    """An error in a claims file and its place; ``line`` is None for the file as a whole."""

    file: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class Broken(ValueError):
    """A part of a claims file cannot be read; the text has one line per complaint."""

    def __init__(self, *complaints: Complaint) -> None:
        super().__init__("\n".join(str(complaint) for complaint in complaints))
        self.complaints = complaints


def broken(location: Location, message: str) -> Broken:
    """Return the error of one complaint; line breaks in ``message`` become spaces."""
    return Broken(Complaint(location.file, location.line, " ".join(message.split())))


@dataclass(frozen=True)
class Scalar:
    """A number, a text, true, false or null."""

    value: str | int | float | bool | None
    location: Location


@dataclass(frozen=True)
class ListNode:
    """A list."""

    items: tuple[Node, ...]
    location: Location


@dataclass(frozen=True)
class MappingNode:
    """A mapping, in the order of the file; keys are unique."""

    entries: tuple[tuple[Scalar, Node], ...]
    location: Location


Node = Scalar | ListNode | MappingNode
Fields = Mapping[str, Node]


def is_nothing(node: Node | None) -> bool:
    """Whether a node is missing or null."""
    return node is None or (isinstance(node, Scalar) and node.value is None)


# checks of single nodes


def bad(name: str, requirement: str, node: Node) -> Broken:
    """Return the error of one wrong value: ``name must be requirement, got value``."""
    return broken(node.location, f"{name} must be {requirement}, got {_shown(node)}")


def fields(
    name: str,
    node: Node,
    allowed: Iterable[str] | None = None,
    complaints: list[Complaint] | None = None,
) -> dict[str, Node]:
    """Return the values of a mapping by key.

    A key that is not ``allowed`` is an error: it is raised, or added to ``complaints`` if given.
    """
    if not isinstance(node, MappingNode):
        raise bad(name, "a mapping", node)
    known = None if allowed is None else list(allowed)
    found: dict[str, Node] = {}
    wrong_keys: list[Complaint] = []
    for key, value in node.entries:
        if not isinstance(key.value, str):
            wrong = f"a key of {name} must be a word, got {_shown(key)}"
            wrong_keys.extend(broken(key.location, wrong).complaints)
        elif known is not None and key.value not in known:
            hint = did_you_mean(key.value, known) or f"; known: {', '.join(known)}"
            wrong = f"unknown key {shown(key.value)} in {name}{hint}"
            wrong_keys.extend(broken(key.location, wrong).complaints)
        else:
            found[key.value] = value
    if complaints is not None:
        complaints.extend(wrong_keys)
    elif wrong_keys:
        raise Broken(*wrong_keys)
    return found


def needed(name: str, key: str, found: Fields, location: Location) -> Node:
    """Return the value of a required key."""
    if key not in found:
        raise broken(location, f"{name} needs {key!r}")
    return found[key]


def items(name: str, node: Node) -> tuple[Node, ...]:
    """Return the values of a list that must not be empty."""
    if not isinstance(node, ListNode) or not node.items:
        raise bad(name, "a list with at least one entry", node)
    return node.items


def text(name: str, node: Node) -> str:
    """Return a text that must not be empty."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value.strip():
        raise bad(name, "a text", node)
    return node.value


def _shown(node: Node) -> str:
    if isinstance(node, ListNode):
        return "a list" if node.items else "an empty list"
    if isinstance(node, MappingNode):
        return "a mapping"
    return "nothing" if node.value is None else shown(node.value)


# typed values


def mapping(found: Fields, location: Location) -> MappingNode:
    """Return a mapping of some fields."""
    return MappingNode(
        tuple((Scalar(name, node.location), node) for name, node in found.items()), location
    )


def moved(node: Node, location: Location) -> Node:
    """Return the node as if it and its own entries were written at ``location``.

    Errors then name the place that uses a value, not the place that it was taken from.
    """
    if isinstance(node, MappingNode):
        entries = (
            (replace(key, location=location), replace(value, location=location))
            for key, value in node.entries
        )
        return MappingNode(tuple(entries), location)
    return replace(node, location=location)


def plain(node: Node) -> Any:
    """Return the node as plain data: dictionaries, lists, texts and numbers."""
    if _size(node, {}) > _MOST_PARTS:
        raise broken(node.location, f"aliases must leave at most {_MOST_PARTS} values")
    return _plain(node)


def _plain(node: Node) -> Any:
    if isinstance(node, ListNode):
        return [_plain(item) for item in node.items]
    if isinstance(node, MappingNode):
        return {key.value: _plain(value) for key, value in node.entries}
    return node.value


def _size(node: Node, done: dict[int, int]) -> int:
    """Return the number of values of a node, where each alias counts as often as it is used."""
    if isinstance(node, Scalar):
        return 1
    if id(node) not in done:
        parts = node.items if isinstance(node, ListNode) else [value for _, value in node.entries]
        done[id(node)] = 1 + sum(_size(part, done) for part in parts)
    return done[id(node)]


def decode(hint: Any, node: Node, name: str = "") -> Any:
    """Return the typed value of a node, by the hints of `audit.codec`."""
    return decoded(node, lambda data: codec.decode(hint, data, name))


def decoded(node: Node, make: Callable[[Any], _Value]) -> _Value:
    """Return the value that ``make`` builds from the node's plain data; raises like `decode`."""
    try:
        return make(plain(node))
    except codec.DecodeError as error:
        raise broken(_place(node, error.path), str(error)) from None
    except ValueError as error:
        raise broken(node.location, str(error)) from None


def _place(node: Node, path: tuple[str | int, ...]) -> Location:
    """Return the location of the last part of a path that exists."""
    location = node.location
    for part in path:
        if isinstance(node, ListNode) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            location = node.location
        elif isinstance(node, MappingNode):
            at = [(key, value) for key, value in node.entries if str(key.value) == str(part)]
            if not at:
                break
            ((key, node),) = at
            location = node.location if isinstance(node, Scalar) else key.location
        else:
            break
    return location


# YAML


_STANDARD = "tag:yaml.org,2002:"
_MERGE = "<<"  # of YAML 1.1: merges the entries of its value


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


def parse(content: str, file: Path) -> Node:
    """Read YAML text."""
    try:
        root = yaml.compose(content, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise broken(Location(file, line), f"not YAML: {reason}") from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        line = content.count("\n", 0, position) + 1 if isinstance(position, int) else 1
        raise broken(Location(file, line), f"not YAML: {error}") from None
    except RecursionError:
        raise broken(Location(file, 1), "not readable: nested too deeply") from None
    if root is None:
        return Scalar(None, Location(file, 1))
    return _Converter(file).node(root)


class _Converter:
    """Converts PyYAML's nodes to ours; aliases of one node become one node."""

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
            raise broken(location, "an alias must not be inside the value that it names")
        self._open.add(key)
        made = self._make(source, location)
        self._open.discard(key)
        self._done[key] = made
        return made

    def _make(self, source: yaml.Node, location: Location) -> Node:
        if isinstance(source, yaml.MappingNode):
            self._check_tag(source, location, "map")
            return MappingNode(self._entries(source), location)
        if isinstance(source, yaml.SequenceNode):
            self._check_tag(source, location, "seq")
            return ListNode(tuple(self.node(item) for item in source.value), location)
        return Scalar(_scalar(source, location), location)

    def _check_tag(self, source: yaml.Node, location: Location, name: str) -> None:
        if source.tag != _STANDARD + name:
            raise broken(location, f"tags must be left out, got {shown(source.tag)}")

    def _entries(self, source: yaml.MappingNode) -> tuple[tuple[Scalar, Node], ...]:
        entries: list[tuple[Scalar, Node]] = []
        merged: list[tuple[Scalar, Node]] = []
        seen: dict[object, int] = {}
        for key_source, value_source in source.value:
            key = self.node(key_source)
            if not isinstance(key, Scalar):
                raise broken(key.location, "a key must be a word or a number")
            if key.value in seen:
                first = seen[key.value]
                raise broken(
                    key.location, f"key {shown(key.value)} is repeated, first on line {first}"
                )
            seen[key.value] = key.location.line
            value = self.node(value_source)
            if key.value == _MERGE and key_source.style is None:
                merged += _merged(value)
            else:
                entries.append((key, value))
        for key, value in merged:  # own keys come first, then earlier mappings
            if key.value not in seen:
                seen[key.value] = key.location.line
                entries.append((key, value))
        return tuple(entries)


def _merged(node: Node) -> Iterator[tuple[Scalar, Node]]:
    """Yield the entries that ``<<`` merges from a mapping, or from each of a list of mappings."""
    for mapped in node.items if isinstance(node, ListNode) else (node,):
        if not isinstance(mapped, MappingNode):
            raise bad(_MERGE, "a mapping or a list of mappings", mapped)
        yield from mapped.entries


def _scalar(source: yaml.Node, location: Location) -> str | int | float | bool | None:
    written = str(source.value)
    kind = source.tag.removeprefix(_STANDARD)
    if kind == "str":
        return written
    if kind == "null":
        return None
    if kind == "bool" and written.lower() in ("true", "false"):
        return written.lower() == "true"
    try:
        if kind == "int":
            return int(written)
        if kind == "float":
            return float(re.sub(r"^([-+]?)\.(inf|nan)$", r"\1\2", written.lower()))
    except ValueError:
        raise broken(location, f"not readable as a number: {written[:40]!r}") from None
    raise broken(location, f"tags must be left out, got {shown(source.tag)}")
