"""Statements on the standard panel: of files from outside, and of the catalogue."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from audit import bounds
from audit.bounds import Assumption, Entry, Source, Status
from audit.bounds.assumptions import CONVEX, FULL_BATCHES, LAST_ITERATE
from audit.cli import check as check_command
from audit.constructions.explicit import Repeated
from audit.curves import GaussianCurve
from audit.isolation import UserCodeError
from audit.mechanism import Batching, Losses, Relation
from audit.results import Verdict
from audit_panel import judging as panel
from audit_panel import mechanisms as panel_mechanisms
from audit_panel import statement_file as panel_file
from audit_panel.mechanisms import Length, Push, chosen, drawn, regime_of
from tests.verifying import is_refuted

# a user's file: a misprint (the mean of the pushes for their sum), and the theorem
OUTSIDE = '''\
"""Composition, with a misprint and without."""

from audit.bounds import Source, Status, bound
from audit.bounds.assumptions import CONVEX, FULL_BATCHES, LAST_ITERATE, Assumption
from audit.curves import GaussianCurve

ALONE = Assumption("a single record, on the line",
                   lambda m: m.dataset_size == 1 and m.diameter is None,
                   lambda m: f"n={m.dataset_size}, diameter={m.diameter}")
SOURCE = Source(("Outside, Olga",), 2026, "A Note on Composition", "Theorem 2")


def mu(m):
    return m.sensitivity / (m.batch_size * m.noise_std)


@bound(id="outside.misprint", source=SOURCE, statement="mu-GDP with mu = S/(n sigma)",
       assumes=(FULL_BATCHES, LAST_ITERATE, CONVEX, ALONE), status=Status.UNPROVEN)
def misprint(m):
    return GaussianCurve(mu(m))


@bound(id="outside.theorem_2", source=SOURCE, statement="mu-GDP with mu = sqrt(T) S/(n sigma)",
       assumes=(FULL_BATCHES, LAST_ITERATE, CONVEX, ALONE), status=Status.UNPROVEN)
def theorem_2(m):
    return GaussianCurve(m.steps**0.5 * mu(m))
'''
HEAD, _, THEOREM = OUTSIDE.partition("@bound")
THEOREM = "@bound" + THEOREM.partition("@bound")[2]


def test_a_file_from_outside_appears_judged_on_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broken files and statements beside it take nothing with them."""
    assert OUTSIDE.count("\n") < 40
    monkeypatch.chdir(tmp_path)
    Path("outside.py").write_text(f"{OUTSIDE}\n\n{ODD}", encoding="utf-8")
    Path("two.py").write_text(HEAD + THEOREM, encoding="utf-8")
    words = ["panel", "missing.py", "outside.py", "two.py", "no.such_id", "--mechanisms", "2"]
    assert check_command.run(words) == 2
    printed, complaints = capsys.readouterr()
    missing, twice, unknown = complaints.strip().splitlines()
    assert missing.startswith("missing.py cannot be imported: FileNotFoundError")
    assert twice == "id must be unique, got 'outside.theorem_2' in outside.py and two.py"
    assert "no.such_id" in unknown
    odd = "outside.odd: error\n  stopped: an assumption of outside.odd raised ZeroDivisionError"
    assert odd in printed
    assert re.search(r"^outside\.misprint: refuted on [12] of 2 mechanisms, ", printed, re.M)
    assert "outside.theorem_2: consistent on 2 mechanisms, tight on " in printed
    assert "outside.misprint" not in bounds.CATALOGUE  # imported in the worker only
    false = Path("panel/outside.misprint.html").read_text(encoding="utf-8")
    true = Path("panel/outside.theorem_2.html").read_text(encoding="utf-8")
    assert "Refuted on" in false
    assert "Not refuted on any of 2 mechanisms of the panel." in true
    for page in (false, true):
        assert "Outside (2026), A Note on Composition, Theorem 2" in page
        assert "a single record, on the line" in page
        assert "@misc{outside2026note," in page
        assert "<svg" in page
    assert not Path("panel/outside.theorem_2.witness.json").exists()
    witness = json.loads(Path("panel/outside.misprint.witness.json").read_text(encoding="utf-8"))
    assert is_refuted(witness)
    stored = json.loads(Path("panel/outside.theorem_2.json").read_text(encoding="utf-8"))
    assert len(stored["points"]) == 2
    assert check_command.run(["panel", "two.py", "--output", "two.py"]) == 2
    assert capsys.readouterr().err == (
        "output must be a folder that can be written to, got 'two.py'\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module", "outside.py cannot be imported: ModuleNotFoundError: No module"),
        ("x = 1", "outside.py must register a bound (audit.bounds.bound), got none"),
        ("raise SystemExit(0)", "outside.py cannot be imported: SystemExit: 0"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "outside.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserCodeError) as caught:
        panel_file.loaded(str(file))  # what the worker runs
    assert str(caught.value).startswith(message)


HANGING = """\
@bound(id="outside.hangs", source=SOURCE, statement="does not return",
       assumes=(FULL_BATCHES, LAST_ITERATE, CONVEX, ALONE), status=Status.UNPROVEN)
def hangs(m):
    time.sleep(60)
"""
ODD = """\
@bound(id="outside.odd", source=SOURCE, statement="has an assumption that raises",
       assumes=(Assumption("odd", lambda m: 1 // 0, str),), status=Status.UNPROVEN)
def odd(m):
    return GaussianCurve(mu(m))
"""


def test_a_broken_statement_takes_no_other_one_with_it(tmp_path: Path) -> None:
    alone = Assumption("alone", lambda m: m.dataset_size == 1 and m.diameter is None, str)
    entry = entry_of("x.alone", FULL_BATCHES, LAST_ITERATE, CONVEX, alone)
    [number] = chosen(lambda m: panel_file.admits(entry, m), 1, draws=500)

    def epsilons(file: panel_file.PanelFile, id: str) -> tuple[float, ...]:
        with file.asking(id) as ask:
            return tuple(ask("values", number, {}, panel.DELTAS, ())["epsilons"])

    path = tmp_path / "outside.py"
    path.write_text(f"import time\n{HEAD}{HANGING}\n\n{THEOREM}", encoding="utf-8")
    with panel_file.PanelFile(path, seconds=2.0) as file:
        with pytest.raises(
            UserCodeError, match=r"^outside\.hangs took longer than its limit of 2 s$"
        ):
            epsilons(file, "outside.hangs")
        assert len(epsilons(file, "outside.theorem_2")) == len(panel.DELTAS)


def test_options_of_claims_files_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["panel", "x.py", "--search", "3"],
        ["panel", "x.py", "--error", "0.001"],
        ["x.yaml", "--mechanisms", "3"],
    ):
        with pytest.raises(SystemExit):
            check_command.run(words)
        assert f"unrecognized arguments: {' '.join(words[-2:])}" in capsys.readouterr().err


