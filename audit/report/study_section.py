"""The parts of a study's report: its statements, tables, charts, notes and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit.report import figures, stored
from audit.report.document import Cell, Column, Gallery, Part, Picture, Section, Table, Text
from audit.report.number_format import MISSING, Rounding, number, plain
from audit.report.stored import Node, Stated

_DIGITS = 6
_MOST_FIRST = 12  # statements that the first screen shows one by one
_FEWEST_WORDS = 16  # letters from which on a cell reads as text, not as a number


def summary(settings: Sequence[Node]) -> Table | None:
    """Return the statements of all studies, what is refuted first; None if there is none.

    Where there are many, what holds has one row for each setting.
    """
    stated = stored.stated(settings)
    if not stated:
        return None
    ranks = {stored.REFUTED: 0, stored.INCONCLUSIVE: 1}
    ranked = sorted(stated, key=lambda one: ranks.get(one.outcome, 2))
    shown = [one for one in ranked if len(stated) <= _MOST_FIRST or one.outcome in ranks]
    rows = [_summed(one) for one in shown]
    if len(shown) < len(stated):
        rows += [_counted(s) for s in stored.studied(settings) if s["study"].get("statements")]
    return Table(
        caption="Statements, and what became of them",
        columns=(
            Column(label="Statement"),
            Column(label="Expected", numeric=True),
            Column(label="Found", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _counted(setting: Node) -> tuple[Cell, ...]:
    """Return one row for all statements of a setting, with the worst that became of one."""
    outcomes = [one.outcome for one in stored.stated([setting])]
    holding = outcomes.count(stored.HOLDS)
    ranked = (stored.REFUTED, stored.INCONCLUSIVE, stored.CONSISTENT)
    worst = next((word for word in ranked if word in outcomes), stored.HOLDS)
    return (
        Cell(
            text=stored.title(setting),
            note=f"statements that hold: {holding} of {len(outcomes)}",
            target=f"setting-{stored.stem(setting)}",
        ),
        Cell(text=MISSING),
        Cell(text=MISSING),
        Cell.verdict(worst),
    )


def _summed(one: Stated) -> tuple[Cell, ...]:
    statement = one.statement
    return (
        Cell(
            text=str(statement["claim"]),
            note=stored.title(one.setting),
            target=f"setting-{stored.stem(one.setting)}",
        ),
        value_cell(statement.get("expected")),
        value_cell(statement.get("found")),
        Cell.verdict(one.outcome),
    )


def section(setting: Node, *, first_shown: bool) -> Section:
    """Return the section of a study; its first chart is left out where ``first_shown``."""
    study = setting["study"]
    charts = study.get("charts", [])
    parts: list[Part] = []
    if setting.get("summary"):
        parts.append(Text(str(setting["summary"])))
    parts += [Text(str(note)) for note in study.get("notes", ())]
    statements = _statements(study)
    parts += [statements] if statements else []
    if charts and first_shown:
        parts.append(
            Text(f"Its figure \u201c{charts[0]['title']}\u201d is at the top of this report.")
        )
    drawn = tuple(picture(setting, chart) for chart in charts[1 if first_shown else 0 :])
    parts.append(Gallery(drawn, _settings(setting)))
    parts += [_table(table) for table in study.get("tables", ())]
    return Section(
        ident=f"setting-{stored.stem(setting)}", title=stored.title(setting), parts=tuple(parts)
    )


def overview(settings: Sequence[Node]) -> tuple[str, Picture] | None:
    """Return the first chart of the first study that has one, and the stem of its setting."""
    for setting in stored.studied(settings):
        for chart in setting["study"].get("charts", [])[:1]:
            drawn = picture(setting, chart)
            if len(settings) > 1:
                drawn = replace(drawn, title=f"{stored.title(setting)}: {drawn.title}")
            return stored.stem(setting), drawn
    return None


def picture(setting: Node, chart: Node) -> Picture:
    """Return a chart, drawn."""
    return figures.charts.draw(chart, stored.stem(setting))


def _statements(study: Node) -> Table | None:
    if not study.get("statements"):
        return None
    return Table(
        caption="What is claimed, and what was found",
        columns=(
            Column(label="Statement"),
            Column(label="Expected", numeric=True),
            Column(label="Found", numeric=True),
            Column(label="Error allowed for", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(
            (
                Cell(text=str(one["claim"]), note=str(one["citation"])),
                value_cell(one.get("expected")),
                value_cell(one.get("found")),
                _error_cell(one.get("error")),
                Cell.verdict(str(one["outcome"])),
            )
            for one in study["statements"]
        ),
    )


def _error_cell(value: Any) -> Cell:
    if value is None:
        return Cell(text=MISSING)
    return Cell.number(plain(float(number(value, 2, Rounding.UP))), value)


def _table(table: Node) -> Table:
    rows = table["rows"]
    return Table(
        caption=str(table["caption"]),
        columns=tuple(
            Column(label=str(label), numeric=all(_short(row[i]) for row in rows))
            for i, label in enumerate(table["columns"])
        ),
        rows=tuple(tuple(value_cell(value) for value in row) for row in rows),
    )


def _short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) < _FEWEST_WORDS and value[:1].isdigit()
    return True


def value_cell(value: Any) -> Cell:
    """Return a found value: a number to the nearest, or a word; null stands for infinity."""
    if isinstance(value, str):
        return Cell(text=value)
    if isinstance(value, bool):
        return Cell(text=plain(value))
    if isinstance(value, int):
        return Cell.number(plain(value), value)
    if value is not None and _ends_within(value):
        return Cell.number(plain(value), value)
    return Cell.number(number(value, _DIGITS), value)


def _ends_within(value: float) -> bool:
    """Whether six digits write the number in full, so that zeros need not follow."""
    return float(f"{value:.{_DIGITS}g}") == value


def _settings(setting: Node) -> Table:
    study = setting["study"]
    rows = [("study", str(study["kind"])), *_flat(study.get("settings") or {})]
    if setting.get("seed") is not None:
        rows.append(("seed", plain(setting["seed"])))
    return Table(
        caption="Settings",
        columns=(Column(label="Setting"), Column(label="Value")),
        rows=tuple((Cell(text=name), Cell(text=text)) for name, text in rows),
        stacked=False,
    )


def _flat(fields: Node, prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for name, value in fields.items():
        label = prefix + str(name).replace("_", " ")
        if isinstance(value, dict):
            rows += _flat(value, f"{label}: ")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            for i, item in enumerate(value, 1):
                rows += _flat({f"{name} {i}": item}, prefix)
        elif value is not None:
            rows.append((label, plain(value)))
    return rows
