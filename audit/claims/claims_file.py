"""Read claims files and everything that they include; every complaint has its file and line.

A mechanism in a claims file has a name, its own fields or a ``base`` and the fields that differ, or
is an object of another library.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from audit import codec, validate
from audit.adapters.steps import in_words
from audit.claims.claim import (
    KEYS,
    TARGET,
    Budget,
    Claim,
    Location,
    Pair,
    Statement,
    Target,
    UserPair,
    check_filled,
    statement_of,
)
from audit.claims.sources import mechanism_from, workers_for
from audit.codec.hints import did_you_mean, init_fields
from audit.codec.yaml_text import Lines, YamlError, read_yaml
from audit.constructions import decode_any_pair
from audit.constructions.registry import decode_laws
from audit.isolation import UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD, Relation
from audit.validate import shown

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class InputError:
    """An error in a claims file and its place; ``line`` is None for the file as a whole."""

    file: Path
    line: int | None
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", " ".join(self.message.split()))

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class InvalidInput(ValueError):
    """A part of a claims file cannot be read; the text has one line per complaint."""

    def __init__(self, *complaints: InputError) -> None:
        super().__init__("\n".join(str(complaint) for complaint in complaints))
        self.complaints = complaints


class InputErrors(list[InputError]):
    """Errors of parts that are read one after the other."""

    def tried(self, read: Callable[..., _Value], *args: Any, **keys: Any) -> _Value | None:
        """Return what a function reads; None if it is broken, whose complaints are added."""
        try:
            return read(*args, **keys)
        except InvalidInput as error:
            self.extend(error.complaints)
            return None


@dataclass(frozen=True)
class Part:
    """A value in a claims file, as plain data, with the lines of its parts."""

    file: Path
    value: Any
    lines: Lines

    def __getitem__(self, key: str | int) -> Part:
        """Return an entry of a mapping or a list."""
        return Part(self.file, self.value[key], self.lines.of(key)[1])

    def invalid(self, message: str) -> InvalidInput:
        """Return the error of a complaint about the value."""
        return InvalidInput(InputError(self.file, self.lines.line, message))

    def bad(self, name: str, requirement: str) -> InvalidInput:
        """Return the error of a wrong value: ``name must be requirement, got value``."""
        got = "nothing" if self.value is None else shown(self.value)
        if isinstance(self.value, list):
            got = "a list" if self.value else "an empty list"
        elif isinstance(self.value, dict):
            got = "a mapping"
        return self.invalid(f"{name} must be {requirement}, got {got}")

    def mapping(
        self, name: str, allowed: Collection[str] | None = None, errors: InputErrors | None = None
    ) -> Part:
        """Return a mapping without its wrong keys, which are raised, or added to ``errors``."""
        if not isinstance(self.value, dict):
            raise self.bad(name, "a mapping")
        found = {}
        wrong: list[InputError] = []
        for key, value in self.value.items():
            if isinstance(key, str) and (allowed is None or key in allowed):
                found[key] = value
                continue
            problem = f"a key of {name} must be a word, got {shown(key)}"
            if allowed is not None and isinstance(key, str):
                hint = did_you_mean(key, allowed) or f"; known: {', '.join(allowed)}"
                problem = f"unknown key {shown(key)} in {name}{hint}"
            wrong.append(InputError(self.file, self.lines.of(key)[0], problem))
        if errors is not None:
            errors.extend(wrong)
        elif wrong:
            raise InvalidInput(*wrong)
        return replace(self, value=found)

    def items(self, name: str) -> tuple[Part, ...]:
        """Return the values of a list that must not be empty."""
        if not isinstance(self.value, list) or not self.value:
            raise self.bad(name, "a list with at least one entry")
        return tuple(self[index] for index in range(len(self.value)))

    def only(self, keys: Collection[str]) -> Part:
        """Return a mapping without other keys."""
        return replace(self, value={key: one for key, one in self.value.items() if key in keys})

    def over(self, base: Part) -> Part:
        """Return a mapping with the entries of another one that it lacks; budgets are merged."""
        values = {**base.value, **self.value}
        parts = {**base.lines.parts, **self.lines.parts}
        if all(isinstance(one.value.get("budget"), dict) for one in (self, base)):
            budget = self["budget"].over(base["budget"])
            values["budget"] = budget.value
            parts["budget"] = budget.lines.line, budget.lines
        return Part(self.file, values, Lines(self.lines.line, parts))

    def decoded(self, make: Callable[[Any], _Value]) -> _Value:
        """Return the value that ``make`` builds from the plain data; every error is a complaint."""
        try:
            return make(self.value)
        except codec.DecodeError as error:
            each = ((self.lines.at(one.path), str(one)) for one in error.errors)
            raise InvalidInput(*(InputError(self.file, *one) for one in each)) from None
        except ValueError as error:
            raise self.invalid(str(error)) from None


def read_part(path: Path) -> Part:
    """Read a YAML file."""
    line: int | None = None
    try:
        return Part(path, *read_yaml(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        line, problem = error.object.count(b"\n", 0, error.start) + 1, "must be UTF-8 text"
    except YamlError as error:
        line, problem = error.line, str(error)
    raise InvalidInput(InputError(path, line, problem))


Named = Mapping[str, Part | None]
"""Each named mechanism's fields; None if its definition is broken, which has been reported."""

