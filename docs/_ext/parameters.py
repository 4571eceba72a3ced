"""Parameters of a class that its bases or comments beside its fields describe, on its page."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from sphinx.application import Sphinx

from audit.codec.schemas import about_fields

_BEFORE_NAPOLEON = 400  # priority; Napoleon reads the sections of a docstring at 500


def complete(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Add the parameters that a dataclass inherits, or describes beside its fields."""
    if what != "class" or not dataclasses.is_dataclass(obj):
        return
    described = about_fields(obj)
    written = {part for line in lines for part in line.partition(" : ")[0].split(", ")}
    missing = [
        field
        for field in dataclasses.fields(obj)
        if field.init and field.name in described and field.name not in written
    ]
    entries = [line for field in missing for line in _entry(field, described[field.name])]
    if not entries:
        return
    headings = [i for i in range(len(lines) - 1) if lines[i] and set(lines[i + 1]) == {"-"}]
    own = next((i for i in headings if lines[i] == "Parameters"), None)
    if own is None:
        entries = ["Parameters", "----------", *entries]
        after = headings
    else:
        after = [i for i in headings if i > own]
    place = after[0] if after else len(lines)
    while place and not lines[place - 1]:
        place -= 1
    lines[place:place] = [*([] if own is not None else [""]), *entries]


def _entry(field: dataclasses.Field[Any], text: str) -> list[str]:
    kind = str(field.type).removesuffix(" | None")
    if field.default is None:
        kind += ", optional"
    elif field.default is not dataclasses.MISSING:
        kind += f", default: {field.default!r}"
    literal = re.sub(r"`([^`]+)`", r"``\1``", text)  # from Markdown
    return [f"{field.name} : {kind}", *(f"    {line}" for line in literal.split("\n"))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("autodoc-process-docstring", complete, priority=_BEFORE_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
