"""The rows of a joined report: epsilons, Renyi divergences, statements of studies, and errors."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

from audit.codec import encode
from audit.curves.quantities import EpsilonAtDelta, RenyiAtOrder
from audit.numerics.number_format import Rounding, number, plain
from audit.report import queries
from audit.report.queries import ComparedResult
from audit.report.runs import Run
from audit.results import (
    AtDelta,
    AtOrder,
    BoundRow,
    Number,
    PairResult,
    SettingResult,
    Statement,
    Value,
    Verdict,
)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """One line of ``results.csv``; what does not belong to a row's quantity is None.

    ``ratio`` says how tight a claim is, so a refuted claim has none.
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
    verdict: str
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The run, scenario and setting of a row; ``title`` is the setting in words."""

    run: str
    scenario: str
    setting: str
    title: str


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run without a result, for the reason given."""

    run: str
    error: str

    verdict: ClassVar[Verdict] = Verdict.ERROR

    @property
    def columns(self) -> Columns:
        """The row as a line of the table."""
        return Columns(run=self.run, verdict=self.verdict.value, error=self.error)

    @property
    def line(self) -> str:
        """The row in one line."""
        return f"error: {self.run}: {self.error}"


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """Sampled, certain and claimed value of one quantity; ``bound`` is None if none applies.

    Parameters
    ----------
    origin
        The run, scenario and setting.
    quantity
        The quantity, and where it is taken.
    lower
        The lower bound that samples certify.
    exact
        The exact value of the setting's own pair; None where it is not known.
    certified, certified_by
        What the bound is held against, and the pair that has it (or "samples").
    bound
        The claim.
    """

    origin: Origin
    quantity: EpsilonAtDelta | RenyiAtOrder
    lower: float
    exact: Number | None
    certified: float
    certified_by: str
    bound: BoundRow | None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim."""
        return Verdict.NOT_APPLICABLE if self.bound is None else self.bound.verdict

    @property
    def ratio(self) -> float | None:
        """Ratio of claimed to certified value, of a claim that is not refuted."""
        return None if self.bound is None or self.verdict is Verdict.REFUTED else self.bound.ratio

    @property
    def columns(self) -> Columns:
        """The row as a line of the table."""
        bound, place = self.bound, {self.quantity.place: self.quantity.at}
        return Columns(
            run=self.origin.run,
            scenario=self.origin.scenario,
            setting=self.origin.setting,
            quantity=self.quantity.name,
            delta=place.get("delta"),
            order=place.get("order"),
            lower=self.lower,
            exact_low=self.exact.low if self.exact else None,
            exact_high=self.exact.high if self.exact else None,
            certified=self.certified,
            certified_by=self.certified_by,
            claimed=bound.value if bound else None,
            claimed_by=bound.id if bound else None,
            status=bound.status_text if bound else None,
            ratio=self.ratio,
            verdict=self.verdict.value,
        )

    @property
    def line(self) -> str:
        """The row in one line."""
        name, place = self.quantity.name, f"at {self.quantity.place} {plain(self.quantity.at)}"
        whence = f"({self.origin.run}, {self.origin.setting})"
        if self.bound is None or self.bound.value is None:
            return f"{self.verdict.value}: {name} {place} {whence}"
        return (
            f"{self.verdict.value}: {self.bound.id} claims {name} "
            f"{number(self.bound.value, 5, Rounding.UP)} {place}, {self.certified_by}: at least "
            f"{number(self.certified, 5, Rounding.DOWN)} {whence}"
        )


@dataclass(frozen=True, kw_only=True)
class StatementRow:
    """A statement of a study."""

    origin: Origin
    statement: Statement

    @property
    def verdict(self) -> Verdict:
        """The verdict on the statement."""
        return self.statement.verdict

    @property
    def columns(self) -> Columns:
        """The row as a line of the table."""
        return Columns(
            run=self.origin.run,
            scenario=self.origin.scenario,
            setting=self.origin.setting,
            quantity="statement",
            statement=self.statement.claim,
            citation=self.statement.citation,
            expected=self.statement.expected,
            found=self.statement.found,
            allowed_error=self.statement.error,
            verdict=self.verdict.value,
        )

    @property
    def line(self) -> str:
        """The row in one line."""
        one = self.statement
        return (
            f"{self.verdict.value}: {one.claim} ({one.citation}): expected "
            f"{_in_words(one.expected)}, found {queries.found(one, _in_words)} "
            f"({self.origin.run}, {self.origin.setting})"
        )


Row = ClaimRow | StatementRow | FailedRun


def _in_words(value: Value) -> str:
    return value if isinstance(value, str) else plain(value)


def epsilon_rows(runs: Sequence[Run]) -> list[ClaimRow]:
    """Return a row for each run, setting, delta and claim that is shown.

    Shown are every refuted bound and the tightest that stands.
    """
    return [
        row
        for run, setting in _settings(runs)
        for one in queries.compared([setting])
        for at in one.deltas
        for row in _at_delta(_origin(run, one), one, at)
    ]


def _at_delta(origin: Origin, setting: ComparedResult, at: AtDelta) -> list[ClaimRow]:
    value, by = queries.strongest(at)
    own = setting.pair.name if isinstance(setting, PairResult) else at.certified.by
    return [
        ClaimRow(
            origin=origin,
            quantity=EpsilonAtDelta(at.delta),
            lower=at.sampled.epsilon,
            exact=at.exact.worst if at.exact else None,
            certified=value,
            certified_by=by or own,
            bound=bound,
        )
        for bound in queries.shown_claims(at.bounds, at.best)
    ]


def renyi_rows(runs: Sequence[Run]) -> list[ClaimRow]:
    """Return a row for each run, setting, order and claim that is shown, as for epsilons."""
    return [
        row
        for run, setting in _settings(runs)
        for one in queries.pair_results([setting])
        for at in one.renyi
        for row in _at_order(_origin(run, one), one, at)
    ]


def _at_order(origin: Origin, setting: PairResult, at: AtOrder) -> list[ClaimRow]:
    worst = at.exact.worst
    return [
        ClaimRow(
            origin=origin,
            quantity=RenyiAtOrder(at.order),
            lower=at.sampled_lower,
            exact=worst,
            certified=worst.low,
            certified_by=setting.pair.name,
            bound=bound,
        )
        for bound in queries.shown_claims(at.bounds)
    ]


def statement_rows(runs: Sequence[Run]) -> list[StatementRow]:
    """Return a row for each statement of a study."""
    return [
        StatementRow(origin=_origin(run, setting), statement=one.statement)
        for run, setting in _settings(runs)
        for one in queries.statements([setting])
    ]


def failed_runs(runs: Sequence[Run]) -> list[FailedRun]:
    """Return a row for each run without a result."""
    return [FailedRun(run=run.name, error=run.error) for run in runs if run.error is not None]


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return the errors, then the rows of epsilons, Renyi divergences and statements."""
    return [
        *failed_runs(runs),
        *epsilon_rows(runs),
        *renyi_rows(runs),
        *statement_rows(runs),
    ]


def _settings(runs: Sequence[Run]) -> Iterator[tuple[Run, SettingResult]]:
    for run in runs:
        if run.result is not None:
            for setting in run.result.settings:
                yield run, setting


def _origin(run: Run, setting: SettingResult) -> Origin:
    assert run.result is not None  # it has settings
    return Origin(
        run=run.name,
        scenario=run.result.scenario.name,
        setting=setting.name,
        title=queries.title(setting),
    )


def to_csv(found: Sequence[Row]) -> bytes:
    """Return the rows as CSV, numbers in full; what is absent is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Columns)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row.columns) for row in found)
    return text.getvalue().encode("utf-8")


def to_json(runs: Sequence[Run], found: Sequence[Row]) -> bytes:
    """Return the rows and the counts as JSON; infinite numbers are the text "inf"."""
    errors = len(failed_runs(runs))
    content = {
        "results": len(runs) - errors,
        "errors": errors,
        "rows": [encode(row.columns) for row in found],
    }
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode("utf-8")
