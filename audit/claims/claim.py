"""Claims: statements about mechanisms, with their expected verdicts.

A statement is numbers that are claimed, or a source that is asked for them. `statement_of` reads
the keys of a claims file, `plain_statement` writes them; all keys come from the registry of
quantities and from `NumberSource`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias

from audit import bounds, validate
from audit.codec import DecodeError, decode, encode
from audit.codec.hints import did_you_mean, init_fields
from audit.constructions import Construction, encode_pair
from audit.constructions.explicit import ExplicitPair
from audit.curves import Order
from audit.curves.quantities import QUANTITIES, AnyQuantity, ClaimedNumber
from audit.estimation.score_source import Columns, RecordedScores
from audit.mechanism import Composition, NoisySGD
from audit.numerics.display import ShortRepr
from audit.numerics.number_format import Rounding, number, telling
from audit.validate import shown, with_article

TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""``package.module:function``."""


def _check_target(name: str) -> None:
    if not TARGET.fullmatch(name):
        raise validate.fail("name", "package.module:function", name)


Target = Annotated[str, _check_target]
"""A text that is `TARGET`."""

ACCOUNTANTS = ("dp_accounting.pld", "dp_accounting.rdp", "opacus.rdp", "opacus.prv", "opacus.gdp")
"""Accountants that claims name without a function of their own."""


def _check_accountant(name: str) -> None:
    if not (name in ACCOUNTANTS or TARGET.fullmatch(name)):
        wanted = f"one of {', '.join(ACCOUNTANTS)} or package.module:function"
        hint = did_you_mean(name, ACCOUNTANTS)
        raise ValueError(f"name must be {wanted}, got {shown(name)}{hint}")


class NumberSource(enum.Enum):
    """A source of claimed numbers.

    Attributes
    ----------
    BOUND
        A bound of the catalogue, by its id.
    CALLABLE
        A function ``package.module:function``. It is called as ``function(mechanism, delta)`` and
        returns epsilon or as ``function(mechanism, order)`` and returns a Renyi divergence.
    ACCOUNTANT
        An accountant of another library by its name (dp_accounting.pld, ...), which composes the
        mechanism, or a function ``package.module:function`` without arguments that returns one.
    """

    BOUND = "bound"
    CALLABLE = "callable"
    ACCOUNTANT = "accountant"


@dataclass(frozen=True)
class Numbers:
    """The claim that some numbers are at most, or above, certain values.

    Examples
    --------
    >>> from audit.curves.quantities import TotalVariation
    >>> Numbers((ClaimedNumber(TotalVariation(), 0.3),)) == statement_of(total_variation=0.3)
    True
    """

    kind: ClassVar[str] = "numbers"

    numbers: tuple[ClaimedNumber, ...]  #: The quantities with their values.
    #: Whether the claim is that the worst pair has more: a larger certified number then proves the
    #: claim instead of refuting it.
    exceeded: bool = False

    @property
    def quantities(self) -> tuple[AnyQuantity, ...]:
        """The claimed quantities."""
        return tuple(number.quantity for number in self.numbers)


@dataclass(frozen=True)
class Asked:
    """The claim that a source makes about the mechanism.

    Raises
    ------
    ValueError
        If there are neither deltas nor orders, or both for a callable.
    """

    kind: ClassVar[str] = "asked"

    source: NumberSource  #: The kind of source.
    name: str  #: Its id, name or function.
    deltas: tuple[float, ...] = ()  #: The deltas at which epsilon is claimed.
    orders: tuple[float, ...] = ()  #: The orders of claimed Renyi divergences.
    #: Free parameters of a bound by name.
    options: Mapping[str, int | float] = field(default_factory=dict)

    exceeded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        source = with_article(self.source.value)
        places = [key for key in PLACES if getattr(self, key)]
        given = f"{' or '.join(PLACES)} must be given for {source}"
        if not places:
            raise ValueError(f"{given}, got neither")
        if self.source is NumberSource.CALLABLE and len(places) > 1:
            returned = "it returns epsilon at a delta, or a Renyi divergence at an order"
            raise ValueError(f"{given}, got both: {returned}")

    @property
    def quantities(self) -> tuple[AnyQuantity, ...]:
        """The claimed quantities."""
        return tuple(
            cls(at) for cls in QUANTITIES.values() if cls.places for at in getattr(self, cls.places)
        )


Statement: TypeAlias = Numbers | Asked

PLACES = tuple(cls.places for cls in QUANTITIES.values() if cls.places)
"""Keys of the places at which a source is asked."""