BASE = "base"
_Size = Annotated[int, lambda size: validate.integer(1, dataset_size=size)]
_Norm = Annotated[float, lambda norm: validate.positive(clip_norm=norm)]

_GIVEN = "given beside it: {}the relation and the clip norm {:g}; assumed: a public divisor"

Adapted = tuple[NoisySGD | Composition, str]
"""A mechanism that was read, and what was read and given beside it, in words."""


# ---- mechanisms; objects of other libraries have fields that are keys of a claims file


@dataclass(frozen=True, kw_only=True)
class EventMechanism:
    """``{event: package.module:function, dataset_size: 60000, relation: add remove}``.

    The function takes no arguments and returns a ``DpEvent`` of dp-accounting.
    """

    event: Target
    dataset_size: _Size
    relation: Relation
    clip_norm: _Norm = 1.0

    def read(self, budget: Budget, workers: Workers) -> Adapted:
        """Return the mechanism of the event, which is constructed in a worker."""
        given = (self.dataset_size, self.relation.value, self.clip_norm)
        found, _ = mechanism_from("event", self.event, budget, workers, *given)
        told = _GIVEN.format("the records, ", self.clip_norm)
        return found, f"DpEvent of {self.event}: {in_words(found, True)}; {told}"


@dataclass(frozen=True, kw_only=True)
class HistoryMechanism:
    """``{history: [[1.1, 0.01, 1000]], relation: add remove}``.

    The history of an Opacus accountant: noise multiplier, sample rate and steps, or a JSON file
    that contains it or the accountant's ``state_dict()``, relative to the claims file.
    """

    history: Annotated[tuple[tuple[float, float, int], ...], check_filled] | Path
    dataset_size: _Size | None = None
    relation: Relation
    clip_norm: _Norm = 1.0

    def read(self, budget: Budget, workers: Workers) -> Adapted:
        """Return the mechanism of the history."""
        from audit.adapters import opacus

        given = dict(vars(self))
        history = given.pop("history")
        source, sized = "history", self.dataset_size is not None
        if isinstance(history, Path):
            name, source = str(history), f"history of {history}"
            try:
                history = json.loads(history.read_text(encoding="utf-8"))
            except OSError as error:
                wanted = f"a file that can be read ({error.strerror})"
                raise validate.fail("history", wanted, name) from None
            except ValueError:
                raise validate.fail("history", "a JSON file", name) from None
        found = opacus.from_history(history, **given)
        told = _GIVEN.format("the records, " if sized else "", self.clip_norm)
        return found, f"{source}: {in_words(found, sized)}; {told}"


