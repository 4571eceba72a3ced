"""Many runs in one report: an index of their numbers, with what failed in its place."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit import validate
from audit.report import joined_scenarios, stored
from audit.report.conclusion import refuted_elsewhere
from audit.report.document import Cell, Column, Document, Gallery, Section, Table, Text
from audit.report.joined_rows import COLUMNS, comparisons, rows, to_csv, to_json
from audit.report.number_format import MISSING, Rounding, count, number, plain, ratio
from audit.report.runs import Run
from audit.report.setting_tables import exact_cell, lower_cell, ratio_cell, upper_cell

__all__ = ["COLUMNS", "build", "comparisons", "conclusion", "labels", "rows", "shown", "to_csv",
           "to_json"]  # fmt: skip

_MOST_FIRST = 40  # rows of the first screen's table; of more, only the telling ones


def conclusion(runs: Sequence[Run]) -> str:
    """Return the one sentence that the report begins with."""
    errors = sum(run.error is not None for run in runs)
    results = len(runs) - errors
    parts = [f"{_many(results, 'result')} and {_many(errors, 'error')}"]
    found = comparisons(runs)
    wrong, own = joined_scenarios.refuted_ids(found), joined_scenarios.refuted_own(found)
    standing = [
        (float(r["ratio"]), str(r["claimed_by"]))
        for r in found
        if r["ratio"] is not None and r["verdict"] == stored.CONSISTENT
    ]
    settings = [setting for run in runs if run.result for setting in run.result["settings"]]
    elsewhere = refuted_elsewhere(settings)
    if wrong:
        parts.append(f"refuted somewhere: {', '.join(wrong)}")
    parts += elsewhere
    if own:
        parts.append(joined_scenarios.own_in_words(own))
    false = any(one.outcome == stored.REFUTED for one in stored.stated(settings))
    if standing and not (wrong or own or elsewhere or false):
        parts.append("no claim is refuted")
    if standing:
        least, most = min(standing), max(standing)
        if ratio(least[0]) == ratio(most[0]):
            between = f"{ratio(least[0])} times what is certain ({least[1]})"
        else:
            between = (
                f"between {ratio(least[0])} ({least[1]}) and {ratio(most[0])} ({most[1]}) times "
                "what is certain"
            )
        parts.append(f"the tightest claim that stands is {between}")
    parts += joined_scenarios.statements_in_words(settings)
    return "; ".join(parts) + "."


def _many(number_of: int, word: str) -> str:
    return f"{count(number_of)} {word}{'' if number_of == 1 else 's'}"


def build(runs: Sequence[Run], folder: Path) -> Document:
    """Return the index; links are relative to ``folder``.

    Raises
    ------
    ValueError
        If there is no run.
    """
    from audit.report.figures import sweep

    if not runs:
        raise validate.fail("runs", "one or more", runs)
    found = comparisons(runs)
    overview, more = sweep.draw(found), sweep.maps(runs)
    links = {run.name: _link(run, folder) for run in runs}
    many = len(found) > _MOST_FIRST and joined_scenarios.different(runs)
    first = _first(found)
    caption = "Epsilon: what samples certify, what the strongest pair has, and what is claimed"
    whole: tuple[Section, ...] = ()
    if many or len(first) < len(found):
        caption += (
            f"; of {len(found)} rows those with errors or refuted claims, and the tightest and the "
            "loosest claim of each setting"
        )
        every = _table(runs, found, links, "Each run, setting and delta")
        whole = (Section(ident="rows", title="Every row", parts=(every,)),)
    statements = joined_scenarios.studies(runs, links)
    summary = _table(runs, first, links, caption)
    if many:
        summary, statements = joined_scenarios.by_scenario(runs, links), None
    elif statements and not found:
        summary, statements = statements, None
    sections = (
        [Section(ident="maps", title="Over the sweep", parts=(Gallery(more),))] if more else []
    )
    return Document(
        title="Tightness of the claims: an index of stored runs",
        subtitle="Every number is read from the stored results; nothing was run again.",
        conclusion=conclusion(runs),
        summary=summary,
        statements=statements,
        overview=Gallery((overview,) if overview else ()),
        sections=(*sections, *whole, _runs(runs), _methods()),
    )


def _first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the first screen: what is wrong comes first; of many, the extremes."""
    wrong = [row for row in found if row["verdict"] in ("error", stored.REFUTED)]
    others = [row for row in found if row not in wrong]
    if len(found) <= _MOST_FIRST:
        return [*wrong, *others]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in others:
        if row["ratio"] is not None:
            groups.setdefault((row["scenario"], row["setting"], row["delta"]), []).append(row)
    extremes: list[dict[str, Any]] = []
    for group in groups.values():
        ordered = sorted(group, key=lambda row: float(row["ratio"]))
        extremes += [ordered[0]] if len(ordered) == 1 else [ordered[0], ordered[-1]]
    return [*wrong, *extremes]