def forms_of(quantities: Mapping[str, type[AnyQuantity]]) -> dict[str, type]:
    """Return the dataclass of every form of a statement, whose fields are keys, by its own key."""
    found: dict[str, type] = {}
    exceeding: dict[str, type] = {}
    places: list[Any] = []
    for kind, cls in quantities.items():
        form = partial(make_dataclass, namespace={"of": cls})
        value, at = Annotated[float, cls.check_value], Annotated[float, cls.check_place]
        if not cls.place:
            found[kind] = form(kind, [(kind, value)])
            continue
        row: Any = form(kind, [(cls.value or kind, value), (cls.place, at)])
        if cls.rows:
            rows = Annotated[tuple[row, ...], check_filled]
            found |= {kind: row, cls.rows: form(cls.rows, [(cls.rows, rows)])}
        else:
            by_place = Annotated[Mapping[at, value], check_filled]  # type: ignore[valid-type]
            found[kind] = form(kind, [(kind, by_place)])
        if cls.exceeds:
            exceeding[cls.exceeds] = form(cls.exceeds, [(cls.exceeds, row)])
        if cls.places:
            filled = Annotated[tuple[at, ...], check_filled]  # type: ignore[valid-type]
            places.append((cls.places, filled, field(default=())))
    options: Any = ("options", Mapping[str, int | float], field(default_factory=dict))
    for source, name, *more in (
        (NumberSource.BOUND, str, options),
        (NumberSource.CALLABLE, Target),
        (NumberSource.ACCOUNTANT, Annotated[str, _check_accountant]),
    ):
        keys = [(source.value, name), *places, *more]
        found[source.value] = make_dataclass(source.value, keys, namespace={"of": source})
    return found | exceeding


def check_filled(found: Collection[Any]) -> None:
    """Raise ``ValueError`` unless a list or a mapping has an entry."""
    if not found:
        kind, got = ("mapping", "{}") if isinstance(found, Mapping) else ("list", "[]")
        raise ValueError(f"value must be a {kind} with at least one entry, got {got}")


FORMS: Mapping[str, type] = MappingProxyType(forms_of(QUANTITIES))
"""The dataclass of every form of a statement, by the key that tells the form."""

KEYS = tuple(dict.fromkeys(key for form in FORMS.values() for key in init_fields(form)))
"""All keys of statements."""


def statement_of(**keys: Any) -> Statement:
    """Return the statement that is written in a claims file by these keys.

    Parameters
    ----------
    **keys : object
        Keys and values as in a claims file: ``epsilon=1.2, delta=1e-5``; ``points=[...]``;
        ``renyi={2: 0.5}``; ``mu=0.8``; ``tradeoff={0.05: 0.8}``; ``total_variation=0.3``;
        ``bound="at22.b_2", deltas=[1e-5]``; ``callable=...``; ``accountant=...``;
        ``not_private={...}`` or ``not_renyi={...}``.

    Returns
    -------
    Numbers or Asked
        The statement.

    Raises
    ------
    ValueError
        If there is no statement; one line.
    DecodeError
        A `ValueError` with the path of the value, if there is more than one statement, or the value
        is out of its range.

    Examples
    --------
    >>> statement_of(epsilon=1.2, delta=1e-5).quantities
    (EpsilonAtDelta(at=1e-05),)
    """
    forms = [key for key in keys if key in FORMS]
    if not forms:
        raise ValueError(f"a claim needs one of {', '.join(FORMS)}")
    first, *others = forms
    for key in others:
        raise DecodeError(f"a claim must make one statement, got {first!r} and {key!r}", (key,))
    for key in keys:
        if key not in init_fields(FORMS[first]):
            raise DecodeError(f"{key!r} cannot be combined with {first!r}", (key,))
    form: Any = FORMS[first]
    written = decode(form, keys)
    if not isinstance(form.of, NumberSource):
        content = getattr(written, first) if len(keys) == 1 else written
        return Numbers(_numbers(form.of, content), exceeded=first == form.of.exceeds)
    asked = Asked(form.of, *vars(written).values())
    if form.of is NumberSource.BOUND:
        if asked.name not in bounds.CATALOGUE:
            hint = did_you_mean(asked.name, bounds.CATALOGUE)
            raise DecodeError(f"unknown bound {shown(asked.name)}{hint}", (first,))
        known = bounds.CATALOGUE[asked.name].options
        for option in (key for key in asked.options if key not in known):
            hint = did_you_mean(option, known) or f"; known: {', '.join(known) or 'none'}"
            wrong = f"unknown key {shown(option)} in options{hint}"
            raise DecodeError(wrong, ("options", option))
    return asked


