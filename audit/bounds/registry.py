"""What an entry of the catalogue is, and the questions that can be asked of all of them."""

from __future__ import annotations

import difflib
import enum
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from audit import validate
from audit.bounds import calibration
from audit.bounds.assumptions import Assumption
from audit.bounds.errors import NotApplicable
from audit.curves.base import PrivacyCurve
from audit.mechanism import Batching, NoisySGD

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
class Citation:
    """Where a statement is printed."""

    authors: str
    year: int
    title: str
    place: str

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}), {self.title}, {self.place}"


@dataclass(frozen=True)
class Entry:
    """One statement: an upper bound on the privacy loss of every mechanism that it covers.

    Parameters
    ----------
    id
        Paper and number, as in ``"bsa24.theorem_4_3"``.
    cite
        Where it is printed.
    statement
        One line in plain words, with the formula.
    assumptions
        What a mechanism must meet, in the order in which failures are reported.
    status
        What is known of the statement.
    function
        Maps a mechanism that meets the assumptions to a curve; its keyword-only parameters are
        the options.
    slow
        Whether a value takes seconds: `Catalogue.best` and `Catalogue.table` leave it out unless
        they are told to take it in.
    """

    id: str
    cite: Citation
    statement: str
    assumptions: tuple[Assumption, ...]
    status: Status
    function: Callable[..., PrivacyCurve]
    slow: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the free parameters that can be set by hand."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    def failures(self, mechanism: NoisySGD) -> tuple[str, ...]:
        """Return one "needs ..., got ..." for each assumption that ``mechanism`` fails."""
        failures: list[str] = []
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
    id, epsilon, curve
        The winning entry, its epsilon at ``delta``, and its whole curve.
    delta
        The delta at which bounds were compared.
    compared
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
    id, status
        Of the entry.
    value
        Its epsilon; None where it does not apply or could not be computed.
    ratio
        ``value`` over that of the tightest sound bound; None without either.
    reason
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
    """An immutable set of entries by id, and what can be asked of it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        table: dict[str, Entry] = {}
        for entry in entries:
            if entry.id in table:
                raise ValueError(f"id must be unique in the catalogue, got {entry.id!r} twice")
            table[entry.id] = entry
        self.entries: Mapping[str, Entry] = MappingProxyType(table)

    def entry(self, id: str) -> Entry:
        """Return the entry of this id; ``ValueError`` naming the closest ids if there is none."""
        if id in self.entries:
            return self.entries[id]
        close = difflib.get_close_matches(str(id), self.entries, n=3, cutoff=0.5)
        known = f"did you mean {' or '.join(close)}?" if close else "see audit.bounds.CATALOGUE"
        raise ValueError(f"id must be that of a bound in the catalogue, got {id!r}; {known}")

    def evaluate(self, id: str, mechanism: NoisySGD, **options: object) -> PrivacyCurve:
        """Return what the bound ``id`` claims for ``mechanism``, whatever its status.

        Parameters
        ----------
        id
            A key of ``CATALOGUE``.
        mechanism
            The public parameters.
        options
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

        Raises
        ------
        NotApplicable
            If no sound bound applies; the message has the reason of each.
        ValueError
            If delta is outside (0, 1).
        """
        validate.open_unit(delta=delta)
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
        id
            A key of ``CATALOGUE``.
        mechanism
            All other parameters; its own noise (or number of steps) only says where to begin.
        epsilon, delta
            The budget.
        parameter
            ``"noise_std"`` or ``"steps"``.
        options
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

        Raises
        ------
        ValueError
            If delta is outside (0, 1).
        """
        validate.instance(NoisySGD, mechanism=mechanism)
        validate.open_unit(delta=delta)
        rows = [_row(entry, mechanism, delta, slow) for entry in self.entries.values()]
        sound = [row.value for row in rows if row.status.sound and row.value is not None]
        if not sound:
            return tuple(rows)
        best = min(sound)
        return tuple(
            row if row.value is None else replace(row, ratio=_ratio(row.value, best))
            for row in rows
        )


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
