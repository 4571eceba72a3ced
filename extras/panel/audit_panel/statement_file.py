"""Statements in a Python file of the user, imported and evaluated in a worker process."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit import bounds, validate
from audit.bounds import Assumption, Entry, NotApplicable, RecordScope, Source, Status
from audit.claims.claims_file import ID
from audit.codec import decode, encode
from audit.curves import PrivacyCurve
from audit.isolation import Limits, UserCodeError, Workers, in_one_line, search_in
from audit_panel.mechanisms import DRAWS, chosen, drawn

_SECONDS, _GIGABYTES = 120.0, 4.0
_MODULE = "_panel_file"  # the name under which a file is imported


@dataclass(frozen=True, kw_only=True)
class PanelEntry:
    """Facts of a catalogue entry that the panel needs, as plain data.

    Attributes
    ----------
    id, source, statement, status, record_scope, runs_option
        As in `audit.bounds.Entry`.
    assumptions : tuple of str
        The conditions in words.
    """

    id: str
    source: Source
    statement: str
    status: Status
    assumptions: tuple[str, ...]
    record_scope: RecordScope = RecordScope.ANY
    runs_option: str | None = None

    @classmethod
    def of(cls, entry: Entry) -> PanelEntry:
        """Return the data of an entry."""
        return cls(
            id=entry.id,
            source=entry.source,
            statement=entry.statement,
            status=entry.status,
            assumptions=tuple(assumption.name for assumption in entry.assumptions),
            record_scope=entry.record_scope,
            runs_option=entry.runs_option,
        )


@dataclass(frozen=True, kw_only=True)
class Values:
    """Values that a statement claims for one mechanism.

    Attributes
    ----------
    epsilons, divergences : tuple of float
        At the deltas and orders that were asked for; infinite where nothing is claimed.
    nothing, error : str
        Why there are none: the statement does not apply, or cannot be evaluated.
    """

    epsilons: tuple[float, ...] = ()
    divergences: tuple[float, ...] = ()
    nothing: str = ""
    error: str = ""


def values_of(
    entry: Entry,
    number: int,
    options: Mapping[str, int],
    deltas: Sequence[float],
    orders: Sequence[float],
) -> Values:
    """Evaluate a statement for a mechanism of the sequence; nothing is raised."""
    mechanism = drawn(number)
    assert mechanism is not None
    try:
        curve = entry.evaluate(mechanism, **options)
        if not isinstance(curve, PrivacyCurve):
            wanted = f"{entry.id} must return a privacy curve"
            return Values(error=f"{wanted}, got {validate.shown(curve)}")
        return Values(
            epsilons=tuple(float(curve.epsilon(delta)) for delta in deltas),
            divergences=tuple(float(curve.renyi(order)) for order in orders),
        )
    except NotApplicable as reason:
        return Values(nothing=" ".join(str(reason).split()))
    except Exception as error:  # of any formula, at one of many mechanisms
        return Values(error=in_one_line(error, entry.function))


def admits(entry: Entry, mechanism: Any) -> bool:
    """Return whether the assumptions of a statement admit a mechanism.

    Like ``not entry.failures(mechanism)``, and faster; a condition on a value that is missing
    counts as failed.
    """
    if mechanism.uncovered(entry.covers) is not None:
        return False
    try:
        return all(assumption.holds(mechanism) for assumption in entry.assumptions)
    except (TypeError, ValueError):
        return False


def _may_hold(assumption: Assumption, mechanism: Any) -> bool:
    try:
        return bool(assumption.holds(mechanism))
    except Exception:  # a condition on what another one finds missing
        return False


def unmet(entry: Entry) -> str:
    """Return why no mechanism of the sequence meets the assumptions of a statement."""
    every = [mechanism for number in range(DRAWS) if (mechanism := drawn(number)) is not None]
    covered = [mechanism for mechanism in every if mechanism.uncovered(entry.covers) is None]
    missing = [
        assumption.name
        for assumption in entry.assumptions
        if not any(_may_hold(assumption, mechanism) for mechanism in covered)
    ]
    if missing:
        return f"no mechanism of the panel has {'; '.join(missing)}"
    return "no mechanism of the panel meets all its assumptions together"


class PanelFile(contextlib.AbstractContextManager["PanelFile"]):
    """The statements of one file; a context manager.

    The file is imported in a process of its own, which also evaluates its functions: nothing that
    they do affects this process. Each statement has its own limit on time, and if it ends or hangs
    the process, the next one gets a new one.

    Parameters
    ----------
    path : pathlib.Path
        The file. Every function that `audit.bounds.bound` registers in it is a statement.
    seconds : float, optional
        Limit on the time of each statement on all mechanisms, and on that of the import.

    Raises
    ------
    UserCodeError
        From every method, if the file cannot be imported, or its process ends or takes longer than
        its limit; one line.
    """

    def __init__(self, path: Path, seconds: float = _SECONDS) -> None:
        self.path = path
        self._limits = Limits(seconds=seconds, gigabytes=_GIGABYTES)
        self._workers = Workers()

    def __exit__(self, *exception: object) -> None:
        self._workers.close()

    @contextlib.contextmanager
    def asking(self, id: str = "") -> Iterator[Callable[..., Any]]:
        """Provide ``ask(question, *arguments)`` about a statement, or about the file itself.

        The answers are those of `answer`. All that is asked has one time limit.
        """
        reference = f"{__name__}:loaded"
        try:
            with self._workers.function(
                reference,
                task=f"{__name__}:answer",
                limits=self._limits,
                name=self.path.name,
                keep=True,
            ) as call:
                yield functools.partial(call, str(self.path.resolve()), id)
        except UserCodeError as error:
            about = id or self.path.name
            raise UserCodeError(str(error).replace(reference, about)) from None

    def entries(self) -> tuple[PanelEntry, ...]:
        """Return the statements, in the order of the file."""
        with self.asking() as ask:
            found: tuple[PanelEntry, ...] = decode(tuple[PanelEntry, ...], ask("entries"))
        for entry in found:
            if not ID.fullmatch(entry.id):  # it names files
                raise validate.fail("id", "letters, digits, '.', '_' and '-'", entry.id)
        return found


# runs in the worker


@functools.cache
def loaded(path: str) -> tuple[str, ...]:
    """Import a file and return the ids of the bounds that it registers."""
    file = Path(path)
    search_in(file.parent)
    before = set(bounds.CATALOGUE)
    spec = importlib.util.spec_from_file_location(_MODULE, file)
    if spec is None or spec.loader is None:
        raise UserCodeError(f"{file.name} must be a Python file, with the ending .py")
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UserCodeError(f"{file.name} cannot be imported: {in_one_line(error)}") from error
    found = tuple(id for id in bounds.CATALOGUE if id not in before)
    if not found:
        raise UserCodeError(f"{file.name} must register a bound (audit.bounds.bound), got none")
    return found


def answer(_: object, path: str, id: str, question: str, *arguments: Any) -> Any:
    """Answer a question of `PanelFile` as plain data.

    The ``entries`` of the file; the numbers of the mechanisms ``chosen`` for a statement, of some
    size, and why none is (``unmet``); and the ``values`` that it claims for one of them.
    """
    known = loaded(path)
    if question == "entries":
        return encode([PanelEntry.of(bounds.CATALOGUE[one]) for one in known])
    entry = bounds.entry(id)
    if question == "chosen":
        return list(chosen(functools.partial(_admits_safely, entry), *arguments))
    if question == "unmet":
        return unmet(entry)
    return encode(_finite_or_infinite(values_of(entry, *arguments)))


def _admits_safely(entry: Entry, mechanism: Any) -> bool:
    try:
        return bool(admits(entry, mechanism))
    except Exception as error:
        what = f"an assumption of {entry.id} raised"
        raise UserCodeError(f"{what} {in_one_line(error)}") from error


def _finite_or_infinite(values: Values) -> Values:
    """Return the values, or an error where one is not a number."""
    for value in (*values.epsilons, *values.divergences):
        if math.isnan(value) or value < 0:
            return Values(error=f"a claimed number must be at least 0, got {value!r}")
    return values
