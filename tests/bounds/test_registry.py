from __future__ import annotations

import copy
import dataclasses
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from audit import Batching, Release, bounds
from audit.bounds import Catalogue, RecordScope, Source, Status, assumptions, statements
from audit.bounds.assumptions import Assumption
from audit.curves import GaussianCurve
from tests.choices import RELEASES
from tests.mechanisms import noisy_sgd

M = noisy_sgd(steps=1000, dataset_size=20, step_size=0.1, noise_std=0.5)

FIRST = ("fmtt18", "at22", "cl25", "survey", "bsa24", "accounting")


def test_entries_come_in_the_order_of_the_papers():
    """Of bounds that tie, `best` names the first: the order is part of the answers."""
    papers = [id.split(".")[0] for id in bounds.CATALOGUE]
    order = list(dict.fromkeys(papers))
    assert order[: len(FIRST)] == list(FIRST)
    assert order[-1] == "own"
    assert papers == sorted(papers, key=order.index)


def test_entries_say_what_they_are():
    for id, entry in bounds.CATALOGUE.items():
        assert entry.id == id
        assert "\n" not in entry.statement
        assert entry.cite.place in str(entry.cite)
        assert entry.cite.place
        assert "paper 00" not in str(entry.cite) + entry.statement
        assert all(assumption.name for assumption in entry.assumptions)
        corrected = entry.status is Status.CORRECTED
        assert corrected or not id.endswith("_corrected") or entry.status is Status.UNPROVEN
        assert set(entry.other_runs) == {"distance", "shifts", "allocations"} & set(entry.options)
        assert (entry.runs_option == "tasks") == ("tasks" in entry.options)
    keys = {entry.cite.key: entry.cite.title for entry in bounds.CATALOGUE.values()}
    assert len(keys) == len(set(keys.values()))
    assert bounds.CATALOGUE["bsa24.theorem_4_10"].options == ("tau",)
    assert bounds.CATALOGUE["bsa24.theorem_4_1"].options == ()


