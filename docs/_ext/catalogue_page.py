"""The directives ``catalogue``, a table of every statement, and ``statement``, with its evidence.

Each statement has a page of its own, written before the site is read. The table holds its data
itself, so that it works from the file system; ``catalogue.js`` searches, filters and orders it.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from stored_results import REPORTS, RESULTS, Stored, raw, rows_of

from audit import Batching, Divisor, NoisySGD, Relation, Release
from audit.bounds import CATALOGUE

Row = Mapping[str, str]

KNOWN_VERDICTS = ("consistent", "refuted", "holds", "not applicable", "run", "documentation")
COMMUNITY = "community"
PAGES = "results/generated"  # below docs/
FILTERS = ("kind", "losses", "sampler", "paper", "status", "verdict", "panel", "assumption")
COLUMNS = ("statement", "losses", "sampler", "paper", "status", "verdict", "ratio")


def controls() -> str:
    """Return the form that filters the table."""
    menus = "".join(
        f'<select name="{name}" aria-label="{name}"><option value="">any {name}</option></select>'
        for name in FILTERS
    )
    return (
        '<form class="controls" id="catalogue-controls" onsubmit="return false">'
        '<input type="search" name="text" placeholder="Search: id, paper, words of the statement" '
        f'aria-label="Search the catalogue">{menus}<output></output></form>'
    )


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


class _Evidence(Stored):
    """What is stored of the statements."""

    def stored(self) -> tuple[list[dict[str, str]], _Panel, dict[str, dict[str, str]]]:
        """Return the rows of the catalogue, what the panel found, and the witnesses by claim."""
        rows = rows_of(self.read(RESULTS / "catalogue" / "catalogue.csv"))
        folder = RESULTS / "panel"
        panel = _Panel(
            verdicts={row["id"]: row for row in self.rows(folder / "verdicts.csv")},
            points=self.rows(folder / "points.csv"),
            mechanisms={row["number"]: row for row in self.rows(folder / "mechanisms.csv")},
            witnesses={file.name for file in (folder / "witnesses").glob("*.json")},
            place=f"{self.top}{REPORTS}/panel/witnesses",
        )
        rows += [_community(row) for id, row in panel.verdicts.items() if id not in CATALOGUE]
        table = self.rows(RESULTS / "catalogue" / "witnesses.csv")
        return rows, panel, {row["claim"]: row for row in table}

    def rows(self, path: Path) -> list[dict[str, str]]:
        """Return the rows of a file; none where it does not exist yet."""
        return rows_of(self.read(path)) if path.exists() else []


class Catalogue(_Evidence):
    """A table of every statement, with filters above."""

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows, panel, _ = self.stored()
        head = "".join(f'<th><button data-by="{name}">{name}</button></th>' for name in COLUMNS)
        body = "".join(line(row, panel, f"{self.top}{PAGES}") for row in rows)
        table = (
            '<div class="catalogue-box"><table class="table" id="catalogue">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
        counts = f"<details><summary>Counts by paper and status</summary>{overview(rows)}</details>"
        return [raw(controls() + table + counts)]


class Statement(_Evidence):
    """One statement, with its figure, witness and BibTeX entry."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write what every claim about the statement found."""
        rows, panel, witnesses = self.stored()
        files = f"{self.top}{REPORTS}/catalogue/witnesses"
        own = [row for row in rows if row["id"] == self.arguments[0]]
        blocks = [
            block(row, panel, first=i == 0, witness=_witness(witnesses.get(row["claim"]), files))
            for i, row in enumerate(own)
        ]
        back = f'<p><a href="{self.top}results/catalogue.html">The catalogue</a></p>'
        return [raw("".join([*blocks, back]))]


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


def facets(row: Row, panel: _Panel) -> dict[str, str]:
    """Return the values by which the table filters; several are separated by bars."""
    id, verdict = row["id"], row["verdict"]
    judged = panel.verdicts.get(id, {})
    losses, samplers = scope(id)
    return {
        "kind": row["kind"],
        "losses": "|".join(losses),
        "sampler": "|".join(samplers),
        "paper": paper_of(row),
        "status": row["status"],
        "verdict": verdict if verdict in KNOWN_VERDICTS else "remark",
        "panel": judged.get("verdict", "not judged"),
        "assumption": "|".join(map(_short_assumption, _assumptions(id, judged))),
        "ratio": row["ratio"],
    }