# the sequence


def test_the_sequence_is_the_same_everywhere() -> None:
    m = drawn(19)
    assert m is not None
    assert (m.steps, m.dataset_size, m.batch_size) == FIXED[:3]
    assert (m.noise_std, m.diameter, m.batching, m.relation) == FIXED[3:]


FIXED = (6, 2, 1, 1.74, 50.5, Batching.WITHOUT_REPLACEMENT, Relation.REPLACE_ONE)


def entry_of(id: str, *assumes: Assumption) -> Entry:
    return Entry(
        id=id,
        source=Source("Author", 2030, "A Title"),
        statement="something",
        assumptions=assumes,
        status=Status.UNPROVEN,
        function=lambda m: GaussianCurve(math.inf if m.steps > 1 else 1.0),
    )


def test_a_panel_is_admitted_and_spread() -> None:
    entry = bounds.entry("cl25.theorem_3_1")
    numbers = chosen(lambda m: panel_file.admits(entry, m), 12)
    assert len(numbers) == 12
    assert numbers == tuple(sorted(set(numbers)))
    mechanisms = [drawn(number) for number in numbers]
    assert not any(entry.failures(m) for m in mechanisms if m is not None)
    regimes = [regime_of(m) for m in mechanisms if m is not None]
    assert {regime.push for regime in regimes} == set(Push)
    # a full batch is an epoch, so no run is in its first one
    assert {regime.length for regime in regimes} == set(Length) - {Length.ONE_EPOCH}


