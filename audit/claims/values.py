"""Values of a claims file checked against what they must be, with the line in every complaint."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from audit.claims.claim import Location
from audit.claims.nodes import Broken, Complaint, Items, Node, Pairs, Scalar, broken

_Enum = TypeVar("_Enum", bound=enum.Enum)
_Value = TypeVar("_Value")

Fields = Mapping[str, Node]


def shown(node: Node) -> str:
    """Return a value as a complaint shows it."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Pairs):
        return "a mapping"
    return "nothing" if node.value is None else repr(node.value)


def bad(name: str, requirement: str, node: Node) -> Broken:
    """Build the one error that every check raises: ``name must be requirement, got value``."""
    return broken(node.location, f"{name} must be {requirement}, got {shown(node)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"``, or nothing where no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def fields(
    name: str,
    node: Node,
    allowed: Iterable[str] | None = None,
    complaints: list[Complaint] | None = None,
) -> dict[str, Node]:
    """Return the values of a mapping by key.

    A key that is not ``allowed`` is complained of: by raising, or to ``complaints`` where given.
    """
    if not isinstance(node, Pairs):
        raise bad(name, "a mapping", node)
    known = None if allowed is None else list(allowed)
    found: dict[str, Node] = {}
    wrong_keys: list[Complaint] = []
    for key, value in node.pairs:
        if not isinstance(key.value, str):
            wrong = f"a key of {name} must be a word, got {shown(key)}"
            wrong_keys.extend(broken(key.location, wrong).complaints)
        elif known is not None and key.value not in known:
            hint = did_you_mean(key.value, known) or f"; known: {', '.join(known)}"
            wrong = f"unknown key {key.value!r} in {name}{hint}"
            wrong_keys.extend(broken(key.location, wrong).complaints)
        else:
            found[key.value] = value
    if complaints is not None:
        complaints.extend(wrong_keys)
    elif wrong_keys:
        raise Broken(*wrong_keys)
    return found


def needed(name: str, key: str, found: Fields, location: Location) -> Node:
    """Return the value of a key that must be there."""
    if key not in found:
        raise broken(location, f"{name} needs {key!r}")
    return found[key]


def items(name: str, node: Node) -> tuple[Node, ...]:
    """Return the values of a list that must not be empty."""
    if not isinstance(node, Items) or not node.items:
        raise bad(name, "a list with something in it", node)
    return node.items


def text(name: str, node: Node) -> str:
    """Return a text that must not be empty."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value.strip():
        raise bad(name, "a text", node)
    return node.value


def number(name: str, node: Node, check: Callable[..., None]) -> float:
    """Return a number for which a function of `audit.validate` finds nothing to complain of."""
    if not isinstance(node, Scalar) or isinstance(node.value, (str, bool, type(None))):
        raise bad(name, "a number", node)
    checked(node.location, lambda: check(**{name.split()[-1]: node.value}))
    return float(node.value)


def whole(name: str, node: Node) -> int:
    """Return a whole number, which may be written as ``1e6``."""
    if isinstance(node, Scalar) and not isinstance(node.value, (str, bool, type(None))):
        if isinstance(node.value, int):
            return node.value
        if node.value.is_integer():
            return int(node.value)
    raise bad(name, "a whole number", node)


def flag(name: str, node: Node) -> bool:
    """Return true or false."""
    if not isinstance(node, Scalar) or not isinstance(node.value, bool):
        raise bad(name, "true or false", node)
    return node.value


def word(name: str, node: Node, choices: type[_Enum]) -> _Enum:
    """Return the member of an enum that a word names, by its value or by its name."""
    by_word = {str(member.value): member for member in choices}
    if isinstance(node, Scalar) and isinstance(node.value, str):
        plain = node.value.lower().replace("_", " ")
        if plain in by_word:
            return by_word[plain]
        hint = did_you_mean(plain, by_word)
    else:
        hint = ""
    requirement = f"one of {', '.join(by_word)}"
    raise broken(node.location, f"{name} must be {requirement}, got {shown(node)}{hint}")


def points(
    name: str,
    node: Node,
    check_key: Callable[..., None],
    check_value: Callable[..., None],
    names: tuple[str, str],
) -> tuple[tuple[float, float], ...]:
    """Return the (key, value) pairs of a mapping from numbers to numbers, in order of the keys."""
    if not isinstance(node, Pairs) or not node.pairs:
        raise bad(name, f"a mapping {{{names[0]}: {names[1]}}}", node)
    found = [
        (
            number(f"{name} {names[0]}", key, check_key),
            number(f"{name} {names[1]}", value, check_value),
        )
        for key, value in node.pairs
    ]
    return tuple(sorted(found))


def checked(location: Location, make: Callable[[], _Value]) -> _Value:
    """Return what ``make`` makes; a ``ValueError`` of it becomes a complaint at ``location``."""
    try:
        return make()
    except Broken:
        raise
    except ValueError as error:
        raise broken(location, str(error)) from None
