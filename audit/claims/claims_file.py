"""Read claims files and everything that they include; every complaint has its file and line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from audit import validate
from audit.claims.claim import Claim, Pair, UserPair
from audit.claims.named_mechanisms import (
    Named,
    Resolved,
    Resolver,
    Written,
    read_mechanism,
    read_named,
)
from audit.claims.parts import (
    Fields,
    InputError,
    InputErrors,
    InvalidInput,
    Location,
    Part,
    invalid,
    joined,
    read_part,
)
from audit.claims.statements import KEYS, TARGET, Statement, statement_of
from audit.claims.user_code import workers_for
from audit.codec import decode
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
# fields of `Claim` that are read one by one
_OTHERS = ("mechanism", "statement", "pair", "source", "unread")
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Loaded:
    """The claims that could be read, in the order of the files, and the complaints about the rest.

    ``files`` are all files that were read; included files come before the files that include them.
    """

    claims: tuple[Claim, ...]
    complaints: tuple[InputError, ...]
    files: tuple[Path, ...]


def load(paths: Iterable[str | Path]) -> Loaded:
    """Read claims files and all files that they include.

    A file that several others include is read once. Ids must be unique over all of them.
    """
    reader = _Reader()
    for path in paths:
        reader.complaints.tried(reader.read, Path(path), ())
    complaints = dict.fromkeys(reader.complaints)
    place = {file: index for index, file in enumerate(c.file for c in complaints)}
    ordered = sorted(complaints, key=lambda c: (place[c.file], c.line or 0))
    return Loaded(tuple(reader.claims), tuple(ordered), tuple(reader.files))


class _Reader:
    """Reads files and the files that they include, and collects claims and complaints."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.complaints = InputErrors()
        self.files: list[Path] = []
        self._mechanisms: dict[Path, Named] = {}
        self._resolve = Resolver()
        self._locations: dict[str, Location] = {}

    def read(self, path: Path, chain: tuple[Path, ...]) -> Named:
        """Read a file and return the mechanisms that it defines; ``chain`` are its includers."""
        key = path.resolve()
        if key in self._mechanisms:
            return self._mechanisms[key]
        top = read_part(path).fields("the file", FILE_KEYS, self.complaints)
        named: dict[str, Part | None] = {}
        included = [top["include"]] if "include" in top else []
        if included and isinstance(included[0].value, list):
            included = list(included[0].items("include"))
        for part in included:
            named.update(self.complaints.tried(self._include, part, (*chain, key)) or {})
        if "mechanisms" in top:
            named = dict(read_named(top["mechanisms"], named, self.complaints))
        self._mechanisms[key] = named
        self.files.append(path)
        if "claims" in top:
            with workers_for(self.files) as workers:
                defaults: Fields = {}
                if "defaults" in top:  # its values are checked where a claim uses them
                    defaults = top["defaults"].fields("defaults", COMMON_KEYS)
                for part in top["claims"].items("claims"):
                    self.complaints.tried(self._claim, part, defaults, named, workers)
        elif "include" not in top and "mechanisms" not in top:
            raise invalid(Location(path, 1), "the file needs 'claims'")
        return named

    def _include(self, part: Part, chain: tuple[Path, ...]) -> Named:
        name = part.text("include")
        target = Path(os.path.normpath(part.file.parent / name))
        if target.resolve() in chain:
            circle = chain[chain.index(target.resolve()) :]
            files = " -> ".join(file.name for file in (*circle, target))
            raise invalid(part.location, f"include must not be circular, got {files}")
        if not target.is_file():
            raise invalid(part.location, f"include must be a file that exists, got {shown(name)}")
        if not _is_claims_file(target):  # whose content is not quoted
            raise invalid(part.location, f"include must be a claims file, got {shown(name)}")
        return self.read(target, chain)

    def _claim(self, part: Part, defaults: Fields, named: Named, workers: Workers) -> None:
        """Add a claim, with the values of ``defaults`` for missing keys.

        Raises ``InvalidInput`` with all that is wrong with it; without a complaint if the mechanism
        that it names is itself invalid.
        """
        id = _read_id(part)
        if id in self._locations:
            first = self._locations[id]
            raise invalid(part.location, f"duplicate id {shown(id)}, first used at {first}")
        self._locations[id] = part.location
        complaints = InputErrors()
        own = part.fields("a claim", ("id", *COMMON_KEYS, *KEYS), complaints)
        found = _with_defaults(own, defaults)
        misspelt = bool(complaints)  # the subject or the statement, which would be told twice
        claim = complaints.tried(_read_fields, id, part.location, found, defaults, own)
        mechanism: tuple[Part, Written] | None = None
        if "mechanism" in found:
            mechanism = complaints.tried(read_mechanism, "mechanism", found["mechanism"], named)
        statement: Statement | None = None
        if not misspelt:
            keys = {key: one for key, one in found.items() if key in KEYS}
            stated = joined(keys, part.location)
            statement = complaints.tried(stated.decoded, lambda plain: statement_of(**plain))
        if claim is None or misspelt or (mechanism is None and "mechanism" in found):
            raise InvalidInput(*complaints)
        read, pair = Resolved(None), None
        if mechanism is not None:
            read = self._resolve(mechanism[1], claim.budget, workers)
        if not read.unread:
            pair = complaints.tried(_read_subject, found, read.mechanism, part.location, own)
        if complaints or statement is None:
            raise InvalidInput(*complaints)
        about = {field.name: getattr(read, field.name) for field in fields(read)}
        self.claims.append(replace(claim, statement=statement, pair=pair, **about))


