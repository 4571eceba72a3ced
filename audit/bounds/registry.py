"""The registry of bounds: what an entry is, and the questions that can be asked of all of them."""

from __future__ import annotations

import difflib
import enum
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import SupportsInt, TypeVar, cast

from audit import validate
from audit.bounds import calibration
from audit.bounds.assumptions import Assumption, NotApplicable
from audit.bounds.record_scope import RecordScope
from audit.bounds.sources import Source
from audit.curves.base import PrivacyCurve
from audit.mechanism import Batching, Choice, NoisySGD

BoundFunction = TypeVar("BoundFunction", bound=Callable[..., PrivacyCurve])

_TIE = 1e-9  # relative: closer values are the same number, computed in two ways


class Status(enum.Enum):
    """What is known of a statement."""

    AS_PRINTED = "as printed"
    CORRECTED = "corrected"
    UNPROVEN = "unproven"
    REFUTED = "refuted as printed"
    ASYMPTOTIC = "asymptotic"  # a rate without constants: drawn, never judged
    OWN = "own"  # proven in this package, printed nowhere

    @property
    def sound(self) -> bool:
        """Whether `best` may use it: no violation is known, and it is proven."""
        return self in (Status.AS_PRINTED, Status.CORRECTED, Status.OWN)


@dataclass(frozen=True)
class Entry:
    """One statement: an upper bound on the privacy loss of every mechanism that it covers.

    Parameters
    ----------
    id : str
        Paper and number, as in ``"bsa24.theorem_4_3"``.
    source : Source
        Where it is printed.
    statement : str
        One line in plain words, with the formula.
    assumptions : tuple of Assumption
        What a mechanism must meet, in the order in which failures are reported.
    status : Status
        What is known of the statement.
    function : callable
        Maps a mechanism that meets the assumptions to a curve; its keyword-only parameters are
        the options.
    slow : bool, default: False
        Whether a value takes seconds: `Catalogue.best` and `Catalogue.table` leave it out unless
        they are told to take it in.
    record_scope : RecordScope, default: RecordScope.ANY
        Which records the statement speaks about.
    other_runs : tuple of str, optional
        Options that describe the two runs beyond what the mechanism says. With one of them set no
        pair of the package is known to be covered by the bound.
    runs_option : str, optional
        The option that says how many runs on one dataset are released, if there is one.
    covers : tuple of Choice, optional
        Choices of a mechanism that the statement is proven for, besides those that every entry
        covers or refuses by its assumptions (`audit.mechanism.COVERED_BY_DEFAULT`). All others are
        refused.
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
        for name in named:
            if name is not None and name not in self.options:
                allowed = ", ".join(self.options) if self.options else "none"
                raise ValueError(f"{self.id} has no option {name!r}; its options: {allowed}")

    @property
    def cite(self) -> Source:
        """The source, which prints as a citation and as BibTeX."""
        return self.source

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the free parameters that can be set by hand."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    def differing_batches(self, mechanism: NoisySGD, options: Mapping[str, object]) -> range | None:
        """Return the batches of the cycle, from 0, that may hold the record; None for any.

        Parameters
        ----------
        mechanism : NoisySGD
            The public parameters.
        options : mapping of str to object
            The options with which the bound is evaluated.
        """
        return self.record_scope.batches(mechanism, options)

    def record_options(self, mechanism: NoisySGD, position: int) -> dict[str, int]:
        """Return the options that ask for the first record of a batch; none if all are alike.

        Parameters
        ----------
        mechanism : NoisySGD
            The public parameters.
        position : int
            The place of the batch in the cycle, from 0.
        """
        return self.record_scope.options_at(mechanism, position)

    def released_runs(self, options: Mapping[str, object]) -> int:
        """Return how many runs on one dataset the bound covers with these options."""
        if self.runs_option is None:
            return 1
        return int(cast(SupportsInt, options.get(self.runs_option, 1)))

    def failures(self, mechanism: NoisySGD) -> tuple[str, ...]:
        """Return one "needs ..., got ..." for each assumption that ``mechanism`` fails."""
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
        """Return the bound for ``mechanism``; see `Catalogue.evaluate` for what it raises."""
        validate.instance(NoisySGD, mechanism=mechanism)
        for name in options:
            if name not in self.options:
                allowed = ", ".join(self.options) if self.options else "none"
                raise ValueError(f"{self.id} has no option {name!r}; its options: {allowed}")
        refusal = mechanism.uncovered(self.covers)
        if refusal is not None:
            raise NotApplicable(f"{self.id} {refusal}")
        for assumption in self.assumptions:
            failure = assumption.failure(mechanism)
            if failure is not None:
                raise NotApplicable(f"{self.id} {failure}")
        return self.function(mechanism, **options)


@dataclass(frozen=True)
class BestBound:
    """The tightest of the sound bounds at one delta.

    Attributes
    ----------
    id : str
        The winning entry, its epsilon at ``delta``, and its whole curve.
    epsilon : float
        The winning entry, its epsilon at ``delta``, and its whole curve.
    curve : PrivacyCurve
        The winning entry, its epsilon at ``delta``, and its whole curve.
    delta : float
        The delta at which bounds were compared.
    compared : mapping of str to float
        Epsilon of every sound bound that applies, by id.
    """

    id: str
    epsilon: float
    curve: PrivacyCurve
    delta: float
    compared: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """What one statement says about a mechanism at one delta.

    Attributes
    ----------
    id : str
        Of the entry.
    status : Status
        Of the entry.
    value : float or None
        Its epsilon; None where it does not apply or could not be computed.
    ratio : float or None
        ``value`` over that of the tightest sound bound; None without either.
    reason : str or None
        Why there is no value, else None.
    """

    id: str
    status: Status
    value: float | None
    ratio: float | None
    reason: str | None


def tightest(compared: Mapping[str, float]) -> str:
    """Return the id of the least value; of equals, up to rounding, the first one.

    In the catalogue's order those that are printed stand before this package's own.
    """
    least = min(compared.values())
    return next(id for id, value in compared.items() if value <= least * (1 + _TIE))


class Catalogue:
    """Entries by id, in the order of their registration, and what can be asked of them.

    Parameters
    ----------
    entries : iterable of Entry, optional
        Those to begin with.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self.entries: Mapping[str, Entry] = MappingProxyType(self._entries)
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Register an entry, after those that are registered.

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

        A definition that runs again (a cell of a notebook, a module that is reloaded) replaces its
        entry; another function of the same id is refused.

        Parameters
        ----------
        id : str
            See `Entry`.
        source : Source
            See `Entry`.
        statement : str
            See `Entry`.
        assumes : tuple of Assumption
            What a mechanism must meet, in the order in which failures are reported.
        status : Status
            See `Entry`.
        slow : bool, default: False
            See `Entry`.
        record_scope : RecordScope, default: RecordScope.ANY
            See `Entry`.
        other_runs : tuple of str, optional
            See `Entry`.
        runs_option : str, optional
            See `Entry`.
        covers : tuple of Choice, optional
            See `Entry`.

        Returns
        -------
        Callable
            The decorator, which returns the function as it is.
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
        """Return the entry of this id; ``ValueError`` naming the closest ids if there is none.

        ``name`` is what the message calls the id.
        """
        if id in self.entries:
            return self.entries[id]
        close = difflib.get_close_matches(str(id), self.entries, n=3, cutoff=0.5)
        known = f"did you mean {' or '.join(close)}?" if close else "see audit.bounds.CATALOGUE"
        raise ValueError(f"{name} must be the id of a bound in the catalogue, got {id!r}; {known}")

    def evaluate(self, id: str, mechanism: NoisySGD, **options: object) -> PrivacyCurve:
        """Return what the bound ``id`` claims for ``mechanism``, whatever its status.

        Parameters
        ----------
        id : str
            A key of ``CATALOGUE``.
        mechanism : NoisySGD
            The public parameters.
        **options : object
            Free parameters of the bound; those not given are optimised.

        Raises
        ------
        NotApplicable
            If the mechanism fails an assumption.
        ValueError
            If the id or an option is unknown, or an option is out of its range.
        """
        return self.entry(id).evaluate(mechanism, **options)

    def applicable(self, mechanism: NoisySGD) -> tuple[str, ...]:
        """Return the ids of the bounds whose assumptions ``mechanism`` meets, in order."""
        validate.instance(NoisySGD, mechanism=mechanism)
        return tuple(id for id, entry in self.entries.items() if not entry.failures(mechanism))

    def best(self, mechanism: NoisySGD, *, delta: float, slow: bool = False) -> BestBound:
        """Return the sound bound with the smallest epsilon at ``delta``.

        Bounds that take seconds (`Entry.slow`) are compared only where ``slow`` is true.

        Parameters
        ----------
        mechanism : NoisySGD
            The public parameters.
        delta : float
            Where the bounds are compared, in [0, 1); at 0 most are infinite.
        slow : bool, default: False
            Whether bounds that take seconds are compared, too.

        Returns
        -------
        BestBound
            The winner, and the epsilon of every bound that was compared.

        Raises
        ------
        NotApplicable
            If no sound bound applies; the message has the reason of each.
        ValueError
            If delta is outside [0, 1).
        """
        validate.half_open_unit(delta=delta)
        sound = [self.entries[id] for id in self.applicable(mechanism)]
        sound = [e for e in sound if e.status.sound and (slow or not e.slow)]
        compared: dict[str, float] = {}
        curves: dict[str, PrivacyCurve] = {}
        reasons: list[str] = []
        for e in sound:
            try:
                curves[e.id] = e.function(mechanism)
                compared[e.id] = float(curves[e.id].epsilon(delta))
            except ValueError as error:  # beyond what this one can compute
                reasons.append(f"{e.id} {error}")
        if not compared:
            reasons += [
                f"{e.id} {e.failures(mechanism)[0]}"
                for e in self.entries.values()
                if e.status.sound and e.failures(mechanism)
            ]
            raise NotApplicable(f"no sound bound applies: {'; '.join(reasons)}")
        winner = tightest(compared)
        return BestBound(
            winner, compared[winner], curves[winner], float(delta), MappingProxyType(compared)
        )

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
        """Return the least noise, or the most steps, with which a bound meets a budget.

        Parameters
        ----------
        id : str
            A key of ``CATALOGUE``.
        mechanism : NoisySGD
            All other parameters; its own noise (or number of steps) only says where to begin.
        epsilon, delta : float
            The budget.
        parameter : str, default: "noise_std"
            ``"noise_std"`` or ``"steps"``.
        **options : object
            Free parameters of the bound; those not given are optimised.

        Returns
        -------
        float or int
            A noise for which the bound's epsilon at ``delta`` is at most ``epsilon``, and at most
            1e-6 (relative) above the least such noise; or the largest number of steps (of whole
            epochs for cyclic batches) that meets the budget, an integer.

        Raises
        ------
        NotApplicable
            If the bound covers the mechanism for no value of the parameter.
        ValueError
            If no value meets the budget, or no value fails it, or an argument is out of its range.
        """
        entry = self.entry(id)
        validate.instance(NoisySGD, mechanism=mechanism)
        validate.nonnegative(epsilon=epsilon)
        validate.open_unit(delta=delta)
        validate.one_of(("noise_std", "steps"), parameter=parameter)

        def of_noise(value: float) -> float:
            changed = replace(mechanism, noise_std=value)
            return float(entry.evaluate(changed, **options).epsilon(delta))

        def of_steps(value: int) -> float:
            changed = replace(mechanism, steps=value)
            return float(entry.evaluate(changed, **options).epsilon(delta))

        if parameter == "noise_std":
            return calibration.least_noise(of_noise, float(epsilon), float(mechanism.noise_std))
        if isinstance(mechanism.step_size, tuple):
            raise ValueError("step_size must be one number to calibrate steps, got a schedule")
        cycles = mechanism.batching in (Batching.CYCLIC, Batching.SHUFFLED)
        unit = mechanism.dataset_size // mechanism.batch_size if cycles else 1
        return calibration.most_steps(of_steps, float(epsilon), unit)

    def table(self, mechanism: NoisySGD, delta: float, *, slow: bool = False) -> tuple[Row, ...]:
        """Return what every statement says about a mechanism, one row each, in order.

        Bounds that take seconds (`Entry.slow`) have a value only where ``slow`` is true.

        Parameters
        ----------
        mechanism : NoisySGD
            The public parameters.
        delta : float
            Where epsilon is taken, in [0, 1); at 0 most bounds are infinite.
        slow : bool, default: False
            Whether bounds that take seconds are evaluated, too.

        Raises
        ------
        ValueError
            If delta is outside [0, 1).
        """
        validate.instance(NoisySGD, mechanism=mechanism)
        validate.half_open_unit(delta=delta)
        rows = [_row(entry, mechanism, delta, slow) for entry in self.entries.values()]
        sound = [row.value for row in rows if row.status.sound and row.value is not None]
        best = min(sound, default=math.inf)
        if best == math.inf:
            return tuple(rows)
        return tuple(
            row if row.value is None else replace(row, ratio=_ratio(row.value, best))
            for row in rows
        )


def _defined_at(function: Callable[..., PrivacyCurve]) -> tuple[object, object]:
    """Return module and name of a definition, which stay when it runs again."""
    return getattr(function, "__module__", None), getattr(function, "__qualname__", function)


def _row(entry: Entry, mechanism: NoisySGD, delta: float, slow: bool) -> Row:
    failures = entry.failures(mechanism)
    if failures:
        return Row(entry.id, entry.status, None, None, failures[0])
    if entry.slow and not slow:
        return Row(entry.id, entry.status, None, None, "takes seconds: ask with slow=True")
    try:
        value = float(entry.function(mechanism).epsilon(delta))
    except ValueError as error:
        return Row(entry.id, entry.status, None, None, str(error))
    return Row(entry.id, entry.status, value, None, None)


def _ratio(value: float, best: float) -> float:
    if value == best:
        return 1.0
    return value / best if best > 0 else math.inf


REGISTRY = Catalogue()
"""The bounds of this package, and those that users register with `bound`."""

bound = REGISTRY.bound