def test_losses_that_change_are_drawn_where_they_are_covered() -> None:
    def drawn_losses(id: str) -> set[Losses]:
        entry = bounds.entry(id)
        numbers = chosen(lambda m: panel_file.admits(entry, m), 8)
        return {m.losses for number in numbers if (m := drawn(number)) is not None}

    assert drawn_losses("own.parallel_moves") == set(Losses)
    assert drawn_losses("survey.moments_accountant") == {Losses.FIXED}  # it does not name them
    entry = bounds.entry("own.parallel_moves")
    [point] = panel._points(CHANGING, [panel._Asked(panel_file.PanelEntry.of(entry), CHANGING, {})])
    assert point.pair.startswith("ChangingPair")
    assert point.verdict is Verdict.CONSISTENT


CHANGING = 6052  # a mechanism on which a pair that changes is the strongest


def test_every_entry_is_reached_or_says_why() -> None:
    """`admits` is `failures`, and no statement of the catalogue is out of the sequence's reach."""
    few = [drawn(number) for number in range(60)]
    for entry in bounds.CATALOGUE.values():
        for m in few:
            if m is not None:
                assert panel_file.admits(entry, m) is not bool(entry.failures(m)), entry.id
        if entry.status is not Status.ASYMPTOTIC:
            numbers = chosen(lambda m, e=entry: panel_file.admits(e, m), 1, draws=1500)
            assert numbers or panel_file.unmet(entry), entry.id


def test_what_cannot_be_reached_says_why() -> None:
    odd = Assumption("7919 steps", lambda m: m.steps == 7919, lambda m: f"steps={m.steps}")
    one = Assumption("one step", lambda m: m.steps == 1, lambda m: f"steps={m.steps}")
    two = Assumption("two steps", lambda m: m.steps == 2, lambda m: f"steps={m.steps}")
    assert panel_file.unmet(entry_of("x.odd", odd, one)) == (
        "no mechanism of the panel has 7919 steps"
    )
    assert panel_file.unmet(entry_of("x.both", one, two)) == (
        "no mechanism of the panel meets all its assumptions together"
    )
    wide = Assumption("a wide domain", lambda m: m.diameter > 1e9, lambda m: f"D={m.diameter}")
    assert panel_file.unmet(entry_of("x.wide", wide)) == (
        "no mechanism of the panel has a wide domain"
    )


# judging


@pytest.mark.parametrize(("factor", "verdict"), [(1 - 1e-7, "consistent"), (1 - 1e-5, "refuted")])
def test_errors_of_a_formula_are_no_refutation(factor: float, verdict: str) -> None:
    """Composition is exact on the line: a formula with seven right digits stands."""
    entry = bounds.entry("bsa24.theorem_4_1")
    number = next(n for n in range(500) if fits(n))
    values = panel_file.values_of(entry, number, {}, panel.DELTAS, panel.ORDERS)
    moved = replace(
        values,
        epsilons=tuple(value * factor for value in values.epsilons),
        divergences=tuple(value * factor for value in values.divergences),
    )
    asked = panel._Asked(panel_file.PanelEntry.of(entry), number, {}, moved)
    [point] = panel._points(number, [asked])
    assert point.verdict.value == verdict
    assert point.ratio == pytest.approx(factor, rel=1e-8)  # exact brackets
    assert point.competing is not None


def fits(number: int) -> bool:
    m = drawn(number)
    if m is None or m.diameter is not None or m.strong_convexity or m.dataset_size > 1:
        return False
    return panel_file.admits(bounds.entry("bsa24.theorem_4_1"), m) and m.convex


