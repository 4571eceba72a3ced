"""Mechanisms in claims files: named ones, variants of them, and objects of other libraries."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from audit import validate
from audit.adapters.steps import in_words
from audit.claims.claim import Budget
from audit.claims.parts import Fields, InputErrors, InvalidInput, Part, invalid, joined
from audit.claims.statements import Target, check_filled
from audit.claims.user_code import mechanism_from
from audit.codec.hints import did_you_mean, init_fields
from audit.isolation import UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD, Relation
from audit.validate import shown

Named = Mapping[str, Part | None]
"""Each named mechanism's fields; None if its definition is broken, which has been reported."""

BASE = "base"
_Size = Annotated[int, lambda size: validate.integer(1, dataset_size=size)]
_Norm = Annotated[float, lambda norm: validate.positive(clip_norm=norm)]


# objects of other libraries in their written form: the fields are the keys of a claims file


@dataclass(frozen=True, kw_only=True)
class EventMechanism:
    """``{event: package.module:function, dataset_size: 60000, relation: add remove}``.

    The function takes no arguments and returns a ``DpEvent`` of dp-accounting.
    """

    event: Target
    dataset_size: _Size
    relation: Relation
    clip_norm: _Norm = 1.0

    def read(self, budget: Budget, workers: Workers) -> NoisySGD | Composition:
        """Return the mechanism of the event, which is constructed in a worker."""
        given = (self.dataset_size, self.relation.value, self.clip_norm)
        return mechanism_from("event", self.event, budget, workers, *given)

    def described(self, found: NoisySGD | Composition) -> str:
        """Return what was read, and what the user gave in addition."""
        return f"DpEvent of {self.event}: {in_words(found, True)}; {_given(self.clip_norm)}"


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

    def read(self, budget: Budget, workers: Workers) -> NoisySGD | Composition:
        """Return the mechanism of the history."""
        from audit.adapters import opacus

        history: Any = self.history
        if isinstance(history, Path):
            try:
                history = json.loads(history.read_text(encoding="utf-8"))
            except OSError as error:
                raise validate.fail(
                    "history", f"a file that can be read ({error.strerror})", str(self.history)
                ) from None
            except ValueError:
                raise validate.fail("history", "a JSON file", str(self.history)) from None
        return opacus.from_history(
            history,
            dataset_size=self.dataset_size,
            relation=self.relation,
            clip_norm=self.clip_norm,
        )

    def described(self, found: NoisySGD | Composition) -> str:
        """Return what was read, and what the user gave in addition."""
        source = f"history of {self.history}" if isinstance(self.history, Path) else "history"
        sized = self.dataset_size is not None
        return f"{source}: {in_words(found, sized)}; {_given(self.clip_norm, sized=sized)}"


@dataclass(frozen=True, kw_only=True)
class TrainingMechanism:
    """``{training: package.module:function}``.

    The function takes no arguments and returns a ``PrivateTraining``, which
    ``audit.adapters.opacus.from_private`` makes from an optimizer and a data loader. The mechanism
    is the one that they run, with the batches that the loader draws.
    """

    training: Target

    def read(self, budget: Budget, workers: Workers) -> NoisySGD | Composition:
        """Return the mechanism of the training, which is constructed in a worker."""
        return mechanism_from("training", self.training, budget, workers)

    def described(self, found: NoisySGD | Composition) -> str:
        """Return what was read, and what the user gave in addition."""
        given = "given beside them: the relation; assumed: a public number of records"
        return f"loader and optimizer of {self.training}: {in_words(found, True)}; {given}"


def _given(clip_norm: float, *, sized: bool = True) -> str:
    records = "the records, " if sized else ""
    return (
        f"given beside it: {records}the relation and the clip norm {clip_norm:g}; "
        "assumed: a public divisor"
    )


WRITTEN = {"event": EventMechanism, "history": HistoryMechanism, "training": TrainingMechanism}
"""Forms of a mechanism other than its own fields, by the key that identifies them."""

Written = NoisySGD | Composition | EventMechanism | HistoryMechanism | TrainingMechanism