def test_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        bounds.CATALOGUE["new"] = bounds.CATALOGUE["at22.b_1"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        bounds.CATALOGUE["at22.b_1"].status = Status.REFUTED


def test_unknown_ids_and_options_end_in_one_line():
    with pytest.raises(ValueError, match=r"got 'bsa24.theorem_43'; did you mean bsa24.theorem_4_3"):
        bounds.evaluate("bsa24.theorem_43", M)
    with pytest.raises(ValueError, match=r"got 'x'; see audit.bounds.CATALOGUE"):
        bounds.evaluate("x", M)
    with pytest.raises(ValueError, match=r"theorem_4_10 has no option 'index'; its options: tau"):
        bounds.evaluate("bsa24.theorem_4_10", M, index=3)
    with pytest.raises(ValueError, match=r"theorem_4_1 has no option 'tau'; its options: none"):
        bounds.evaluate("bsa24.theorem_4_1", M, tau=3)
    with pytest.raises(ValueError, match="mechanism must be a NoisySGD, got 3"):
        bounds.evaluate("bsa24.theorem_4_1", 3)


def test_applicable_and_best():
    applicable = bounds.applicable(M)
    assert {"at22.b_1", "bsa24.theorem_4_1", "bsa24.theorem_4_3"} <= set(applicable)
    assert "bsa24.theorem_4_8" not in applicable
    best = bounds.best(M, delta=1e-5)
    assert best.epsilon == best.curve.epsilon(1e-5) == min(best.compared.values())
    assert best.epsilon == pytest.approx(bounds.evaluate("bsa24.theorem_4_3", M).epsilon(1e-5))
    quick = [bounds.CATALOGUE[id] for id in applicable if not bounds.CATALOGUE[id].slow]
    sound = {entry.id for entry in quick if entry.status.sound}
    assert set(best.compared) == sound
    short = bounds.best(replace(M, steps=3), delta=1e-5)
    composed = bounds.evaluate("bsa24.theorem_4_1", replace(M, steps=3))
    assert short.epsilon == pytest.approx(composed.epsilon(1e-5), rel=1e-12)


def test_best_skips_what_is_not_sound():
    claim = replace(
        bounds.CATALOGUE["bsa24.theorem_4_1"],
        id="wrong",
        status=Status.REFUTED,
        function=lambda mechanism: GaussianCurve(0.0),
    )
    catalogue = Catalogue((claim, bounds.CATALOGUE["bsa24.theorem_4_1"]))
    assert catalogue.applicable(M) == ("wrong", "bsa24.theorem_4_1")
    assert catalogue.best(M, delta=1e-5).id == "bsa24.theorem_4_1"
    assert [s for s in Status if s.sound] == [Status.AS_PRINTED, Status.CORRECTED, Status.OWN]
    with pytest.raises(ValueError, match="got 'wrong' twice"):
        Catalogue((claim, claim))


def test_best_says_why_nothing_applies():
    gone = replace(M, release=Release.EXPONENTIAL_MECHANISM, diameter=None)
    assert bounds.applicable(gone) == ()
    with pytest.raises(bounds.NotApplicable, match=r"no sound bound applies: .*at22\.b_1 needs"):
        bounds.best(gone, delta=1e-5)
    assert all(row.value is row.ratio is None for row in bounds.table(gone, 1e-5))


def test_a_table_has_one_row_a_statement():
    for ask in (bounds.best, bounds.table):
        with pytest.raises(ValueError, match=r"delta must be in \[0, 1\), got 1"):
            ask(M, delta=1)
    rows = bounds.table(M, 1e-5)
    assert [(row.id, row.status) for row in rows] == [
        (id, entry.status) for id, entry in bounds.CATALOGUE.items()
    ]
    best = bounds.best(M, delta=1e-5)
    for row in rows:
        if row.value is None:
            assert row.ratio is None
            assert row.reason
            assert "\n" not in row.reason
        else:
            assert row.reason is None
            assert row.ratio == pytest.approx(row.value / best.epsilon)
            assert row.ratio >= 1 or not row.status.sound
    assert {row.id for row in rows if row.value is not None} <= set(bounds.applicable(M))


def test_each_release_has_its_own_bounds():
    """A bound on the last iterate says nothing of what else may be released."""
    for release in RELEASES:
        ids = bounds.applicable(replace(M, release=release, strong_convexity=0.1))
        if release is Release.EXPONENTIAL_MECHANISM:
            assert {id.removeprefix("bsa24.") for id in ids} == {
                "corollary_5_2", "corollary_5_4", "mcsherry_talwar"
            }  # fmt: skip
        elif release is not Release.LAST_ITERATE:
            assert not [id for id in ids if id.startswith("bsa24")]


def test_an_assumption_may_speak_of_what_an_earlier_one_requires():
    fragile = bounds.Assumption(
        "a wide domain", lambda m: m.diameter > 1, lambda m: f"diameter={m.diameter}"
    )
    bounded = next(
        a for a in bounds.CATALOGUE["bsa24.theorem_4_3"].assumptions if a.name == "a bounded domain"
    )
    entry = replace(bounds.CATALOGUE["bsa24.theorem_4_1"], assumptions=(bounded, fragile))
    open_line = replace(M, diameter=None)
    assert entry.failures(open_line) == ("needs a bounded domain, got diameter=None",)
    assert entry.failures(M) == ("needs a wide domain, got diameter=1.0",)
    with pytest.raises(TypeError):
        replace(entry, assumptions=(fragile,)).failures(open_line)


def test_bounds_leave_slow_libraries_out():
    """Those of sampled batches, too; the import alone is a part of it."""
    code = (
        "import sys, audit; m = audit.NoisySGD(steps=40, dataset_size=100, batch_size=10, "
        "step_size=1.0, noise_std=0.05, lipschitz=0.125, smoothness=1.0, diameter=1.0, "
        "batching=audit.Batching.WITHOUT_REPLACEMENT); audit.bounds.best(m, delta=1e-5)"
        "; slow = ('dp_accounting', 'numba', 'scipy.optimize', 'scipy.signal', 'scipy.stats')"
        "; print([m for m in slow if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_decorator_registers_a_bound():
    catalogue = Catalogue()

    def define(mu):
        @catalogue.bound(
            id="mine.constant",
            source=Source(("You",), 2026, "An example", "README"),
            statement="nothing depends on anything",
            assumes=(bounds.CATALOGUE["bsa24.theorem_4_1"].assumptions),
            status=Status.OWN,
        )
        def constant(mechanism, *, scale=1.0):
            return GaussianCurve(mu * scale)

        return constant

    function = define(1.0)
    entry = catalogue.entry("mine.constant")
    assert entry.function is function
    assert entry.options == ("scale",)
    assert str(entry.cite) == "You (2026), An example, README"
    once = catalogue.evaluate("mine.constant", M).epsilon(1e-5)
    assert once == GaussianCurve(1.0).epsilon(1e-5)
    poisson = replace(M, batch_size=2, batching=Batching.POISSON)
    with pytest.raises(bounds.NotApplicable, match=r"mine\.constant needs full batches"):
        catalogue.evaluate("mine.constant", poisson)
    define(2.0)  # the same definition again, as in a notebook
    assert catalogue.evaluate("mine.constant", M).epsilon(1e-5) > once
    with pytest.raises(ValueError, match=r"id must be unique .*, got 'mine\.constant' twice"):
        catalogue.add(entry)


def test_an_entry_names_only_options_that_it_has():
    entry = bounds.CATALOGUE["bsa24.theorem_4_1"]
    for option, named in (
        ("shifts", {"other_runs": ("shifts",)}),
        ("index", {"record_scope": RecordScope.INDEX}),
    ):
        with pytest.raises(ValueError, match=f"4_1 has no option '{option}'; its options: none"):
            replace(entry, **named)


CYCLIC = replace(M, batch_size=5, batching=Batching.CYCLIC)


@pytest.mark.parametrize(
    ("id", "options", "batches"),
    [
        ("fmtt18.theorem_1", {}, range(1)),
        ("fmtt18.theorem_23", {}, None),
        ("fmtt18.theorem_23", {"index": 6}, range(1, 2)),
        ("at22.theorem_5_6", {"index": 20}, range(3, 4)),
        ("cl25.theorem_a_1", {"position": 2}, range(2, 3)),
        ("survey.section_vi_a", {"batch": 1}, range(1)),
        ("fmtt18.corollary_31", {"public": 5}, range(3)),
        ("bsa24.theorem_4_5", {}, None),
    ],
)
def test_an_entry_knows_the_records_it_speaks_about(id, options, batches):
    entry = bounds.CATALOGUE[id]
    assert entry.record_scope.batches(CYCLIC, options) == batches
    # only cyclic batches have an order that both datasets share
    assert entry.record_scope.batches(M, options) is None


def test_an_entry_knows_the_option_that_selects_a_record():
    assert bounds.CATALOGUE["at22.theorem_5_6"].record_scope.options_at(CYCLIC, 2) == {"index": 11}
    assert bounds.CATALOGUE["bsa24.theorem_4_5"].record_scope.options_at(CYCLIC, 2) == {}
    selecting = {i for i, e in bounds.CATALOGUE.items() if e.record_scope.options_at(CYCLIC, 0)}
    assert selecting == {i for i, e in bounds.CATALOGUE.items() if "index" in e.options}


def test_an_entry_knows_how_many_runs_it_releases():
    tasks = bounds.CATALOGUE["fmtt18.theorem_32"]
    assert tasks.released_runs({}) == 1
    assert tasks.released_runs({"tasks": 3}) == 3
    assert bounds.CATALOGUE["bsa24.theorem_4_1"].released_runs({}) == 1


def test_of_equal_bounds_the_printed_one_is_named():
    m = noisy_sgd(steps=100, dataset_size=100, step_size=0.1, noise_std=0.5, lipschitz=1.25)
    best = bounds.best(m, delta=1e-5)  # composition: many theorems come down to it, ours too
    assert not best.id.startswith("own.")
    assert best.epsilon <= min(best.compared.values()) * (1 + 1e-9)
    assert "own.forgetting" in best.compared


def test_a_source_prints_as_text_and_as_bibtex():
    source = bounds.CATALOGUE["bsa24.theorem_4_3"].cite
    assert str(source) == (
        "Bok, Su, Altschuler (2024), Shifted Interpolation for Differential Privacy, Theorem 4.3"
    )
    assert source.bibtex().splitlines() == [
        "@inproceedings{bok2024shifted,",
        "  author = {Bok, Jinho and Su, Weijie J. and Altschuler, Jason M.},",
        "  title = {{Shifted Interpolation for Differential Privacy}},",
        "  booktitle = {International Conference on Machine Learning (ICML)},",
        "  year = {2024},",
        "  eprint = {2403.00278},",
        "  archiveprefix = {arXiv},",
        "  note = {Theorem 4.3},",
        "}",
    ]
    # what is not known is left out
    bare = Source("You", 2026, "An example")
    assert bare.bibtex().splitlines() == [
        "@misc{you2026example,", "  author = {You},", "  title = {{An example}},",
        "  year = {2026},", "}",
    ]  # fmt: skip
    assert str(bare) == "You (2026), An example"


# ------------------------------------- The table of statements: what it holds, and what it refuses


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