@dataclass(frozen=True, kw_only=True)
class TrainingMechanism:
    """``{training: package.module:function}``.

    The function takes no arguments and returns a ``PrivateTraining``, which
    ``audit.adapters.opacus.from_private`` makes from an optimizer and a data loader. The mechanism
    is the one that they run, with the batches that the loader draws.
    """

    training: Target

    def read(self, budget: Budget, workers: Workers) -> Adapted:
        """Return the mechanism of the training, which is constructed in a worker."""
        found, doubt = mechanism_from("training", self.training, budget, workers)
        given = "given beside them: the relation; assumed: a public number of records"
        given += f"; {doubt}" if doubt else ""
        return found, f"loader and optimizer of {self.training}: {in_words(found, True)}; {given}"


WRITTEN = {"event": EventMechanism, "history": HistoryMechanism, "training": TrainingMechanism}
"""Forms of a mechanism other than its own fields, by the key that identifies them."""

Written = NoisySGD | Composition | EventMechanism | HistoryMechanism | TrainingMechanism


def read_named(part: Part, inherited: Named, complaints: InputErrors) -> Named:
    """Return the fields of all mechanisms of a block, each complete, and of the inherited ones."""
    found = dict(inherited)
    written = complaints.tried(part.mapping, "mechanisms", errors=complaints)
    if written is None:
        return found

    def resolve(name: str, chain: tuple[str, ...]) -> None:
        if name in found:
            return
        found[name] = None
        try:
            base = written[name].mapping("a mechanism").value.get(BASE)
            if base in (*chain, name):
                circle = " -> ".join((*chain, name, base))
                raise written[name][BASE].invalid(f"base must not be circular, got {circle}")
            if isinstance(base, str) and base in written.value:
                resolve(base, (*chain, name))
            found[name] = read_mechanism(f"mechanism {name!r}", written[name], found)[0]
        except InvalidInput as error:
            complaints.extend(error.complaints)

    for name in written.value:
        if name in inherited:
            wrong = f"mechanism {shown(name)} is already defined in an included file"
            complaints.extend(written[name].invalid(wrong).complaints)
        resolve(name, ())
    return found


def read_mechanism(name: str, part: Part, named: Named) -> tuple[Part, Written]:
    """Return a mechanism and its fields: a name, fields, or a ``base`` and the fields that differ.

    ``InvalidInput`` is raised without a complaint if the named definition was invalid.
    """
    if isinstance(part.value, str):
        fields = _look_up(part, named)
    else:
        fields = part.mapping(name)
        own: dict[str, Any] = fields.value
        if isinstance(own.get("history"), str):  # relative to the file that names it
            own["history"] = str(part.file.parent / own["history"])
        if BASE in own:
            base = fields[BASE]
            if not isinstance(base.value, str):
                raise base.bad(BASE, "the name of a mechanism")
            del own[BASE]
            # a base is valid by itself, so an error is where it is used
            fields = replace(fields, value={**_look_up(base, named).value, **own})
    form: Any = NoisySGD | Composition
    for key in (key for key in WRITTEN if key in fields.value):
        # messages list its keys; those of another mechanism cannot be combined with it
        form = WRITTEN[key]
        fields.mapping(f"a mechanism with {key!r}", init_fields(form))
    return fields, fields.decoded(partial(codec.decode, form))


def _look_up(part: Part, named: Named) -> Part:
    if part.value not in named:
        hint = did_you_mean(part.value, named)
        raise part.invalid(f"unknown mechanism {shown(part.value)}{hint}")
    found = named[part.value]
    if found is None:
        raise InvalidInput()
    return found