def line(row: Row, panel: _Panel, pages: str) -> str:
    """Return one statement as a row of the table."""
    found = facets(row, panel)
    data = "".join(f' data-{name}="{html.escape(text)}"' for name, text in found.items())
    claim, ratio = html.escape(row["claim"]), f"{float(row['ratio']):.3g}" if row["ratio"] else ""
    cells = [html.escape(found[name].replace("|", ", ")) for name in COLUMNS[1:4]]
    if found["losses"] == "|".join(_LOSSES):
        cells[0] = "any"
    cells += [badges(row["status"]), badges(found["verdict"]), ratio]
    return (
        f'<tr id="{claim}"{data}><td><a href="{pages}/{html.escape(row["id"])}.html">'
        f'<code>{claim}</code></a><span class="gist">{html.escape(row["statement"])}</span></td>'
        f"{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    )


def badges(word: str) -> str:
    """Return a word as a badge."""
    return f'<span class="badge verdict-{word.replace(" ", "-")}">{html.escape(word)}</span>'


def block(row: Row, panel: _Panel, *, first: bool, witness: str = "") -> str:
    """Return one statement; the panel stands with the ``first`` of several rows on it."""
    id, verdict = row["id"], row["verdict"]
    remark = verdict not in KNOWN_VERDICTS
    judged = panel.verdicts.get(id, {})
    losses, samplers = scope(id)
    facts = {
        "Source": row["citation"],
        "Losses": ", ".join(losses),
        "Samplers": ", ".join(samplers),
        "Judged at": " ".join(x for x in (row.get("quantity"), row.get("at")) if x),
        "Mechanism": row.get("mechanism", ""),
        "Certified": row.get("certified", ""),
        "Claimed": row.get("claimed", ""),
        "Ratio": row["ratio"],
        "Pair": ", ".join(x for x in (row.get("pair"), row.get("evidence")) if x),
        "Found": verdict if remark else row.get("why", ""),
        "Assumes": "; ".join(_assumptions(id, judged)),
        "Tests": row.get("tests", ""),
        "Scenarios": row.get("scenarios", ""),
    }
    listed = "".join(
        f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts.items() if text
    )
    told = _panel_block(id, judged, panel) + _bibtex(id, judged) if first else ""
    return (
        f'<section class="entry"><p><code>{html.escape(row["claim"])}</code> '
        f"{badges(row['status'])} {badges('remark' if remark else verdict)} "
        f'<span class="gist">{html.escape(row["statement"])}</span></p>'
        f"<dl>{listed}</dl>{witness}{told}</section>"
    )


@cache
def scope(id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the losses and the samplers that a statement of the catalogue covers."""
    if id not in CATALOGUE:
        return (), ()
    covered = [key for key, m in _mechanisms() if not CATALOGUE[id].failures(m)]
    losses = {name for name, _ in covered}
    samplers = {batching for _, batching in covered}
    return (
        tuple(name for name in _LOSSES if name in losses),
        tuple(batching.value for batching in Batching if batching in samplers),
    )


_LOSSES: Mapping[str, Mapping[str, Any]] = {
    "convex": {"smoothness": 1.0},
    "strongly convex": {"smoothness": 1.0, "strong_convexity": 0.5},
    "clipped": {"convex": False, "clip_norm": 1.0},
    "Hölder gradients": {"holder": (1.0, 0.5)},
}
_SIZES = ((20, 100, 10), (20, 100, 1), (100, 100, 1), (20, 20, 20), (1, 20, 20), (20_000, 100, 10))


@cache
def _mechanisms() -> tuple[tuple[tuple[str, Batching], NoisySGD], ...]:
    """Return mechanisms of every kind, from which the scope of a statement is read."""
    return tuple(_made())


def _made() -> Iterator[tuple[tuple[str, Batching], NoisySGD]]:
    for name, batching in itertools.product(_LOSSES, Batching):
        sizes = [s for s in _SIZES if (s[1] == s[2]) == (batching is Batching.FULL)]
        divisors = Divisor if batching is Batching.POISSON else (Divisor.NOMINAL,)
        for size, relation, release, divisor, diameter in itertools.product(
            sizes, Relation, Release, divisors, (None, 1.0)
        ):
            cut = {"max_batch_size": 20} if batching is Batching.TRUNCATED_POISSON else {}
            with suppress(ValueError):  # some of these contradict each other
                yield (
                    (name, batching),
                    NoisySGD(
                        steps=size[0],
                        dataset_size=size[1],
                        batch_size=size[2],
                        step_size=0.5,
                        noise_std=1.0,
                        lipschitz=1.0,
                        batching=batching,
                        relation=relation,
                        release=release,
                        divisor=divisor,
                        diameter=diameter,
                        **cut,
                        **_LOSSES[name],
                    ),
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


def write_pages(app: Sphinx) -> None:
    """Write the source of every statement's page, before Sphinx lists the pages."""
    stored = rows_of(RESULTS / "catalogue" / "catalogue.csv")
    stored += rows_of(RESULTS / "panel" / "verdicts.csv")
    folder = Path(app.srcdir) / PAGES
    folder.mkdir(parents=True, exist_ok=True)
    for id in dict.fromkeys(row["id"] for row in stored):
        page = folder / f"{id}.md"
        text = f"---\norphan: true\n---\n\n# {id}\n\n```{{statement}} {id}\n```\n"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.connect("builder-inited", write_pages)
    app.add_directive("catalogue", Catalogue)
    app.add_directive("statement", Statement)
    app.add_js_file("catalogue.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
