"""Reports of studies, alone and beside comparisons of epsilons."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rich.console

from audit import report
from audit.numerics.number_format import number, plain
from audit.report import queries, run_report, study_section, terminal
from audit.report.conclusion import conclusion
from audit.results import Findings, StudyResult, Value, Verdict

from .example import mixed, pair_settings, result, study, with_bound


def with_findings(found: StudyResult, **changes: Any) -> StudyResult:
    return replace(found, findings=replace(found.findings, **changes))


def test_a_page_of_studies_alone(written_as: Callable[[str], Path]) -> None:
    folder = written_as("studies")
    figures = {f"{s}-{c}.{e}" for s in ("powers", "roots") for c in ("squares", "powers")
               for e in ("svg", "png")}  # fmt: skip
    assert {path.name for path in folder.rglob("*.*")} == {"report.html", "report.md", *figures}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4  # each once, the first one on the first screen
    assert "Its figure “Squares” is at the top of this report." in page
    assert page.index("powers-squares.") < page.index("<h2>")
    assert "No claimed upper bound applies" not in page
    assert "The laws of the last iterate" not in page
    assert "Noisy-SGD takes" not in page
    assert "None" not in page
    settings = page.split("<caption>Settings")[1].split("</table>")[0]
    assert "limits" in settings
    assert "left" not in settings  # a parameter that is None
    for words in ("Euclid, Elements X", "In words.", "holds", "centre: x", "The seed makes one"):
        assert words in page


def test_a_page_of_both_kinds(written_as: Callable[[str], Path]) -> None:
    folder = written_as("mixed")
    for name in ("report.html", "report.md"):
        text = (folder / name).read_text(encoding="utf-8")
        epsilons = text.index("Epsilon: certified lower bound")
        assert epsilons < text.index("Statements and their verdicts")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("sandwich.") > 0
    assert "is at the top of this report" not in page


def test_a_refuted_statement_is_in_the_first_sentence_and_row() -> None:
    first, second, *_ = conclusion(mixed())
    assert first == "1 of 10 claimed upper bounds is refuted; 1 of 2 statements is refuted."
    assert second.endswith(
        "; The root of 2 is 1.41421356: expected 1.414, found 2.000, in “About roots”."
    )
    table = study_section.summary([(study(), "powers"), (study("roots", wrong=True), "roots")])
    assert [row[-1].text for row in table.rows] == ["refuted", "holds", "holds", "holds"]
    assert table.rows[0][0].note == "About roots"


def test_what_holds_and_what_is_open_in_words() -> None:
    assert conclusion(result(study())) == ("All 2 statements that were checked hold.",)
    assert conclusion(result(study(unclear=True))) == ("1 of 2 statements is inconclusive.",)
    (first, _) = study().findings.statements
    one = with_findings(study(), statements=(first,))
    assert conclusion(result(one)) == ("The one statement that was checked holds.",)
    one = with_findings(study(), statements=(replace(first, verdict=Verdict.CONSISTENT),))
    assert conclusion(result(one)) == ("The one statement is not refuted.",)
    assert conclusion(result(one, study())) == ("None of 3 statements is refuted.",)
    one = with_findings(study(), statements=())
    assert conclusion(result(one)) == ("No claimed upper bound applies.",)


def test_a_study_without_charts_and_statements(tmp_path: Path) -> None:
    bare = replace(study(), findings=Findings(statements=()), parameters={})
    report.write(result(bare), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "tests.powers:Powers" in page
    assert "<svg" not in page


def test_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(result(study(wrong=True)))
    shown = capsys.readouterr().out
    assert "refuted" in shown
    assert "worst pair" not in shown
    terminal.show(mixed())
    shown = capsys.readouterr().out
    assert "worst pair" in shown
    assert "The root of 2" in shown
    # a refuted claim is never the one that stands
    assert "2.195" in shown  # the ratio of the tightest claim that stands
    assert "0.9555" not in shown  # and not of the refuted one below it
    assert "refuted:" in shown


@pytest.mark.usefixtures("_one_pixel")
def test_no_two_figures_have_one_name(tmp_path: Path) -> None:
    first, second, third = (study(name) for name in ("a", "a-b", "a.b-c"))
    charts = [replace(study().findings.charts[0], name=name) for name in ("b-c", "c", "x")]
    made = result(
        with_findings(first, charts=tuple(charts)),
        with_findings(second, charts=(charts[1],)),
        with_findings(third, charts=(charts[2],)),
        with_findings(replace(second, name="a-b-c"), charts=(charts[2],)),
    )
    names = [one.name for one in run_report.build(made).pictures]
    assert names == ["a-b-c", "a-c", "a-x", "a-b-2-c", "a.b-c-x", "a-b-c-x"]
    report.write(made, tmp_path)
    ids = re.findall(r'\bid="([^"]*)"', (tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(ids) == len(set(ids))


def test_brackets_and_colons_in_names_are_shown_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "v[/1][draft]:eye:"
    setting = with_bound(pair_settings()[1], 0, 3, id=words, verdict=Verdict.REFUTED)
    statement = replace(study().findings.statements[0], claim=words)
    made = result(replace(setting, name=words), with_findings(study(), statements=(statement,)))
    terminal.show(replace(made, scenario=replace(made.scenario, title=words)))
    assert capsys.readouterr().out.count(words) == 4 + len(setting.deltas)


def test_many_statements_are_counted_on_the_first_screen() -> None:
    """And a setting is no better than its weakest statement."""
    (statement, _) = study().findings.statements
    weak = with_findings(
        study("weak"),
        statements=(*[statement] * 12, replace(statement, verdict=Verdict.CONSISTENT)),
    )
    many = with_findings(study(), statements=(statement,) * 13)
    shown = [(many, "powers"), (study("roots", wrong=True), "roots"), (weak, "weak")]
    table = study_section.summary(shown)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["The root of 2 is 1.41421356", "1.41421", "2", "refuted"],
        ["About powers", "–", "–", "holds"],
        ["About roots", "–", "–", "refuted"],
        ["About weak", "–", "–", "consistent"],
    ]
    counts = [row[0].note.removeprefix("statements that hold: ") for row in table.rows[1:]]
    assert counts == ["13 of 13", "1 of 2", "12 of 13"]


def test_a_narrow_terminal_leaves_no_word_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns words are broken over lines; nothing is cut, and numbers stay whole."""
    original = rich.console.Console

    def narrow(**options: Any) -> rich.console.Console:
        return original(**options, width=80, force_terminal=True, color_system=None)

    monkeypatch.setattr(rich.console, "Console", narrow)
    terminal.show(mixed())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "…" not in text
    assert "1e-05" not in text
    for whole in ("consistent", "1e-5", "example.theorem_1"):
        assert whole in text


