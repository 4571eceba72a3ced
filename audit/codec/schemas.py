"""JSON Schemas of type hints."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from audit.codec.encoding import encode
from audit.codec.hints import (
    MISSING,
    NOT_FINITE,
    Form,
    default_of,
    form,
    hints_of,
    init_fields,
    kind_of,
)


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


class _Schemas:
    """Schemas of hints; those of classes are collected in ``definitions``."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self.names: dict[type, str] = {}

    def of(self, hint: Any) -> dict[str, Any]:
        match form(hint):
            case Form.ANY:
                return {}
            case Form.UNION:
                return {"anyOf": [self.of(part) for part in get_args(hint)]}
            case Form.LITERAL:
                return {"enum": list(get_args(hint))}
            case Form.DATACLASS | Form.ENUM:
                return {"$ref": f"#/$defs/{self.define(hint)}"}
            case Form.MAPPING:
                _, item = get_args(hint) or (str, Any)
                return {"type": "object", "additionalProperties": self.of(item)}
            case Form.ARRAY:
                return {"type": "array"}
            case Form.LIST:
                return self.of_list(hint)
            case Form.SIMPLE if hint is float:
                return {"anyOf": [{"type": "number"}, {"enum": list(NOT_FINITE)}]}
            case Form.SIMPLE:
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
        for name, field in init_fields(cls).items():
            properties[name] = self.of(hints_of(cls)[name])
            if default_of(field) is MISSING:
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
