from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from audit import report
from audit.report import latex, run_report
from audit.report.document import COUNT, TEXT, Cell, Table
from audit.report.files import store
from audit.results import Verdict, to_json

from .example import example, result, study


def test_what_was_stored_is_given_back_or_its_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(ValueError, match=r"readable result\.json, got '.*nowhere' \(No such file"):
        report.load(tmp_path / "nowhere")
    for written, message in (
        (b"{", f"^{re.escape(str(path))}: result must be JSON: "),
        (b"\xff\xfe\x00", f"got '{re.escape(str(tmp_path))}' \\(not UTF-8 text"),
    ):
        path.write_bytes(written)
        with pytest.raises(ValueError, match=message):
            report.load(tmp_path)
    path.write_text(to_json(example()), encoding="utf-8")
    assert report.load(tmp_path) == example()


def test_a_full_disk_or_a_file_in_the_way_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page"
    page.write_text("the former one")
    with pytest.raises(ValueError, match=r"folder that can be written to, got '.*page'"):
        report.write(result(study()), page)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"can be written to, got '.*' \(No space left on device"):
        store({"page": b"new"}, tmp_path)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"page": "the former one"}


def test_neither_importing_the_report_nor_reading_results_imports_matplotlib() -> None:
    code = (
        "import sys, audit.report;"
        "heavy = {'matplotlib', 'audit.bounds', 'audit.exact', 'audit.simulation',"
        " 'audit.estimation', 'audit.scenario', 'audit.constructions'} & set(sys.modules);"
        "from audit.report import gather, load, terminal;"
        "heavy |= {'matplotlib'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


def content(*rows: tuple[Cell, ...]) -> Table:
    return Table(caption="Epsilon & δ", columns=(("What_1", TEXT), ("Value", COUNT)), rows=rows)


def test_special_signs_words_and_greek() -> None:
    for letter in r"\{}$&#%_~^<>|":
        text = latex.escaped(f"a{letter}b")
        assert len(text) > 3
        assert (text[0], text[-1]) == ("a", "b")
        # what is left of the command that stands for it is no special sign by itself
        assert re.sub(r"\\[a-z]+\{\}|\\.", "", text) == "ab", letter
    text = latex.escaped("“s” – δ ≥ η σ ∞")
    assert text.isascii()
    assert "``s''" in text
    assert r"$\delta$ $\geq$ $\eta$ $\sigma$ $\infty$" in text
    assert latex.escaped("a\n  b") == "a b"
    assert latex.escaped("Hölder") == "Hölder"


def test_a_table_in_the_style_of_booktabs() -> None:
    row = (Cell.code("bsa24.theorem_4_3", "a & b"), Cell.number("1.5", 1.5, "at22.b_2"))
    lines = latex.table(content(row, (Cell(text="x"), Cell.verdict(Verdict.REFUTED)))).splitlines()
    assert lines[0] == r"\begin{longtable}{@{}lr@{}}"
    long = latex.table(
        content((Cell(text="a long title", note="with a longer note"), Cell(text="1")))
    )
    assert long.startswith(r"\begin{longtable}{@{}p{0.2\linewidth}r@{}}")
    assert lines[1] == r"\caption{Epsilon \& $\delta$} \\"
    rules = [line for line in lines if "rule" in line]
    assert rules == [rf"\{one}rule" for one in ("top", "mid", "top", "mid", "bottom")]
    assert r"What\_1 & Value \\" in lines
    assert lines[-3] == (
        r"\texttt{bsa24.\allowbreak{}theorem\_4\_3} {\footnotesize a \& b} & "
        r"1.5 {\footnotesize \texttt{at22.\allowbreak{}b\_2}} \\"
    )
    assert lines[-2] == r"x & \textbf{refuted} \\"
    assert lines[-1] == r"\end{longtable}"
    starred = latex.document([content((Cell(text="[1] *"), Cell(text="*\ud800")))]).decode()
    assert r"{[}1] {*} & {*}\ud800 \\" in starred


def test_every_row_has_as_many_cells_as_columns() -> None:
    text = latex.document(run_report.summaries(example())).decode("utf-8")
    assert text.startswith("% needs \\usepackage{booktabs,longtable}\n")
    (shown,) = run_report.summaries(example())
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and " & " in line]
    assert len(rows) == len(shown.rows) + 2  # the head stands on the first and on later pages
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(shown.columns) - 1
    for row, line in zip(shown.rows, rows[2:], strict=True):
        for cell in row:
            assert latex.escaped(cell.text) in line.replace(r"\allowbreak{}", "")
    assert text.count("{") == text.count("}")
