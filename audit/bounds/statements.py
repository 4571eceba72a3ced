"""The package's own statements: the table ``statements.toml``, and the functions of its rows."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from audit import validate
from audit.bounds import assumptions as common
from audit.bounds.assumptions import Assumption
from audit.bounds.record_scope import RecordScope
from audit.bounds.registry import BoundFunction, Entry, Status
from audit.bounds.sources import Source
from audit.codec import decode
from audit.codec.schemas import one_of
from audit.curves.base import PrivacyCurve
from audit.mechanism import Choice

_FUNCTIONS: dict[str, tuple[Callable[..., PrivacyCurve], Mapping[str, Assumption]]] = {}


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row of the table, without its id; assumptions by the names of their constants."""

    source: str
    place: str = ""
    statement: str
    assumptions: tuple[str, ...]
    status: Status
    covers: tuple[Choice, ...] = ()
    slow: bool = False
    record_scope: RecordScope = RecordScope.ANY
    other_runs: tuple[str, ...] = ()
    runs_option: str | None = None
    function: str = ""  # id of the row whose function computes it; its own if empty


@functools.cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("statements.toml").read_text(encoding="utf-8"))


def bound(id: str, **assumptions: Assumption) -> Callable[[BoundFunction], BoundFunction]:
    """Return a decorator for the function of a row of the table."""
    if id not in _table()["statements"]:
        raise validate.fail("id", "that of a row of statements.toml", id)

    def register(function: BoundFunction) -> BoundFunction:
        _FUNCTIONS[id] = function, assumptions
        return function

    return register


def entries() -> tuple[Entry, ...]:
    """Return the entries of the table, in its order."""
    return tuple(_entry(id, fields) for id, fields in _table()["statements"].items())


def source(name: str) -> Source:
    """Return a publication of the table, by its name."""
    sources = _table()["sources"]
    validate.one_of(tuple(sources), source=name)
    return cast(Source, decode(Source, sources[name], name))


def _entry(id: str, fields: Mapping[str, Any]) -> Entry:
    row = dict(vars(decode(TableRow, fields, id)))
    computed_by = row.pop("function") or id
    if computed_by not in _FUNCTIONS:
        raise validate.fail("id of a row", "that of a function decorated with bound", computed_by)
    function, own = _FUNCTIONS[computed_by]
    row["source"] = source(row["source"]).at(row.pop("place"))
    row["assumptions"] = tuple(_assumption(name, own, id) for name in row["assumptions"])
    return Entry(id=id, function=function, **row)


def _assumption(name: str, own: Mapping[str, Assumption], id: str) -> Assumption:
    constant = name.replace(" ", "_")
    shared = common.SAMPLERS.get(name, getattr(common, constant.upper(), None))
    assumption = own.get(constant, shared)
    if not isinstance(assumption, Assumption):
        known = "the name of an assumption, or a keyword of the function's decorator"
        raise validate.fail(f"assumption of {id}", known, name)
    return assumption


def of_ids() -> list[dict[str, Any]]:
    """Return the schemas of the registered ids, with their statements: members of an ``anyOf``."""
    from audit.bounds import CATALOGUE  # it is made after this module

    return one_of({e.id: f"{e.cite}: {e.statement} ({e.status.value})" for e in CATALOGUE.values()})
