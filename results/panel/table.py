"""The tables of the panel: CSV files, the witnesses, and the page that shows them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from audit.codec.atomic import write_atomic
from audit.report.mechanism_line import mechanism_line
from audit.results import Verdict
from audit_panel.verdicts import PanelPoint, PanelVerdict

VERDICTS, POINTS, MECHANISMS = "verdicts.csv", "points.csv", "mechanisms.csv"
VERDICT_COLUMNS = (
    "id", "status", "verdict", "expected", "mechanisms", "judged", "refuted", "tight",
    "least_ratio", "median_ratio", "below_others", "unreached", "verification", "citation",
    "statement", "assumptions", "bibtex",
)  # fmt: skip
POINT_COLUMNS = (
    "id", "number", "options", "verdict", "quantity", "at", "order", "claimed", "certified",
    "ratio", "pair", "competitor", "competing", "message",
)  # fmt: skip
MECHANISM_COLUMNS = (
    "number", "batches", "length", "push", "privacy", "domain", "losses", "in_time",
    "relation", "release", "mechanism",
)  # fmt: skip
_DIGITS = 8
_BELOW = 1 - 1e-6  # of the tightest other bound

_PAGE = """\
# The catalogue on the standard panel

Every statement of the catalogue, and every file of `scenarios/claims/community`, judged on a
panel of up to {size} mechanisms that its assumptions admit. No pair, mechanism or option is
chosen by hand: the mechanisms come from one fixed sequence (`audit_panel.mechanisms`),
and the pairs are those that `audit-check` tries. A ratio is claimed over certified; below 1 the
statement is refuted, and a refutation counts if `audit-verify` verifies a
witness of it. *Tight* counts mechanisms with a ratio of
at most 1.01. *Below others* counts mechanisms on which the statement is smaller than every other
sound bound of the catalogue. Consistent means not refuted, which is no proof. Rates without
constants are not judged. Epsilon is judged at delta = 1e-2, 1e-5 and 1e-10, and Renyi divergences
at four orders: a statement on total variation, which is delta at epsilon = 0, is inconclusive.

`python results/panel/make.py` writes this page, [verdicts.csv](verdicts.csv) (a row a statement),
[points.csv](points.csv) (a row a statement and mechanism), [mechanisms.csv](mechanisms.csv) and
`witnesses/`. `audit-check panel ID` judges one statement on a larger panel, and
`audit-check panel FILE.py` yours.

{counts}

## Statements that are stored as refuted

{refuted}

## All others

