"""Read claims files and everything that they include; every complaint has its file and line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from audit import validate
from audit.claims import yaml_tree
from audit.claims.claim import (
    Budget,
    Claim,
    Expected,
    LooseBy,
    Pair,
    Samples,
    Search,
    Severity,
    UserPair,
)
from audit.claims.named_mechanisms import Named, Resolved, Resolver, read_mechanism, read_named
from audit.claims.statements import KEYS, TARGET, Statement, statement_of
from audit.claims.user_code import workers_for
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
from audit.constructions import decode_any_pair
from audit.constructions.registry import decode_laws
from audit.isolation import Workers
from audit.mechanism import Composition, NoisySGD
from audit.validate import shown

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
    own = yaml_tree.fields("a claim", node, ("id", *COMMON_KEYS, *KEYS))
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
    if isinstance(mechanism, Composition):
        raise validate.fail("pair", "left out for a composition of several runs", plain)
    fields = {"kind": plain} if isinstance(plain, str) else plain
    kind = fields.get("kind") if isinstance(fields, Mapping) else None
    if isinstance(kind, str) and ":" in kind:  # judged in a worker
        if not TARGET.fullmatch(kind):
            raise validate.fail("pair.kind", "package.module:Class", kind)
        return UserPair(kind, {name: value for name, value in fields.items() if name != "kind"})
    return decode_any_pair(fields, mechanism)


def _read_statement(found: Fields, location: Location) -> Statement:
    """Return the statement among the keys of a claim."""
    written = {key: node for key, node in found.items() if key in KEYS}
    return yaml_tree.decoded(
        yaml_tree.mapping(written, location), lambda plain: statement_of(**plain)
    )
