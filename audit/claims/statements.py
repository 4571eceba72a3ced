"""Statements: numbers that are claimed, or a source that is asked for them.

`statement_of` reads the keys of a claims file, `plain_statement` writes them; all keys come from
the registry of quantities and from `NumberSource`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias

from audit import validate
from audit.codec import DecodeError, decode
from audit.codec.hints import did_you_mean, init_fields
from audit.curves.quantities import QUANTITIES, AnyQuantity, ClaimedNumber, Mu, TotalVariation
from audit.validate import shown, with_article

TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""``package.module:function``."""


def _check_target(name: str) -> None:
    if not TARGET.fullmatch(name):
        raise validate.fail("name", "package.module:function", name)


Target = Annotated[str, _check_target]
"""A text that is `TARGET`."""

ACCOUNTANTS = (
    "dp_accounting.pld",
    "dp_accounting.rdp",
    "opacus.rdp",
    "opacus.prv",
    "opacus.gdp",
)
"""Accountants that claims name without a function of their own."""


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

    Parameters
    ----------
    numbers : tuple of ClaimedNumber
        The quantities with their values.
    exceeded : bool, default: False
        Whether the claim is that the worst pair has more: a larger certified number then proves
        the claim instead of refuting it.

    Examples
    --------
    >>> from audit.curves.quantities import TotalVariation
    >>> Numbers((ClaimedNumber(TotalVariation(), 0.3),)) == statement_of(total_variation=0.3)
    True
    """

    kind: ClassVar[str] = "numbers"

    numbers: tuple[ClaimedNumber, ...]
    exceeded: bool = False

    @property
    def quantities(self) -> tuple[AnyQuantity, ...]:
        """The claimed quantities."""
        return tuple(number.quantity for number in self.numbers)


@dataclass(frozen=True)
class Asked:
    """The claim that a source makes about the mechanism.

    Parameters
    ----------
    source : Source
        The kind of source.
    name : str
        Its id, name or function.
    deltas, orders : tuple of float, optional
        The deltas at which epsilon is claimed, and the orders of claimed Renyi divergences.
    options : mapping of str to float, optional
        Free parameters of a bound by name.
    """

    kind: ClassVar[str] = "asked"

    source: NumberSource
    name: str
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()
    options: Mapping[str, int | float] = field(default_factory=dict)

    exceeded: ClassVar[bool] = False

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
    """Return the dataclass of every form of a statement, by the key that tells the form.

    Its fields are the keys of the form.
    """
    found: dict[str, type] = {}
    exceeding: dict[str, type] = {}
    places: list[Any] = []
    for kind, cls in quantities.items():
        value, at = Annotated[float, cls.check_value], Annotated[float, cls.check_place]
        if not cls.place:
            found[kind] = make_dataclass(kind, [(kind, value)])
            continue
        row: Any = make_dataclass(kind, [(cls.value or kind, value), (cls.place, at)])
        if cls.rows:
            rows = Annotated[tuple[row, ...], check_filled]
            found |= {kind: row, cls.rows: make_dataclass(cls.rows, [(cls.rows, rows)])}
        else:
            by_place = Annotated[Mapping[at, value], check_filled]  # type: ignore[valid-type]
            found[kind] = make_dataclass(kind, [(kind, by_place)])
        if cls.exceeds:
            exceeding[cls.exceeds] = make_dataclass(cls.exceeds, [(cls.exceeds, row)])
        if cls.places:
            filled = Annotated[tuple[at, ...], check_filled]  # type: ignore[valid-type]
            places.append((cls.places, filled, field(default=())))
    for source in NumberSource:
        fields = [(source.value, Target if source is NumberSource.CALLABLE else str), *places]
        if source is NumberSource.BOUND:
            fields.append(("options", Mapping[str, int | float], field(default_factory=dict)))
        found[source.value] = make_dataclass(source.value, fields)
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
    written: Any = decode(FORMS[first], keys)
    if first in {source.value for source in NumberSource}:
        return _asked(NumberSource(first), written)
    ((cls, exceeded),) = (
        (cls, first == cls.exceeds)
        for cls in QUANTITIES.values()
        if first in (cls.kind, cls.rows, cls.exceeds)
    )
    return Numbers(_numbers(cls, getattr(written, first) if len(keys) == 1 else written), exceeded)


def _numbers(cls: type[AnyQuantity], written: Any) -> tuple[ClaimedNumber, ...]:
    """Return the numbers of a value, a row, rows, or a mapping from places to values."""
    if issubclass(cls, Mu | TotalVariation):
        return (ClaimedNumber(cls(), written),)
    if isinstance(written, Mapping):
        found = [(value, at) for at, value in sorted(written.items())]
    else:
        rows = written if isinstance(written, tuple) else (written,)
        found = [tuple(vars(row).values()) for row in rows]
    return tuple(ClaimedNumber(cls(at), cls.of_value(value)) for value, at in found)


def _asked(source: NumberSource, written: Any) -> Asked:
    key = source.value
    name, places = getattr(written, key), [k for k in PLACES if getattr(written, k)]
    if source is NumberSource.BOUND:
        _check_bound(name, written.options)
    elif not (name in ACCOUNTANTS or TARGET.fullmatch(name)):
        wanted = f"one of {', '.join(ACCOUNTANTS)} or package.module:function"
        hint = did_you_mean(name, ACCOUNTANTS)
        raise DecodeError(f"{key} must be {wanted}, got {shown(name)}{hint}", (key,))
    if not places:
        needed = " or ".join(map(repr, PLACES))
        raise ValueError(f"a claim of {with_article(key)} needs {needed}")
    if source is NumberSource.CALLABLE and len(places) > 1:
        raise ValueError(
            "a callable must be given deltas or orders, got both: it returns epsilon at a delta, "
            "or a Renyi divergence at an order"
        )
    given = {field.name: getattr(written, field.name) for field in fields(written)[1:]}
    return Asked(source, name, **given)


def _check_bound(name: str, options: Mapping[str, float]) -> None:
    """Check the id of a bound and the names of its options against the catalogue."""
    from audit.bounds import CATALOGUE

    if name not in CATALOGUE:
        raise DecodeError(f"unknown bound {shown(name)}{did_you_mean(name, CATALOGUE)}", ("bound",))
    known = CATALOGUE[name].options
    for key in options:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known: {', '.join(known) or 'none'}"
            raise DecodeError(f"unknown key {shown(key)} in options{hint}", ("options", key))


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