@dataclass(frozen=True)
class Resolved:
    """The mechanism of a claim."""

    mechanism: NoisySGD | Composition | None  #: The mechanism; None if it could not be read.
    #: What an adapter read, and what was given in addition; empty for mechanisms given by their own
    #: fields.
    source: str = ""
    unread: str = ""  #: Why it could not be read; empty if it could.


class Resolver:
    """Reads each event and history once, when a claim first needs it."""

    def __init__(self) -> None:
        self._found: dict[Written, Resolved] = {}

    def __call__(self, written: Written, budget: Budget, workers: Workers) -> Resolved:
        """Return the mechanism of a written form; failures of user code go to ``unread``."""
        if isinstance(written, NoisySGD | Composition):
            return Resolved(written)
        if written not in self._found:
            try:
                found = written.read(budget, workers)
                self._found[written] = Resolved(found, written.described(found))
            except (UserCodeError, ValueError) as error:
                self._found[written] = Resolved(None, unread=" ".join(str(error).split()))
        return self._found[written]


def read_named(part: Part, inherited: Named, complaints: InputErrors) -> Named:
    """Return the fields of every mechanism of a ``mechanisms:`` block, and of the inherited ones.

    Each must be a complete mechanism; errors are added to ``complaints``.
    """
    found = dict(inherited)
    written = complaints.tried(part.fields, "mechanisms", complaints=complaints) or {}
    for name in written.keys() & inherited.keys():
        wrong = f"mechanism {shown(name)} is already defined in an included file"
        complaints.extend(invalid(written.pop(name).location, wrong).complaints)

    def resolve(name: str, chain: tuple[str, ...]) -> None:
        if name in found:
            return
        found[name] = None
        try:
            base = written[name].fields("a mechanism").get(BASE)
            if base is not None and base.value in (*chain, name):
                circle = " -> ".join((*chain, name, base.value))
                raise invalid(base.location, f"base must not be circular, got {circle}")
            if base is not None and isinstance(base.value, str) and base.value in written:
                resolve(base.value, (*chain, name))
            found[name] = read_mechanism(f"mechanism {name!r}", written[name], found)[0]
        except InvalidInput as error:
            complaints.extend(error.complaints)

    for name in written:
        resolve(name, ())
    return found


def read_mechanism(name: str, part: Part, named: Named) -> tuple[Part, Written]:
    """Return a mechanism and its fields: a name, fields, or a ``base`` and the fields that differ.

    Events, histories and trainings stay in their written form.

    Raises ``InvalidInput`` for an unknown name or field, or a value out of its range; without a
    complaint if the named definition was invalid.
    """
    if isinstance(part.value, str):
        fields = _look_up(part, named)
    else:
        own = _placed(part.fields(name))
        base = own.pop(BASE, None)
        inherited: Fields = {}
        if base is not None:
            if not isinstance(base.value, str):
                raise base.bad(BASE, "the name of a mechanism")
            # a base is valid by itself, so an error is where it is used
            inherited = _look_up(base, named).moved(part.location).fields(name)
        fields = joined({**inherited, **own}, part.location)
    for key, form in WRITTEN.items():
        if key in fields.value:
            # messages list its keys; those of another mechanism cannot be combined with it
            fields.fields(f"a mechanism with {key!r}", init_fields(form))
            return fields, fields.decode(form)
    return fields, fields.decode(NoisySGD | Composition)


def _placed(own: dict[str, Part]) -> dict[str, Part]:
    """Return the fields, with the file of a history relative to the file that names it."""
    history = own.get("history")
    if history is not None and isinstance(history.value, str):
        file = history.file.parent / history.value
        own["history"] = dataclasses.replace(history, value=str(file))
    return own


def _look_up(part: Part, named: Named) -> Part:
    if part.value not in named:
        hint = did_you_mean(part.value, named)
        raise invalid(part.location, f"unknown mechanism {shown(part.value)}{hint}")
    found = named[part.value]
    if found is None:
        raise InvalidInput()
    return found
