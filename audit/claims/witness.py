"""A refutation in a file: all that is needed to compute it again without this package."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from audit.bounds import entry
from audit.claims.claim import CatalogueBound, Claim
from audit.claims.pairs import Pair, described
from audit.claims.plain import plain_pair
from audit.claims.points import Point, Quantity
from audit.claims.recipe import recipe
from audit.mechanism import Order

_FORMAT = 1
_NUMBERS = ("claimed", "slack")
_TEXTS = ("claim", "citation", "quantity", "order", "evidence", "version", "construction")


@dataclass(frozen=True, kw_only=True)
class Witness:
    """A pair of neighbouring datasets that refutes a claimed number.

    Attributes
    ----------
    claim, citation
        The claim's id, and where it is printed.
    quantity
        ``"epsilon"``, ``"Renyi divergence"``, ``"mu"`` or ``"1 - beta"``.
    at
        delta, the Renyi order, or alpha; for mu the epsilon at which delta is compared.
    claimed, slack
        The claimed number, and by how much it must be exceeded.
    order
        ``"forward"``: the first law comes first, P = first, Q = second.
    bracket
        (low, high) around the true number as this package computed it; ``high`` is None where
        nothing bounds it.
    evidence
        ``"exact"``, ``"sampled"`` or ``"sequential"``.
    construction
        The name of the pair.
    pair
        The pair as plain numbers.
    recipe
        How to compute the number, in words and formulas.
    version
        Of this package.
    """

    claim: str
    citation: str
    quantity: str
    at: float
    claimed: float
    slack: float
    order: str
    bracket: tuple[float, float | None]
    evidence: str
    construction: str
    pair: Mapping[str, Any]
    recipe: tuple[str, ...]
    version: str

    def to_json(self) -> str:
        """Return the text of the file."""
        body = {name: getattr(self, name) for name in self.__dataclass_fields__}
        text = json.dumps({"format": _FORMAT, **body}, indent=2, allow_nan=False)
        return text + "\n"

    @staticmethod
    def from_json(text: str) -> Witness:
        """Read the text of a file.

        Raises
        ------
        ValueError
            If it is no witness; the message names what is wrong.
        """
        try:
            body = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"witness must be JSON: {error}") from None
        if not isinstance(body, dict) or body.pop("format", None) != _FORMAT:
            raise ValueError(f"witness must have format {_FORMAT}")
        fields = set(Witness.__dataclass_fields__)
        if set(body) != fields:
            wrong = ", ".join(sorted(fields ^ set(body)))
            raise ValueError(f"witness must have exactly its fields, wrong: {wrong}")
        for name in _TEXTS:
            if not isinstance(body[name], str):
                raise ValueError(f"{name} must be text, got {body[name]!r}")
        for name in (*_NUMBERS, "at"):
            body[name] = _number(name, body[name])
        low, high = _pair_of("bracket", body["bracket"])
        body["bracket"] = (_number("bracket", low), None if high is None else _number("high", high))
        if not isinstance(body["pair"], dict) or "kind" not in body["pair"]:
            raise ValueError("pair must be a mapping with a kind")
        if body["quantity"] not in {quantity.value for quantity in Quantity}:
            raise ValueError(f"quantity must be a known one, got {body['quantity']!r}")
        if body["order"] not in {order.value for order in Order}:
            raise ValueError(f"order must be forward or reverse, got {body['order']!r}")
        if not isinstance(body["recipe"], list):
            raise ValueError("recipe must be a list of lines")
        body["recipe"] = tuple(str(line) for line in body["recipe"])
        return Witness(**body)


def witness_of(
    claim: Claim,
    point: Point,
    *,
    pair: Pair,
    order: Order,
    bracket: tuple[float, float],
    evidence: str,
    epsilon: float | None = None,
) -> Witness:
    """Return the witness of a refuted point.

    ``epsilon`` is where a refuted mu shows in delta. Raises ``ValueError`` where the pair cannot
    be written as plain numbers.
    """
    plain = plain_pair(pair)
    at = epsilon if point.quantity is Quantity.MU else point.at
    assert at is not None or point.quantity is Quantity.MU
    place = 0.0 if at is None else at
    low, high = bracket
    return Witness(
        claim=claim.id,
        citation=claim.citation or _cited(claim),
        quantity=point.quantity.value,
        at=place,
        claimed=point.claimed,
        slack=point.slack,
        order=order.value,
        bracket=(low, high if math.isfinite(high) else None),
        evidence=evidence,
        construction=described(pair),
        pair=plain,
        recipe=recipe(point.quantity, place, point.claimed, order, plain),
        version=version("noisy-sgd-audit"),
    )


def _cited(claim: Claim) -> str:
    if isinstance(claim.statement, CatalogueBound):
        return str(entry(claim.statement.id).cite)
    return ""


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _pair_of(name: str, value: object) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{name} must be two numbers, got {value!r}")
    return value[0], value[1]
