"""The table of the catalogue as Markdown and CSV."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from audit.bounds import CATALOGUE
from audit.bounds.statements import source
from audit.claims.claim import apart
from audit.numerics.number_format import MISSING, ratio
from results.catalogue.rows import Kind, Row
from results.catalogue.stored_witnesses import Stored
from results.scenarios.publish import SHOWN

COLUMNS = tuple(field.name for field in dataclasses.fields(Row))
_DIGITS = 10  # of numbers in CSV: more would change with the libraries beneath
_SHOWN = 6  # of numbers in Markdown, at most
_EXACT = 1e-6  # a ratio this close to 1 is equality
_OTHERS = {
    "matrix": "Matrix mechanisms",
    "own": "Proven in this package",
    "accounting": "Accountants of clipped DP-SGD: all iterates, whatever the losses",
}
_INTRODUCTION = """\
# Status of every statement

Each row of the first tables compares one printed statement with a pair of neighbouring datasets
that its assumptions allow. *Certified* is a lower bound on the value of that pair (exact: from
computed laws, minus every error), *claimed* is the upper bound that the statement gives, and the
ratio is claimed over certified. A ratio of 1.000 is exact; below 1 the statement is refuted. A
ratio just above 1 is printed with enough digits to show it. Consistent means not refuted by the
pair named, which is no proof. `AllIterates` is the pair that accountants compose, computed as its
bound is. The claims are those of
[published.claims.yaml](../../scenarios/claims/published.claims.yaml),
[recent.claims.yaml](../../scenarios/claims/recent.claims.yaml),
[own.claims.yaml](../../scenarios/claims/own.claims.yaml) and
[accounting.claims.yaml](../../scenarios/claims/accounting.claims.yaml);
[catalogue.csv](catalogue.csv) has the full rows: the text of each statement, and the mechanism at
which it is judged.

Each claim and printed epsilon that a pair refutes has a witness: a file with the two laws in plain
numbers and the partition that decides, which `audit-check verify FILE` verifies without the judge's
code. Their table is below.

`make results` writes this file. Numbers in columns of numbers are computed. The last two tables,
including their column *found*, are written by hand in
[statements.yaml](../../scenarios/claims/statements.yaml); the tests and scenarios that they name
check them."""

_WITNESSES = """\
The number that is claimed, and the answer of `audit-verify`, with both sides of the inequality that
refutes the claim."""


def to_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV; numbers have ten digits, what is absent is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_plain(getattr(row, name)) for name in COLUMNS])
    return text.getvalue()


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return " ".join(value) if isinstance(value, (tuple, list)) else str(value)


def to_markdown(rows: Sequence[Row], witnesses: Sequence[Stored]) -> str:
    """Return the page: counts, a table a paper, then what is no entry of the catalogue."""
    judged = [row for row in rows if row.kind in (Kind.UPPER, Kind.LOWER)]
    parts = [_INTRODUCTION, _counts(judged)]
    papers = dict.fromkeys(id.partition(".")[0] for id in CATALOGUE)
    titles = {paper: str(source(paper)) for paper in papers if paper not in _OTHERS}
    for paper, title in (titles | _OTHERS).items():
        own = [row for row in judged if row.id.startswith(f"{paper}.")]
        if own:
            parts += [f"## {title}", _table(_JUDGED, own)]
    printed = [row for row in rows if row.kind is Kind.PRINTED]
    side = [row for row in rows if row.kind is Kind.SIDE]
    parts += ["## Printed numbers and choices, computed again", _table(_PRINTED, printed)]
    processes = [row for row in side if row.status == "process"]
    others = [row for row in side if row.status != "process"]
    parts += ["## Witnesses of refuted statements", _WITNESSES, _witness_table(witnesses)]
    parts += ["## Constructions and processes, run as scenarios", _table(_SIDE, processes)]
    parts += ["## Other statements, and where each is checked", _table(_SIDE, others)]
    return "\n\n".join(parts) + "\n"


def _counts(rows: Sequence[Row]) -> str:
    words = sorted({str(row.verdict) for row in rows})
    counts = ", ".join(f"{sum(row.verdict == word for row in rows)} {word}" for word in words)
    tight = sum(_is_exact(row) for row in rows)
    entries = len({row.id for row in rows})
    return (
        f"{len(rows)} judgements of {entries} statements: {counts}. "
        f"{tight} claims are reached exactly: their ratio is 1 to six digits or more."
    )


def _is_exact(row: Row) -> bool:
    return row.ratio is not None and 0 <= row.ratio - 1 < _EXACT


def _certified(row: Row) -> str:
    return _numbers(row)[0]


def _claimed(row: Row) -> str:
    return _numbers(row)[1]


def _numbers(row: Row) -> tuple[str, str]:
    """Return certified and claimed with as few digits as tell them apart."""
    if row.certified is None or row.claimed is None:
        return "", ""
    return apart(row.certified, row.claimed, _SHOWN)


def _ratio(row: Row) -> str:
    """Return the ratio; only one that is exact reads as 1.000."""
    value = row.ratio
    if value is None:
        return MISSING
    text = ratio(value)
    decimals = len(text.partition(".")[2])
    while value > 1 and not _is_exact(row) and float(text) == 1:
        decimals += 1
        text = f"{value:.{decimals}f}"
    return text


def _verdict(row: Row) -> str:
    word = str(row.verdict)
    return f"**{word}**" if word.startswith("refuted") else word


def _name(row: Row) -> str:
    shown = f"`{row.claim}`"
    return shown if row.kind is Kind.UPPER else f"{shown} (a lower bound)"


def _where(row: Row) -> str:
    return f"{row.quantity}, {row.at}" if row.at else MISSING


def _by(row: Row) -> str:
    if row.pair:
        return f"{row.pair}, {row.evidence}"
    tests = f"; tested by {_links(row.tests)}" if row.tests else ""
    return f"{row.why}{tests}"


def _links(tests: Sequence[str]) -> str:
    found = []
    for test in tests:
        file, _, name = test.partition("::")
        found.append(f"[{name or file}](../../{file})")
    return ", ".join(found)


def _scenario(name: str) -> str:
    """Return a link to a scenario's committed report, from the folder of the catalogue."""
    folder = name if name == SHOWN else f"scenarios/{name}"
    return f"[scenario {name}](../{folder}/report.md)"


