"""One claim of a claims file: its keys, and what they become."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from audit import validate
from audit.claims import mechanisms, values
from audit.claims.claim import Budget, Claim, Expected, LooseBy, Severity
from audit.claims.mechanisms import Named
from audit.claims.nodes import Items, Node, Pairs, Scalar, broken
from audit.claims.statements import KEYS as STATEMENT_KEYS
from audit.claims.statements import read_statement
from audit.claims.values import Fields

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# what defaults may say too
_COMMON = ("citation", "mechanism", "expected", "severity", "budget", "pair")
# pairs of two laws given by numbers: no mechanism stands behind them
_RAW_PAIRS = ("Mixtures", "Finite", "Densities")
_BUDGET = ("trials", "seconds", "seed")


def read_defaults(node: Node | None) -> Fields:
    """Return the values that a file's claims share; checked where a claim uses them."""
    if node is None:
        return {}
    found = values.fields("defaults", node, _COMMON)
    if "budget" in found:
        values.fields("budget", found["budget"], _BUDGET)
    return found


def read_id(node: Node) -> str:
    """Return the id of a claim; ``Broken`` where there is none that can be used."""
    found = values.fields("a claim", node)
    written = values.needed("a claim", "id", found, node.location)
    name = values.text("id", written)
    if not _ID.fullmatch(name):
        raise values.bad("id", "letters, digits, '.', '_' and '-'", written)
    return name


def read_claim(node: Node, defaults: Fields, named: Named) -> Claim:
    """Return a claim.

    Parameters
    ----------
    node
        Its mapping.
    defaults
        What `read_defaults` returned for its file.
    named
        The mechanisms that it may name.

    Raises
    ------
    Broken
        If anything is wrong with it; without a complaint where the mechanism that it names is
        broken itself.
    """
    own = values.fields("a claim", node, ("id", *_COMMON, *STATEMENT_KEYS))
    found: Fields = {**defaults, **own}
    pair = _pair(found.get("pair"))
    mechanism = found.get("mechanism")
    if isinstance(mechanism, Scalar) and mechanism.value is None:
        mechanism = None
    if mechanism is None and (pair is None or pair[0] not in _RAW_PAIRS):
        raise broken(node.location, "a claim needs 'mechanism'")
    built = None
    if mechanism is not None:
        _, built = mechanisms.read("mechanism", mechanism, named)
    return Claim(
        id=read_id(node),
        mechanism=built,
        statement=read_statement(found, node.location),
        citation=values.text("citation", found["citation"]) if "citation" in found else "",
        expected=_expected(found.get("expected")),
        severity=(
            values.word("severity", found["severity"], Severity)
            if "severity" in found
            else Severity.ERROR
        ),
        budget=_budget(defaults.get("budget"), own.get("budget")),
        pair=pair,
        location=node.location,
    )


def _expected(node: Node | None) -> Expected | LooseBy:
    if node is None:
        return Expected.CONSISTENT
    if isinstance(node, Pairs):
        found = values.fields("expected", node, ("loose_by",))
        factor = values.needed("expected", "loose_by", found, node.location)
        number = values.number("loose_by", factor, validate.finite)
        return values.checked(factor.location, lambda: LooseBy(number))
    return values.word("expected", node, Expected)


def _budget(*nodes: Node | None) -> Budget:
    """Return the budget of the given mappings, a later one first."""
    found: dict[str, Node] = {}
    for node in nodes:
        found.update(values.fields("budget", node, _BUDGET) if node is not None else {})
    budget = Budget()
    for name, value in found.items():
        read = (
            values.number(name, value, validate.positive)
            if name == "seconds"
            else values.whole(name, value)
        )
        budget = values.checked(
            value.location, functools.partial(dataclasses.replace, budget, **{name: read})
        )
    return budget


def _pair(node: Node | None) -> tuple[str, Mapping[str, object]] | None:
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if isinstance(node, Scalar):
        return values.text("pair", node), {}
    found = values.fields("pair", node)
    kind = values.text("kind", values.needed("pair", "kind", found, node.location))
    return kind, {name: _plain(value) for name, value in found.items() if name != "kind"}


def _plain(node: Node) -> object:
    if isinstance(node, Items):
        return [_plain(item) for item in node.items]
    if isinstance(node, Pairs):
        return {key.value: _plain(value) for key, value in node.pairs}
    return node.value
