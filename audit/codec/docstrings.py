"""Descriptions for schemas: from docstrings, and from comments ``#:`` at the fields of a class."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

_HEADING = re.compile(r"^(.*)\n-{3,}$", re.MULTILINE)
_SECTIONS = ("Parameters", "Attributes")
# Names, their type, and the lines below, which are blank or indented.
_ENTRY = re.compile(r"^(\S.*?)(?: : .*)?$((?:\n(?: .*)?)*)", re.MULTILINE)
# Comments above a field, its name, and the comment beside it.
_FIELD = re.compile(r"((?:^    #: .*\n)*)^    (\w+): [^#\n]*(?:#: (.*))?$", re.MULTILINE)


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
