"""Descriptions for schemas: from docstrings, and from comments ``#:`` at the fields of a class."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

_RULE = re.compile(r"-{3,}")
_SECTIONS = ("Parameters", "Attributes")
_FIELD = re.compile(r"    (\w+): [^#]*(?:#: (.*))?")
_COMMENT = re.compile(r"    #: (.*)")


def about(target: Any) -> str:
    """Return the part of a docstring before its first section, as Markdown."""
    lines = _text(target).split("\n")
    ends = (i for i in range(len(lines) - 1) if _is_heading(lines, i))
    return _markdown("\n".join(lines[: next(ends, len(lines))]))


@functools.cache
def about_fields(target: Any) -> Mapping[str, str]:
    """Return the descriptions of parameters and attributes, by name.

    They stand in a docstring, where ``dataset_size, batch_size`` describes both names, or beside or
    above a field in a comment ``#:``. What a class does not describe itself, its bases describe.
    """
    found: dict[str, str] = {}
    for base in getattr(target, "__mro__", (target,)):
        for name, text in (*_entries(_text(base).split("\n")), *_comments(base)):
            found.setdefault(name, _markdown(text))
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
                yield name.strip(), inspect.cleandoc("\n".join(text))
            names, text = "", []
        if _is_heading(lines, index):
            inside = line in _SECTIONS
        elif starts and inside:
            names = "" if _RULE.fullmatch(line) else line.partition(" : ")[0]
        elif inside:
            text.append(line)


def _comments(target: Any) -> Iterator[tuple[str, str]]:
    if not dataclasses.is_dataclass(target):
        return
    try:
        lines = inspect.getsource(target).split("\n")  # type: ignore[arg-type]
    except (OSError, TypeError):  # made at run time
        return
    above: list[str] = []
    for line in lines:
        if comment := _COMMENT.fullmatch(line):
            above.append(comment[1])
            continue
        field = _FIELD.fullmatch(line)
        if field and (above or field[2]):
            yield field[1], " ".join([*above, field[2] or ""])
        above = []


def _markdown(text: str) -> str:
    """Return a text as Markdown, with one line per paragraph and single backticks."""
    paragraphs: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        literal = block.startswith(" ")
        paragraphs.append(block if literal else " ".join(block.split()))
    return "\n\n".join(paragraphs).replace("``", "`")
