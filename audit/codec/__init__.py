"""Dataclasses to plain data and back, driven by their type hints.

Everything that the package reads from or writes to YAML and JSON goes through `encode` and
`decode`: mechanisms, neighbouring pairs, claims, found pairs, witnesses and results. The schema of
a thing is its dataclass fields; `json_schema` writes the same hints as a JSON Schema.

=========================================  =====================================================
Python                                     plain data
=========================================  =====================================================
dataclass                                  mapping of its fields, in their order
dataclass with ``kind: ClassVar[str]``     the same, with ``kind`` first
enum member                                its value, in lower-case words
tuple, list, NumPy array                   list
mapping                                    mapping with keys that are text
path                                       text
infinite or undefined float                ``"inf"``, ``"-inf"`` or ``"nan"``
None, bool, int, float, str                itself
=========================================  =====================================================

``kind`` distinguishes the dataclasses of a union, one of which may have none. A class may accept
shorter spellings of itself: its class method ``expand_shorthand(plain)`` returns the full mapping,
or its argument unchanged. Its attribute ``shorthands`` has their hints for schemas, by the field
that is written shorter ("" for the whole). Of the groups of fields in an attribute ``alternatives``
exactly one is given, which the class itself checks.
"""

from audit.codec.decoding import DecodeError, decode
from audit.codec.docstrings import about, about_fields
from audit.codec.encoding import encode
from audit.codec.hints import REQUIRED, did_you_mean, kind_of
from audit.codec.schemas import FieldsOf, InputSchemas, document, json_schema, json_text, one_of

__all__ = [
    "REQUIRED",
    "DecodeError",
    "FieldsOf",
    "InputSchemas",
    "about",
    "about_fields",
    "decode",
    "did_you_mean",
    "document",
    "encode",
    "json_schema",
    "json_text",
    "kind_of",
    "one_of",
]