def _numbers(cls: type[AnyQuantity], written: Any) -> tuple[ClaimedNumber, ...]:
    """Return the numbers of a value, a row, rows, or a mapping from places to values."""
    if not cls.place:
        return (ClaimedNumber(cls(), written),)  # type: ignore[call-arg]
    if isinstance(written, Mapping):
        found = [(value, at) for at, value in sorted(written.items())]
    else:
        rows = written if isinstance(written, tuple) else (written,)
        found = [tuple(vars(row).values()) for row in rows]
    return tuple(ClaimedNumber(cls(at), cls.of_value(value)) for value, at in found)


def plain_statement(statement: Statement) -> dict[str, Any]:
    """Return a statement as the keys of a claims file, from which `statement_of` reads it back."""
    if isinstance(statement, Asked):
        places = {key: list(getattr(statement, key)) for key in PLACES if getattr(statement, key)}
        options = {"options": dict(statement.options)} if statement.options else {}
        return {statement.source.value: statement.name, **places, **options}
    found: dict[str, Any] = {}
    for cls in QUANTITIES.values():
        rows = [
            (number.quantity.at, cls.of_value(number.value + number.slack))
            for number in statement.numbers
            if type(number.quantity) is cls
        ]
        value = cls.value or cls.kind
        written = [{value: number, cls.place: at} for at, number in rows]
        if not rows:
            continue
        if statement.exceeded:
            (found[cls.exceeds],) = written
        elif not cls.place:
            (found[cls.kind],) = (number for _, number in rows)
        elif not cls.rows:
            found[cls.kind] = {repr(at): number for at, number in rows}
        elif len(rows) == 1:
            found |= written[0]
        else:
            found[cls.rows] = written
    return found


Pair: TypeAlias = Construction | ExplicitPair


@dataclass(frozen=True)
class Location:
    """A file and a line, for messages."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Severity(enum.Enum):
    """Whether an unexpected verdict fails the build."""

    ERROR = "error"
    WARN = "warn"


class Expected(enum.Enum):
    """The expected verdict on a claim."""

    CONSISTENT = "consistent"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class LooseBy:
    """``{loose_by: 1.2}``: consistent, and at most this many times the certified lower bound."""

    #: The largest ratio of the claim to the best certified lower bound, at least 1.
    loose_by: float

    @property
    def value(self) -> str:
        """The expectation in words, like the value of another one."""
        return f"loose by at most {self.loose_by:g}"

    def __post_init__(self) -> None:
        if not self.loose_by >= 1:
            raise validate.fail("loose_by", "a number of at least 1", self.loose_by)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The work that the judge may spend on a claim.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> Budget(trials=100_000, seconds=10.0).seed
    0
    """

    #: Samples per dataset if no exact law is available; 0 for exact evidence only.
    trials: int = 0
    #: Limit on the estimated time of exact laws, in seconds. Pairs beyond it are not tried;
    #: estimates are the same on every machine.
    seconds: float = 2.5
    seed: int = 0  #: Seed of all samples.
    #: Limit on the time of a user function, for all deltas together, in seconds.
    callable_seconds: float = 30.0
    #: Limit on the memory of a user function, in units of 1e9 bytes.
    callable_gigabytes: float = 4.0

    def __post_init__(self) -> None:
        validate.integer(0, trials=self.trials, seed=self.seed)
        validate.positive(
            seconds=self.seconds,
            callable_seconds=self.callable_seconds,
            callable_gigabytes=self.callable_gigabytes,
        )


