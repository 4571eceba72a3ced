"""Read claims files and everything that they include; every complaint has its file and line."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from audit import validate
from audit.claims import yaml_tree
from audit.claims.claim import (
    AccountantBound,
    Budget,
    CallableBound,
    CatalogueBound,
    Claim,
    EpsilonDelta,
    Expected,
    Gaussian,
    LooseBy,
    NotPrivate,
    NotRenyi,
    Renyi,
    Samples,
    Search,
    Severity,
    Statement,
    Tradeoff,
    UserPair,
)
from audit.claims.library_objects import ACCOUNTANTS
from audit.claims.named_mechanisms import Named, Resolved, Resolver, read_mechanism, read_named
from audit.claims.user_code import TARGET, workers_for
from audit.claims.yaml_tree import (
    Broken,
    Complaint,
    Fields,
    ListNode,
    Location,
    MappingNode,
    Node,
    broken,
    is_nothing,
)
from audit.codec import did_you_mean
from audit.isolation import Workers
from audit.mechanism import Composition, NoisySGD
from audit.validate import shown

if TYPE_CHECKING:
    from audit.claims.claim import Pair

FILE_KEYS = ("include", "defaults", "mechanisms", "claims")
_FIRST_KEY = re.compile(rf"[{{\s]*[\"']?({'|'.join(FILE_KEYS)})[\"']?\s*:")
# subjects of a claim, and the keys that exclude them
ABOUT = ("mechanism", "pair", "laws", "samples")
EXCLUDED = {"laws": ("mechanism", "pair"), "samples": ("pair", "laws")}
# keys that are also allowed in defaults
COMMON_KEYS = ("citation", "expected", "severity", "budget", "search", *ABOUT)
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Loaded:
    """The claims that could be read, in the order of the files, and the complaints about the rest.

    ``files`` are all files that were read; included files come before the files that include them.
    """

    claims: tuple[Claim, ...]
    complaints: tuple[Complaint, ...]
    files: tuple[Path, ...]


def load(paths: Iterable[str | Path]) -> Loaded:
    """Read claims files and all files that they include.

    A file that several others include is read once. Ids must be unique over all of them.

    Parameters
    ----------
    paths
        The files, with the names that complaints use.
    """
    reader = _Reader()
    for path in paths:
        try:
            reader.read(Path(path), ())
        except Broken as error:
            reader.complaints.extend(error.complaints)
    complaints = dict.fromkeys(reader.complaints)
    place = {file: index for index, file in enumerate(c.file for c in complaints)}
    ordered = sorted(complaints, key=lambda c: (place[c.file], c.line or 0))
    return Loaded(tuple(reader.claims), tuple(ordered), tuple(reader.files))


class _Reader:
    """Reads files and the files that they include, and collects claims and complaints."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.complaints: list[Complaint] = []
        self.files: list[Path] = []
        self._mechanisms: dict[Path, Named] = {}
        self._resolve = Resolver()
        self._locations: dict[str, Location] = {}

    def read(self, path: Path, chain: tuple[Path, ...]) -> Named:
        """Read a file and return the mechanisms that it defines; ``chain`` are its includers."""
        key = path.resolve()
        if key in self._mechanisms:
            return self._mechanisms[key]
        root = yaml_tree.parse(_text(path), path)
        top = yaml_tree.fields("the file", root, FILE_KEYS, self.complaints)
        named: dict[str, MappingNode | None] = {}
        for node in _included(top.get("include")):
            try:
                named.update(self._include(node, path, (*chain, key)))
            except Broken as error:
                self.complaints.extend(error.complaints)
        if "mechanisms" in top:
            named = read_named(top["mechanisms"], named, self.complaints)
        self._mechanisms[key] = named
        self.files.append(path)
        if "claims" in top:
            with workers_for(self.files) as workers:
                defaults = _read_defaults(top.get("defaults"))
                self._claims(top["claims"], defaults, named, workers)
        elif "include" not in top and "mechanisms" not in top:
            raise broken(Location(path, 1), "the file needs 'claims'")
        return named

    def _include(self, node: Node, path: Path, chain: tuple[Path, ...]) -> Named:
        name = yaml_tree.text("include", node)
        target = Path(os.path.normpath(path.parent / name))
        if target.resolve() in chain:
            circle = chain[chain.index(target.resolve()) :]
            files = " -> ".join(file.name for file in (*circle, target))
            raise broken(node.location, f"include must not be circular, got {files}")
        if not target.is_file():
            raise broken(node.location, f"include must be a file that exists, got {shown(name)}")
        if not _is_claims_file(target):  # whose content is not quoted
            raise broken(node.location, f"include must be a claims file, got {shown(name)}")
        return self.read(target, chain)

    def _claims(self, block: Node, defaults: Fields, named: Named, workers: Workers) -> None:
        for node in yaml_tree.items("claims", block):
            try:
                name = _read_id(node)
                if name in self._locations:
                    first = self._locations[name]
                    raise broken(
                        node.location, f"duplicate id {shown(name)}, first used at {first}"
                    )
                self._locations[name] = node.location
                claim = _read_claim(name, node, defaults, named, self._resolve, workers)
                self.claims.append(claim)
            except Broken as error:
                self.complaints.extend(error.complaints)


