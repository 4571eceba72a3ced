"""The tables on a paper's proof: its statements, and its claim below the noise threshold."""

from __future__ import annotations

from audit.report import stored
from audit.report.appendix import spread
from audit.report.document import Cell, Column, Table
from audit.report.number_format import MISSING, Rounding, count, number, plain
from audit.report.stored import Node


def statements(diagnostics: Node) -> Table | None:
    """Return claim, exact value, samples and verdict of each statement of the proof."""
    rows = [_condition(entry) for entry in diagnostics.get("conditions") or ()]
    rows += [_event(entry) for entry in diagnostics.get("events") or ()]
    domination = diagnostics.get("domination")
    if domination:
        margin = domination.get("smallest_margin")
        rows.append(
            (
                Cell(text="omega'' is dominated by omega'"),
                Cell(text="at every point"),
                Cell(text=MISSING)
                if margin is None
                else Cell.number(number(margin, 3), margin, "smallest margin"),
                Cell(text=MISSING),
                Cell.verdict(str(domination.get("verdict", MISSING))),
            )
        )
    claim = diagnostics.get("renyi_claim")
    if claim:
        rows += _renyi(claim)
    if not rows:
        return None
    return Table(
        caption="Statements of the proof",
        columns=(
            Column(label="Statement"),
            Column(label="Claim"),
            Column(label="Exact value", numeric=True),
            Column(label="Sampled", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _condition(entry: Node) -> tuple[Cell, ...]:
    return (
        Cell(text=f"condition {entry['condition']}"),
        Cell(text=f"limit {plain(entry['limit'])}"),
        Cell.number(plain(entry["value"]), entry["value"]),
        Cell(text=MISSING),
        Cell(text="holds" if entry["holds"] else "does not hold"),
    )


def _event(entry: Node) -> tuple[Cell, ...]:
    sampled = entry.get("sampled")
    if sampled:
        low, high = (
            number(sampled["low"], 5, Rounding.DOWN),
            number(sampled["high"], 5, Rounding.UP),
        )
        text = f"{count(sampled['count'])} of {count(sampled['trials'])}"
        frequency = Cell.number(text, sampled["count"], f"between {low} and {high}")
    else:
        frequency = Cell(text=MISSING)
    return (
        Cell(text=str(entry["name"])),
        Cell(text=str(entry.get("claim", MISSING))),
        spread(entry.get("exact"), str(entry.get("note") or "")),
        frequency,
        Cell.verdict(str(entry.get("verdict", MISSING))),
    )


def _renyi(claim: Node) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for order, words in (("forward", "X from X'"), ("reverse", "X' from X")):
        rows.append(
            (
                Cell(text=f"Renyi divergence of order {plain(claim['order'])}, {words}"),
                Cell(text=f"≥ {plain(claim['claimed'])} in one order"),
                spread(claim.get(order)),
                Cell(text=MISSING),
                Cell.verdict(str(claim.get("verdict", MISSING))),
            )
        )
    return rows


def below_threshold(diagnostics: Node) -> Table | None:
    """Return the claimed Renyi divergence at ever smaller noise, order by order."""
    rows = [
        (
            Cell.number(plain(entry["ratio"]), entry["ratio"]),
            Cell.number(plain(entry["noise_std"]), entry["noise_std"]),
            Cell.number(plain(entry["claimed"]), entry["claimed"]),
            spread(entry.get("forward"), str(entry.get("forward_from") or "")),
            Cell.verdict(str(entry.get("forward_verdict", MISSING))),
            spread(entry.get("reverse"), str(entry.get("reverse_from") or "")),
            Cell.verdict(str(entry.get("reverse_verdict", MISSING))),
            Cell.verdict(str(entry.get("verdict", MISSING))),
        )
        for entry in diagnostics.get("below_threshold") or ()
    ]
    if not rows:
        return None
    return Table(
        caption=(
            "The claimed lower bound on the Renyi divergence as the noise falls below its "
            "threshold (r is the threshold's variance over the noise's)"
        ),
        columns=(
            Column(label="r", numeric=True),
            Column(label="σ", numeric=True),
            Column(label="Claimed, at least", numeric=True),
            Column(label="X from X'", numeric=True),
            Column(label="Claim in that order"),
            Column(label="X' from X", numeric=True),
            Column(label="Claim in that order"),
            Column(label="Claim in the worse order"),
        ),
        rows=tuple(rows),
    )


def below_threshold_words(diagnostics: Node) -> str:
    """Return what the table below the threshold shows."""
    rows = diagnostics.get("below_threshold") or ()
    if not rows:
        return ""
    whole = [row for row in rows if row.get("verdict") == stored.REFUTED]
    parts = [
        "Read for the worse of the two orders, the claim "
        + (f"is refuted in {len(whole)} of {len(rows)} rows." if whole else "is refuted in no row.")
    ]
    for order, words in (("forward", "X from X'"), ("reverse", "X' from X")):
        wrong = [row["ratio"] for row in rows if row.get(f"{order}_verdict") == stored.REFUTED]
        if wrong:
            parts.append(f"Read for {words} alone it is refuted from r = {plain(min(wrong))} on.")
        else:
            parts.append(f"Read for {words} alone it is refuted in no row.")
    return " ".join(parts)
