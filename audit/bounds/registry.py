"""The registry of bounds, and operations on all entries."""

from __future__ import annotations

import difflib
import enum
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, SupportsInt, TypeVar, cast

from audit import validate
from audit.bounds import calibration
from audit.bounds.assumptions import Assumption, NotApplicable
from audit.bounds.record_scope import RecordScope
from audit.bounds.sources import Source
from audit.curves.base import PrivacyCurve
from audit.mechanism import Choice, NoisySGD
from audit.numerics import display
from audit.numerics.display import Marks, ShortRepr

BoundFunction = TypeVar("BoundFunction", bound=Callable[..., PrivacyCurve])

_MAX_DRAWN_BOUNDS = 8  # bounds in the picture of a notebook
_TIE_TOLERANCE = 1e-9  # relative; closer values count as equal


class Status(enum.Enum):
    """Status of a statement."""

    AS_PRINTED = "as printed"
    CORRECTED = "corrected"
    UNPROVEN = "unproven"
    REFUTED = "refuted as printed"
    ASYMPTOTIC = "asymptotic"  # a rate without constants: plotted, never judged
    OWN = "own"  # proven in this package

    @property
    def sound(self) -> bool:
        """True if proven and without a known violation; `best` uses only these."""
        return self in (Status.AS_PRINTED, Status.CORRECTED, Status.OWN)


