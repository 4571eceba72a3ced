"""The directive ``schema``: the keys of one part of a claims file or a scenario.

Its arguments are the schema (``claims`` or ``scenario``) and the part (a name of its ``$defs``, or
nothing for the file itself). Keys, types, defaults and descriptions are those of ``docs/schemas``.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SCHEMAS = Path(__file__).resolve().parents[1] / "schemas"
_MAX_CHOICES = 12


class SchemaPart(SphinxDirective):
    """List the keys of a mapping, or the choices of an enumeration."""

    required_arguments = 1
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"leave-out": directives.unchanged}  # type: ignore[misc]

    def run(self) -> list[nodes.Node]:
        """Write a definition list."""
        file = SCHEMAS / f"{self.arguments[0]}.schema.json"
        self.env.note_dependency(str(file))
        schema = json.loads(file.read_text(encoding="utf-8"))
        name = self.arguments[1] if len(self.arguments) > 1 else None
        part = schema["$defs"][name] if name else schema
        left_out = self.options.get("leave-out", "").split()
        lists = []
        for told, variant in variants(part):
            if told:
                lists.append(f"<p>{marked(told)}</p>")
            needed = variant.get("required", [])
            rows = [
                self.key(key, value, key in needed, schema)
                for key, value in variant.get("properties", {}).items()
                if key not in left_out
            ] + [
                row(f"`{c['const']}`", c.get("description", ""))
                for c in variant.get("anyOf", [])
                if "const" in c
            ]
            lists.append(f'<dl class="keys">{"".join(rows)}</dl>')
        return [nodes.raw("", "".join(lists), format="html")]

    def key(self, key: str, value: dict[str, Any], needed: bool, schema: dict[str, Any]) -> str:
        """Return one key."""
        kind = shape(value, schema)
        notes = [kind] if kind else []
        if needed:
            notes.append("required")
        elif value.get("default") not in (None, "", [], {}):
            notes.append(f"default {json.dumps(value['default'], ensure_ascii=False)}")
        told = value.get("description") or referred(value, schema).get("description", "")
        note = f' <span class="type">{html.escape(", ".join(notes))}</span>' if notes else ""
        return row(f"`{key}`", told, note)


def row(head: str, told: str, note: str = "") -> str:
    """Return a term and its definition, both in Markdown, with a note in HTML."""
    return f"<dt>{marked(head)}{note}</dt><dd>{marked(told)}</dd>"


def marked(told: str) -> str:
    """Return a description as HTML; back quotes become code."""
    parts = html.escape(told).replace("``", "`").split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def variants(part: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the mappings that are allowed, each with its description.

    There is one, or several where the schema asks for a key and then for a mapping.
    """
    if "properties" in part or "anyOf" in part:
        return [("", part)]
    found = []
    while "then" in part:
        found.append((part["then"].get("description", ""), part["then"]))
        part = part.get("else", {})
    return [*found, (part.get("description", ""), part)] if part else found


def referred(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the definition that a value refers to, or nothing."""
    for option in [value, *value.get("anyOf", []), *value.get("allOf", [])]:
        if "$ref" in option:
            found: dict[str, Any] = schema["$defs"][option["$ref"].rpartition("/")[2]]
            return found
    return {}


def shape(value: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the type of a value in a few words."""
    if "const" in value:
        return json.dumps(value["const"])
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        choices = [o["const"] for o in schema["$defs"][name].get("anyOf", []) if "const" in o]
        if choices and len(choices) <= _MAX_CHOICES and all(isinstance(c, str) for c in choices):
            return " | ".join(choices)
        return str(name)
    options = value.get("anyOf") or value.get("oneOf") or []
    if options:
        shapes = [shape(option, schema) for option in options]
        return " or ".join(dict.fromkeys(s for s in shapes if s))
    words = {"integer": "whole number", "string": "text", "boolean": "true | false",
             "object": "mapping", "number": "number", "null": ""}  # fmt: skip
    kinds = value.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if "pattern" in value and len(kinds) > 1 and "string" in kinds:
        kinds.remove("string")  # numbers such as inf, or interpolations
    if "array" in kinds:
        inner = (
            shape(value.get("items", {}), schema) if isinstance(value.get("items"), dict) else ""
        )
        kinds[kinds.index("array")] = f"list of {inner}" if inner else "list"
    return " or ".join(dict.fromkeys(words.get(k, k) for k in kinds if words.get(k, k)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("schema", SchemaPart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
