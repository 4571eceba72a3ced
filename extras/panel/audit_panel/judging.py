"""Judge statements on the standard panel of mechanisms."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from joblib.externals.loky import ProcessPoolExecutor

from audit import bounds, validate
from audit.bounds import RecordScope, Status
from audit.claims.claim import Budget, Claim, Numbers, apart
from audit.claims.judge import Outcome, Shared, judge_numbers, verify
from audit.codec import decode, encode
from audit.constructions.explicit import Repeated
from audit.curves import PrivacyCurve
from audit.curves.quantities import (
    AnyQuantity,
    ClaimedNumber,
    EpsilonAtDelta,
    Quantity,
    RenyiAtOrder,
)
from audit.isolation import UserCodeError
from audit.isolation.process import end_with_parent
from audit.mechanism import Batching, NoisySGD
from audit.results import Verdict
from audit_panel.mechanisms import chosen, drawn, regime_of
from audit_panel.statement_file import (
    PanelEntry,
    PanelFile,
    Values,
    admits,
    unmet,
    values_of,
)
from audit_panel.verdicts import PanelPoint, PanelVerdict

SIZE = 48
"""Mechanisms of a panel, unless another number is asked for."""
DELTAS = (1e-2, 1e-5, 1e-10)
ORDERS = (1.2, 2.0, 8.0, 32.0)

Progress = Callable[[int, int], object]

# A formula of the user is trusted to six digits: what exceeds it by less is no refutation.
_FORMULA_ERROR = 1e-6
_SECONDS = 1.0  # for the exact laws of one mechanism, as estimated
_RUNS = 10_000  # released runs for statements about several
_VERIFIED = 3  # refutations that are tried, until one is verified
_CLEAR = 0.95  # a ratio that the first of them should not exceed
_MIN_ERROR = 1e-9  # of numbers near 0


def judge_file(
    path: Path, *, size: int = SIZE, jobs: int = 1, progress: Progress | None = None
) -> tuple[PanelVerdict, ...]:
    """Judge every statement of a Python file on the panel.

    Parameters
    ----------
    path : pathlib.Path
        A file that registers statements with `audit.bounds.bound`. It is imported and evaluated in
        a process of its own.
    size : int, optional
        Number of mechanisms, at most.
    jobs : int, optional
        Number of processes that judge.
    progress : callable, optional
        Called with (done, total) as mechanisms are judged.

    Returns
    -------
    tuple of PanelVerdict
        One verdict for each statement, in the order of the file.

    Raises
    ------
    ValueError
        If the file cannot be imported or registers no bound; one line. A statement that ends its
        process or takes too long has the verdict ERROR, unless it is refuted before.
    """
    validate.integer(1, size=size, jobs=jobs)
    asked: list[_Asked] = []
    reasons: dict[str, str] = {}
    errors: dict[str, str] = {}
    with PanelFile(path) as file:
        entries = file.entries()
        for entry in entries:
            try:
                with file.asking(entry.id) as ask:
                    numbers = ask("chosen", size)
                    for number in numbers:
                        for options in _options(entry, number):
                            values = decode(Values, ask("values", number, options, DELTAS, ORDERS))
                            asked.append(_Asked(entry, number, options, values))
                    if not numbers:
                        reasons[entry.id] = ask("unmet")
            except UserCodeError as error:  # the others are judged anyway
                errors[entry.id] = str(error)
    return _judged(entries, asked, reasons, errors, jobs, progress)


def judge_entries(
    ids: Sequence[str], *, size: int = SIZE, jobs: int = 1, progress: Progress | None = None
) -> tuple[PanelVerdict, ...]:
    """Judge entries of the catalogue on the panel; asymptotic rates are not judged.

    Parameters
    ----------
    ids : sequence of str
        Keys of `audit.bounds.CATALOGUE`.
    size, jobs, progress
        As for `judge_file`.

    Returns
    -------
    tuple of PanelVerdict
        One verdict for each entry.

    Raises
    ------
    ValueError
        If an id is unknown.
    """
    validate.integer(1, size=size, jobs=jobs)
    asked: list[_Asked] = []
    reasons = {}
    entries = tuple(PanelEntry.of(bounds.entry(id)) for id in ids)
    for entry in entries:
        if entry.status is Status.ASYMPTOTIC:
            reasons[entry.id] = "a rate without constants, which is not judged"
            continue
        registered = bounds.entry(entry.id)
        numbers = chosen(partial(admits, registered), size)
        for number in numbers:
            asked += [_Asked(entry, number, options) for options in _options(entry, number)]
        if not numbers:
            reasons[entry.id] = unmet(registered)
    return _judged(entries, asked, reasons, {}, jobs, progress)


def lines(verdict: PanelVerdict) -> tuple[str, ...]:
    """Return the verdict on a statement in a few lines, for a terminal.

    Parameters
    ----------
    verdict : PanelVerdict
        The verdict.

    Returns
    -------
    tuple of str
        The lines; the first one names the statement and the verdict.
    """
    found = [f"{verdict.id}: {verdict.verdict.value}"]
    if verdict.unreached:
        return (*found, f"  not reached: {verdict.unreached}")
    if verdict.error:
        found.append(f"  stopped: {verdict.error}")
        if not verdict.judged:
            return tuple(found)
    judged = verdict.judged
    part = f"{len(verdict.refuted)} of " if verdict.verdict is Verdict.REFUTED else ""
    found[0] += f" on {part}{len(judged)} mechanisms, tight on {len(verdict.tight)}"
    for point in (*verdict.refuted[:1], *verdict.tight[:1]):
        sign = ">" if point.verdict is Verdict.REFUTED else "<="
        low, high = apart(point.certified or 0.0, point.claimed or 0.0)
        place = "delta" if point.quantity == EpsilonAtDelta.name else "order"
        found.append(
            f"  certified {point.quantity} {low} {sign} claimed {high} at {place} {point.at:g} "
            f"by {point.pair}"
        )
    found += [f"  {verdict.verification}"] if verdict.verification else []
    reasons = Counter(point.message for point in verdict.points if math.isnan(point.ratio))
    found += [f"  {count} without a ratio: {text}" for text, count in reasons.most_common(3)]
    return tuple(found)


# one mechanism


@dataclass(frozen=True)
class _Asked:
    """A statement on one mechanism; without ``values`` it is an entry that is evaluated here."""

    entry: PanelEntry
    number: int
    options: Mapping[str, int]
    values: Values | None = None

    def evaluated(self) -> Values:
        if self.values is not None:
            return self.values
        return values_of(bounds.entry(self.entry.id), self.number, self.options, DELTAS, ORDERS)


def _options(entry: PanelEntry, number: int) -> Iterator[dict[str, int]]:
    """Yield the options with which a statement is judged on a mechanism: the defaults first."""
    mechanism = drawn(number)
    assert mechanism is not None
    yield {}
    n, b = mechanism.dataset_size, mechanism.batch_size
    scope = entry.record_scope
    if scope.option is not None and mechanism.batching is Batching.CYCLIC and n > b:
        batch = 0 if number % 2 else n // b // 2  # the first batch or the middle one
        value = {
            RecordScope.INDEX: batch * b + 1,
            RecordScope.POSITION: batch,
            RecordScope.BATCH: batch + 1,
            RecordScope.PRIVATE: max(n // 2, 1),
        }[scope]
        yield {scope.option: value}
    # outputs that walls clamp are not those of the pair of several runs
    open_run = mechanism.steps == n == 1 and mechanism.diameter is None
    if entry.runs_option is not None and open_run:
        yield {entry.runs_option: _RUNS}


def _points(number: int, asked: Sequence[_Asked]) -> list[PanelPoint]:
    """Judge statements on one mechanism, whose laws they share."""
    mechanism = drawn(number)
    assert mechanism is not None
    others = _OtherBounds(mechanism)
    with Shared() as shared:
        values = [one.evaluated() for one in asked]
        every = Numbers(tuple(number for value in values for number in _numbers(value)))
        shared.pairs.expect([Claim(id="all", mechanism=mechanism, statement=every)])
        return [
            _point(one, value, mechanism, shared, others)
            for one, value in zip(asked, values, strict=True)
        ]


def _point(
    asked: _Asked, values: Values, mechanism: NoisySGD, shared: Shared, others: _OtherBounds
) -> PanelPoint:
    entry, number = asked.entry, asked.number
    point = PanelPoint(
        number=number,
        mechanism=mechanism,
        regime=encode(regime_of(mechanism)),
        options=asked.options,
        verdict=Verdict.NOT_APPLICABLE,
    )
    if values.error:
        return replace(point, verdict=Verdict.ERROR, message=values.error)
    numbers = _numbers(values)
    if not numbers:
        return replace(point, message=values.nothing or "the claimed numbers are infinite")
    runs = asked.options.get(entry.runs_option or "", 1)
    batches = entry.record_scope.batches(mechanism, asked.options)
    try:
        claim = Claim(
            id=f"{entry.id}.{number}",
            mechanism=mechanism,
            statement=Numbers(numbers),
            citation=str(entry.source),
            budget=Budget(seconds=_SECONDS),
            pair=Repeated(mechanism, runs) if runs > 1 else None,
        )
        found = judge_numbers(claim, batches=batches, shared=shared)
    except (ValueError, ArithmeticError) as error:  # one pair must not stop the panel
        text = " ".join(str(error).split())
        return replace(point, verdict=Verdict.INCONCLUSIVE, message=text)
    if found.certified is None or found.quantity is None:
        return replace(point, verdict=found.verdict, message=found.message)
    competitor, competing = ("", None) if runs > 1 else others.least(found.quantity, entry.id)
    return replace(
        point,
        verdict=found.verdict,
        quantity=found.quantity.name,
        at=found.quantity.at,
        claimed=found.claimed,
        certified=found.certified,
        order=found.order,
        pair=found.pair,
        competitor=competitor,
        competing=competing,
        witness=None if found.witness is None else json.loads(found.witness.to_json()),
        message=found.message,
    )


def _numbers(values: Values) -> tuple[ClaimedNumber, ...]:
    """Return the finite numbers of a statement, with the error that is granted to them."""
    found: list[tuple[AnyQuantity, float]] = [
        *zip(map(EpsilonAtDelta, DELTAS), values.epsilons, strict=False),
        *zip(map(RenyiAtOrder, ORDERS), values.divergences, strict=False),
    ]
    return tuple(
        ClaimedNumber(quantity, value, _FORMULA_ERROR * value + _MIN_ERROR)
        for quantity, value in found
        if math.isfinite(value)
    )


class _OtherBounds:
    """The sound bounds of the catalogue for one mechanism, evaluated when they are needed."""

    def __init__(self, mechanism: NoisySGD) -> None:
        self._mechanism = mechanism
        self._values: dict[Quantity, dict[str, float]] = {}

    @cached_property
    def _curves(self) -> dict[str, PrivacyCurve]:
        found = {}
        for id, entry in bounds.CATALOGUE.items():
            if entry.status.sound and not entry.slow and admits(entry, self._mechanism):
                try:
                    found[id] = entry.evaluate(self._mechanism)
                except ValueError:  # it cannot be computed here
                    continue
        return found

    def least(self, quantity: Quantity, excluded: str) -> tuple[str, float | None]:
        """Return the tightest bound but one on a quantity: its id and value, if there is one."""
        if quantity not in self._values:
            self._values[quantity] = dict(_values_at(self._curves, quantity))
        others = {id: v for id, v in self._values[quantity].items() if id != excluded}
        if not others:
            return "", None
        id = bounds.tightest(others)
        return id, others[id]


def _values_at(
    curves: Mapping[str, PrivacyCurve], quantity: Quantity
) -> Iterator[tuple[str, float]]:
    for id, curve in curves.items():
        try:
            value = quantity.upper_bound(curve)
        except ValueError:
            continue
        if value is not None and math.isfinite(value):
            yield id, value


# all mechanisms


@contextlib.contextmanager
def _in_processes(
    tasks: Sequence[tuple[int, list[_Asked]]], jobs: int
) -> Iterator[Iterator[list[PanelPoint]]]:
    """Provide the points of all mechanisms in their order; the processes end with the context."""
    if jobs == 1:
        yield (_points(*task) for task in tasks)
        return
    # not joblib.Parallel, whose processes wait for more work, also when this one has ended
    pool = ProcessPoolExecutor(
        jobs,
        initializer=end_with_parent,
        initargs=(os.getpid(),),
        env=dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    )
    try:
        yield pool.map(_points, *zip(*tasks, strict=True)) if tasks else iter(())
    finally:
        pool.shutdown(kill_workers=True)


def _judged(
    entries: Sequence[PanelEntry],
    asked: Sequence[_Asked],
    reasons: Mapping[str, str],
    errors: Mapping[str, str],
    jobs: int,
    progress: Progress | None,
) -> tuple[PanelVerdict, ...]:
    by_number: dict[int, list[_Asked]] = {}
    for one in asked:
        by_number.setdefault(one.number, []).append(one)
    tasks = sorted(by_number.items())
    points: dict[str, list[PanelPoint]] = {entry.id: [] for entry in entries}
    with _in_processes(tasks, jobs) as done:
        for count, ((_, ones), found) in enumerate(zip(tasks, done, strict=True), start=1):
            for one, point in zip(ones, found, strict=True):
                points[one.entry.id].append(point)
            if progress is not None:
                progress(count, len(tasks))
    verdicts = (
        PanelVerdict(
            id=entry.id,
            citation=str(entry.source),
            bibtex=entry.source.bibtex(),
            statement=entry.statement,
            status=entry.status.value,
            assumptions=entry.assumptions,
            expected=Verdict.unless(entry.status is Status.REFUTED),
            points=tuple(points[entry.id]),
            unreached=reasons.get(entry.id, ""),
            error=errors.get(entry.id, ""),
        )
        for entry in entries
    )
    return tuple(_confirmed(verdict) for verdict in verdicts)


def _confirmed(verdict: PanelVerdict) -> PanelVerdict:
    """Verify some refutations, clear and short ones first, until one is verified.

    Without the verifier the first one counts, and says so.
    """
    line, unverified = "", None
    witnessed = [point for point in verdict.refuted if point.witness is not None]
    witnessed.sort(key=lambda point: (point.ratio > _CLEAR, point.mechanism.steps))
    for point in witnessed[:_VERIFIED]:
        assert point.witness is not None
        found = verify(point.witness)
        place = next(i for i, one in enumerate(verdict.points) if one is point)
        line = found.line
        if found.outcome is Outcome.VERIFIED:
            return replace(verdict, verification=line, confirmed=place)
        if found.outcome is Outcome.NOT_VERIFIED and unverified is None:
            unverified = replace(verdict, verification=line, confirmed=place)
    return unverified or replace(verdict, verification=line)
