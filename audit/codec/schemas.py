"""JSON Schemas of type hints, both of the output of `encode` and of the input of `decode`.

Descriptions come from docstrings, and from comments ``#:`` at the fields of a class.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args, get_origin

from audit.codec.hints import (
    MISSING,
    SIMPLE,
    default_of,
    encode,
    form,
    hints_of,
    init_fields,
    kind_of,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WORDS = "^(-?inf|nan)$"  # numbers written as text in plain data
_HEADING = re.compile(r"^(.*)\n-{3,}$", re.MULTILINE)
_SECTIONS = ("Parameters", "Attributes")
# Names, their type, and the lines below, which are blank or indented.
_ENTRY = re.compile(r"^(\S.*?)(?: : .*)?$((?:\n(?: .*)?)*)", re.MULTILINE)
# Comments above a field, its name, and the comment beside it.
_FIELD = re.compile(r"((?:^    #: .*\n)*)^    (\w+): [^#\n]*(?:#: (.*))?$", re.MULTILINE)


def json_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as the text of a JSON file."""
    return json.dumps(schema, indent=1) + "\n"


class Schemas:
    """Schemas of type hints, for editors; those of classes are collected in ``definitions``.

    Each value has a schema of one type wherever possible, because editors show the clearest
    messages for these.

    ``exact`` ones describe what `encode` writes. Else they describe what `decode` reads: choices in
    any spelling, classes by their shorthands, and ``kind`` only where it distinguishes.
    ``placeholder`` is a regular expression of a text that may stand for any value.
    """

    def __init__(self, *, exact: bool = False, placeholder: str | None = None) -> None:
        self.definitions: dict[str, Any] = {}
        self.names: dict[type, str] = {}
        self.exact = exact
        self.placeholder = placeholder

    def document(self, described: Mapping[str, Any], *, title: str, id: str) -> dict[str, Any]:
        """Return a complete schema (draft 2020-12): a description with all definitions."""
        heading = {"$schema": DIALECT, "$id": id, "title": title}
        return {**heading, **described, "$defs": dict(sorted(self.definitions.items()))}

    def ready(self, cls: type, described: Mapping[str, Any]) -> None:
        """Set the schema of a class that is not described by its fields."""
        self.names[cls] = cls.__name__
        self.defined(cls.__name__, described)

    def defined(self, name: str, described: Mapping[str, Any]) -> dict[str, Any]:
        """Add a definition and return a reference to it."""
        if self.definitions.setdefault(name, dict(described)) != described:
            raise TypeError(f"name must be that of one definition, got {name!r} twice")
        return {"$ref": f"#/$defs/{name}"}

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a hint."""
        described: dict[str, Any]
        args = get_args(hint)
        match form(hint):
            case "any":
                return {}
            case "checked":
                return self.of(args[0])
            case "dataclass" | "enum":
                return self.of_class(hint)
            case "union":
                described = self.of_union(args)
            case "literal":
                described = {"enum": list(args)}
            case "mapping":
                item = args[1] if args else Any
                described = {"type": "object", "additionalProperties": self.of(item)}
            case "list":
                described = self.of_list(hint)
            case "simple":
                described = {"type": SIMPLE[hint].json_type}
                if hint is float:
                    described["type"] = ["number", "string"]
                    described |= {"pattern": _WORDS, "errorMessage": "must be a number"}
        return self.open(described)

    def open(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return a schema that accepts the placeholder as well, if there is one."""
        if self.placeholder is not None and "enum" in described:
            return {"anyOf": [dict(described), {"type": "string", "pattern": self.placeholder}]}
        types, pattern = types_of(described), described.get("pattern")
        any_text = "string" in types and pattern is None
        has_room = pattern is not None and str(self.placeholder) in pattern
        if self.placeholder is None or not types or any_text or has_room:
            return dict(described)
        patterns = (self.placeholder,) if pattern is None else (pattern, self.placeholder)
        message = f"must be {_IN_WORDS[types[0]]}" if types[0] in _IN_WORDS else ""
        return {
            **described,
            "type": list(dict.fromkeys((*types, "string"))),
            "pattern": "|".join(patterns),
            **({"errorMessage": message} if message else {}),
        }

    def of_union(self, hints: tuple[Any, ...]) -> dict[str, Any]:
        """Return the schema of a union, with simple types merged."""
        classes = [part for part in hints if form(part) == "dataclass"]
        parts = [self.of(part) for part in hints]
        for part in classes:
            if len(classes) > 1 and kind_of(part) is not None:
                definition = self.definitions[self.names[part]]
                if "required" in definition and "kind" not in definition["required"]:
                    definition["required"].insert(0, "kind")
        simple = [part for part in parts if set(part) <= _SIMPLE_KEYS]
        others = [part for part in parts if part not in simple]
        joined = [_joined(simple)] if simple else []
        return joined[0] if not others else {"anyOf": [*others, *joined]}

    def of_list(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a list, or of a tuple of fixed length."""
        args = get_args(hint)
        if not args:
            return {"type": "array"}
        if get_origin(hint) is not tuple or args[-1] is Ellipsis:
            return {"type": "array", "items": self.of(args[0])}
        # older drafts lack prefixItems: "items" would refuse all items there
        size = {"minItems": len(args), "maxItems": len(args)}
        return {"type": "array", "prefixItems": [self.of(arg) for arg in args], **size}

    def of_class(self, cls: type) -> dict[str, Any]:
        """Define a dataclass or an enum, once, and return a reference to it."""
        if cls not in self.names:
            name = cls.__name__
            if name in self.names.values() or name in self.definitions:
                name = f"{cls.__module__}.{cls.__qualname__}"
            self.names[cls] = name  # before its fields, which may be of the same class
            if issubclass(cls, enum.Enum):
                described = self.of_enum(cls)
            else:
                described = self.open(self.of_fields(cls))
                if (shorter := self._shorthands(cls).get("")) is not None:
                    described = {"anyOf": [self.of(shorter), described]}
            text = about(cls)
            self.definitions[name] = {**({"description": text} if text else {}), **described}
        return {"$ref": f"#/$defs/{self.names[cls]}"}

    def of_enum(self, cls: type[enum.Enum]) -> dict[str, Any]:
        """Return the schema of a choice: its canonical spellings for completion, and any other."""
        texts = about_fields(cls)
        known = one_of({encode(member): texts.get(member.name, "") for member in cls})
        if self.exact:
            return {"enum": [encode(member) for member in cls]}
        words = dict.fromkeys(text for m in cls for text in (str(m.value), m.name))
        patterns = dict.fromkeys(any_spelling(word) for word in words)
        if self.placeholder is not None:
            patterns[self.placeholder] = None
        return {"anyOf": [*known, {"type": "string", "pattern": "|".join(patterns)}]}

    def of_fields(self, cls: type, given: Collection[str] = ()) -> dict[str, Any]:
        """Return the schema of a mapping of a dataclass's fields, but those that are given."""
        kind = kind_of(cls)
        fields = {name: one for name, one in init_fields(cls).items() if name not in given}
        groups: tuple[tuple[str, ...], ...] = getattr(cls, "alternatives", ())
        return {
            "type": "object",
            "properties": {
                **({} if kind is None else {"kind": {"const": kind}}),
                **{name: self.of_field(cls, field) for name, field in fields.items()},
            },
            "required": [
                *(["kind"] if kind is not None and self.exact else []),
                *(name for name, field in fields.items() if default_of(field) is MISSING),
            ],
            "additionalProperties": False,
            **({"anyOf": [_only(group, groups) for group in groups]} if groups else {}),
        }

    def of_field(self, cls: type, field: dataclasses.Field[Any]) -> dict[str, Any]:
        """Return the schema of one field, with its description and its default."""
        hint = hints_of(cls)[field.name]
        shorter = self._shorthands(cls).get(field.name)
        described = self.of(hint if shorter is None else hint | shorter)
        default = default_of(field)
        return {
            **field_text(cls, field.name),
            **({} if default is MISSING else {"default": encode(default)}),
            **described,
        }

    def _shorthands(self, cls: type) -> Mapping[str, Any]:
        """Return the hints of a class's shorthands, by field; "" is the whole mapping."""
        if self.exact or not hasattr(cls, "expand_shorthand"):
            return {}
        shorthands: Mapping[str, Any] = getattr(cls, "shorthands", {})
        if not shorthands:
            raise TypeError(f"{cls.__name__} must have shorthands, the hints of shorter spellings")
        return shorthands


def field_text(cls: type, name: str) -> dict[str, str]:
    """Return the description of a field, for its schema; nothing if it has none."""
    text = about_fields(cls).get(name)
    return {} if text is None else {"description": text}


def one_of(values: Mapping[Any, str]) -> list[dict[str, Any]]:
    """Return the members of an ``anyOf`` for given values."""
    return [
        {"const": value, **({"description": text} if text else {})}
        for value, text in values.items()
    ]


def holds(key: str) -> dict[str, Any]:
    """Return the schema of mappings in which a key has a value other than null."""
    return {"type": "object", "properties": {key: {"not": {"type": "null"}}}, "required": [key]}


def by_value(key: str, schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of mappings whose value of a key chooses the schema of the others."""
    return {
        "allOf": [
            {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": described}
            for value, described in schemas.items()
        ]
    }


def any_spelling(word: str) -> str:
    """Return a regular expression of all spellings of a choice that `decode` accepts."""
    return rf"^[\s_-]*{''.join(map(_any_spelling, word.lower()))}[\s_-]*$"


def _any_spelling(sign: str) -> str:
    if sign in " _-":
        return "[ _-]"
    return f"[{sign.upper()}{sign}]" if sign.isalpha() else re.escape(sign)


def _only(group: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """Return the schema of mappings with all fields of one group and none of the others."""
    others = (name for other in groups if other != group for name in other)
    words = ", or ".join(" and ".join(names) for names in groups)
    return {
        "required": list(group),
        "properties": {
            **{name: {"type": "null"} for name in others},
            **{name: {"not": {"type": "null"}} for name in group},
        },
        "errorMessage": f"must hold {words}",
    }


def types_of(described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the simple types that a schema accepts."""
    types = described.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one schema for several simple types."""
    types = tuple(dict.fromkeys(name for part in parts for name in types_of(part)))
    joined: dict[str, Any] = {"type": types[0] if len(types) == 1 else list(types)}
    if not any(types_of(part) == ("string",) and "pattern" not in part for part in parts):
        written = [part for part in parts if "pattern" in part]
        widest = max(written, key=lambda part: len(part["pattern"]), default={})
        joined.update({key: part for key, part in widest.items() if key != "type"})
        words = [part["errorMessage"].removeprefix("must be ") for part in written]
        if words:
            joined["errorMessage"] = f"must be {' or '.join(words)}"
    return joined


_SIMPLE_KEYS = {"type", "pattern", "errorMessage"}

_IN_WORDS: Mapping[str, str] = {
    **{one.json_type: one.words for one in SIMPLE.values() if one.json_type != "string"},
    "object": "a mapping",
    "array": "a list",
}


def about(target: Any) -> str:
    """Return the part of a docstring before its first section, as Markdown."""
    return _markdown(_HEADING.split(_text(target))[0])


@functools.cache
def about_fields(target: Any) -> Mapping[str, str]:
    """Return the descriptions of parameters and attributes, by name.

    They stand in a docstring, where ``dataset_size, batch_size`` describes both names, or beside or
    above a field in a comment ``#:``. What a class does not describe itself, its bases describe.
    """
    found: dict[str, str] = {}
    for base in getattr(target, "__mro__", (target,)):
        for name, text in (*_entries(_text(base)), *_comments(base)):
            found.setdefault(name, _markdown(text))
    return found


def _text(target: Any) -> str:
    text, name = target.__doc__ or "", getattr(target, "__name__", "")
    if dataclasses.is_dataclass(target) and text.startswith(f"{name}("):
        return ""
    return inspect.cleandoc(text)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    _, *sections = _HEADING.split(text)
    for title, section in zip(sections[::2], sections[1::2], strict=True):
        if title in _SECTIONS:
            for names, described in _ENTRY.findall(section):
                for name in names.split(","):
                    yield name.strip(), inspect.cleandoc(described)


def _comments(target: Any) -> Iterator[tuple[str, str]]:
    if not dataclasses.is_dataclass(target):
        return
    try:
        source = inspect.getsource(target)  # type: ignore[arg-type]
    except (OSError, TypeError):  # made at run time
        return
    for above, name, beside in _FIELD.findall(source):
        if above or beside:
            yield name, " ".join([*re.findall("#: (.*)", above), beside])


def _markdown(text: str) -> str:
    """Return a text as Markdown, with one line per paragraph and single backticks."""
    blocks = re.split(r"\n\s*\n", text.strip())
    # an indented block is literal
    paragraphs = (one if one.startswith(" ") else " ".join(one.split()) for one in blocks)
    return "\n\n".join(paragraphs).replace("``", "`")
