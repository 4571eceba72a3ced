"""The statement of a claim, as a claims file writes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from audit import validate
from audit.claims import values
from audit.claims.claim import (
    CallableBound,
    CatalogueBound,
    EpsilonDelta,
    Gaussian,
    Location,
    NotPrivate,
    NotRenyi,
    Renyi,
    Statement,
    Tradeoff,
)
from audit.claims.nodes import Node, Scalar, broken
from audit.claims.values import Fields

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class _Form(NamedTuple):
    """What goes beside a form's own key, and how the form is read."""

    companions: tuple[str, ...]
    read: Callable[[Fields, Location], Statement]


def _epsilon(found: Fields, location: Location) -> Statement:
    return EpsilonDelta((_point("a claim of epsilon", found, location),))


def _point(name: str, found: Fields, location: Location) -> tuple[float, float]:
    epsilon = values.needed(name, "epsilon", found, location)
    delta = values.needed(name, "delta", found, location)
    return (
        values.number("epsilon", epsilon, validate.nonnegative),
        values.number("delta", delta, validate.open_unit),
    )


def _points(found: Fields, location: Location) -> Statement:
    keys = ("epsilon", "delta")
    entries = values.items("points", found["points"])
    written = [(values.fields("a point", entry, keys), entry.location) for entry in entries]
    return EpsilonDelta(tuple(_point("a point", point, place) for point, place in written))


def _renyi(found: Fields, location: Location) -> Statement:
    names = ("order", "value")
    check = validate.above_one, validate.nonnegative
    return Renyi(values.points("renyi", found["renyi"], *check, names))


def _mu(found: Fields, location: Location) -> Statement:
    return Gaussian(values.number("mu", found["mu"], validate.nonnegative))


def _tradeoff(found: Fields, location: Location) -> Statement:
    check = validate.open_unit, validate.closed_unit
    return Tradeoff(values.points("tradeoff", found["tradeoff"], *check, ("alpha", "beta")))


def _bound(found: Fields, location: Location) -> Statement:
    from audit.bounds import CATALOGUE

    node = found["bound"]
    bound = values.text("bound", node)
    if bound not in CATALOGUE:
        hint = values.did_you_mean(bound, CATALOGUE)
        raise broken(node.location, f"unknown bound {bound!r}{hint}")
    if "deltas" not in found and "orders" not in found:
        raise broken(location, "a claim of a bound needs 'deltas' or 'orders'")
    options: dict[str, float] = {}
    if "options" in found:
        written = values.fields("options", found["options"], CATALOGUE[bound].options)
        options = {name: _option(name, value) for name, value in written.items()}
    return CatalogueBound(
        bound, options, _numbers("deltas", found), _numbers("orders", found, validate.above_one)
    )


def _option(name: str, node: Node) -> float:
    if (
        isinstance(node, Scalar)
        and isinstance(node.value, int)
        and not isinstance(node.value, bool)
    ):
        return node.value  # an index stays a whole number
    return values.number(name, node, validate.finite)


def _callable(found: Fields, location: Location) -> Statement:
    target = values.text("callable", found["callable"])
    if not _TARGET.fullmatch(target):
        raise values.bad("callable", "package.module:function", found["callable"])
    values.needed("a claim of a callable", "deltas", found, location)
    return CallableBound(target, _numbers("deltas", found))


def _numbers(
    name: str, found: Fields, check: Callable[..., None] = validate.open_unit
) -> tuple[float, ...]:
    if name not in found:
        return ()
    return tuple(values.number(name, item, check) for item in values.items(name, found[name]))


def _not_renyi(found: Fields, location: Location) -> Statement:
    node = found["not_renyi"]
    written = values.fields("not_renyi", node, ("order", "value"))
    order = values.needed("not_renyi", "order", written, node.location)
    bound = values.needed("not_renyi", "value", written, node.location)
    return NotRenyi(
        values.number("order", order, validate.above_one),
        values.number("value", bound, validate.nonnegative),
    )


def _not_private(found: Fields, location: Location) -> Statement:
    node = found["not_private"]
    written = values.fields("not_private", node, ("epsilon", "delta"))
    return NotPrivate(*_point("not_private", written, node.location))


_FORMS = {
    "epsilon": _Form(("delta",), _epsilon),
    "points": _Form((), _points),
    "renyi": _Form((), _renyi),
    "mu": _Form((), _mu),
    "tradeoff": _Form((), _tradeoff),
    "bound": _Form(("deltas", "orders", "options"), _bound),
    "callable": _Form(("deltas",), _callable),
    "not_renyi": _Form((), _not_renyi),
    "not_private": _Form((), _not_private),
}
KEYS = tuple(dict.fromkeys(key for form in _FORMS for key in (form, *_FORMS[form].companions)))


def read_statement(found: Fields, location: Location) -> Statement:
    """Return the statement among the keys of a claim.

    Raises
    ------
    Broken
        If there is none, more than one, or one with a value that it cannot have.
    """
    forms = [key for key in found if key in _FORMS]
    if not forms:
        raise broken(location, f"a claim needs one of {', '.join(_FORMS)}")
    first, *others = forms
    for key in others:
        wrong = f"a claim makes one statement, got {first!r} and {key!r}"
        raise broken(found[key].location, wrong)
    form = _FORMS[first]
    for key in found:
        if key in KEYS and key != first and key not in form.companions:
            raise broken(found[key].location, f"{key!r} does not go with {first!r}")
    return form.read(found, location)