def _included(node: Node | None) -> tuple[Node, ...]:
    if node is None:
        return ()
    return yaml_tree.items("include", node) if isinstance(node, ListNode) else (node,)


def _is_claims_file(path: Path) -> bool:
    """Return whether a line begins with a key of claims files, or the file is unreadable."""
    try:
        with open(path, encoding="utf-8-sig") as lines:
            return any(_FIRST_KEY.match(line) for line in lines)
    except (OSError, UnicodeDecodeError):
        return True  # reading it will report that


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Broken(Complaint(path, None, f"cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise broken(Location(path, line), "must be UTF-8 text") from None


# claims


def _read_defaults(node: Node | None) -> Fields:
    """Return the values that a file's claims share; they are checked where a claim uses them."""
    return {} if node is None else yaml_tree.fields("defaults", node, COMMON_KEYS)


def _read_id(node: Node) -> str:
    found = yaml_tree.fields("a claim", node)
    written = yaml_tree.needed("a claim", "id", found, node.location)
    name = yaml_tree.text("id", written)
    if not ID.fullmatch(name):
        raise yaml_tree.bad("id", "letters, digits, '.', '_' and '-'", written)
    return name


def _read_claim(
    id: str,
    node: Node,
    defaults: Fields,
    named: Named,
    resolve: Resolver,
    workers: Workers,
) -> Claim:
    """Return a claim, with the values of ``defaults`` for missing keys.

    Raises ``Broken`` if anything is wrong with it; without a complaint if the mechanism that it
    names is itself broken.
    """
    own = yaml_tree.fields("a claim", node, ("id", *COMMON_KEYS, *STATEMENT_KEYS))
    found = _with_defaults(own, defaults)
    budget = _read_joined("budget", Budget, defaults, own)
    read = Resolved(None)
    if not is_nothing(found.get("mechanism")):
        _, written = read_mechanism("mechanism", found["mechanism"], named)
        read = resolve(written, budget, workers)
    return Claim(
        id=id,
        mechanism=read.mechanism,
        statement=_read_statement(found, node.location),
        citation=yaml_tree.text("citation", found["citation"]) if "citation" in found else "",
        expected=_read_optional("expected", found, Expected | LooseBy, Expected.CONSISTENT),
        severity=_read_optional("severity", found, Severity, Severity.ERROR),
        budget=budget,
        search=_read_optional("search", found, Search | None, None),
        samples=_read_samples(found, node.location),
        pair=None if read.unread else _read_subject(found, read.mechanism, node, own),
        source=read.source,
        unread=read.unread,
        location=node.location,
    )


def _with_defaults(own: Fields, defaults: Fields) -> Fields:
    """Return the keys of a claim and the defaults; a claim's own subject replaces theirs."""
    about = [key for key in ABOUT if key in own]
    replaced = ABOUT if "laws" in about or "samples" in about else ("laws", "samples")
    kept = {key: node for key, node in defaults.items() if not about or key not in replaced}
    return {**kept, **own}


def _read_samples(found: Fields, location: Location) -> Samples | None:
    """Return the samples that a claim names, with paths relative to the claims file."""
    samples: Samples | None = _read_optional("samples", found, Samples | None, None)
    if samples is None:
        return None
    for key in EXCLUDED["samples"]:
        if not is_nothing(found.get(key)):
            raise broken(found["samples"].location, f"'samples' cannot be combined with {key!r}")
    return samples.inside(location.file.parent)


def _read_optional(name: str, found: Fields, hint: object, default: _Value) -> _Value:
    if name not in found:
        return default
    value: _Value = yaml_tree.decode(hint, found[name], name)
    return value


def _read_joined(name: str, cls: type[_Value], *blocks: Fields) -> _Value:
    """Return an object from the fields of several mappings; later ones override earlier ones."""
    found: dict[str, Node] = {}
    location = None
    for block in blocks:
        if name in block:
            found.update(yaml_tree.fields(name, block[name]))
            location = block[name].location
    if location is None:
        return cls()
    value: _Value = yaml_tree.decode(cls, yaml_tree.mapping(found, location), name)
    return value


def _read_subject(
    found: Fields, mechanism: NoisySGD | Composition | None, claim: Node, own: Fields
) -> Pair | UserPair | None:
    """Return the pair that a claim names under ``pair`` or ``laws``; None if it names none.

    ``laws: {laplace: {sensitivity: 1, scale: 2}}`` names explicit laws, without a mechanism.
    """
    laws = found.get("laws")
    if mechanism is None and all(is_nothing(found.get(key)) for key in ("pair", "laws", "samples")):
        raise broken(claim.location, "a claim needs 'mechanism', 'laws' or 'samples'")
    if laws is None or is_nothing(laws):
        return _read_pair(found.get("pair"), mechanism, claim, "pair" in own)
    from audit.constructions.registry import decode_laws

    for key in EXCLUDED["laws"]:
        if not is_nothing(found.get(key)):
            raise broken(laws.location, f"'laws' cannot be combined with {key!r}")
    used = laws if "laws" in own else yaml_tree.moved(laws, claim.location)
    return yaml_tree.decoded(used, decode_laws)


def _read_pair(
    node: Node | None,
    mechanism: NoisySGD | Composition | None,
    claim: Node,
    own: bool,
) -> Pair | UserPair | None:
    """Return the pair that a claim names; None if it names none."""
    if node is None or is_nothing(node):
        return None
    # a pair of the defaults that does not fit is an error where it is used
    used = node if own else yaml_tree.moved(node, claim.location)
    return yaml_tree.decoded(used, lambda data: _decode_pair(data, mechanism))


def _decode_pair(plain: Any, mechanism: NoisySGD | Composition | None) -> Pair | UserPair:
    """Return a pair from plain data.

    A kind ``package.module:Class`` is a user-defined construction, from a module beside the claims
    file, in the current folder or installed. It is imported where the claim is judged.
    """
    from audit.constructions import decode_any_pair

    if isinstance(mechanism, Composition):
        raise validate.fail("pair", "left out for a composition of several runs", plain)
    fields = {"kind": plain} if isinstance(plain, str) else plain
    kind = fields.get("kind") if isinstance(fields, Mapping) else None
    if isinstance(kind, str) and ":" in kind:  # judged in a worker
        if not TARGET.fullmatch(kind):
            raise validate.fail("pair.kind", "package.module:Class", kind)
        return UserPair(kind, {name: value for name, value in fields.items() if name != "kind"})
    return decode_any_pair(fields, mechanism)


# statements in their written form: the fields are the keys of a claims file


@dataclass(frozen=True)
class EpsilonClaim:
    """``epsilon: 1.2`` and ``delta: 1e-5``."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        validate.nonnegative(epsilon=self.epsilon)
        validate.half_open_unit(delta=self.delta)


@dataclass(frozen=True)
class PointsClaim:
    """``points: [{epsilon: 1.2, delta: 1e-5}, ...]``."""

    points: tuple[EpsilonClaim, ...]


@dataclass(frozen=True)
class OrderAndValue:
    """A Renyi divergence at an order."""

    order: float
    value: float

    def __post_init__(self) -> None:
        validate.above_one(order=self.order)
        validate.nonnegative(value=self.value)


@dataclass(frozen=True)
class RenyiClaim:
    """``renyi: {2: 0.5, 8: 2.1}``."""

    renyi: tuple[OrderAndValue, ...]


@dataclass(frozen=True)
class MuClaim:
    """``mu: 0.8``."""

    mu: float

    def __post_init__(self) -> None:
        validate.nonnegative(mu=self.mu)


@dataclass(frozen=True)
class AlphaAndBeta:
    """A type II error at a type I error."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        validate.open_unit(alpha=self.alpha)
        validate.closed_unit(beta=self.beta)


@dataclass(frozen=True)
class TradeoffClaim:
    """``tradeoff: {0.05: 0.8}``."""

    tradeoff: tuple[AlphaAndBeta, ...]


@dataclass(frozen=True)
class BoundClaim:
    """``bound: at22.b_2`` and ``deltas`` or ``orders``, optionally with ``options``."""

    bound: str
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()
    options: Mapping[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for delta in self.deltas:
            validate.half_open_unit(deltas=delta)
        for order in self.orders:
            validate.above_one(orders=order)


@dataclass(frozen=True)
class CallableClaim:
    """``callable: package.module:function`` and either ``deltas`` or ``orders``."""

    callable: str
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not TARGET.fullmatch(self.callable):
            raise validate.fail("callable", "package.module:function", self.callable)
        for delta in self.deltas:
            validate.half_open_unit(deltas=delta)
        for order in self.orders:
            validate.above_one(orders=order)
        if self.deltas and self.orders:
            raise ValueError(
                "a callable must be given deltas or orders, got both: it returns epsilon at a "
                "delta, or a Renyi divergence at an order"
            )


@dataclass(frozen=True)
class AccountantClaim:
    """``accountant: dp_accounting.pld``, or package.module:function; ``deltas`` or ``orders``."""

    accountant: str
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.accountant not in ACCOUNTANTS and not TARGET.fullmatch(self.accountant):
            known = ", ".join(ACCOUNTANTS)
            hint = did_you_mean(self.accountant, ACCOUNTANTS)
            wanted = f"one of {known} or package.module:function"
            raise ValueError(f"{validate.fail('accountant', wanted, self.accountant)}{hint}")
        for delta in self.deltas:
            validate.half_open_unit(deltas=delta)
        for order in self.orders:
            validate.above_one(orders=order)


@dataclass(frozen=True)
class NotRenyiClaim:
    """``not_renyi: {order: 100, value: 0.0056}``."""

    not_renyi: OrderAndValue


@dataclass(frozen=True)
class NotPrivateClaim:
    """``not_private: {epsilon: 1, delta: 1e-5}``."""

    not_private: EpsilonClaim


@dataclass(frozen=True)
class Form:
    """The written form of one kind of statement, and its type."""

    written: type
    statement: Callable[[Any], Statement]
    points: tuple[str, str] | None = None  # for a mapping from numbers to numbers

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a claim that form the statement."""
        return tuple(field.name for field in dataclasses.fields(self.written))


FORMS = {
    "epsilon": Form(EpsilonClaim, lambda w: EpsilonDelta(((w.epsilon, w.delta),))),
    "points": Form(
        PointsClaim, lambda w: EpsilonDelta(tuple((p.epsilon, p.delta) for p in w.points))
    ),
    "renyi": Form(
        RenyiClaim,
        lambda w: Renyi(tuple(sorted((p.order, p.value) for p in w.renyi))),
        ("order", "value"),
    ),
    "mu": Form(MuClaim, lambda w: Gaussian(w.mu)),
    "tradeoff": Form(
        TradeoffClaim,
        lambda w: Tradeoff(tuple(sorted((p.alpha, p.beta) for p in w.tradeoff))),
        ("alpha", "beta"),
    ),
    "bound": Form(BoundClaim, lambda w: CatalogueBound(w.bound, w.options, w.deltas, w.orders)),
    "callable": Form(CallableClaim, lambda w: CallableBound(w.callable, w.deltas, w.orders)),
    "accountant": Form(
        AccountantClaim, lambda w: AccountantBound(w.accountant, w.deltas, w.orders)
    ),
    "not_renyi": Form(NotRenyiClaim, lambda w: NotRenyi(w.not_renyi.order, w.not_renyi.value)),
    "not_private": Form(
        NotPrivateClaim, lambda w: NotPrivate(w.not_private.epsilon, w.not_private.delta)
    ),
}
STATEMENT_KEYS = tuple(dict.fromkeys(key for form in FORMS.values() for key in form.keys))


def _read_statement(found: Fields, location: Location) -> Statement:
    """Return the statement among the keys of a claim.

    Raises ``Broken`` if there is none, more than one, or an invalid value.
    """
    forms = [key for key in found if key in FORMS]
    if not forms:
        raise broken(location, f"a claim needs one of {', '.join(FORMS)}")
    first, *others = forms
    for key in others:
        wrong = f"a claim must make one statement, got {first!r} and {key!r}"
        raise broken(found[key].location, wrong)
    form = FORMS[first]
    written = {key: node for key, node in found.items() if key in STATEMENT_KEYS}
    for key, node in written.items():
        if key not in form.keys:
            raise broken(node.location, f"{key!r} cannot be combined with {first!r}")
    if form.points is not None:
        written[first] = _points(first, written[first], form.points)
    for key, node in written.items():
        if isinstance(node, ListNode):
            yaml_tree.items(key, node)
    at_places = first in ("bound", "callable", "accountant")
    if at_places and "deltas" not in written and "orders" not in written:
        raise broken(
            location, f"a claim of {validate.with_article(first)} needs 'deltas' or 'orders'"
        )
    if first == "bound":
        _check_bound(written)
    return form.statement(yaml_tree.decode(form.written, yaml_tree.mapping(written, location)))


def _points(name: str, node: Node, names: tuple[str, str]) -> ListNode:
    """Return the entries of a mapping from numbers to numbers, each with its two names."""
    if not isinstance(node, MappingNode) or not node.entries:
        raise yaml_tree.bad(name, f"a mapping {{{names[0]}: {names[1]}}}", node)
    points = (
        yaml_tree.mapping(dict(zip(names, entry, strict=True)), entry[0].location)
        for entry in node.entries
    )
    return ListNode(tuple(points), node.location)


def _check_bound(written: Fields) -> None:
    """Check the id of a bound and the names of its options against the catalogue."""
    from audit.bounds import CATALOGUE

    bound = yaml_tree.text("bound", written["bound"])
    if bound not in CATALOGUE:
        hint = did_you_mean(bound, CATALOGUE)
        raise broken(written["bound"].location, f"unknown bound {shown(bound)}{hint}")
    if "options" in written:
        yaml_tree.fields("options", written["options"], CATALOGUE[bound].options)