def _is_claims_file(path: Path) -> bool:
    """Return whether a line begins with a key of claims files, or the file is unreadable."""
    try:
        with open(path, encoding="utf-8-sig") as lines:
            return any(_FIRST_KEY.match(line) for line in lines)
    except (OSError, UnicodeDecodeError):
        return True  # reading it will report that


# claims


def _read_id(part: Part) -> str:
    found = part.fields("a claim")
    if "id" not in found:
        raise invalid(part.location, "a claim needs 'id'")
    name = found["id"].text("id")
    if not ID.fullmatch(name):
        raise found["id"].bad("id", "letters, digits, '.', '_' and '-'")
    return name


def _with_defaults(own: Fields, defaults: Fields) -> Fields:
    """Return the keys of a claim and the defaults; a claim's own subject replaces theirs."""
    about = [key for key in ABOUT if key in own]
    replaced = ABOUT if "laws" in about or "samples" in about else ("laws", "samples")
    kept = {key: one for key, one in defaults.items() if not about or key not in replaced}
    found = {**kept, **own}
    return {key: one for key, one in found.items() if key not in ABOUT or one.value is not None}


def _read_fields(
    id: str, location: Location, found: Fields, defaults: Fields, own: Fields
) -> Claim:
    """Return a claim with the fields that are decoded as they stand, and nothing in the others."""
    decoded = set(COMMON_KEYS) - {"laws", *_OTHERS}
    written = {key: one for key, one in found.items() if key in decoded}
    budgets = [block["budget"] for block in (defaults, own) if "budget" in block]
    if budgets:  # the keys of a claim and those of the defaults
        keys = {key: one for budget in budgets for key, one in budget.fields("budget").items()}
        written["budget"] = joined(keys, budgets[-1].location)
    given = {"id": id, "location": location, **dict.fromkeys(_OTHERS)}
    part = joined(written, location)
    claim: Claim = part.decoded(lambda plain: decode(Claim, plain, given=given))
    if claim.samples is None:
        return claim
    for key in EXCLUDED["samples"]:
        if key in found:
            raise invalid(found["samples"].location, f"'samples' cannot be combined with {key!r}")
    return replace(claim, samples=claim.samples.inside(location.file.parent))


def _read_subject(
    found: Fields, mechanism: NoisySGD | Composition | None, location: Location, own: Fields
) -> Pair | UserPair | None:
    """Return the pair that a claim names under ``pair`` or ``laws``; None if it names none.

    ``laws: {laplace: {sensitivity: 1, scale: 2}}`` names explicit laws, without a mechanism.
    """
    if mechanism is None and not found.keys() & {"pair", "laws", "samples"}:
        raise invalid(location, "a claim needs 'mechanism', 'laws' or 'samples'")
    name = "laws" if "laws" in found else "pair"
    if name not in found:
        return None
    for key in EXCLUDED.get(name, ()):
        if key in found:
            raise invalid(found[name].location, f"'laws' cannot be combined with {key!r}")
    # a pair of the defaults that does not fit is an error where it is used
    used = found[name] if name in own else found[name].moved(location)
    if name == "laws":
        return used.decoded(decode_laws)
    return used.decoded(lambda plain: _decode_pair(plain, mechanism))


def _decode_pair(plain: Any, mechanism: NoisySGD | Composition | None) -> Pair | UserPair:
    """Return a pair from plain data.

    A kind ``package.module:Class`` is a user-defined construction, from a module beside the claims
    file, in the current folder or installed. It is imported where the claim is judged.
    """
    if isinstance(mechanism, Composition):
        raise validate.fail("pair", "left out for a composition of several runs", plain)
    given = {"kind": plain} if isinstance(plain, str) else plain
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if isinstance(kind, str) and ":" in kind:  # judged in a worker
        if not TARGET.fullmatch(kind):
            raise validate.fail("pair.kind", "package.module:Class", kind)
        return UserPair(kind, {name: value for name, value in given.items() if name != "kind"})
    return decode_any_pair(given, mechanism)