def table(runs: Sequence[Run]) -> Table:
    """Return every comparison as one table, without links."""
    links = {run.name: "" for run in runs}
    return _table(runs, comparisons(runs), links, "Each run, setting and delta")


def labels(runs: Sequence[Run]) -> dict[str, str]:
    """Return what tells the runs apart: the words of its command that not all of them share."""
    words = {run.name: [w.removesuffix("=null") for w in run.command.split()] for run in runs}
    known = [set(one) for one in words.values() if one]
    shared = set.intersection(*known) if len(known) > 1 else set()
    found = {}
    for name, one in words.items():
        own = [w for w in one[1:] if w not in shared and not w.startswith(("output=", "sweep="))]
        found[name] = ", ".join(_short(word) for word in own) or name
    return found


def _short(word: str) -> str:
    """Return an override by its last name: ``settings.full.mechanism.steps=3`` is ``steps=3``."""
    key, mark, value = word.partition("=")
    return key.rpartition(".")[2] + mark + value


def _table(
    runs: Sequence[Run],
    found: Sequence[dict[str, Any]],
    links: Mapping[str, str],
    caption: str,
) -> Table:
    notes = labels(runs)
    titles = {
        (run.name, setting["name"]): stored.title(setting)
        for run in runs
        for setting in (run.result or {}).get("settings", ())
    }
    return Table(
        caption=caption,
        columns=(
            Column(label="Run"),
            Column(label="δ", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="Exact value", numeric=True),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Claimed / exact", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(
            _cells(row, titles, notes[str(row["run"])], links[str(row["run"])]) for row in found
        ),
    )


def _cells(
    row: dict[str, Any], titles: dict[tuple[str, str], str], note: str, link: str
) -> tuple[Cell, ...]:
    missing = Cell(text=MISSING)
    if row["error"] is not None:
        name = Cell(text=note, note=str(row["error"]))
        return (name, *[missing] * 5, Cell.verdict("error"))
    title = titles[str(row["run"]), str(row["setting"])]
    exact = missing
    if row["exact_low"] is not None:
        exact = exact_cell([row["certified"], None])
        if row["certified"] == row["exact_low"]:
            exact = exact_cell([row["exact_low"], row["exact_high"]])
        exact = Cell(
            text=exact.text, style=exact.style, value=exact.value, note=str(row["certified_by"])
        )
    claimed = missing
    if row["claimed_by"] is not None:
        claimed = upper_cell(row["claimed"], str(row["claimed_by"]))
    return (
        Cell(text=title, note=note, link=link),
        Cell.number(plain(row["delta"]), row["delta"]),
        lower_cell(row["lower"]),
        exact,
        claimed,
        ratio_cell(row["ratio"]),
        Cell.verdict(str(row["verdict"])),
    )


def _link(run: Run, folder: Path) -> str:
    """Return where the run's own report is, from ``folder``; nothing if it has none."""
    page = run.folder / "report.html"
    if not page.is_file():
        return ""
    return Path(os.path.relpath(page.resolve(), folder.resolve())).as_posix()


def _runs(runs: Sequence[Run]) -> Section:
    lines = []
    for run in runs:
        told = run.result["scenario"].get("title") if run.result else run.error
        lines.append(
            (
                Cell(text=run.name),
                Cell(text=run.command or MISSING),
                Cell(text=str(told or MISSING)),
                Cell.verdict("error") if run.error is not None else Cell(text="done"),
            )
        )
    listed = Table(
        caption="The runs and the commands that repeat them",
        columns=tuple(Column(label=word) for word in ("Run", "Command", "What", "Status")),
        rows=tuple(lines),
    )
    return Section(ident="runs", title="Runs", parts=(listed,))


def _methods() -> Section:
    text = (
        "Certified lower bounds hold each at the confidence of its own run; they are rounded down, "
        "claims are rounded up, and of exact values only the certain digits are written. Refuted: "
        "the claim is contradicted even after every error is taken in its favour. Consistent: it "
        "is not, which is no proof of it. Error: the run stored no result, for the reason given."
    )
    return Section(ident="methods", title="Methods", parts=(Text(text),))


def shown(found: Sequence[dict[str, Any]]) -> str:
    """Return a line for each refuted claim and each error, for a terminal."""
    lines = []
    for row in found:
        if row["verdict"] == "error":
            lines.append(f"error: {row['run']}: {row['error']}")
        elif row["verdict"] == stored.REFUTED:
            lines.append(
                f"refuted: {row['claimed_by']} claims {number(row['claimed'], 5, Rounding.UP)} at "
                f"delta {plain(row['delta'])}, {row['certified_by']}: at least "
                f"{number(row['certified'], 5, Rounding.DOWN)} ({row['run']}, {row['setting']})"
            )
    return "\n".join(lines)