FILE_KEYS = ("include", "defaults", "mechanisms", "claims")
_FIRST_KEY = re.compile(rf"[{{\s]*[\"']?({'|'.join(FILE_KEYS)})[\"']?\s*:")
# subjects of a claim, and the keys that exclude them
ABOUT = ("mechanism", "pair", "laws", "samples")
EXCLUDED = {"laws": ("mechanism", "pair"), "samples": ("pair", "laws")}
# keys that are also allowed in defaults
COMMON_KEYS = ("citation", "expected", "severity", "budget", "search", *ABOUT)
# fields of `Claim` that are read one by one, and their values before
_OTHERS = {"mechanism": None, "statement": None, "pair": None, "source": "", "unread": ""}
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
        self._objects: dict[Written, dict[str, Any]] = {}
        self._locations: dict[str, Location] = {}

    def read(self, path: Path, chain: tuple[Path, ...]) -> Named:
        """Read a file and return the mechanisms that it defines; ``chain`` are its includers."""
        key = path.resolve()
        if key in self._mechanisms:
            return self._mechanisms[key]
        top = read_part(path).mapping("the file", FILE_KEYS, self.complaints)
        named: dict[str, Part | None] = {}
        included: tuple[Part, ...] = (top["include"],) if "include" in top.value else ()
        if included and isinstance(included[0].value, list):
            included = included[0].items("include")
        for part in included:
            named.update(self.complaints.tried(self._include, part, (*chain, key)) or {})
        if "mechanisms" in top.value:
            named = dict(read_named(top["mechanisms"], named, self.complaints))
        self._mechanisms[key] = named
        self.files.append(path)
        if "claims" in top.value:
            with workers_for(self.files) as workers:
                defaults = Part(path, {}, Lines(1))
                if "defaults" in top.value:  # its values are checked where a claim uses them
                    defaults = top["defaults"].mapping("defaults", COMMON_KEYS)
                for part in top["claims"].items("claims"):
                    self.complaints.tried(self._claim, part, defaults, named, workers)
        elif "include" not in top.value and "mechanisms" not in top.value:
            raise InvalidInput(InputError(path, 1, "the file needs 'claims'"))
        return named

    def _include(self, part: Part, chain: tuple[Path, ...]) -> Named:
        if not isinstance(part.value, str):
            raise part.bad("include", "a text")
        target = Path(os.path.normpath(part.file.parent / part.value))
        if target.resolve() in chain:
            circle = chain[chain.index(target.resolve()) :]
            files = " -> ".join(file.name for file in (*circle, target))
            raise part.invalid(f"include must not be circular, got {files}")
        if not target.is_file():
            raise part.bad("include", "a file that exists")
        if not _is_claims_file(target):  # its content is not quoted
            raise part.bad("include", "a claims file")
        return self.read(target, chain)

    def _claim(self, part: Part, defaults: Part, named: Named, workers: Workers) -> None:
        """Add a claim, with the values of ``defaults`` for missing keys.

        Raises ``InvalidInput`` with all that is wrong with it; without a complaint if the mechanism
        that it names is itself invalid.
        """
        complaints = InputErrors()
        own = part.mapping("a claim", ("id", *COMMON_KEYS, *KEYS), complaints)
        misspelt = bool(complaints)  # the subject or the statement, which would be told twice
        if "id" not in own.value:
            raise part.invalid("a claim needs 'id'")
        id = own.value["id"]
        if not isinstance(id, str) or not ID.fullmatch(id):
            raise own["id"].bad("id", "letters, digits, '.', '_' and '-'")
        if id in self._locations:
            first = self._locations[id]
            raise part.invalid(f"duplicate id {shown(id)}, first used at {first}")
        location = self._locations[id] = Location(part.file, part.lines.line)
        found = _with_defaults(own, defaults)
        claim = complaints.tried(_read_fields, found, id, location)
        mechanism: Written | None = None
        if "mechanism" in found.value:
            read = complaints.tried(read_mechanism, "mechanism", found["mechanism"], named)
            mechanism = None if read is None else read[1]
        statement: Statement | None = None
        if not misspelt:
            stated = found.only(KEYS)
            statement = complaints.tried(stated.decoded, lambda plain: statement_of(**plain))
        if claim is None or misspelt or (mechanism is None and "mechanism" in found.value):
            raise InvalidInput(*complaints)
        about: dict[str, Any] = {}
        if mechanism is not None:
            about = self._resolved(mechanism, claim.budget, workers)
        pair = None
        if "unread" not in about:
            pair = complaints.tried(_read_subject, found, about.get("mechanism"), own.value)
        if complaints or statement is None:
            raise InvalidInput(*complaints)
        self.claims.append(replace(claim, statement=statement, pair=pair, **about))

    def _resolved(self, written: Written, budget: Budget, workers: Workers) -> dict[str, Any]:
        """Return the fields of a claim about its mechanism; an object is read once."""
        if isinstance(written, NoisySGD | Composition):
            return {"mechanism": written}
        if written not in self._objects:
            try:
                found, source = written.read(budget, workers)
                about = {"mechanism": found, "source": source}
            except (UserCodeError, ValueError) as error:
                about = {"unread": " ".join(str(error).split())}
            self._objects[written] = about
        return self._objects[written]


