"""The section of a study: its statements, tables, charts, notes and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.numerics.number_format import Rounding, number, plain, short
from audit.report import queries
from audit.report.document import TEXT, VERDICT, Cell, ColumnFormat, Gallery, Part, Section, Table
from audit.report.figures import charts
from audit.results import FoundTable, Statement, StudyResult, Value, Verdict

_DIGITS = 6
_MAX_FIRST_STATEMENTS = 12  # statements that the first screen shows one by one
_MIN_TEXT_LETTERS = 16  # letters from which on a cell reads as text, not as a number
_FIRST_VERDICTS = (Verdict.REFUTED, Verdict.INCONCLUSIVE)
_VERDICTS = {verdict.value: verdict for verdict in Verdict}
_WORST_FIRST = (*_FIRST_VERDICTS, Verdict.CONSISTENT, Verdict.HOLDS)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the worst verdict on a study's statements; HOLDS without any."""
    return next((one for one in _WORST_FIRST if one in verdicts), Verdict.HOLDS)


def summary(settings: Sequence[tuple[StudyResult, str]]) -> Table:
    """Return the statements of all studies, what is refuted first.

    Each study comes with its stem. Where there are many statements, those that stand have one row
    for each setting.
    """
    found = [(study, stem, one) for study, stem in settings for one in study.findings.statements]
    shown = [row for first in _FIRST_VERDICTS for row in found if row[2].verdict is first]
    if len(found) <= _MAX_FIRST_STATEMENTS:
        shown += [row for row in found if row[2].verdict not in _FIRST_VERDICTS]
    value = ColumnFormat(value_cell)
    return Table.of(
        "Statements and their verdicts",
        {"Statement": TEXT, "Expected": value, "Found": value, "Verdict": VERDICT},
        [
            *(
                (
                    Cell(text=one.claim, note=queries.title(study), target=f"setting-{stem}"),
                    one.expected,
                    _found_cell(one),
                    one.verdict,
                )
                for study, stem, one in shown
            ),
            *(
                _counted_row(study, stem)
                for study, stem in settings
                if len(shown) < len(found) and study.findings.statements
            ),
        ],
    )


def _counted_row(study: StudyResult, stem: str) -> tuple[object, ...]:
    """Return one row for all statements of a setting, with the worst verdict among them."""
    verdicts = [one.verdict for one in study.findings.statements]
    holding = verdicts.count(Verdict.HOLDS)
    standing = holding + verdicts.count(Verdict.CONSISTENT)
    # only what was computed in full holds
    note = f"statements that hold: {holding}" if holding else f"statements that stand: {standing}"
    name = Cell(
        text=queries.title(study),
        note=f"{note} of {len(verdicts)}",
        target=f"setting-{stem}",
    )
    return name, None, None, worst(verdicts)


def section(study: StudyResult, stem: str, *, first_shown: bool) -> Section:
    """Return the section of a study; its first chart is left out where ``first_shown``."""
    findings = study.findings
    parts: list[Part] = [study.summary] if study.summary else []
    parts += findings.notes
    if findings.statements:
        parts.append(_statements(study))
    left = findings.charts
    if first_shown:
        parts.append(f"Its figure “{left[0].title}” is at the top of this report.")
        left = left[1:]
    parts.append(Gallery(tuple(charts.draw(chart, stem) for chart in left), _settings(study)))
    parts += [_table(table) for table in findings.tables]
    return Section(ident=f"setting-{stem}", title=queries.title(study), parts=tuple(parts))


def _statements(study: StudyResult) -> Table:
    value = ColumnFormat(value_cell)
    error = ColumnFormat(lambda error: Cell.number(short(error, 2, Rounding.UP), error))
    return Table.of(
        "Statements: claims and findings",
        {
            "Statement": TEXT,
            "Expected": value,
            "Found": value,
            "Error allowed for": error,
            "Verdict": VERDICT,
        },
        (
            (
                Cell(text=one.claim, note=one.citation),
                one.expected,
                _found_cell(one),
                one.error,
                one.verdict,
            )
            for one in study.findings.statements
        ),
    )


def _table(table: FoundTable) -> Table:
    """Return a study's own table, whose columns may have equal names."""
    columns = tuple(
        (label, ColumnFormat(_table_cell, all(_is_numeric(row[i]) for row in table.rows)))
        for i, label in enumerate(table.columns)
    )
    rows = tuple(tuple(map(_table_cell, row)) for row in table.rows)
    return Table(caption=table.caption, columns=columns, rows=rows)


def _table_cell(value: Value) -> Cell:
    """Return a value of a study's own table; verdicts are set as in every other table."""
    if value in _VERDICTS:
        return Cell.verdict(_VERDICTS[str(value)])
    return value_cell(value)


def _is_numeric(value: Value) -> bool:
    if isinstance(value, str):
        return len(value) < _MIN_TEXT_LETTERS and value[:1].isdigit()
    return True


def value_cell(value: Value) -> Cell:
    """Return a found value: a number to the nearest, or text."""
    if isinstance(value, str):
        return Cell(text=value)
    if isinstance(value, bool):
        return Cell(text=plain(value))
    # zeros need not follow a number that six digits write in full
    if isinstance(value, int) or float(f"{value:.{_DIGITS}g}") == value:
        return Cell.number(plain(value), value)
    return Cell.number(number(value, _DIGITS), value)


def _found_cell(one: Statement) -> Cell:
    text = queries.found(one.expected, one.found, one.verdict, lambda value: value_cell(value).text)
    return replace(value_cell(one.found), text=text)


def _settings(study: StudyResult) -> Table:
    rows = [
        ("study", study.function),
        *(
            (name.replace("_", " ").replace(".", ": "), plain(value))
            for name, value in study.parameters.items()
            if value is not None
        ),
        ("seed", plain(study.seed)),
    ]
    return Table.of("Settings", {"Setting": TEXT, "Value": TEXT}, rows, stacked=False)
