"""The table of statements: what it holds, and what it refuses."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest

from audit import Batching, bounds
from audit.bounds import assumptions, statements
from audit.bounds.assumptions import Assumption
from tests.mechanisms import noisy_sgd


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


# Words with which a statement names its setting, before the first colon, and what its row assumes.
SETTINGS = {
    "one pass|one record a step": {"one pass"},
    "n passes": {"n passes"},
    "fixed order|Q fixed": {"fixed order", "n passes"},
    "^full batches|^Noisy-Fed|potentials|Langevin|exponential": {"full batches"},
    "cyclic batches": {"cyclic", "shuffled", "same batches"},
    "without replacement": {"without replacement"},
    "^Poisson batches": {"poisson", "poisson zero out"},
    "^T steps|full or Poisson": {"full or poisson"},
    "allocation": {"allocation zero out"},
    "^contractive|, c-contractive": {"fixed size"},
    "convex (losses|potentials)|contractive": {"convex", "strongly convex"},
    "strongly convex": {"strongly convex"},
    "smooth losses": {"smooth"},
    "Hoelder": {"holder", "smooth or holder"},
    "on a bounded domain": {"bounded domain"},
    "bounded domain or": {"bounded or contracting"},
    ", one step": {"one step"},
    "T epochs|E epochs|K steps": {"whole epochs", "whole epochs of one"},
    "composition|^T steps|Poisson batches, (one|q)": {"last or all iterates"},
    "all iterates": {"some iterates"},
    "stops at random": {"random stop"},
    "skips": {"random skip"},
}
CONTRACTIVE = {f"{kind} steps" for kind in ("contractive", "strictly contractive")}
CONTRACTIVE |= {f"{kind} steps" for kind in ("small", "short", "balanced")}
FIXED = re.compile("pass|fixed|full|cyclic|shuffled|without replacement")
RELEASE = re.compile("iterate|random s|exponential")


def left_out(row: dict[str, Any]) -> list[set[str]]:
    """What a row should assume: of its setting, and what every theorem of its kind needs."""
    head, assumed = row["statement"].split(":")[0], set(row["assumptions"])
    needed = [names for words, names in SETTINGS.items() if re.search(words, head)]
    needed.append({one for one in assumed if RELEASE.search(one)})
    if assumed & {"convex", "strongly convex"}:  # clipping ends convexity, long steps expand
        needed += [{"unclipped"}, CONTRACTIVE]
        if not any(map(FIXED.search, assumed)):  # Poisson batches, too
            needed += [{"contractive batches"}, {"gradient bound for poisson"}]
            needed += [{"same size or poisson"}]
    if "poisson" in assumed:
        needed.append({"gradient bound sets sensitivity"})
    return [names for names in needed if not assumed & names]


def test_a_row_assumes_what_its_statement_says():
    """The words of a statement are a second source; without three of four assumptions they show."""
    rows = statements._table()["statements"]
    assert {id: left_out(row) for id, row in rows.items() if left_out(row)} == {}
    seen = [
        bool(left_out({**row, "assumptions": [a for a in row["assumptions"] if a != one]}))
        for row in rows.values()
        for one in row["assumptions"]
    ]
    assert sum(seen) > 0.75 * len(seen)


def test_every_assumption_of_the_shared_vocabulary_is_used():
    used = {one for entry in bounds.CATALOGUE.values() for one in entry.assumptions}
    named = {n for n, value in vars(assumptions).items() if isinstance(value, Assumption)}
    assert {n for n in named if getattr(assumptions, n) not in used} == set()
    assert len({one.name for one in used}) == len(used)


def test_a_sampler_is_an_assumption_and_a_row_may_share_a_function(table):
    table["statements"]["fmtt18.theorem_24"]["assumptions"] = ["truncated poisson"]
    entries = {entry.id: entry for entry in statements.entries()}
    assert entries["fmtt18.theorem_24"].function is entries["fmtt18.theorem_23"].function
    full = noisy_sgd(dataset_size=4, smoothness=None, diameter=None)
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
