"""The short form of a result on a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from audit.report import stored
from audit.report.conclusion import refuted_elsewhere
from audit.report.number_format import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_NARROW = 120  # columns; below it a bound stands under its verdict


def show(result: dict[str, Any]) -> None:
    """Print a row for each setting and delta, and for each statement, to standard output."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)  # a file or a pipe has no width of its own
    if stored.compared(result["settings"]):
        _show_compared(console, result)
    if stored.studied(result["settings"]):
        _show_stated(console, result)


def _table(title: str, narrow: bool) -> Table:
    """Return a table that breaks words rather than leave some out; a narrow one has no lines."""
    from rich import box
    from rich.table import Table

    lines = box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD
    return Table(title=title, title_justify="left", box=lines, padding=(0, 0 if narrow else 1))


def _show_stated(console: Console, result: dict[str, Any]) -> None:
    narrow = console.width < _NARROW
    table = _table(result["scenario"]["title"], narrow)
    table.add_column("setting", overflow="fold", max_width=12 if narrow else None)
    table.add_column("statement", overflow="fold")
    for column in ("expected", "found"):
        table.add_column(column, justify="right", overflow="fold", max_width=14 if narrow else None)
    table.add_column("verdict", no_wrap=True)
    for one in stored.stated(result["settings"]):
        found = [_value(one.statement.get(key)) for key in ("expected", "found")]
        table.add_row(one.setting["name"], str(one.statement["claim"]), *found, one.outcome)
    console.print(table, markup=False)


def _value(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "inf" if value is None else plain(value)


def _show_compared(console: Console, result: dict[str, Any]) -> None:
    narrow = console.width < _NARROW
    table = _table(result["scenario"]["title"], narrow)
    table.add_column("setting", overflow="fold")
    for column in ("delta", "sampled", "exact", "worst pair", "claimed", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("claimed by", overflow="fold")
    table.add_column("verdict on" if narrow else "verdict", overflow="fold")
    for setting in result["settings"]:
        for row in setting["deltas"]:
            best = row.get("best") or {}
            sampled = row.get("sampled") or {}
            claimed_by = str(best.get("id", "none stands" if row["bounds"] else "none applies"))
            verdicts = _verdicts(row)
            table.add_row(
                setting["name"],
                plain(row["delta"]),
                _number(sampled.get("epsilon")),
                _number(row["exact"]["worst"][0]) if row["exact"].get("known", True) else "-",
                _worst_pair(row, "\n" if narrow else " "),
                _number(best.get("epsilon")),
                _number(best.get("ratio")),
                *([f"{claimed_by}\n{verdicts}"] if narrow else [claimed_by, verdicts]),
            )
    table.caption = (
        f"epsilon: certified from samples at confidence {result['confidence']:g}, exact for the "
        "setting's pair and for its worst pair, and the tightest claim; ratio of the last two"
    )
    console.print(table)
    for clause in refuted_elsewhere(result["settings"]):
        console.print(f"{clause[0].upper()}{clause[1:]}.", highlight=False)


def _verdicts(row: dict[str, Any]) -> str:
    """Return the verdict on the tightest claim that stands, and the claims that are refuted."""
    refuted = [str(b["id"]) for b in row["bounds"] if b["verdict"] == "refuted"]
    if not row.get("best"):
        return f"refuted: {', '.join(refuted)}" if refuted else overall_verdict(row["bounds"])
    return "consistent" + (f"; refuted: {', '.join(refuted)}" if refuted else "")


def overall_verdict(bounds: list[dict[str, Any]]) -> str:
    """Return one word for all bounds that apply: the worst of their verdicts."""
    verdicts = {bound["verdict"] for bound in bounds} - {"not applicable"}
    for verdict in ("refuted", "error", "inconclusive", "consistent"):
        if verdict in verdicts:
            return verdict
    return "not applicable"


def _worst_pair(row: dict[str, Any], between: str) -> str:
    certified = row.get("certified")
    return f"{_number(certified['epsilon'])}{between}{certified['by']}" if certified else "-"


def _number(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "-"
    return plain(float(f"{value:.4g}"))
