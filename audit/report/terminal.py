"""The short form of a result on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.numerics.number_format import Rounding, plain, ratio, short
from audit.report import queries
from audit.report.conclusion import capitalized, refuted_elsewhere
from audit.report.queries import ComparedResult
from audit.results import AtDelta, Result, SettingResult, Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_NONE = "-"
_NARROW_COLUMNS = 120  # columns; below it a bound stands under its verdict
# columns of numbers, and how wide most numbers are: so the rows of all settings are aligned
_NUMBERS = {"delta": 5, "sampled": 7, "exact": 6, "worst pair": 18, "claimed": 7, "ratio": 5}
_WORST_FIRST = (Verdict.REFUTED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.CONSISTENT)


def show(result: Result) -> None:
    """Print a row for each setting and delta, and for each statement, to standard output."""
    compared = queries.compared(result.settings)
    claims = [bound.id for one in compared for row in one.deltas for bound in row.bounds]
    rows = Rows(result.scenario.title, [setting.name for setting in compared], claims)
    for setting in result.settings:
        rows.add(setting)
    rows.end(result)


class Rows:
    """The table of a run on standard output, whose rows are printed as settings end.

    The names of the settings that will come, and the ids of the bounds, set the widths of columns.
    """

    def __init__(self, title: str, settings: Sequence[str], claims: Sequence[str]) -> None:
        from rich.console import Console  # takes long to import, and not every command prints

        # names may hold brackets and colons; a file or a pipe has no width of its own
        console = Console(markup=False, emoji=False)
        if not console.is_terminal:
            console.width = 140
        self._console, self._title, self._begun = console, title, False
        self._setting = max(map(len, ("setting", *settings)))
        # bounds that the catalogue proves may come besides
        self._claim = max(map(len, ("own.adaptive_shifts", *claims)))

    def add(self, setting: SettingResult) -> None:
        """Print the rows of a setting; a study has none."""
        for one in queries.compared([setting]):
            self._console.print(self._piece(one))
            self._begun = True

    def end(self, result: Result) -> None:
        """Print what stands below the rows, and the statements of studies."""
        if self._begun:
            note = (
                "epsilon: certified from samples at confidence "
                f"{short(result.confidence, 6, Rounding.DOWN)}, exact for the setting's pair and "
                "for its worst pair, and the tightest claim; ratio of the last two"
            )
            self._console.print(note, style="italic", highlight=False)
            for clause in refuted_elsewhere(result.settings):
                self._console.print(f"{capitalized(clause)}.", highlight=False)
        if queries.studies(result.settings):
            _show_statements(self._console, result)

    def _piece(self, setting: ComparedResult) -> Table:
        """Return the rows of one setting, with the header if they are the first."""
        narrow = self._console.width < _NARROW_COLUMNS
        table = _table(None if self._begun else self._title, narrow)
        table.show_header, table.show_edge = not self._begun, False
        table.add_column("setting", overflow="fold", min_width=None if narrow else self._setting)
        for heading, width in _NUMBERS.items():
            least = len(heading) if narrow else width
            table.add_column(heading, justify="right", no_wrap=True, min_width=least)
        if not narrow:
            table.add_column("claimed by", overflow="fold", min_width=self._claim)
        verdict = "verdict on" if narrow else "verdict"
        table.add_column(verdict, overflow="fold", min_width=len(verdict))
        between = "\n" if narrow else " "
        for row in setting.deltas:
            best = queries.tightest(row.bounds, row.best)
            none = _without_finite(row)
            claimed_by = none if best is None else best.id
            verdicts = _verdicts(row)
            table.add_row(
                setting.name,
                plain(row.delta),
                _number(row.sampled.epsilon),
                _number(row.exact.worst.low if row.exact else None),
                f"{_number(row.certified.epsilon)}{between}{row.certified.by}",
                _number(best.value if best else None, Rounding.UP),
                _NONE if best is None or best.ratio is None else ratio(best.ratio),
                *([f"{claimed_by}\n{verdicts}"] if narrow else [claimed_by, verdicts]),
            )
        return table


def _table(title: str | None, narrow: bool) -> Table:
    """Return a table that breaks words rather than leave some out; a narrow one has no lines."""
    from rich import box
    from rich.table import Table

    lines = box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD
    return Table(title=title, title_justify="left", box=lines, padding=(0, 0 if narrow else 1))


def _show_statements(console: Console, result: Result) -> None:
    narrow = console.width < _NARROW_COLUMNS
    table = _table(result.scenario.title, narrow)
    table.add_column("setting", overflow="fold", max_width=12 if narrow else None)
    table.add_column("statement", overflow="fold")
    for column in ("expected", "found"):
        table.add_column(column, justify="right", overflow="fold", max_width=14 if narrow else None)
    table.add_column("verdict", no_wrap=True)
    for study, one in queries.statements(result.settings):
        table.add_row(
            study.name,
            one.claim,
            plain(one.expected),
            queries.found(one.expected, one.found, one.verdict, plain),
            one.verdict.value,
        )
    console.print(table)


def _verdicts(row: AtDelta) -> str:
    """Return the verdict on the tightest claim that stands, and the claims that do not stand."""
    others = [
        f"{verdict.value}: {', '.join(names)}"
        for verdict in (Verdict.REFUTED, Verdict.INCONCLUSIVE)
        if (names := [bound.id for bound in row.bounds if bound.verdict is verdict])
    ]
    if queries.tightest(row.bounds, row.best) is not None:
        others.insert(0, Verdict.CONSISTENT.value)
    if others:
        return "; ".join(others)
    verdicts = [bound.verdict for bound in row.bounds]
    return next((v for v in _WORST_FIRST if v in verdicts), Verdict.NOT_APPLICABLE).value


def _number(value: float | None, rounding: Rounding = Rounding.DOWN) -> str:
    return _NONE if value is None or math.isnan(value) else short(value, 4, rounding)


def _without_finite(row: AtDelta) -> str:
    """Return why there is no tightest claim."""
    if queries.shown_claims(row.bounds)[-1] is None:
        return "none applies"
    return "none is finite" if any(bound.stands for bound in row.bounds) else "none stands"
