"""Descriptions for schemas, from the numpydoc docstrings of dataclasses and enums."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

_RULE = re.compile(r"-{3,}")
_SECTIONS = ("Parameters", "Attributes")


def about(target: Any) -> str:
    """Return the part of a docstring before its first section, as Markdown."""
    lines = _text(target).split("\n")
    ends = (i for i in range(len(lines) - 1) if _is_heading(lines, i))
    return _markdown(lines[: next(ends, len(lines))])


def about_fields(target: Any) -> Mapping[str, str]:
    """Return the descriptions of parameters and attributes in a docstring, by name.

    An entry ``dataset_size, batch_size`` describes both names. Fields that a class does not
    describe itself are described by its bases.
    """
    found: dict[str, str] = {}
    for base in getattr(target, "__mro__", (target,)):
        for name, text in _entries(_text(base).split("\n")):
            found.setdefault(name, text)
    return found


def _text(target: Any) -> str:
    text, name = target.__doc__ or "", getattr(target, "__name__", "")
    if dataclasses.is_dataclass(target) and text.startswith(f"{name}("):
        return ""
    return inspect.cleandoc(text)


def _is_heading(lines: list[str], index: int) -> bool:
    return index + 1 < len(lines) and _RULE.fullmatch(lines[index + 1]) is not None


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    inside, names, text = False, "", list[str]()
    for index, line in enumerate([*lines, "end"]):
        starts = bool(line) and not line.startswith(" ")
        if starts and names:
            for name in names.split(","):
                yield name.strip(), _markdown(inspect.cleandoc("\n".join(text)).split("\n"))
            names, text = "", []
        if _is_heading(lines, index):
            inside = line in _SECTIONS
        elif starts and inside:
            names = "" if _RULE.fullmatch(line) else line.partition(" : ")[0]
        elif inside:
            text.append(line)


def _markdown(lines: list[str]) -> str:
    """Return lines as Markdown, with one line per paragraph and single backticks."""
    paragraphs: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        literal = block.startswith(" ")
        paragraphs.append(block if literal else " ".join(block.split()))
    return "\n\n".join(paragraphs).replace("``", "`")
