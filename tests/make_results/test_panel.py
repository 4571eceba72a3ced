"""The tables of the panel, and the blocks of the catalogue's page that show them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from audit.bounds import CATALOGUE, Status, entry
from audit.codec import encode
from audit.report.mechanism_line import mechanism_line
from audit_panel import judging as panel
from audit_panel import write as write_panel
from audit_panel.mechanisms import chosen, drawn
from audit_panel.statement_file import PanelEntry, admits
from results.panel import make, table
from tests.panel.test_page import REFUTED, VERDICT, WITNESS
from tests.verifying import is_refuted

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "results" / "panel"
KNOWN = "fmtt18.theorem_1"


def test_rows_of_other_statements_are_kept(tmp_path: Path) -> None:
    first = replace(REFUTED, id="a.first")
    table.write([VERDICT, first], tmp_path, order=["a.first"], keep=False)
    assert [row["id"] for row in table.read(tmp_path / table.VERDICTS)] == ["a.first", VERDICT.id]
    witness = tmp_path / "witnesses" / "a.first.witness.json"
    assert json.loads(witness.read_text(encoding="utf-8")) == WITNESS
    table.write([replace(VERDICT, status="own")], tmp_path, order=["a.first"], keep=True)
    rows = {row["id"]: row for row in table.read(tmp_path / table.VERDICTS)}
    assert rows["a.first"]["refuted"] == "1"
    assert rows[VERDICT.id]["status"] == "own"
    assert rows[VERDICT.id]["below_others"] == "1"
    assert witness.exists()
    assert len(table.read(tmp_path / table.MECHANISMS)) == 2  # numbers 7 and 8, once each
    table.write([VERDICT], tmp_path, order=[], keep=False)
    assert not witness.exists()


def test_the_page_counts(tmp_path: Path) -> None:
    whole = replace(VERDICT, points=VERDICT.judged)  # it can be evaluated on every mechanism
    table.write([whole, replace(REFUTED, id="a.first")], tmp_path, order=[], keep=False)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "1 of 2 others are consistent; not so: `a.first` (refuted)." in page
    assert "| `mine.theorem` | unproven | consistent | 1 | 0 | 1 | 1 | 2 | 1 |" in page


@pytest.mark.slow
def test_two_processes_judge_as_one_does() -> None:
    known = entry("bsa24.theorem_4_1")
    numbers = chosen(lambda m: admits(known, m), 2, draws=60)
    tasks = [(number, [panel._Asked(PanelEntry.of(known), number, {})]) for number in numbers]
    with panel._in_processes(tasks, jobs=2) as done:
        assert encode(list(done)) == encode([panel._points(*task) for task in tasks])


def test_tables_are_never_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        make.main(["no.such", "--out", str(tmp_path)])
    assert "neither an entry nor a community file: no.such" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    table.write([VERDICT], tmp_path, order=[], keep=False)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.write([REFUTED], tmp_path, order=[], keep=False)
    with pytest.raises(KeyboardInterrupt):
        write_panel(VERDICT, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


# what is committed


def test_no_sound_statement_is_refuted_and_false_ones_are() -> None:
    rows = {row["id"]: row for row in table.read(FOLDER / table.VERDICTS)}
    assert len(rows) > 70
    for id, row in rows.items():
        if id in CATALOGUE and CATALOGUE[id].status.sound:
            assert row["refuted"] == "0", id
            assert float(row["least_ratio"] or 1) >= 1 - 1e-6, id
        if id in CATALOGUE and CATALOGUE[id].status is Status.REFUTED:
            assert row["verdict"] == "refuted", id
            assert (FOLDER / "witnesses" / f"{id}.witness.json").exists(), id
    assert table.page(list(rows.values())) == (FOLDER / "README.md").read_text(encoding="utf-8")


def test_committed_mechanisms_are_those_of_the_sequence_and_a_witness_stands() -> None:
    for row in table.read(FOLDER / table.MECHANISMS)[::20]:
        m = drawn(int(row["number"]))
        assert m is not None
        assert row["mechanism"] == mechanism_line(m)
    text = (FOLDER / "witnesses" / f"{KNOWN}.witness.json").read_text(encoding="utf-8")
    assert is_refuted(json.loads(text))


def test_a_block_of_the_page_holds_figure_witness_and_bibtex(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs" / "_ext"), *sys.path])
    import catalogue_page

    panel = catalogue_page._Panel(
        verdicts={row["id"]: row for row in table.read(FOLDER / table.VERDICTS)},
        points=table.read(FOLDER / table.POINTS),
        mechanisms={row["number"]: row for row in table.read(FOLDER / table.MECHANISMS)},
        witnesses={f"{KNOWN}.witness.json"},
        place="../reports/panel/witnesses",
    )
    row = catalogue_page._community(panel.verdicts[KNOWN])
    block = catalogue_page.block(row, panel, first=True)
    found = catalogue_page.line(row, panel, "generated")
    assert 'data-panel="refuted"' in found
    assert 'data-paper="Feldman et al. (2018)"' in found
    assert "|convex losses|unclipped gradients|" in found
    assert f'<a href="generated/{row["id"]}.html">' in found
    assert f'href="../reports/panel/witnesses/{KNOWN}.witness.json"' in block
    assert '<path class="wrong"' in block
    assert "<circle" in block
    assert "@inproceedings{feldman2018privacy," in block
    assert "<svg" not in catalogue_page.block(row, panel, first=False)