def test_what_refutes_a_claim_is_never_written_as_the_claim() -> None:
    """An audit that stops early certifies barely more than the claim, in the same digits."""
    barely = math.nextafter(2.32, 3)
    for found, verdict, text in (
        (barely, Verdict.REFUTED, "> 2.32"),
        (2.32, Verdict.REFUTED, "> 2.32"),
        (math.nextafter(2.32, 2), Verdict.REFUTED, "< 2.32"),
        (barely, Verdict.CONSISTENT, "2.32"),
        (2.4, Verdict.REFUTED, "2.4"),
    ):
        assert queries.found(2.32, found, verdict, plain) == text
    assert queries.found(2, math.nextafter(2, 3), Verdict.REFUTED, number) == "> 2.0000"


@pytest.mark.parametrize(
    ("expected", "found", "text"),
    [
        (2.0, 2.70067, "expected 2.000, found 2.700"),
        (2, 2.70067, "expected 2, found 2.700"),
        (3.0, 2.70062, "expected 3.000, found 2.701"),
        (1.99999, 1.999995, "expected 1.999990, found 1.999995"),
        (2.00001, math.nextafter(2.00001, 3), "expected 2.000, found > 2.000"),
        (True, False, "expected yes, found no"),
        pytest.param(2.0, 10**400, f"expected 2.000, found {10**400}", id="huge"),
    ],
)
def test_what_was_found_is_rounded_towards_what_it_refutes(
    expected: Value, found: Value, text: str
) -> None:
    one = replace(
        study().findings.statements[0], expected=expected, found=found, verdict=Verdict.REFUTED
    )
    assert text in conclusion(result(with_findings(study(), statements=(one,))))[1]
