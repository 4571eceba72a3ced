"""YAML text as plain data, with the line of every part.

Numbers are read as in YAML 1.2, where ``1e-5`` is a number and ``on`` is a word. Tags create no
objects: a file holds data only. Keys are unique, and ``<<`` merges the entries of its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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


_BOOLEANS = {"true": True, "false": False}
# How scalars are read, by their tags.
_SCALARS: Mapping[str, Callable[[str], str | int | float | bool | None]] = {
    f"{_STANDARD}str": str,
    f"{_STANDARD}null": lambda written: None,
    f"{_STANDARD}bool": lambda written: _BOOLEANS[written.lower()],
    f"{_STANDARD}int": int,
    f"{_STANDARD}float": lambda written: float(re.sub(r"\.(?=inf|nan)", "", written.lower())),
}


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
        self._read: dict[int, tuple[Any, Lines] | None] = {}  # None while a node is being read

    def read(self, node: yaml.Node) -> tuple[Any, Lines]:
        """Return the plain data of a node, and its lines."""
        line = _line(node)
        if id(node) not in self._read:
            self._read[id(node)] = None
            self._read[id(node)] = value, lines = self._made(node, line)
            if lines.size > _MAX_VALUES:
                raise YamlError(f"aliases must leave at most {_MAX_VALUES} values", line)
            return value, lines
        if (found := self._read[id(node)]) is None:
            raise YamlError("an alias must not be inside the value that it names", line)
        return found

    def _made(self, node: yaml.Node, line: int) -> tuple[Any, Lines]:
        values: Any
        parts: dict[Any, tuple[int, Lines]] = {}
        if isinstance(node, yaml.ScalarNode):
            try:
                values = _SCALARS[node.tag](str(node.value))
            except KeyError:
                raise _tagged(node) from None
            except ValueError:
                raise YamlError(f"not readable as a number: {node.value[:40]!r}", line) from None
        elif isinstance(node, yaml.MappingNode) and node.tag == f"{_STANDARD}map":
            values, parts = self._entries(node)
        elif isinstance(node, yaml.SequenceNode) and node.tag == f"{_STANDARD}seq":
            items = [self.read(item) for item in node.value]
            values = [value for value, _ in items]
            parts = {index: (lines.line, lines) for index, (_, lines) in enumerate(items)}
        else:
            raise _tagged(node)
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
            if key == _MERGE and key_node.style is None:
                several = isinstance(value_node, yaml.SequenceNode)
                merged += map(self._merged, value_node.value if several else [value_node])
            else:
                values[key], lines = self.read(value_node)
                parts[key] = line, lines
        for more, lines in merged:  # own keys come first, then earlier mappings
            for key, value in more.items():
                parts.setdefault(key, lines.parts[key])
                values.setdefault(key, value)
        return values, parts

    def _merged(self, node: yaml.Node) -> tuple[dict[Any, Any], Lines]:
        """Return a mapping whose entries ``<<`` takes in."""
        value, lines = self.read(node)
        if not isinstance(value, dict):
            got = "a list" if isinstance(value, list) else shown(value)
            wanted = "must be a mapping or a list of mappings"
            raise YamlError(f"{_MERGE} {wanted}, got {got}", lines.line)
        return value, lines


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _tagged(node: yaml.Node) -> YamlError:
    return YamlError(f"tags must be left out, got {shown(node.tag)}", _line(node))