def _is_claims_file(path: Path) -> bool:
    """Return whether a line begins with a key of claims files, or the file is unreadable."""
    try:
        with open(path, encoding="utf-8-sig") as lines:
            return any(_FIRST_KEY.match(line) for line in lines)
    except (OSError, UnicodeDecodeError):
        return True  # reading it will report that


def _with_defaults(own: Part, defaults: Part) -> Part:
    """Return the keys of a claim and the defaults; a claim's own subject replaces theirs."""
    about = [key for key in ABOUT if key in own.value]
    replaced = ABOUT if "laws" in about or "samples" in about else ("laws", "samples")
    found = own.over(defaults.only(set(COMMON_KEYS) - set(replaced if about else ())))
    return found.only(found.value.keys() - {key for key in ABOUT if found.value.get(key) is None})


def _read_fields(found: Part, id: str, location: Location) -> Claim:
    """Return a claim with the fields that are decoded as they stand, and nothing in the others."""
    given = {"id": id, "location": location, **_OTHERS}
    decoded = found.only(set(COMMON_KEYS) - {"laws", *_OTHERS})
    claim: Claim = decoded.decoded(partial(codec.decode, Claim, given=given))
    for name, others in EXCLUDED.items():
        for key in found.only(others).value if name in found.value else ():
            raise found[name].invalid(f"{name!r} cannot be combined with {key!r}")
    if claim.samples is None:
        return claim
    named = {key: one for key, one in vars(claim.samples).items() if isinstance(one, Path)}
    files = {key: location.file.parent / one for key, one in named.items()}
    return replace(claim, samples=replace(claim.samples, **files))  # type: ignore[arg-type]


def _read_subject(
    found: Part, mechanism: NoisySGD | Composition | None, own: Collection[str]
) -> Pair | UserPair | None:
    """Return the pair that a claim names under ``pair`` or ``laws``; None if it names none."""
    if mechanism is None and not found.value.keys() & {"pair", "laws", "samples"}:
        raise found.invalid("a claim needs 'mechanism', 'laws' or 'samples'")
    name = "laws" if "laws" in found.value else "pair"
    if name not in found.value:
        return None
    # a pair of the defaults that does not fit is an error where it is used
    used = found[name] if name in own else replace(found[name], lines=Lines(found.lines.line))
    return used.decoded(decode_laws if name == "laws" else partial(_decode_pair, mechanism))


def _decode_pair(mechanism: NoisySGD | Composition | None, plain: Any) -> Pair | UserPair:
    """Return a pair from plain data; a class ``package.module:Class`` is imported by a worker."""
    if isinstance(mechanism, Composition):
        raise validate.fail("pair", "left out for a composition of several runs", plain)
    given = {"kind": plain} if isinstance(plain, str) else plain
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if isinstance(kind, str) and ":" in kind:  # judged in a worker
        if not TARGET.fullmatch(kind):
            raise validate.fail("pair.kind", "package.module:Class", kind)
        return UserPair(kind, {name: value for name, value in given.items() if name != "kind"})
    return decode_any_pair(given, mechanism)
