"""The directive ``catalogue``: every statement, with its figure, witness and BibTeX entry.

The blocks hold their data themselves, so that the page works from the file system.
``catalogue.js`` searches, filters, groups and orders them.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from stored_results import REPORTS, RESULTS, Stored, raw, rows_of

from audit.bounds import CATALOGUE

Row = Mapping[str, str]

KNOWN_VERDICTS = ("consistent", "refuted", "holds", "not applicable", "run", "documentation")
COMMUNITY = "community"
CONTROLS = """
<form class="controls" id="catalogue-controls" onsubmit="return false">
  <input type="search" name="text" placeholder="Search: id, paper, words of the statement"
   aria-label="Search the catalogue">
  <select name="kind" aria-label="Kind"><option value="">every kind</option></select>
  <select name="paper" aria-label="Paper"><option value="">every paper</option></select>
  <select name="status" aria-label="Status"><option value="">every status</option></select>
  <select name="verdict" aria-label="Verdict"><option value="">every verdict</option></select>
  <select name="panel" aria-label="On the panel">
   <option value="">every panel verdict</option></select>
  <select name="assumption" aria-label="Assumption">
   <option value="">every assumption</option></select>
  <select name="group" aria-label="Group"><option value="">not grouped</option>
   <option value="paper">by paper</option>
   <option value="status">by status</option>
   <option value="verdict">by verdict</option></select>
  <select name="order" aria-label="Order"><option value="">catalogue order</option>
   <option value="loose">loosest first</option>
   <option value="tight">tightest first</option></select>
  <output></output>
