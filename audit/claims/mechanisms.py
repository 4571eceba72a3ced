"""The mechanisms of a claims file: fields of `audit.NoisySGD`, named once and varied by claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from audit import validate
from audit.claims import values
from audit.claims.claim import Location
from audit.claims.nodes import Broken, Complaint, Items, Node, Scalar, broken
from audit.claims.values import Fields
from audit.mechanism import Batching, NoisySGD, Relation, Release

BASE = "base"


def _number(name: str, node: Node) -> float:
    return values.number(name, node, validate.finite)


def _schedule(name: str, node: Node) -> float | tuple[float, ...]:
    if isinstance(node, Items):
        return tuple(_number(name, item) for item in values.items(name, node))
    return _number(name, node)


def _pair(name: str, node: Node) -> tuple[float, ...]:
    if not isinstance(node, Items) or len(node.items) != 2:
        raise values.bad(name, "[constant, order]", node)
    return tuple(_number(name, item) for item in node.items)


def _or_none(read: Callable[[str, Node], object]) -> Callable[[str, Node], object]:
    def read_or_none(name: str, node: Node) -> object:
        return None if isinstance(node, Scalar) and node.value is None else read(name, node)

    return read_or_none


_READERS: dict[str, Callable[[str, Node], object]] = {
    "steps": values.whole,
    "dataset_size": values.whole,
    "batch_size": values.whole,
    "step_size": _schedule,
    "noise_std": _number,
    "lipschitz": _or_none(_number),
    "gradient_sensitivity": _or_none(_number),
    "smoothness": _or_none(_number),
    "strong_convexity": _number,
    "convex": values.flag,
    "diameter": _or_none(_number),
    "batching": lambda name, node: values.word(name, node, Batching),
    "relation": lambda name, node: values.word(name, node, Relation),
    "release": lambda name, node: values.word(name, node, Release),
    "holder": _or_none(_pair),
    "clip_norm": _or_none(_number),
}
_NEEDED = tuple(
    field.name for field in dataclasses.fields(NoisySGD) if field.default is dataclasses.MISSING
)

# None: the definition is broken and was complained of, its users need not be
Named = Mapping[str, "Fields | None"]


def read_named(
    node: Node, inherited: Named, complaints: list[Complaint]
) -> dict[str, Fields | None]:
    """Return the fields of every mechanism of a ``mechanisms:`` block, and of those before it.

    Every one must be a whole mechanism by itself; what is wrong goes to ``complaints``.
    """
    found: dict[str, Fields | None] = dict(inherited)
    try:
        written = values.fields("mechanisms", node, complaints=complaints)
    except Broken as error:
        complaints.extend(error.complaints)
        return found
    for name in written:
        if name in inherited:
            wrong = f"mechanism {name!r} is already defined in an included file"
            complaints.extend(broken(written[name].location, wrong).complaints)
    own = {name: value for name, value in written.items() if name not in inherited}
    resolved: set[str] = set()

    def resolve(name: str, chain: tuple[str, ...]) -> None:
        if name in resolved:
            return
        resolved.add(name)
        found[name] = None
        try:
            base = _base_of(own[name])
            if base is not None and base.value in (*chain, name):
                circle = " -> ".join((*chain, name, str(base.value)))
                raise broken(base.location, f"base makes a circle: {circle}")
            if base is not None and base.value in own:
                resolve(str(base.value), (*chain, name))
            found[name] = read(f"mechanism {name!r}", own[name], found)[0]
        except Broken as error:
            complaints.extend(error.complaints)

    for name in own:
        resolve(name, ())
    return found


def _base_of(node: Node) -> Scalar | None:
    base = values.fields("a mechanism", node, (*_READERS, BASE)).get(BASE)
    return base if isinstance(base, Scalar) else None


def read(name: str, node: Node, named: Named) -> tuple[Fields, NoisySGD]:
    """Return a mechanism and its fields: a name, fields, or a ``base`` and the fields that differ.

    Raises
    ------
    Broken
        For an unknown name or field, or a value out of its range; without a complaint where the
        named definition was broken.
    """
    if isinstance(node, Scalar) and isinstance(node.value, str):
        found = _look_up(node, named)
        return found, _build(found, {}, node.location)
    own = values.fields(name, node, (*_READERS, BASE))
    base = own.pop(BASE, None)
    if base is None:
        return own, _build(own, own, node.location)
    if not isinstance(base, Scalar) or not isinstance(base.value, str):
        raise values.bad(BASE, "the name of a mechanism", base)
    found = {**_look_up(base, named), **own}
    return found, _build(found, own, node.location)


def _look_up(node: Scalar, named: Named) -> Fields:
    name = str(node.value)
    if name not in named:
        hint = values.did_you_mean(name, named)
        raise broken(node.location, f"unknown mechanism {name!r}{hint}")
    found = named[name]
    if found is None:
        raise Broken()
    return found


def _build(found: Fields, own: Fields, location: Location) -> NoisySGD:
    """Return the mechanism; what is wrong with it is complained of where the fault was made.

    That is at the field if it is one of ``own``, else at ``location``: a base is sound by itself.
    """
    for name in _NEEDED:
        values.needed("a mechanism", name, found, location)
    fields = {name: _READERS[name](name, node) for name, node in found.items()}
    try:
        return NoisySGD(**fields)  # type: ignore[arg-type]  # the readers give what they take
    except ValueError as error:
        blamed = str(error).partition(" ")[0]
        place = own[blamed].location if blamed in own else location
        raise broken(place, str(error)) from None
