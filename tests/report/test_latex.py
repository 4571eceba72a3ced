r"""Tables for LaTeX: every special sign is escaped, and the numbers are those of the report."""

from __future__ import annotations

import re

import pytest

from audit.report import latex, run_report
from audit.report.document import COUNT, TEXT, Cell, Table
from audit.results import Verdict

from .example import example

ODD = r"a_b 50% & $x$ #1 {y} ~ ^ \z <q> |r| “s” – δ ≥ η σ ∞"


def content(*rows: tuple[Cell, ...]) -> Table:
    return Table(caption="Epsilon & δ", columns=(("What_1", TEXT), ("Value", COUNT)), rows=rows)


@pytest.mark.parametrize("letter", list(r"\{}$&#%_~^<>|"))
def test_special_signs(letter: str) -> None:
    text = latex.escaped(f"a{letter}b")
    assert text.startswith("a")
    assert text.endswith("b")
    assert len(text) > 3
    # what is left of the command that stands for it is no special sign by itself
    bare = re.sub(r"\\[a-z]+\{\}|\\.", "", text)
    assert bare == "ab"


def test_words_and_greek() -> None:
    text = latex.escaped(ODD)
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
    assert [line for line in lines if "rule" in line] == [
        r"\toprule",
        r"\midrule",
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
    ]
    assert r"What\_1 & Value \\" in lines
    assert lines[-3] == (
        r"\texttt{bsa24.\allowbreak{}theorem\_4\_3} {\footnotesize a \& b} & "
        r"1.5 {\footnotesize \texttt{at22.\allowbreak{}b\_2}} \\"
    )
    assert lines[-2] == r"x & \textbf{refuted} \\"
    assert lines[-1] == r"\end{longtable}"


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
