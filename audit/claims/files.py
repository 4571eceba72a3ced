"""Claims files: read with everything that they include, and every complaint with its line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from audit.claims import mechanisms, schema, values
from audit.claims.claim import Claim, Location
from audit.claims.mechanisms import Named
from audit.claims.nodes import Broken, Complaint, Items, Node, broken, parse

_KEYS = ("include", "defaults", "mechanisms", "claims")


@dataclass(frozen=True)
class Loaded:
    """The claims that could be read, in the order of the files, and the complaints about the rest.

    ``files`` are all files that were read, those included before those that include them.
    """

    claims: tuple[Claim, ...]
    complaints: tuple[Complaint, ...]
    files: tuple[Path, ...]


def load(paths: Iterable[str | Path]) -> Loaded:
    """Read claims files and all that they include.

    A file that several others include is read once. Ids must be unique over all of them.

    Parameters
    ----------
    paths
        The files, as complaints shall name them.
    """
    reader = _Reader()
    for path in paths:
        try:
            reader.file(Path(path), ())
        except Broken as error:
            reader.complaints.extend(error.complaints)
    complaints = dict.fromkeys(reader.complaints)
    place = {file: index for index, file in enumerate(c.file for c in complaints)}
    ordered = sorted(complaints, key=lambda c: (place[c.file], c.line or 0))
    return Loaded(tuple(reader.claims), tuple(ordered), tuple(reader.files))


class _Reader:
    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.complaints: list[Complaint] = []
        self.files: list[Path] = []
        self._mechanisms: dict[Path, Named] = {}
        self._places: dict[str, Location] = {}

    def file(self, path: Path, chain: tuple[Path, ...]) -> Named:
        """Read a file and return the mechanisms that it knows; ``chain`` are its includers."""
        key = path.resolve()
        if key in self._mechanisms:
            return self._mechanisms[key]
        top = values.fields("the file", parse(_text(path), path), _KEYS, self.complaints)
        inherited: dict[str, values.Fields | None] = {}
        for node in _included(top.get("include")):
            try:
                inherited.update(self._include(node, path, (*chain, key)))
            except Broken as error:
                self.complaints.extend(error.complaints)
        named: Named = inherited
        if "mechanisms" in top:
            named = mechanisms.read_named(top["mechanisms"], inherited, self.complaints)
        self._mechanisms[key] = named
        self.files.append(path)
        if "claims" in top:
            self._claims(top["claims"], schema.read_defaults(top.get("defaults")), named)
        elif "include" not in top and "mechanisms" not in top:
            raise broken(Location(path, 1), "the file needs 'claims'")
        return named

    def _include(self, node: Node, path: Path, chain: tuple[Path, ...]) -> Named:
        name = values.text("include", node)
        target = Path(os.path.normpath(path.parent / name))
        if target.resolve() in chain:
            circle = chain[chain.index(target.resolve()) :]
            shown = " -> ".join(file.name for file in (*circle, target))
            raise broken(node.location, f"include makes a circle: {shown}")
        if not target.is_file():
            raise broken(node.location, f"include must be a file that exists, got {name!r}")
        return self.file(target, chain)

    def _claims(self, block: Node, defaults: values.Fields, named: Named) -> None:
        for node in values.items("claims", block):
            try:
                name = schema.read_id(node)
                if name in self._places:
                    first = self._places[name]
                    raise broken(node.location, f"duplicate id {name!r}, first used at {first}")
                self._places[name] = node.location
                self.claims.append(schema.read_claim(node, defaults, named))
            except Broken as error:
                self.complaints.extend(error.complaints)


def _included(node: Node | None) -> tuple[Node, ...]:
    if node is None:
        return ()
    return values.items("include", node) if isinstance(node, Items) else (node,)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Broken(Complaint(path, None, f"cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise broken(Location(path, line), "must be UTF-8 text") from None
