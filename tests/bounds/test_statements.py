"""The table of statements: what it holds, and what it refuses."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from audit import Batching, NoisySGD, bounds
from audit.bounds import assumptions, statements
from audit.bounds.assumptions import Assumption


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of the table that `entries` reads instead."""
    edited = copy.deepcopy(dict(statements._table()))
    monkeypatch.setattr(statements, "_table", lambda: edited)
    return edited


def test_every_row_is_an_entry_and_every_publication_is_cited():
    rows, sources = statements._table()["statements"], statements._table()["sources"]
    assert tuple(rows) == tuple(bounds.CATALOGUE)
    assert {row["source"] for row in rows.values()} == set(sources)
    for id, row in rows.items():
        entry = bounds.CATALOGUE[id]
        assert entry.cite == statements.source(row["source"]).at(row.get("place", ""))
        assert (entry.statement, entry.status.value) == (row["statement"], row["status"])
        assert len(entry.assumptions) == len(row["assumptions"])


def test_every_assumption_of_the_shared_vocabulary_is_used():
    used = {one for entry in bounds.CATALOGUE.values() for one in entry.assumptions}
    named = {n for n, value in vars(assumptions).items() if isinstance(value, Assumption)}
    assert {n for n in named if getattr(assumptions, n) not in used} == set()
    assert len({one.name for one in used}) == len(used)


def test_a_sampler_is_an_assumption_and_a_row_may_share_a_function(table):
    table["statements"]["fmtt18.theorem_24"]["assumptions"] = ["truncated poisson"]
    entries = {entry.id: entry for entry in statements.entries()}
    assert entries["fmtt18.theorem_24"].function is entries["fmtt18.theorem_23"].function
    full = NoisySGD(
        steps=1, dataset_size=4, batch_size=4, step_size=1.0, noise_std=1.0, lipschitz=1.0
    )
    failure = "needs truncated Poisson batches, got batching='full'"
    assert entries["fmtt18.theorem_24"].failures(full) == (failure,)
    truncated = replace(full, batching=Batching.TRUNCATED_POISSON, max_batch_size=4)
    assert entries["fmtt18.theorem_24"].assumptions[0].holds(truncated)


def test_assumptions_of_a_paper_are_given_to_the_decorator_and_named_by_the_row():
    for id, (_, own) in statements._FUNCTIONS.items():
        row = statements._table()["statements"][id]
        assert {name.replace("_", " ") for name in own} <= set(row["assumptions"])


def test_unknown_rows_and_publications_are_refused():
    with pytest.raises(ValueError, match=r"^id must be that of a row of statements.toml, got 'x'$"):
        statements.bound("x")
    with pytest.raises(ValueError, match=r"^source must be one of fmtt18, .*, got 'x'$"):
        statements.source("x")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("status", "true", r"bsa24.theorem_4_1.status must be .*, got 'true'"),
        ("covers", ["everything"], r"bsa24.theorem_4_1.covers.* must be .*'everything'"),
        ("proof", "easy", r"bsa24.theorem_4_1.proof must be left out of a TableRow"),
        ("assumptions", ["rounding"], r"assumption of bsa24.theorem_4_1 must be .*'rounding'"),
        ("source", "x", r"source must be one of fmtt18, .*, got 'x'"),
    ],
)
def test_bad_fields_are_refused_with_the_id(table, field, value, message):
    table["statements"]["bsa24.theorem_4_1"][field] = value
    with pytest.raises(ValueError, match=message):
        statements.entries()


def test_a_row_without_a_function_is_refused(table):
    table["statements"]["bsa24.theorem_9"] = table["statements"]["bsa24.theorem_4_1"]
    message = "id of a row must be that of a function decorated with bound, got 'bsa24.theorem_9'"
    with pytest.raises(ValueError, match=message):
        statements.entries()