@dataclass(frozen=True)
class Entry(ShortRepr):
    """Catalogue entry: an upper bound on the privacy loss of every mechanism that it covers.

    Parameters
    ----------
    id : str
        Paper and number, such as ``"bsa24.theorem_4_3"``.
    source : Source
        Publication, and place in it.
    statement : str
        The statement in one line, with its formula.
    assumptions : tuple of Assumption
        Conditions on the mechanism, in the order in which failures are reported.
    status : Status
        Status of the statement.
    function : callable
        Maps a mechanism that meets the assumptions to a curve. Its keyword-only parameters are the
        options.
    slow : bool, default: False
        Whether evaluation takes seconds. `Catalogue.best` and `Catalogue.table` skip slow entries
        by default.
    record_scope : RecordScope, default: RecordScope.ANY
        Records that the statement covers.
    other_runs : tuple of str, optional
        Options that describe the two runs beyond the mechanism. If one of them is set, no pair of
        this package is known to be covered.
    runs_option : str, optional
        Option that gives the number of released runs on one dataset, if any.
    covers : tuple of Choice, optional
        Choices of a mechanism that the statement is proven for, in addition to
        `audit.mechanism.COVERED_BY_DEFAULT`. All other choices are refused.

    Raises
    ------
    ValueError
        If ``function`` lacks an option that the entry names.
    """

    id: str
    source: Source
    statement: str
    assumptions: tuple[Assumption, ...]
    status: Status
    function: Callable[..., PrivacyCurve]
    slow: bool = False
    record_scope: RecordScope = RecordScope.ANY
    other_runs: tuple[str, ...] = ()
    runs_option: str | None = None
    covers: tuple[Choice, ...] = ()

    def __post_init__(self) -> None:
        named = (self.record_scope.option, *self.other_runs, self.runs_option)
        self._check_options(name for name in named if name is not None)

    def _check_options(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.options:
                allowed = ", ".join(self.options) if self.options else "none"
                raise ValueError(f"{self.id} has no option {name!r}; its options: {allowed}")

    @property
    def cite(self) -> Source:
        """The source, which prints as a citation and as BibTeX."""
        return self.source

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the free parameters."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    def released_runs(self, options: Mapping[str, object]) -> int:
        """Return how many runs on one dataset the bound covers.

        Parameters
        ----------
        options : mapping of str to object
            Options of the bound.

        Returns
        -------
        int
            Number of runs.
        """
        if self.runs_option is None:
            return 1
        return int(cast(SupportsInt, options.get(self.runs_option, 1)))

    def failures(self, mechanism: NoisySGD) -> tuple[str, ...]:
        """Return why the entry does not cover a mechanism.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.

        Returns
        -------
        tuple of str
            One ``"needs ..., got ..."`` per failed assumption; empty if all hold.
        """
        refusal = mechanism.uncovered(self.covers)
        failures: list[str] = [] if refusal is None else [refusal]
        for assumption in self.assumptions:
            try:
                failure = assumption.failure(mechanism)
            except (TypeError, ValueError):
                if not failures:
                    raise
                continue  # a condition on what an earlier one found missing
            if failure is not None:
                failures.append(failure)
        return tuple(failures)

    def evaluate(self, mechanism: NoisySGD, **options: object) -> PrivacyCurve:
        """Return the bound for a mechanism.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.
        **options : object
            Free parameters of the bound; by default they are optimised.

        Returns
        -------
        PrivacyCurve
            The curve.

        Raises
        ------
        NotApplicable
            If the mechanism fails an assumption.
        ValueError
            If an option is unknown or out of range.
        """
        validate.instance(NoisySGD, mechanism=mechanism)
        self._check_options(options)
        for failure in self.failures(mechanism):
            raise NotApplicable(f"{self.id} {failure}")
        plain = {name: validate.python_number(value) for name, value in options.items()}
        return self.function(mechanism, **plain)


def rank(epsilon: float) -> float:
    """Return a bound in nine digits: equal bounds differ by rounding, and so do machines."""
    return float(f"{epsilon:.9g}")


@dataclass(frozen=True)
class BestBound(ShortRepr):
    """Tightest sound bound at one delta."""

    id: str  #: Id of the tightest bound.
    epsilon: float  #: Its epsilon at ``delta``.
    curve: PrivacyCurve  #: Its curve.
    delta: float  #: Delta at which bounds were compared.
    compared: Mapping[str, float]  #: Epsilon of every applicable sound bound, by id.

    def _repr_html_(self) -> str:
        ranked = sorted(self.compared.items(), key=lambda item: rank(item[1]))
        marks = [Marks(id, upper=epsilon) for id, epsilon in ranked[:_MAX_DRAWN_BOUNDS]]
        return display.sandwich(f"epsilon at delta {self.delta:g}", marks)


@dataclass(frozen=True)
class Row(ShortRepr):
    """Value of one statement for a mechanism at one delta, or why there is none."""

    id: str
    status: Status
    value: float | None  # epsilon
    ratio: float | None  # value over that of the tightest sound bound
    reason: str | None


def tightest(compared: Mapping[str, float]) -> str:
    """Return the id of the smallest value; of equal values the first.

    Values that agree up to rounding are equal. Published entries precede those of this package.

    Parameters
    ----------
    compared : mapping of str to float
        Values by id, in the order of the catalogue.

    Returns
    -------
    str
        The id.

    Examples
    --------
    >>> tightest({"a": 2.0, "b": 1.0, "c": 1.0})
    'b'
    """
    least = min(compared.values())
    return next(id for id, value in compared.items() if value <= least * (1 + _TIE_TOLERANCE))


class Catalogue:
    """Entries by id in the order of their registration, with operations on them.

    Parameters
    ----------
    entries : iterable of Entry, optional
        Initial entries.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self.entries: Mapping[str, Entry] = MappingProxyType(self._entries)
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Register an entry after the existing ones.

        Parameters
        ----------
        entry : Entry
            The new entry.

        Raises
        ------
        ValueError
            If the id is taken.
        """
        if entry.id in self._entries:
            raise ValueError(f"id must be unique in the catalogue, got {entry.id!r} twice")
        self._entries[entry.id] = entry

    def bound(
        self,
        *,
        id: str,
        source: Source,
        statement: str,
        assumes: tuple[Assumption, ...],
        status: Status,
        slow: bool = False,
        record_scope: RecordScope = RecordScope.ANY,
        other_runs: tuple[str, ...] = (),
        runs_option: str | None = None,
        covers: tuple[Choice, ...] = (),
    ) -> Callable[[BoundFunction], BoundFunction]:
        """Return a decorator that registers a function from mechanisms to curves as a bound.

        Running a definition again (a notebook cell, a reloaded module) replaces its entry. A
        different function with the same id is refused.

        Parameters
        ----------
        id : str
            Unique id.
        source : Source
            Publication, and place in it.
        statement : str
            The statement in one line, with its formula.
        assumes : tuple of Assumption
            Conditions on the mechanism, in the order in which failures are reported.
        status : Status
            Status of the statement.
        slow, record_scope, other_runs, runs_option, covers : optional
            As in `Entry`.

        Returns
        -------
        callable
            Decorator that returns its function unchanged.

        Examples
        --------
        >>> from audit.curves import GaussianCurve
        >>> mine = Catalogue()
        >>> @mine.bound(id="mine.lemma_1", source=Source(("Author",), 2030, "A Title"),
        ...             statement="mu-GDP with mu = 1/sigma", assumes=(), status=Status.UNPROVEN)
        ... def lemma_1(mechanism):
        ...     return GaussianCurve(1 / mechanism.noise_std)
        >>> tuple(mine.entries)
        ('mine.lemma_1',)
        """

        def register(function: BoundFunction) -> BoundFunction:
            entry = Entry(
                id=id,
                source=source,
                statement=statement,
                assumptions=assumes,
                status=status,
                function=function,
                slow=slow,
                record_scope=record_scope,
                other_runs=other_runs,
                runs_option=runs_option,
                covers=covers,
            )
            known = self._entries.get(id)
            if known is not None and _defined_at(known.function) == _defined_at(function):
                self._entries[id] = entry
            else:
                self.add(entry)
            return function

        return register

    def entry(self, id: str, *, name: str = "id") -> Entry:
        """Return the entry of an id.

        Parameters
        ----------
        id : str
            A key of ``CATALOGUE``.
        name : str, default: "id"
            Name of the id in error messages.

        Returns
        -------
        Entry
            The entry.

        Raises
        ------
        ValueError
            If there is no such entry; the message suggests similar ids.

        Examples
        --------
        >>> import audit
        >>> audit.bounds.entry("bsa24.theorem_4_1").statement
        'full batches, composition: mu-GDP with mu = (L/(n sigma)) sqrt(t)'
        """
        if id in self.entries:
            return self.entries[id]
        close = difflib.get_close_matches(str(id), self.entries, n=3, cutoff=0.5)
        known = f"did you mean {' or '.join(close)}?" if close else "see audit.bounds.CATALOGUE"
        raise ValueError(f"{name} must be the id of a bound in the catalogue, got {id!r}; {known}")

    def evaluate(self, id: str, mechanism: NoisySGD, **options: object) -> PrivacyCurve:
        """Return the curve that a bound claims for a mechanism, whatever its status.

        Parameters
        ----------
        id : str
            A key of ``CATALOGUE``.
        mechanism : NoisySGD
            Public parameters of the run.
        **options : object
            Free parameters of the bound; by default they are optimised.

        Returns
        -------
        PrivacyCurve
            The curve.

        Raises
        ------
        NotApplicable
            If the mechanism fails an assumption.
        ValueError
            If the id or an option is unknown, or an option is out of range.

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=1000, dataset_size=20, batch_size=20, step_size=0.1,
        ...                    noise_std=0.5, lipschitz=1.0, smoothness=1.0, diameter=1.0)
        >>> round(audit.bounds.evaluate("bsa24.theorem_4_3", m).epsilon(1e-5), 4)
        24.3816
        """
        return self.entry(id).evaluate(mechanism, **options)

    def applicable(self, mechanism: NoisySGD) -> tuple[str, ...]:
        """Return the ids of the bounds that cover a mechanism, in the order of the catalogue.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.

        Returns
        -------
        tuple of str
            Ids, of any status.

        Raises
        ------
        ValueError
            If ``mechanism`` is not a `NoisySGD`.

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=1000, dataset_size=20, batch_size=20, step_size=0.1,
        ...                    noise_std=0.5, lipschitz=1.0, smoothness=1.0, diameter=1.0)
        >>> "bsa24.theorem_4_3" in audit.bounds.applicable(m)
        True
        """
        validate.instance(NoisySGD, mechanism=mechanism)
        return tuple(id for id, entry in self.entries.items() if not entry.failures(mechanism))

    def best(self, mechanism: NoisySGD, *, delta: float, slow: bool = False) -> BestBound:
        """Return the sound bound with the smallest epsilon at ``delta``.

        Slow bounds (`Entry.slow`) are compared only if ``slow`` is true.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.
        delta : float
            A number in [0, 1); at 0 most bounds are infinite.
        slow : bool, default: False
            Whether to include bounds that take seconds.

        Returns
        -------
        BestBound
            The tightest bound, and the epsilon of every bound compared.

        Raises
        ------
        NotApplicable
            If no sound bound applies; the message gives the reason of each.
        ValueError
            If ``delta`` is outside [0, 1).

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=1000, dataset_size=20, batch_size=20, step_size=0.1,
        ...                    noise_std=0.5, lipschitz=1.0, smoothness=1.0, diameter=1.0)
        >>> audit.bounds.best(m, delta=1e-5).id
        'cl25.theorem_3_1_gaussian'
        """
        validate.half_open_unit(delta=delta)
        validate.instance(NoisySGD, mechanism=mechanism)
        sound = {id: entry for id, entry in self.entries.items() if entry.status.sound}
        answers = {id: _answer(entry, mechanism, delta, slow) for id, entry in sound.items()}
        found = {id: answer for id, answer in answers.items() if not isinstance(answer, str)}
        if not found:
            reasons = "; ".join(f"{id} {reason}" for id, reason in answers.items())
            raise NotApplicable(f"no sound bound applies: {reasons}")
        compared = {id: epsilon for id, (_, epsilon) in found.items()}
        winner = tightest(compared)
        curve, epsilon = found[winner]
        return BestBound(winner, epsilon, curve, float(delta), compared)

    def calibrate(
        self,
        id: str,
        mechanism: NoisySGD,
        epsilon: float,
        delta: float,
        *,
        parameter: str = "noise_std",
        **options: object,
    ) -> float:
        """Return the least noise, or the largest number of steps, that meets a budget.

        Parameters
        ----------
        id : str
            A key of ``CATALOGUE``.
        mechanism : NoisySGD
            All other parameters. Its own noise or number of steps is the initial value.
        epsilon, delta : float
            The budget.
        parameter : {"noise_std", "steps"}, default: "noise_std"
            Parameter to calibrate.
        **options : object
            Free parameters of the bound; by default they are optimised.

        Returns
        -------
        float or int
            A noise for which epsilon at ``delta`` is at most ``epsilon``, at most 1e-6 (relative)
            above the least one; or the largest number of steps (of whole epochs for cyclic
            batches).

        Raises
        ------
        NotApplicable
            If the bound covers the mechanism for no value of the parameter.
        ValueError
            If no value or every value meets the budget, or an argument is out of range.

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=1000, dataset_size=20, batch_size=20, step_size=0.1,
        ...                    noise_std=0.5, lipschitz=1.0, smoothness=1.0, diameter=1.0)
        >>> round(audit.bounds.calibrate("bsa24.theorem_4_1", m, 8.0, 1e-5), 3)
        1.898
        """
        entry = self.entry(id)
        validate.instance(NoisySGD, mechanism=mechanism)
        validate.nonnegative(epsilon=epsilon)
        validate.open_unit(delta=delta)
        validate.one_of(("noise_std", "steps"), parameter=parameter)

        def at(value: float) -> float:
            changed: dict[str, Any] = {parameter: value}
            return float(entry.evaluate(replace(mechanism, **changed), **options).epsilon(delta))

        if parameter == "noise_std":
            return calibration.least_noise(at, float(epsilon), float(mechanism.noise_std))
        if isinstance(mechanism.step_size, tuple):
            raise ValueError("step_size must be one number to calibrate steps, got a schedule")
        cycles = mechanism.batching.repeats
        unit = mechanism.dataset_size // mechanism.batch_size if cycles else 1
        return calibration.most_steps(at, float(epsilon), unit)

    def table(self, mechanism: NoisySGD, delta: float, *, slow: bool = False) -> tuple[Row, ...]:
        """Return the value of every statement for a mechanism, one row each.

        Slow bounds (`Entry.slow`) are evaluated only if ``slow`` is true.

        Parameters
        ----------
        mechanism : NoisySGD
            Public parameters of the run.
        delta : float
            A number in [0, 1); at 0 most bounds are infinite.
        slow : bool, default: False
            Whether to evaluate bounds that take seconds.

        Returns
        -------
        tuple of Row
            Rows in the order of the catalogue.

        Raises
        ------
        ValueError
            If ``delta`` is outside [0, 1).

        Examples
        --------
        >>> import audit
        >>> m = audit.NoisySGD(steps=1000, dataset_size=20, batch_size=20, step_size=0.1,
        ...                    noise_std=0.5, lipschitz=1.0, smoothness=1.0, diameter=1.0)
        >>> rows = {row.id: row for row in audit.bounds.table(m, 1e-5)}
        >>> rows["bsa24.theorem_4_2"].reason
        'needs strongly convex losses, got strong_convexity=0.0'
        """
        validate.instance(NoisySGD, mechanism=mechanism)
        validate.half_open_unit(delta=delta)
        answers = [(e, _answer(e, mechanism, delta, slow)) for e in self.entries.values()]
        sound = [a[1] for e, a in answers if e.status.sound and not isinstance(a, str)]
        best = min(sound, default=math.inf)
        return tuple(
            Row(e.id, e.status, None, None, a)
            if isinstance(a, str)
            else Row(e.id, e.status, a[1], _ratio(a[1], best), None)
            for e, a in answers
        )


def _defined_at(function: Callable[..., PrivacyCurve]) -> tuple[object, object]:
    """Return module and name of a definition, which persist when it runs again."""
    return getattr(function, "__module__", None), getattr(function, "__qualname__", function)


def _answer(
    entry: Entry, mechanism: NoisySGD, delta: float, slow: bool
) -> tuple[PrivacyCurve, float] | str:
    """Return the curve of an entry and its epsilon, or why there is none."""
    failures = entry.failures(mechanism)
    if failures:
        return failures[0]
    if entry.slow and not slow:
        return "takes seconds; use slow=True"
    try:
        curve = entry.function(mechanism)
        return curve, float(curve.epsilon(delta))
    except ValueError as error:
        return str(error)


def _ratio(value: float, best: float) -> float | None:
    if best == math.inf:
        return None
    if value == best:
        return 1.0
    return value / best if best > 0 else math.inf