{others}
"""


def write(
    verdicts: Sequence[PanelVerdict], folder: Path, *, order: Sequence[str], keep: bool
) -> int:
    """Write all files, and return the number of statements.

    ``order`` are the ids of the catalogue; with ``keep`` the rows of other statements stay.
    """
    new = {verdict.id for verdict in verdicts}
    rows: dict[str, list[dict[str, str]]] = {name: [] for name in (VERDICTS, POINTS, MECHANISMS)}
    if keep:
        for name in rows:
            rows[name] = [r for r in read(folder / name) if r.get("id") not in new]
    for verdict in verdicts:
        rows[VERDICTS].append(_verdict_row(verdict))
        rows[POINTS] += [_point_row(verdict, point) for point in verdict.points]
        rows[MECHANISMS] += [_mechanism_row(point) for point in verdict.points]
    place = {id: i for i, id in enumerate(order)}
    for name in (VERDICTS, POINTS):
        rows[name].sort(key=lambda row: (place.get(row["id"], len(place)), row["id"]))
    used = {row["number"] for row in rows[POINTS]}
    known = {row["number"]: row for row in rows[MECHANISMS] if row["number"] in used}
    rows[MECHANISMS] = [known[number] for number in sorted(known, key=int)]
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder / VERDICTS, VERDICT_COLUMNS, rows[VERDICTS])
    _write_csv(folder / POINTS, POINT_COLUMNS, rows[POINTS])
    _write_csv(folder / MECHANISMS, MECHANISM_COLUMNS, rows[MECHANISMS])
    _write_witnesses(verdicts, folder / "witnesses", kept={row["id"] for row in rows[VERDICTS]})
    write_atomic(folder / "README.md", page(rows[VERDICTS]).encode())
    return len(rows[VERDICTS])


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue().encode())


def _write_witnesses(verdicts: Sequence[PanelVerdict], folder: Path, kept: set[str]) -> None:
    folder.mkdir(exist_ok=True)
    ending = ".witness.json"
    new = {verdict.id for verdict in verdicts}
    for file in folder.glob(f"*{ending}"):
        id = file.name.removesuffix(ending)
        if id in new or id not in kept:
            file.unlink()
    for verdict in verdicts:
        if verdict.confirmed is not None:
            witness = verdict.points[verdict.confirmed].witness
            text = json.dumps(witness, indent=1, allow_nan=False) + "\n"
            write_atomic(folder / f"{verdict.id}{ending}", text.encode())


def _verdict_row(verdict: PanelVerdict) -> dict[str, str]:
    ratios = [point.ratio for point in verdict.judged if math.isfinite(point.ratio)]
    below = sum(
        point.competing_ratio * _BELOW > point.ratio
        for point in verdict.judged
        if point.verdict is Verdict.CONSISTENT
    )
    return {
        "id": verdict.id,
        "status": verdict.status,
        "verdict": verdict.verdict.value,
        "expected": verdict.expected.value,
        "mechanisms": str(len({point.number for point in verdict.points})),
        "judged": str(len(verdict.judged)),
        "refuted": str(len(verdict.refuted)),
        "tight": str(len(verdict.tight)),
        "least_ratio": _number(min(ratios, default=None)),
        "median_ratio": _number(median(ratios) if ratios else None),
        "below_others": str(below),
        "unreached": verdict.unreached,
        "verification": verdict.verification,
        "citation": verdict.citation,
        "statement": verdict.statement,
        "assumptions": "; ".join(verdict.assumptions),
        "bibtex": verdict.bibtex,
    }


def _point_row(verdict: PanelVerdict, point: PanelPoint) -> dict[str, str]:
    return {
        "id": verdict.id,
        "number": str(point.number),
        "options": ", ".join(f"{name}={value}" for name, value in point.options.items()),
        "verdict": point.verdict.value,
        "quantity": point.quantity,
        "at": "" if point.at is None else f"{point.at:g}",
        "order": "" if point.order is None else point.order.value,
        "claimed": _number(point.claimed),
        "certified": _number(point.certified),
        "ratio": "" if math.isnan(point.ratio) else _number(point.ratio),
        "pair": point.pair,
        "competitor": point.competitor,
        "competing": _number(point.competing),
        "message": point.message if math.isnan(point.ratio) else "",
    }


def _mechanism_row(point: PanelPoint) -> dict[str, str]:
    line = mechanism_line(point.mechanism)
    return {"number": str(point.number), **point.regime, "mechanism": line}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.{_DIGITS}g}"


# the page


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the page of a table of verdicts."""
    refuted = [row for row in rows if row["expected"] == "refuted"]
    others = [row for row in rows if row["expected"] != "refuted"]
    caught = sum(row["verdict"] == "refuted" for row in refuted)
    missed = [f"`{row['id']}`" for row in refuted if row["verdict"] != "refuted"]
    consistent = sum(row["verdict"] == "consistent" for row in others)
    rest = [f"`{row['id']}` ({_why(row)})" for row in others if row["verdict"] != "consistent"]
    counts = (
        f"{caught} of {len(refuted)} statements that are stored as refuted are refuted here"
        f"{'; missed: ' + ', '.join(missed) if missed else ''}. {consistent} of {len(others)} "
        f"others are consistent{'; not so: ' + ', '.join(rest) if rest else ''}."
    )
    size = max((int(row["mechanisms"]) for row in rows), default=0)
    return _PAGE.format(size=size, counts=counts, refuted=_table(refuted), others=_table(others))


def _why(row: Mapping[str, str]) -> str:
    return row["unreached"] or row["verdict"]


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    lines = [
        "| statement | status | verdict | mechanisms | refuted | tight | least ratio "
        "| median ratio | below others |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        verdict = f"**{row['verdict']}**" if row["verdict"] == "refuted" else row["verdict"]
        cells = (
            f"`{row['id']}`", row["status"], verdict, row["mechanisms"], row["refuted"],
            row["tight"], _short(row["least_ratio"]), _short(row["median_ratio"]),
            row["below_others"],
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(text: str) -> str:
    return f"{float(text):.4g}" if text else "–"