def _checked(row: Row) -> str:
    scenarios = ", ".join(_scenario(name) for name in row.scenarios)
    why = f"{row.why[:1].upper()}{row.why[1:]}." if row.why else ""
    where = ", ".join(part for part in (scenarios, _links(row.tests)) if part)
    return " ".join(part for part in (why, where) if part)


# heading, whether it is a number, and its text, which may hold links and code
_Column = tuple[str, bool, Callable[[Row], str]]
_JUDGED: tuple[_Column, ...] = (
    ("statement", False, _name),
    ("status", False, lambda row: str(row.status)),
    ("at", False, _where),
    ("certified", True, _certified),
    ("claimed", True, _claimed),
    ("ratio", True, _ratio),
    ("verdict", False, _verdict),
    ("by", False, _by),
)
_PRINTED: tuple[_Column, ...] = (
    ("number", False, lambda row: f"`{row.id}`"),
    ("what", False, lambda row: str(row.statement)),
    ("printed", True, lambda row: f"{row.claimed:.6g}"),
    ("computed", True, lambda row: f"{row.certified:.6g}"),
    ("verdict", False, _verdict),
)
_SIDE: tuple[_Column, ...] = (
    ("statement", False, lambda row: f"`{row.id}`"),
    ("what", False, lambda row: str(row.statement)),
    ("found", False, _verdict),
    ("checked by", False, _checked),
)


def _table(columns: Sequence[_Column], rows: Sequence[Row]) -> str:
    names = [(name, right) for name, right, _ in columns]
    return _lines(names, [[text(row) for _, _, text in columns] for row in rows])


def _witness_table(witnesses: Sequence[Stored]) -> str:
    names = ("statement", "what", "claimed", "verification")
    return _lines(
        [(name, name == "claimed") for name in names],
        [
            [
                f"`{one.claim}` ([file]({one.file}))",
                one.quantity,
                one.claimed,
                one.verification,
            ]
            for one in witnesses
        ],
    )


def _lines(names: Sequence[tuple[str, bool]], cells: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"

    head = line([name for name, _ in names])
    rule = "| " + " | ".join("---:" if right else "---" for _, right in names) + " |"
    return "\n".join([head, rule, *map(line, cells)])


def _escaped(text: str) -> str:
    """Keep bars and line breaks from ending a cell; in code, all else stays what it is."""
    pieces = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\)|\*\*[^*]*\*\*)", " ".join(text.split()))
    return "".join(
        piece.replace("|", r"\|") if i % 2 else re.sub(r"([|\\*<_])", r"\\\1", piece)
        for i, piece in enumerate(pieces)
    )