def test_what_is_not_a_number_is_an_error_of_its_mechanism() -> None:
    entry = replace(entry_of("x.nan"), function=lambda m: GaussianCurve(1.0))
    values = panel_file._finite_or_infinite(panel_file.Values(epsilons=(math.nan,)))
    assert values.error == "a claimed number must be at least 0, got nan"
    wrong = replace(entry, function=lambda m: 1 / 0)
    number = next(n for n in range(60) if (m := drawn(n)) and panel_file.admits(wrong, m))
    assert panel_file.values_of(wrong, number, {}, (0.1,), ()).error.startswith("ZeroDivisionError")
    number_of = replace(entry, function=lambda m: 3.0)
    assert panel_file.values_of(number_of, number, {}, (0.1,), ()).error == (
        "x.nan must return a privacy curve, got 3.0"
    )


def test_a_refutation_counts_when_it_is_verified() -> None:
    [verdict] = panel.judge_entries(["fmtt18.theorem_1"], size=2)
    assert verdict.verdict is Verdict.REFUTED
    assert verdict.as_expected
    assert verdict.verification.startswith(("verified: refuted", "not verified: audit-verify"))
    assert replace(verdict, confirmed=None).verdict is Verdict.INCONCLUSIVE
    assert replace(verdict, points=()).verdict is Verdict.INCONCLUSIVE
    [first, *_] = verdict.points
    true = replace(first, verdict=Verdict.CONSISTENT)
    broken = replace(first, verdict=Verdict.ERROR, claimed=None, message="it is NaN")
    assert replace(verdict, points=(true,)).verdict is Verdict.CONSISTENT
    assert replace(verdict, points=(true,), error="it hangs").verdict is Verdict.ERROR
    assert replace(verdict, points=(true, broken)).verdict is Verdict.ERROR  # no all-clear
    lines = panel.lines(verdict)
    assert lines[0].startswith("fmtt18.theorem_1: refuted on ")
    assert "certified Renyi divergence" in lines[1]


def test_options_place_the_record() -> None:
    """Statements on one record are judged for the first or the middle one, too."""
    entry = panel_file.PanelEntry.of(bounds.entry("fmtt18.corollary_31"))
    numbers = chosen(lambda m: panel_file.admits(bounds.entry("fmtt18.corollary_31"), m), 4)
    for number in numbers:
        m = drawn(number)
        assert m is not None
        found = list(panel._options(entry, number))
        assert found[0] == {}
        if m.dataset_size > 1:
            assert found[1:] == [{"public": max(m.dataset_size // 2, 1)}]


def test_rates_are_not_judged() -> None:
    [verdict] = panel.judge_entries(["at22.eq_1_3"], size=2)
    assert verdict.points == ()
    assert verdict.unreached == "a rate without constants, which is not judged"
    assert panel.lines(verdict)[1] == f"  not reached: {verdict.unreached}"
    assert panel_mechanisms.DRAWS >= 1000


def test_several_runs_are_judged_where_no_wall_clamps_them() -> None:
    """The panel once stopped at the first mechanism with a domain."""
    entry = bounds.entry("fmtt18.theorem_32")
    numbers = chosen(partial(panel_file.admits, entry), panel.SIZE)
    asked = panel_file.PanelEntry.of(entry)
    several = [n for n in numbers for options in panel._options(asked, n) if "tasks" in options]
    assert several
    for number in several:
        Repeated(drawn(number), 2)  # type: ignore[arg-type]
    assert not all(drawn(n).diameter is None for n in numbers)  # type: ignore[union-attr]
    # a statement may cover more than the pair of several runs does: it was not judged at all
    values = panel_file.Values(epsilons=(1.0, 1.0, 1.0))
    for number, pair in ((6004, "Repeated(times=10000)"), (405, "")):
        [point] = panel._points(number, [panel._Asked(asked, number, {"tasks": 10_000}, values)])
        assert point.pair == pair
        assert pair or "got release='all iterates'" in point.message