@dataclass(frozen=True, kw_only=True)
class Search:
    """A worst-case search whose pair the judge tries after all others.

    The number of evaluations and the seed determine the pair on every machine; see
    `audit.search.worst_case`.
    """

    evaluations: int  #: Number of pairs to try; 0 for no search.
    seed: int = 0  #: Seed of the search.
    #: Whether the claim is for all dimensions and all convex domains of the diameter, so that
    #: domains may cancel a gradient of all records (`audit.constructions.cone`).
    many_dimensions: bool = False

    def __post_init__(self) -> None:
        validate.integer(0, evaluations=self.evaluations, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Samples(RecordedScores):
    """Scores recorded from both laws of a pair, as independent draws.

    Ties are broken with the seed of the claim's budget.
    """

    favours: Order | None = None  #: The law with the larger scores, if known in advance.
    #: How several numbers per run are combined into one score; by default `LinearScore`.
    columns: Columns | None = None
    #: Number of records in which the two datasets differ. The claim is about one record.
    group_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.integer(1, group_size=self.group_size)


@dataclass(frozen=True)
class UserPair:
    """A pair of a user-defined class, which is constructed in a worker only."""

    kind: str  #: ``package.module:Class``, a registered construction.
    #: Its fields other than the mechanism, as plain data.
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Claim(ShortRepr):
    """A statement about a mechanism, with its expected verdict.

    Raises
    ------
    ValueError
        If ``pair`` is not one of neighbouring datasets.

    Examples
    --------
    >>> import audit
    >>> from audit.claims import statement_of
    >>> claim = Claim(
    ...     id="step",
    ...     mechanism=audit.NoisySGD(
    ...         steps=1,
    ...         dataset_size=1,
    ...         batch_size=1,
    ...         step_size=0.1,
    ...         noise_std=2.0,
    ...         lipschitz=1.0,
    ...         batching=audit.Batching.FULL,
    ...         relation=audit.Relation.REPLACE_ONE,
    ...     ),
    ...     statement=statement_of(epsilon=2.0, delta=1e-5),
    ... )
    >>> claim.expected.value
    'consistent'
    """

    id: str  #: Name of the claim, unique over all files.
    #: The mechanism that the claim is about; None for explicit laws and samples.
    mechanism: NoisySGD | Composition | None
    #: Numbers that are claimed, or a source that is asked for them; `audit.claims.statement_of`
    #: makes both.
    statement: Statement
    citation: str = ""  #: Where the claim is published.
    expected: Expected | LooseBy = Expected.CONSISTENT  #: The expected verdict.
    severity: Severity = Severity.ERROR  #: Whether another verdict fails the build.
    budget: Budget = Budget()  #: The work that the judge may spend.
    #: A construction for the mechanism, or explicit distributions, if the judge must use this pair
    #: only; by default it tries every admissible construction that fits.
    pair: Pair | UserPair | None = None
    #: Adds the pair of a worst-case search. By default the judge makes a small search if that takes
    #: a second or two.
    search: Search | None = None
    samples: Samples | None = None  #: Recorded scores, which are then the only evidence.
    #: Description of the object of another library from which the mechanism was read.
    source: str = ""
    unread: str = ""  #: Why the mechanism could not be read; the verdict is then an error.
    location: Location | None = None  #: Where the claim is written.

    def __post_init__(self) -> None:
        if not getattr(self.pair, "is_neighbouring", True):
            raise validate.fail("pair", "a pair of neighbouring datasets", self.pair)

    @property
    def bound(self) -> tuple[bounds.Entry | None, Mapping[str, int | float]]:
        """The entry of the catalogue that the claim is about, and its options."""
        asked = self.statement
        if isinstance(asked, Asked) and asked.source is NumberSource.BOUND:
            return bounds.entry(asked.name), asked.options
        return None, {}


def encode_claim(claim: Claim) -> dict[str, Any]:
    """Return the mechanism, the statement and the pair of a claim as plain data.

    This is their form in the JSON of ``audit-check`` and in lock files. Fields of the mechanism and
    the pair with their default values are left out.
    """
    pair, plain = claim.pair, None
    if isinstance(pair, UserPair):
        plain = {"kind": pair.kind.partition(":")[2], **pair.fields}
    elif pair is not None:
        written = {"kind", *_not_default(pair)}
        plain = {name: value for name, value in encode_pair(pair).items() if name in written}
    return {
        "mechanism": encode(claim.mechanism, defaults=False),
        "statement": encode(plain_statement(claim.statement)),
        "pair": plain,
    }


def _not_default(pair: Pair) -> dict[str, Any]:
    """Return the fields of a pair that differ from their default."""
    values = {field.name: (getattr(pair, field.name), field.default) for field in fields(pair)}
    return {name: value for name, (value, default) in values.items() if value != default}


def tidy(text: str) -> str:
    """Return the text with short exponents: ``1e-5`` for ``1e-05``."""
    return re.sub(r"e([+-])0+(?=\d)", lambda found: f"e{found[1].replace('+', '')}", text)


def apart(certified: float, claimed: float, least: int = 3, most: int = 17) -> tuple[str, str]:
    """Write a certified number, rounded down, and a claimed one, rounded up.

    They have ``least`` digits, or as many as distinguish them; where the claim is not exceeded at
    most ``most``.
    """
    digits = telling(claimed, certified, least)
    if certified < claimed:
        while digits < most and number(certified, digits) == number(claimed, digits):
            digits += 1
    return number(certified, digits, Rounding.DOWN), number(claimed, digits, Rounding.UP)


def described(pair: Pair) -> str:
    """Return a pair's name with its non-default numbers."""
    values = _not_default(pair).items()
    numbers = [f"{name}={one:.6g}" for name, one in values if isinstance(one, int | float)]
    return f"{pair.name}({', '.join(numbers)})" if numbers else pair.name