</form>
"""

# the strip of an entry: one row of marks for each length of run
_LEAST, _MOST = 0.1, 1000.0  # ratios beyond are drawn at the edges
_LEFT, _WIDTH, _LINE = 118, 430, 22
_LENGTHS = {
    "one step": "one step",
    "before burn-in": "before burn-in",
    "after burn-in": "after burn-in",
    "several steps, no walls": "unbounded",
    "100 000 steps or more, no walls": "very long",
}


class Catalogue(Stored):
    """Every statement as a block that opens, with a table and filters above."""

    def run(self) -> list[nodes.Node]:
        """Write the blocks."""
        rows = rows_of(self.read(RESULTS / "catalogue" / "catalogue.csv"))
        folder = RESULTS / "panel"
        panel = _Panel(
            verdicts={row["id"]: row for row in self.rows(folder / "verdicts.csv")},
            points=self.rows(folder / "points.csv"),
            mechanisms={row["number"]: row for row in self.rows(folder / "mechanisms.csv")},
            witnesses={file.name for file in (folder / "witnesses").glob("*.json")},
            place=f"{self.top}{REPORTS}/panel/witnesses",
        )
        table = self.rows(RESULTS / "catalogue" / "witnesses.csv")
        witnesses = {row["claim"]: row for row in table}
        files = f"{self.top}{REPORTS}/catalogue/witnesses"
        rows += [_community(row) for id, row in panel.verdicts.items() if id not in CATALOGUE]
        shown: set[str] = set()
        blocks = []
        for row in rows:
            told = _witness(witnesses.get(row["claim"]), files)
            blocks.append(block(row, panel, first=row["id"] not in shown, witness=told))
            shown.add(row["id"])
        return [raw(overview(rows) + CONTROLS), raw(f'<div id="catalogue">{"".join(blocks)}</div>')]

    def rows(self, path: Path) -> list[dict[str, str]]:
        """Return the rows of a file; none where it does not exist yet."""
        return rows_of(self.read(path)) if path.exists() else []


class _Panel:
    """What is stored of the panel, by statement."""

    def __init__(
        self,
        verdicts: Mapping[str, Row],
        points: Iterable[Row],
        mechanisms: Mapping[str, Row],
        witnesses: set[str],
        place: str,
    ) -> None:
        self.verdicts = verdicts
        self.mechanisms = mechanisms
        self.witnesses = witnesses
        self.place = place
        self.points: dict[str, list[Row]] = {}
        for point in points:
            if point["ratio"]:
                self.points.setdefault(point["id"], []).append(point)


def _community(row: Row) -> dict[str, str]:
    """Return the row of a statement that only the panel judges."""
    return {
        "kind": COMMUNITY,
        "id": row["id"],
        "claim": row["id"],
        "citation": row["citation"],
        "statement": row["statement"],
        "status": row["status"],
        "verdict": row["verdict"],
        "ratio": row["least_ratio"],
    }


def block(row: Row, panel: _Panel, *, first: bool, witness: str = "") -> str:
    """Return one statement; the panel stands with the ``first`` of several rows on it."""
    id, verdict = row["id"], row["verdict"]
    short = verdict if verdict in KNOWN_VERDICTS else "remark"
    ratio = f"ratio {float(row['ratio']):.4g}" if row["ratio"] else ""
    judged = panel.verdicts.get(id, {})
    assumptions = _assumptions(id, judged)
    facts = {
        "Source": row["citation"],
        "Judged at": " ".join(x for x in (row.get("quantity"), row.get("at")) if x),
        "Mechanism": row.get("mechanism", ""),
        "Certified": row.get("certified", ""),
        "Claimed": row.get("claimed", ""),
        "Pair": ", ".join(x for x in (row.get("pair"), row.get("evidence")) if x),
        "Found": verdict if short == "remark" else row.get("why", ""),
        "Assumes": "; ".join(assumptions),
        "Tests": row.get("tests", ""),
        "Scenarios": row.get("scenarios", ""),
    }
    listed = "".join(
        f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts.items() if text
    )
    told = _panel_block(id, judged, panel) + _bibtex(id, judged) if first else ""
    data = {
        "kind": row["kind"],
        "paper": paper_of(row),
        "status": row["status"],
        "verdict": short,
        "panel": judged.get("verdict", "not judged"),
        "assumption": "|".join(_short_assumption(name) for name in assumptions),
        "ratio": row["ratio"],
    }
    attributes = " ".join(f'data-{name}="{html.escape(text)}"' for name, text in data.items())
    return (
        f'<details class="entry" id="{html.escape(row["claim"])}" {attributes}>'
        f"<summary><code>{html.escape(row['claim'])}</code> "
        f'<span class="badge status">{html.escape(row["status"])}</span> '
        f'<span class="badge verdict-{short.replace(" ", "-")}">{short}</span> '
        f'<span class="factor">{ratio}</span>'
        f'<span class="gist">{html.escape(row["statement"])}</span></summary>'
        f"<dl>{listed}</dl>{witness}{told}</details>"
    )


def _witness(row: Row | None, files: str) -> str:
    """Return a link to the witness of a claim, and what the verifier found."""
    if row is None:
        return ""
    name = html.escape(row["claim"])
    return (
        f'<p class="witness"><a href="{files}/{name}.witness.json" download>Witness</a>: '
        f"{html.escape(row['quantity'])}; claimed {row['claimed']}; "
        f"{html.escape(row['verification'])}.</p>"
    )


def _assumptions(id: str, judged: Row) -> tuple[str, ...]:
    if id in CATALOGUE:
        return tuple(assumption.name for assumption in CATALOGUE[id].assumptions)
    return tuple(filter(None, judged.get("assumptions", "").split("; ")))


def _short_assumption(name: str) -> str:
    """Return the condition without its reason, for the filter."""
    return name.partition(", because")[0].replace("|", " ")


def _bibtex(id: str, judged: Row) -> str:
    text = CATALOGUE[id].source.bibtex() if id in CATALOGUE else judged.get("bibtex", "")
    if not text:
        return ""
    return (
        f'<details class="bibtex"><summary>BibTeX</summary><pre>{html.escape(text)}</pre></details>'
    )


def _panel_block(id: str, judged: Row, panel: _Panel) -> str:
    """Return what the panel found: a sentence, the strip and the witness."""
    if not judged:
        return ""
    if judged["unreached"]:
        return f'<p class="panel">On the panel: {html.escape(judged["unreached"])}.</p>'
    counts = f"{judged['judged']} judgements on {judged['mechanisms']} mechanisms"
    found = f"{judged['refuted']} refute it, {judged['tight']} are tight (ratio at most 1.01)"
    witness = f"{id}.witness.json"
    link = ""
    if witness in panel.witnesses:
        link = (
            f' <a href="{panel.place}/{html.escape(witness)}" download>Witness</a>, '
            f"{html.escape(judged['verification'])}."
        )
    return (
        f'<p class="panel">On the panel: <strong>{judged["verdict"]}</strong>; {counts}, of which '
        f"{found}.{link}</p>{strip(panel.points.get(id, ()), panel.mechanisms)}"
    )


def strip(points: Sequence[Row], mechanisms: Mapping[str, Row]) -> str:
    """Return a drawing of claimed over certified: a mark a mechanism, a row a length of run."""
    by_length: dict[str, list[Row]] = {}
    for point in points:
        by_length.setdefault(mechanisms[point["number"]]["length"], []).append(point)
    names = [name for name in _LENGTHS if name in by_length]
    if not names:
        return ""
    bottom = _LINE * len(names) + 6
    parts = []
    for tick in (0.1, 1, 10, 100, 1000):
        x = _place(tick)
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="2" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 14, f"{tick:g}"))
    for line, name in enumerate(names):
        y = _LINE * line + _LINE // 2 + 4
        parts.append(
            f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{_LENGTHS[name]}</text>'
        )
        parts += [_mark(point, y, mechanisms[point["number"]]) for point in by_length[name]]
    middle = round((_place(_LEAST) + _place(_MOST)) / 2)
    parts.append(_text(middle, bottom + 30, "claimed over certified"))
    return (
        f'<svg class="strip" viewBox="0 0 {_WIDTH} {bottom + 36}" role="img" '
        f'aria-label="claimed over certified on the panel">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


def _place(ratio: float) -> float:
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return round(_LEFT + share * (_WIDTH - _LEFT - 20), 1)


def _mark(point: Row, y: int, mechanism: Row) -> str:
    value = float(point["ratio"])
    x = _place(value)
    told = (
        f"{point['quantity']} at {point['at']}: certified {float(point['certified']):.4g}, "
        f"claimed {float(point['claimed']):.4g}, ratio {value:.4g}; {point['pair']}; "
        f"{mechanism['mechanism']}{'; ' + point['options'] if point['options'] else ''}"
    )
    if point["competing"]:
        told += f"; tightest other {point['competitor']} {float(point['competing']):.4g}"
    title = f"<title>{html.escape(told)}</title>"
    if point["verdict"] == "refuted":
        return f'<path class="wrong" d="M{x - 4},{y - 4}l8,8m0,-8l-8,8">{title}</path>'
    return f'<circle cx="{x}" cy="{y}" r="4">{title}</circle>'


def overview(rows: Sequence[Row]) -> str:
    """Return a table of papers and statuses whose counts lead to the entries."""
    judged = [row for row in rows if row["kind"] in ("upper bound", "lower bound", COMMUNITY)]
    papers = dict.fromkeys(paper_of(row) for row in judged)
    statuses = [name for name, _ in Counter(row["status"] for row in judged).most_common()]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in statuses)
    body = []
    for paper in papers:
        own = [row for row in judged if paper_of(row) == paper]
        counts = Counter(row["status"] for row in own)
        cells = "".join(f"<td>{_count(counts[name], paper, name)}</td>" for name in statuses)
        body.append(f"<tr><th>{_link(html.escape(paper), paper)}</th>{cells}</tr>")
    return (
        '<div class="pst-scrollable-table-container"><table class="table papers">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _count(count: int, paper: str, status: str) -> str:
    return _link(str(count), paper, status) if count else ""


def _link(text: str, paper: str, status: str = "") -> str:
    return (
        f'<a href="#catalogue-controls" data-paper="{html.escape(paper)}" '
        f'data-status="{html.escape(status)}">{text}</a>'
    )


def paper_of(row: Row) -> str:
    """Return authors and year, short."""
    id, cited = row["id"], row["citation"]
    if cited.startswith("this package"):
        return "this package"
    if id in CATALOGUE:
        source = CATALOGUE[id].source
        names, year = list(source.families), str(source.year)
    else:
        found = re.search(r"\((\d{4})\)", cited)
        names, year = cited.split(" (")[0].split(", "), found[1] if found else ""
    short = names[0] + (" et al." if len(names) > 2 else f", {names[1]}" if names[1:] else "")
    return f"{short} ({year})" if year else short


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("catalogue", Catalogue)
    app.add_js_file("catalogue.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
