"""Statements: numbers that are claimed, or a source that is asked for them.

`statement_of` reads the keys of a claims file, `plain_statement` writes them; all keys come from
the registry of quantities and from `NumberSource`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from audit.codec import DecodeError, decode
from audit.codec.hints import did_you_mean
from audit.curves.quantities import QUANTITIES, AnyQuantity, ClaimedNumber, Mu, TotalVariation
from audit.validate import shown, with_article

TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""``package.module:function``."""

ACCOUNTANTS = (
    "dp_accounting.pld",
    "dp_accounting.rdp",
    "opacus.rdp",
    "opacus.prv",
    "opacus.gdp",
)
"""Accountants that claims name without a function of their own."""

_Path = tuple[str | int, ...]


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


def _forms() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for kind, cls in QUANTITIES.items():
        found[kind] = (kind, cls.place) if cls.rows else (kind,)
        found |= {cls.rows: (cls.rows,)} if cls.rows else {}
    for source in NumberSource:
        options = ("options",) if source is NumberSource.BOUND else ()
        found[source.value] = (source.value, *PLACES, *options)
    return found | {cls.exceeds: (cls.exceeds,) for cls in QUANTITIES.values() if cls.exceeds}


FORMS: Mapping[str, tuple[str, ...]] = MappingProxyType(_forms())
"""The keys of a claim that form a statement, by the key that tells its form."""

KEYS = tuple(dict.fromkeys(key for keys in FORMS.values() for key in keys))
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
        if key not in FORMS[first]:
            raise DecodeError(f"{key!r} cannot be combined with {first!r}", (key,))
    if first in {source.value for source in NumberSource}:
        return _asked(NumberSource(first), keys)
    for cls in QUANTITIES.values():
        if first == cls.exceeds:
            return Numbers((_row(cls, keys[first], (first,)),), exceeded=True)
        if first == cls.rows:
            rows = enumerate(_list(keys[first], (first,)))
            return Numbers(tuple(_row(cls, row, (first, place)) for place, row in rows))
    return _numbers(QUANTITIES[first], keys)


def _numbers(cls: type[AnyQuantity], keys: Mapping[str, Any]) -> Numbers:
    """Read the values of a quantity: one, one with its place beside it, or one for each place."""
    written = keys[cls.kind]
    if issubclass(cls, Mu | TotalVariation):
        return Numbers((ClaimedNumber(cls(), _number(written, (cls.kind,), cls.check_value)),))
    if cls.rows:
        return Numbers((_row(cls, keys, ()),))
    if not isinstance(written, Mapping) or not written:
        wanted = f"a mapping {{{cls.place}: {cls.value}}}"
        raise DecodeError(f"{cls.kind} must be {wanted}, got {shown(written)}", (cls.kind,))
    found = []
    for key, value in written.items():
        path: _Path = (cls.kind, str(key))
        at = _number(_unquoted(key), path, cls.check_place, f"{cls.kind}: {cls.place}")
        name = f"{cls.kind}: {cls.value} at {cls.place} {at:g}"
        found.append(
            ClaimedNumber(cls(at), cls.of_value(_number(value, path, cls.check_value, name)))
        )
    return Numbers(tuple(sorted(found, key=lambda number: number.quantity.at or 0.0)))


def _row(cls: type[AnyQuantity], written: Any, path: _Path) -> ClaimedNumber:
    """Read a value and its place from a mapping: ``{epsilon: 1, delta: 1e-5}``."""
    value, keys = cls.value or cls.kind, (cls.value or cls.kind, cls.place)
    if not isinstance(written, Mapping):
        wanted = f"a mapping {{{value}: ..., {cls.place}: ...}}"
        raise DecodeError.at("", path, f"must be {wanted}, got {shown(written)}")
    for key in written:
        if key not in keys:
            problem = f"must be left out, got {shown(written[key])}; known are {', '.join(keys)}"
            raise DecodeError.at("", (*path, str(key)), problem)
    for key in keys:
        if key not in written:
            raise DecodeError.at("", (*path, key), "must be given, got nothing")
    number = _number(written[value], (*path, value), cls.check_value)
    at = _number(written[cls.place], (*path, cls.place), cls.check_place)
    return ClaimedNumber(cls(at), cls.of_value(number))


def _asked(source: NumberSource, keys: Mapping[str, Any]) -> Asked:
    key = source.value
    name = _text(keys[key], (key,))
    if source is NumberSource.BOUND:
        _check_bound(name, keys.get("options", {}))
    elif source is NumberSource.ACCOUNTANT and name not in ACCOUNTANTS:
        hint = did_you_mean(name, ACCOUNTANTS)
        _check_target(name, key, f"one of {', '.join(ACCOUNTANTS)} or ", hint)
    elif source is NumberSource.CALLABLE:
        _check_target(name, key)
    places: dict[str, tuple[float, ...]] = {}
    for cls in QUANTITIES.values():
        if cls.places in keys and cls.places:
            path: _Path = (cls.places,)
            places[cls.places] = tuple(
                _number(at, (*path, index), cls.check_place)
                for index, at in enumerate(_list(keys[cls.places], path))
            )
    if not places:
        needed = " or ".join(map(repr, PLACES))
        raise ValueError(f"a claim of {with_article(key)} needs {needed}")
    if source is NumberSource.CALLABLE and len(places) > 1:
        raise ValueError(
            "a callable must be given deltas or orders, got both: it returns epsilon at a delta, "
            "or a Renyi divergence at an order"
        )
    options = decode(Mapping[str, int | float], keys.get("options", {}), "options")
    return Asked(source, name, options=options, **places)


def _check_bound(name: str, options: Any) -> None:
    """Check the id of a bound and the names of its options against the catalogue."""
    from audit.bounds import CATALOGUE

    if name not in CATALOGUE:
        raise DecodeError(f"unknown bound {shown(name)}{did_you_mean(name, CATALOGUE)}", ("bound",))
    known = CATALOGUE[name].options
    if not isinstance(options, Mapping):
        raise DecodeError(f"options must be a mapping, got {shown(options)}", ("options",))
    for key in options:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known: {', '.join(known) or 'none'}"
            raise DecodeError(f"unknown key {shown(key)} in options{hint}", ("options", str(key)))


def _check_target(name: str, key: str, other: str = "", hint: str = "") -> None:
    if not TARGET.fullmatch(name):
        wanted = f"{other}package.module:function"
        raise DecodeError(f"{key} must be {wanted}, got {shown(name)}{hint}", (key,))


def _number(plain: Any, path: _Path, check: Callable[[float], None], name: str = "") -> float:
    """Return a number within its limits; errors name it, by default by its path."""
    try:
        found: float = decode(float, plain)
        check(found)
    except ValueError as error:
        problem = str(error).partition(" ")[2]  # after its name there
        if name:
            raise DecodeError(f"{name} {problem}", path) from None
        raise DecodeError.at("", path, problem) from None
    return found


def _unquoted(key: Any) -> Any:
    """Return the number of a key that is a text, as in JSON; other texts as they are."""
    try:
        return float(key) if isinstance(key, str) else key
    except ValueError:
        return key


def _list(plain: Any, path: _Path) -> list[Any]:
    if not isinstance(plain, list | tuple) or not plain:
        problem = f"must be a list with at least one entry, got {shown(plain)}"
        raise DecodeError.at("", path, problem)
    return list(plain)


def _text(plain: Any, path: _Path) -> str:
    if not isinstance(plain, str) or not plain.strip():
        raise DecodeError.at("", path, f"must be a text, got {shown(plain)}")
    return plain


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
