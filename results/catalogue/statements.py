"""Statements of the papers that are not entries of the catalogue, read from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from audit import validate

KINDS = ("helper", "lower bound", "utility", "rate", "figure", "table", "remark", "process")


@dataclass(frozen=True, kw_only=True)
class SideStatement:
    """A statement without a curve of its own, and where it is checked.

    Attributes
    ----------
    id, citation, statement
        Paper and number, where it is printed, and what it says in one line.
    kind
        One of ``KINDS``.
    found
        What is known of it, in words.
    why
        Why no pair is set against it; empty where one is.
    tests
        Tests that check it, ``path::name`` each.
    scenarios
        Names of the scenarios in which it runs.
    """

    id: str
    citation: str
    statement: str
    kind: str
    found: str
    why: str = ""
    tests: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate.one_of(KINDS, **{f"kind of {self.id}": self.kind})
        for name in ("id", "citation", "statement", "found"):
            if not getattr(self, name):
                raise validate.fail(f"{name} of {self.id!r}", "a text", getattr(self, name))
        if not (self.tests or self.scenarios or self.why):
            raise validate.fail(f"{self.id}", "tested, run in a scenario or excused", "neither")


def load(path: Path) -> tuple[SideStatement, ...]:
    """Return the statements of a YAML file.

    Raises
    ------
    ValueError
        If the file is not a list of mappings with the fields of a `SideStatement`, or two
        statements have one id.
    """
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(entries, list):
        raise validate.fail(str(path), "a list of statements", type(entries).__name__)
    found = tuple(_read(entry) for entry in entries)
    ids = [one.id for one in found]
    for id in ids:
        if ids.count(id) > 1:
            raise validate.fail("id", "unique among the statements", id)
    return found


def _read(entry: Any) -> SideStatement:
    known = {field.name for field in dataclasses.fields(SideStatement)}
    if not isinstance(entry, Mapping) or not set(entry) <= known:
        raise validate.fail("a statement", f"a mapping of {', '.join(sorted(known))}", entry)
    lists = {name: tuple(entry.get(name, ())) for name in ("tests", "scenarios")}
    try:
        return SideStatement(**{**entry, **lists})
    except TypeError as error:
        raise validate.fail("a statement", f"whole ({error})", entry.get("id")) from None
