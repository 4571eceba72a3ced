"""The page of a statement that was judged on the panel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from audit.numerics.number_format import Rounding, number, plain, ratio
from audit.report.document import (
    LOWER,
    PARAMETER,
    RATIO,
    TEXT,
    UPPER,
    Cell,
    Code,
    ColumnFormat,
    Document,
    Gallery,
    Section,
    Table,
)
from audit.report.mechanism_line import mechanism_line
from audit.results import Verdict
from audit_panel import figure
from audit_panel.verdicts import TIGHT, PanelPoint, PanelVerdict

_MAX_ROWS = 12  # of a table of examples
_SAME = 1e-6  # relative; bounds this close count as equal
_PROPERTIES = {
    "length": "Length of the run",
    "push": "Push of the record in one step",
    "privacy": "Pushes of the whole run",
    "domain": "Width of the domain",
    "batches": "Batches",
    "losses": "Losses",
    "in_time": "Losses over time",
    "relation": "Neighbouring datasets",
    "release": "Release",
}


def build(verdict: PanelVerdict, witness: str) -> Document:
    """Fill every table of a verdict; ``witness`` names the witness file beside the page."""
    return Document(
        title=verdict.id,
        subtitle=f"{verdict.citation}. {verdict.statement}.",
        conclusion=conclusion(verdict),
        tables=(_by_property(verdict),),
        overview=Gallery((figure.draw(verdict),) if verdict.judged else ()),
        sections=tuple(section for section in _sections(verdict, witness) if section.parts),
    )


def conclusion(verdict: PanelVerdict) -> tuple[str, ...]:
    """Return the finding in sentences, the most important first."""
    judged, refuted = len(verdict.judged), verdict.refuted
    if verdict.unreached:
        return (f"The panel cannot reach this statement: {verdict.unreached}.",)
    if verdict.error and not judged:
        return (f"Nothing could be judged: {verdict.error}.",)
    if not judged:
        return (f"Nothing could be judged: {_reasons(verdict)[0][0]}.",)
    if refuted and verdict.confirmed is None:
        found = [
            f"Not decided: {_times(len(refuted))} a certified number exceeds the claimed one, "
            "and it could not be verified."
        ]
    elif refuted:
        first = refuted[0]
        found = [
            f"Refuted on {len(refuted)} of {judged} mechanisms.",
            f"Most clearly, {_place(first)} is certified to be at least {_low(first)} and claimed "
            f"to be at most {_high(first)}.",
            f"The witness: {verdict.verification}.",
        ]
    else:
        found = [
            f"Not refuted on any of {judged} mechanisms of the panel.",
            "This is no proof: other mechanisms, or other datasets, may refute it.",
        ]
    if verdict.error:
        found.append(f"The evaluation ended early: {verdict.error}.")
    if verdict.failed:
        first = verdict.failed[0]
        found.append(f"On {len(verdict.failed)} it cannot be evaluated: {first.message}.")
    if verdict.tight:
        found.append(
            f"On {len(verdict.tight)} of {judged} mechanisms it is tight: the claimed number is at "
            f"most {TIGHT} times the certified one."
        )
    better, worse, _ = compared(verdict)
    if better:
        found.append(
            f"On {len(better)} of {judged} mechanisms it is smaller than every other sound bound "
            "of the catalogue."
        )
    elif worse:
        found.append("On no mechanism is it smaller than every other sound bound of the catalogue.")
    return tuple(found)


def compared(
    verdict: PanelVerdict,
) -> tuple[list[PanelPoint], list[PanelPoint], list[PanelPoint]]:
    """Return consistent points by how the statement compares with the tightest other bound.

    Those on which it is smaller, larger and equal.
    """
    smaller: list[PanelPoint] = []
    larger: list[PanelPoint] = []
    same: list[PanelPoint] = []
    for point in verdict.judged:
        if point.verdict is not Verdict.CONSISTENT or point.competing is None:
            continue
        assert point.claimed is not None
        if math.isclose(point.claimed, point.competing, rel_tol=_SAME):
            same.append(point)
        else:
            (smaller if point.claimed < point.competing else larger).append(point)
    return smaller, larger, same


def _sections(verdict: PanelVerdict, witness: str) -> tuple[Section, ...]:
    refuted: list[Table | str] = []
    if verdict.refuted:
        refuted.append(_points("The clearest refutations", verdict.refuted[:_MAX_ROWS]))
        refuted.append(verdict.verification)
    if verdict.confirmed is not None:
        refuted.append(f"{witness} holds the pair. To verify it: audit-check verify {witness}")
    tight = verdict.tight[:_MAX_ROWS]
    unjudged = _reasons(verdict)
    return (
        Section(ident="refuted", title="Where it is refuted", parts=tuple(refuted)),
        Section(
            ident="tight",
            title="Where it is tight",
            parts=(_points("The smallest ratios", tight),) if tight else (),
        ),
        Section(ident="others", title="Against the tightest other bounds", parts=_others(verdict)),
        Section(ident="statement", title="The statement", parts=_statement(verdict)),
        Section(
            ident="unjudged",
            title="Mechanisms that could not be judged",
            parts=(_reason_table(unjudged),) if unjudged else (),
            folded=True,
        ),
        Section(
            ident="mechanisms",
            title="All judged mechanisms",
            parts=(_points("Smallest ratio first", verdict.judged),) if verdict.judged else (),
            folded=True,
        ),
    )


def _by_property(verdict: PanelVerdict) -> Table:
    rows = []
    for name, title in _PROPERTIES.items():
        values = Counter(point.regime.get(name, "") for point in verdict.judged)
        if len(values) < 2 and name not in ("length", "push"):
            continue
        for value in sorted(values):
            points = [point for point in verdict.judged if point.regime.get(name) == value]
            refuted = sum(point.verdict is Verdict.REFUTED for point in points)
            tight = sum(point in verdict.tight for point in points)
            ratios = [point.ratio for point in points]
            where = Cell(text=value, note=title)
            rows.append((where, len(points), refuted, tight, min(ratios)))
    counts = dict.fromkeys(("judged", "refuted", "tight"), PARAMETER)
    columns = {"where": TEXT, **counts, "least ratio": RATIO}
    return Table.of("Mechanisms of the panel", columns, rows, stacked=False)


def _points(caption: str, points: Sequence[PanelPoint]) -> Table:
    columns = {
        "mechanism": TEXT,
        "at": TEXT,
        "certified": LOWER,
        "claimed": UPPER,
        "ratio": RATIO,
        "tightest other": UPPER,
        "pair": ColumnFormat(Cell.code, numeric=False),
    }
    return Table.of(caption, columns, map(_row, points))


def _row(point: PanelPoint) -> tuple[object, ...]:
    options = ", ".join(f"{name}={value}" for name, value in point.options.items())
    other = None
    if point.competing is not None:
        other = Cell.number(number(point.competing, 5), point.competing, note=point.competitor)
    return (
        Cell(text=mechanism_line(point.mechanism), note=options),
        _place(point),
        point.certified,
        point.claimed,
        point.ratio,
        other,
        point.pair,
    )


def _others(verdict: PanelVerdict) -> tuple[Table, ...]:
    smaller, larger, same = compared(verdict)
    ids = Counter(point.competitor for point in (*smaller, *larger, *same))
    if not ids:
        return ()
    rows = []
    for id, count in ids.most_common():
        factors = [
            point.claimed / point.competing
            for point in (*smaller, *larger, *same)
            if point.competitor == id and point.claimed and point.competing
        ]
        wins = sum(point.competitor == id for point in smaller)
        text = " to ".join(dict.fromkeys(ratio(end(factors)) for end in (min, max) if factors))
        rows.append((Cell.code(id), count, wins, text))
    columns = {
        "tightest other sound bound": TEXT,
        "mechanisms": PARAMETER,
        "statement is smaller on": PARAMETER,
        "claimed over it": TEXT,
    }
    caption = "The tightest other bound on each mechanism where the statement is not refuted"
    return (Table.of(caption, columns, rows),)


def _statement(verdict: PanelVerdict) -> tuple[str | Code | Table, ...]:
    conditions = [(name,) for name in verdict.assumptions]
    table = Table.of("It is judged under these conditions", {"condition": TEXT}, conditions)
    return (
        f"{verdict.statement}.",
        f"{verdict.citation}. Status: {verdict.status}.",
        *((table,) if conditions else ()),
        Code(verdict.bibtex),
    )


def _reasons(verdict: PanelVerdict) -> list[tuple[str, int]]:
    reasons = (
        f"{point.verdict.value}: {point.message}"
        for point in verdict.points
        if math.isnan(point.ratio)
    )
    return Counter(reasons).most_common()


def _reason_table(reasons: Sequence[tuple[str, int]]) -> Table:
    columns = {"reason": TEXT, "mechanisms": PARAMETER}
    return Table.of("Mechanisms without a ratio", columns, reasons)


def _place(point: PanelPoint) -> str:
    name = "delta" if point.quantity == "epsilon" else "order"
    return f"{point.quantity} at {name} {plain(point.at)}"


def _low(point: PanelPoint) -> str:
    assert point.certified is not None
    return number(point.certified, 5, Rounding.DOWN)


def _high(point: PanelPoint) -> str:
    assert point.claimed is not None
    return number(point.claimed, 5, Rounding.UP)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
