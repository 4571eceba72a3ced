"""The rows of a joined report: epsilons, Renyi divergences, statements of studies, and errors."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from audit.codec import encode
from audit.curves.quantities import EpsilonAtDelta, RenyiAtOrder
from audit.numerics.number_format import Rounding, number, plain, telling
from audit.report import queries
from audit.report.runs import Run
from audit.results import BoundRow, Number, PairResult, SettingResult, Value, Verdict

_STATEMENT = "statement"


@dataclass(frozen=True, kw_only=True)
class JoinedRow:
    """One line of ``results.csv``; what does not belong to a row's quantity is None.

    ``ratio`` says how tight a claim is, so a refuted claim has none. ``title`` is the setting in
    words, which is not stored.
    """

    run: str
    scenario: str | None = None
    setting: str | None = None
    quantity: str | None = None
    delta: float | None = None
    order: float | None = None
    lower: float | None = None
    exact_low: float | None = None
    exact_high: float | None = None
    certified: float | None = None
    certified_by: str | None = None
    claimed: float | None = None
    claimed_by: str | None = None
    status: str | None = None
    ratio: float | None = None
    statement: str | None = None
    citation: str | None = None
    expected: Value | None = None
    found: Value | None = None
    allowed_error: float | None = None
    verdict: Verdict
    error: str | None = None
    title: str = ""

    @property
    def columns(self) -> dict[str, Any]:
        """The row as plain data; infinite numbers are the text "inf"."""
        return {name: encode(getattr(self, name)) for name in _COLUMNS}

    @property
    def line(self) -> str:
        """The row in one line."""
        word, whence = self.verdict.value, f"({self.run}, {self.setting})"
        if self.error is not None:
            return f"{word}: {self.run}: {self.error}"
        if self.quantity == _STATEMENT:
            found = queries.found(self.expected, self.found, self.verdict, plain)
            return (
                f"{word}: {self.statement} ({self.citation}): expected "
                f"{plain(self.expected)}, found {found} {whence}"
            )
        at, name = (self.order, "order") if self.delta is None else (self.delta, "delta")
        place = f"at {name} {plain(at)}"
        if self.claimed is None or self.certified is None:
            return f"{word}: {self.quantity} {place} {whence}"
        digits = telling(self.claimed, self.certified, 5)
        return (
            f"{word}: {self.claimed_by} claims {self.quantity} "
            f"{number(self.claimed, digits, Rounding.UP)} {place}, {self.certified_by}: at least "
            f"{number(self.certified, digits, Rounding.DOWN)} {whence}"
        )


_COLUMNS = [field.name for field in fields(JoinedRow) if field.name != "title"]


def epsilon_rows(runs: Sequence[Run]) -> list[JoinedRow]:
    """Return a row for each run, setting, delta and claim that is shown.

    Shown are every refuted bound and the tightest that stands.
    """
    found: list[JoinedRow] = []
    for origin, setting in _settings(runs):
        for one in queries.compared([setting]):
            for at in one.deltas:
                certified, by = queries.strongest(at)
                own = one.pair.name if isinstance(one, PairResult) else at.certified.by
                found += _claims(
                    queries.shown_claims(at.bounds, at.best),
                    at.exact.worst if at.exact else None,
                    **origin,
                    quantity=EpsilonAtDelta.name,
                    delta=at.delta,
                    lower=at.sampled.epsilon,
                    certified=certified,
                    certified_by=by or own,
                )
    return found


def renyi_rows(runs: Sequence[Run]) -> list[JoinedRow]:
    """Return a row for each run, setting, order and claim that is shown, as for epsilons."""
    found: list[JoinedRow] = []
    for origin, setting in _settings(runs):
        for one in queries.pair_results([setting]):
            for at in one.renyi:
                found += _claims(
                    queries.shown_claims(at.bounds),
                    at.exact.worst,
                    **origin,
                    quantity=RenyiAtOrder.name,
                    order=at.order,
                    lower=at.sampled_lower,
                    certified=at.exact.worst.low,
                    certified_by=one.pair.name,
                )
    return found


def _claims(
    bounds: Iterable[BoundRow | None], exact: Number | None, **known: Any
) -> Iterator[JoinedRow]:
    """Yield a row for each claim; None stands for all bounds where none applies."""
    if exact is not None:
        known |= {"exact_low": exact.low, "exact_high": exact.high}
    for bound in bounds:
        if bound is None:
            yield JoinedRow(**known, verdict=Verdict.NOT_APPLICABLE)
            continue
        yield JoinedRow(
            **known,
            claimed=bound.value,
            claimed_by=bound.id,
            status=bound.status_text,
            ratio=None if bound.verdict is Verdict.REFUTED else bound.ratio,
            verdict=bound.verdict,
        )


def statement_rows(runs: Sequence[Run]) -> list[JoinedRow]:
    """Return a row for each statement of a study."""
    return [
        JoinedRow(
            **origin,
            quantity=_STATEMENT,
            statement=one.claim,
            citation=one.citation,
            expected=one.expected,
            found=one.found,
            allowed_error=one.error,
            verdict=one.verdict,
        )
        for origin, setting in _settings(runs)
        for study in queries.studies([setting])
        for one in study.findings.statements
    ]


def failed_runs(runs: Sequence[Run]) -> list[JoinedRow]:
    """Return a row for each run without a result."""
    return [
        JoinedRow(run=run.name, error=run.error, verdict=Verdict.ERROR)
        for run in runs
        if run.error is not None
    ]


def rows(runs: Sequence[Run]) -> list[JoinedRow]:
    """Return the errors, then the rows of epsilons, Renyi divergences and statements."""
    return [*failed_runs(runs), *epsilon_rows(runs), *renyi_rows(runs), *statement_rows(runs)]


def _settings(runs: Sequence[Run]) -> Iterator[tuple[Mapping[str, Any], SettingResult]]:
    """Yield every setting, with the columns that name it."""
    for run in runs:
        if run.result is not None:
            for setting in run.result.settings:
                yield (
                    {
                        "run": run.name,
                        "scenario": run.result.scenario.name,
                        "setting": setting.name,
                        "title": queries.title(setting),
                    },
                    setting,
                )


def to_csv(found: Sequence[JoinedRow]) -> bytes:
    """Return the rows as CSV, numbers in full; what is absent is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.columns for row in found)
    return text.getvalue().encode("utf-8", "backslashreplace")


def to_json(runs: Sequence[Run], found: Sequence[JoinedRow]) -> bytes:
    """Return the rows and the counts as JSON; infinite numbers are the text "inf"."""
    errors = len(failed_runs(runs))
    content = {
        "results": len(runs) - errors,
        "errors": errors,
        "rows": [row.columns for row in found],
    }
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode("utf-8")
