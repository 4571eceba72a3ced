"""YAML text as plain data, with the line of every part.

Numbers are read as in YAML 1.2, where ``1e-5`` is a number and ``on`` is a word. Tags create no
objects: a file holds data only. Keys are unique, and ``<<`` merges the entries of its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from audit.validate import shown

_STANDARD = "tag:yaml.org,2002:"
_MERGE = "<<"  # a merge key of YAML 1.1
_MAX_VALUES = 1_000_000


@dataclass(frozen=True)
class Lines:
    """The lines of a value and of its parts, from 1."""

    line: int  #: Where the value begins.
    #: By key or index, where the key or item begins, and the lines of its value.
    parts: Mapping[Any, tuple[int, Lines]] = field(default_factory=dict)
    size: int = 1  #: The number of values, where each alias counts as often as it is used.

    def of(self, key: Any) -> tuple[int, Lines]:
        """Return the lines of a part; those of the whole if the part is none of its own."""
        return self.parts.get(key, (self.line, Lines(self.line)))

    def at(self, path: tuple[str | int, ...]) -> int:
        """Return the line of the last part of a path that exists."""
        line, lines = self.line, self
        for part in path:
            names = {str(key): key for key in lines.parts}
            if str(part) not in names:
                break
            line, lines = lines.parts[names[str(part)]]
        return line if lines.parts else lines.line


class YamlError(ValueError):
    """Error for text that is not the YAML that is read here."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


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


def read_yaml(text: str) -> tuple[Any, Lines]:
    """Return YAML text as plain data, and the lines of its parts; raises `YamlError`."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(f"not YAML: {reason}", mark.line + 1 if mark else 1) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
        raise YamlError(f"not YAML: {error}", line) from None
    except RecursionError:
        raise YamlError("not readable: nested too deeply", 1) from None
    return (None, Lines(1)) if root is None else _YamlReader().read(root)


class _YamlReader:
    """Reads the nodes of PyYAML; aliases of one node are one value."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Lines]] = {}
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> tuple[Any, Lines]:
        """Return the plain data of a node, and its lines."""
        line, key = _line(node), id(node)
        if key in self._open:
            raise YamlError("an alias must not be inside the value that it names", line)
        if key not in self._done:
            self._open.add(key)
            self._done[key] = made = self._made(node, line)
            self._open.discard(key)
            if made[1].size > _MAX_VALUES:
                raise YamlError(f"aliases must leave at most {_MAX_VALUES} values", line)
        return self._done[key]

    def _made(self, node: yaml.Node, line: int) -> tuple[Any, Lines]:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, line), Lines(line)
        values: Any
        parts: dict[Any, tuple[int, Lines]]
        if isinstance(node, yaml.MappingNode):
            _check_tag(node, "map")
            values, parts = self._entries(node)
        else:
            _check_tag(node, "seq")
            items = [self.read(item) for item in node.value]
            values = [value for value, _ in items]
            parts = {index: (lines.line, lines) for index, (_, lines) in enumerate(items)}
        return values, Lines(line, parts, 1 + sum(lines.size for _, lines in parts.values()))

    def _entries(self, node: yaml.MappingNode) -> tuple[dict[Any, Any], dict[Any, Any]]:
        values: dict[Any, Any] = {}
        parts: dict[Any, tuple[int, Lines]] = {}
        merged: list[tuple[dict[Any, Any], Lines]] = []
        seen: dict[Any, int] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError("a key must be a word or a number", line)
            key, _ = self.read(key_node)
            if key in seen:
                raise YamlError(f"key {shown(key)} is repeated, first on line {seen[key]}", line)
            seen[key] = line
            value, lines = self.read(value_node)
            if key == _MERGE and key_node.style is None:
                merged += _mappings(value, lines)
            else:
                values[key], parts[key] = value, (line, lines)
        for more, lines in merged:  # own keys come first, then earlier mappings
            for key, value in more.items():
                parts.setdefault(key, lines.parts[key])
                values.setdefault(key, value)
        return values, parts


def _mappings(value: Any, lines: Lines) -> list[tuple[dict[Any, Any], Lines]]:
    """Return what ``<<`` merges: a mapping, or each of a list of mappings."""
    found = [(value, lines)]
    if isinstance(value, list):
        found = [(one, lines.parts[index][1]) for index, one in enumerate(value)]
    for one, where in found:
        if not isinstance(one, dict):
            got = "a list" if isinstance(one, list) else shown(one)
            wanted = "must be a mapping or a list of mappings"
            raise YamlError(f"{_MERGE} {wanted}, got {got}", where.line)
    return found


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _check_tag(node: yaml.Node, name: str) -> None:
    if node.tag != _STANDARD + name:
        raise YamlError(f"tags must be left out, got {shown(node.tag)}", _line(node))


def _scalar(node: yaml.ScalarNode, line: int) -> str | int | float | bool | None:
    written, kind = str(node.value), node.tag.removeprefix(_STANDARD)
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
        raise YamlError(f"not readable as a number: {written[:40]!r}", line) from None
    raise YamlError(f"tags must be left out, got {shown(node.tag)}", line)
