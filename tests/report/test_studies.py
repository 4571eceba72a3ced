"""Reports of studies, alone and beside comparisons of epsilons."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import rich.console

from audit import report
from audit.report import conclusion, joined, study_section, terminal
from audit.report.figures import sweep
from audit.scenario.store import to_json
from audit.scenario.studies import read_study
from audit.scenario.study import StudySetting, stored_study

from .example import example
from .test_report import _numbers, _Page


def studied(name: str = "powers", *, wrong: bool = False, seed: int = 4) -> dict[str, Any]:
    kind = "tests.scenario.studies:Everything"
    study = read_study({"function": kind, "size": 20, "wrong": wrong})
    made = StudySetting(name=name, title=f"About {name}", summary="In words.", study=study)
    found = study.find(seed=seed, threads=1, confidence=0.9, progress=lambda done, total: None)
    stored: dict[str, Any] = json.loads(to_json(stored_study(made, found, seed)))
    return stored


def result(*settings: dict[str, Any]) -> dict[str, Any]:
    return {**example(), "settings": list(settings)}


def mixed() -> dict[str, Any]:
    return result(example()["settings"][0], studied(), studied("roots", wrong=True))


@pytest.mark.parametrize("content", [result(studied()), mixed()], ids=["alone", "mixed"])
def test_numbers_on_the_page_are_those_of_the_result(
    content: dict[str, Any], tmp_path: Path
) -> None:
    report.write(content, tmp_path)
    page = _Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    known = set(_numbers(content))
    for value, text in page.data:
        assert set(_numbers(value)) <= known, value
        if isinstance(value, float):
            assert float(text.split(" ")[0].replace(",", "")) == pytest.approx(value, rel=2e-3)
    shown = {json.dumps(value) for value, _ in page.data}
    for setting in content["settings"]:
        for statement in (setting.get("study") or {}).get("statements", ()):
            for key in ("expected", "found"):
                value = statement[key]
                assert isinstance(value, str) or json.dumps(value) in shown
        for table in (setting.get("study") or {}).get("tables", ()):
            for row in table["rows"]:
                cells = {json.dumps(value) for value in row if not isinstance(value, str)}
                assert cells <= shown


def test_a_page_of_studies_alone(tmp_path: Path) -> None:
    files = report.write(result(studied(), studied("roots")), tmp_path)
    figures = {f"{s}-{c}.{e}" for s in ("powers", "roots") for c in ("squares", "powers")
               for e in ("svg", "png")}  # fmt: skip
    assert {path.name for path in files} == {"report.html", "report.md", *figures}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4  # each once, the first one on the first screen
    assert "Its figure “Squares” is at the top of this report." in page
    assert page.index("powers-squares.") < page.index("<h2>")
    assert "No claimed upper bound applies" not in page
    assert "The laws of the last iterate" not in page
    assert "Noisy-SGD takes" not in page
    assert "None" not in page
    for words_of_it in ("Euclid, Elements X", "In words.", "holds", "colour", "centre: x"):
        assert words_of_it in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    first = (tmp_path / "figures" / "powers-squares.svg").read_bytes()
    report.write(result(studied(), studied("roots")), tmp_path)
    assert (tmp_path / "figures" / "powers-squares.svg").read_bytes() == first


def test_a_page_of_both_kinds(tmp_path: Path) -> None:
    report.write(mixed(), tmp_path)
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.index("Epsilon: what samples certify") < text.index("Statements, and what")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("sandwich.") > 0
    assert "is at the top of this report" not in page


def test_a_refuted_statement_is_in_the_first_sentence_and_row() -> None:
    first = conclusion.conclusion(mixed())
    assert first.startswith(
        "1 of 4 statements is refuted (The root of 2 is 1.41421356: expected 1.414, found 2.000, "
        "in “About roots”); "
    )
    assert "consistent" in first or "claimed upper bounds" in first
    table = study_section.summary(mixed()["settings"])
    assert table is not None
    assert [row[-1].text for row in table.rows] == ["refuted", "holds", "holds", "holds"]
    assert table.rows[0][0].note == "About roots"


def test_what_holds_and_what_is_open_in_words() -> None:
    assert conclusion.conclusion(result(studied())) == "All 2 statements that were checked hold."
    assert conclusion.conclusion(result(studied(seed=5))) == "1 of 2 statements is inconclusive."
    one = studied()
    del one["study"]["statements"][1]
    assert conclusion.conclusion(result(one)) == "The one statement that was checked holds."
    one["study"]["statements"][0]["outcome"] = "consistent"
    assert conclusion.conclusion(result(one)) == "The one statement is not refuted."
    assert conclusion.conclusion(result(one, studied())) == "None of 3 statements is refuted."
    one["study"]["statements"] = []
    assert conclusion.conclusion(result(one)) == "No claimed upper bound applies."


def test_a_study_without_charts_and_statements(tmp_path: Path) -> None:
    bare = studied()
    for part in ("charts", "statements", "notes", "tables", "numbers", "settings"):
        del bare["study"][part]
    report.write(result(bare), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Everything" in page
    assert "<svg" not in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": ""}, "settings[0].study.kind must be a word, got ''"),
        ({"statements": 3}, "settings[0].study.statements must be a list, got 3"),
        ({"statements": [{}]}, "settings[0].study.statements[0].claim must be a word, got None"),
        ({"charts": [3]}, "settings[0].study.charts[0] must be an object"),
    ],
)
def test_a_study_that_is_none(change: dict[str, Any], message: str) -> None:
    broken = studied()
    broken["study"].update(change)
    with pytest.raises(ValueError, match=re.escape(message)):
        report.files.check(result(broken))


def test_deltas_beside_a_study() -> None:
    broken = {**studied(), "deltas": example()["settings"][0]["deltas"]}
    with pytest.raises(ValueError, match=r"settings\[0\]\.deltas must be an empty list beside a"):
        report.files.check(result(broken))
    broken = {**studied(), "study": None}
    with pytest.raises(ValueError, match=r"deltas must be a list with one entry or more"):
        report.files.check(result(broken))


def test_joined_reports_pass_studies_by(tmp_path: Path) -> None:
    runs = [report.Run(tmp_path / str(i), "", mixed(), None) for i in range(2)]
    assert {row["setting"] for row in joined.rows(runs) if row["delta"]} == {"full_batch"}
    assert sweep.maps(runs) == ()
    report.write_joined(runs, tmp_path)
    report.write_joined([report.Run(tmp_path / "a", "", result(studied()), None)], tmp_path)


def test_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(result(studied(wrong=True)))
    shown = capsys.readouterr().out
    assert "refuted" in shown
    assert "worst pair" not in shown
    terminal.show(mixed())
    shown = capsys.readouterr().out
    assert "worst pair" in shown
    assert "The root of 2" in shown


def test_words_from_elsewhere_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | *b* [red]x[/red] $x$"
    one = copy.deepcopy(studied())
    one["study"]["statements"][0]["claim"] = evil
    one["study"]["notes"] = [evil]
    one["study"]["charts"][0].update(title=evil, caption=evil)
    report.write(result(one), tmp_path)
    assert "<script" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert re.search(r"(?<!\\)<script", text) is None


def test_many_statements_are_counted_on_the_first_screen() -> None:
    many = studied()
    many["study"]["statements"] = [many["study"]["statements"][0]] * 13
    table = study_section.summary([many, studied("roots", wrong=True)])
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["The root of 2 is 1.41421356", "1.41421", "2", "refuted"],
        ["About powers", "–", "–", "holds"],
        ["About roots", "–", "–", "refuted"],
    ]
    assert [row[0].note for row in table.rows[1:]] == [
        "statements that hold: 13 of 13",
        "statements that hold: 1 of 2",
    ]


def test_a_narrow_terminal_leaves_no_word_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns words are broken over lines; nothing is cut, and numbers stay whole."""
    original = rich.console.Console

    def narrow(**options: Any) -> rich.console.Console:
        return original(**{**options, "width": 80})

    monkeypatch.setattr(rich.console, "Console", narrow)
    terminal.show(mixed())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "…" not in text
    assert "1e-05" not in text
    for whole in ("consistent", "1e-5", "bsa24.theorem_4_3"):
        assert whole in text


def test_a_setting_is_no_better_than_its_weakest_statement() -> None:
    many = studied()
    statement = many["study"]["statements"][0]
    many["study"]["statements"] = [statement] * 12 + [{**statement, "outcome": "consistent"}]
    table = study_section.summary([many])
    assert table is not None
    assert [(row[0].note, row[-1].text) for row in table.rows] == [
        ("statements that hold: 12 of 13", "consistent")
    ]
