"""Parts of the package refuse choices of a mechanism that they do not support."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from audit import Batching, Divisor, Losses, NoisySGD, Relation, Release, bounds, search
from audit.constructions import Construction, Inadmissible, suggested_members
from audit.constructions.batches import SAMPLERS, batched_process
from audit.constructions.registry import all_kinds, kinds
from audit.constructions.updates import Affine
from audit.mechanism import COVERED_BY_DEFAULT, Choice
from tests.mechanisms import noisy_sgd

FIELDS: dict[type, str] = {
    Batching: "batching",
    Relation: "relation",
    Release: "release",
    Divisor: "divisor",
    Losses: "losses",
}
NEW = [c for kind in FIELDS for c in kind if c not in COVERED_BY_DEFAULT]


def mechanism(choice: Choice) -> NoisySGD:
    made: dict[str, Any] = {"batching": Batching.WITHOUT_REPLACEMENT, FIELDS[type(choice)]: choice}
    if choice is Batching.TRUNCATED_POISSON:
        made["max_batch_size"] = 3
    return noisy_sgd(steps=4, dataset_size=4, batch_size=2, step_size=0.5, **made)


def message(choice: Choice) -> str:
    name = FIELDS[type(choice)]
    return f"needs another {name}, got {name}={choice.value!r}"


def test_what_is_new() -> None:
    """A value that is added to a choice is refused until it is named."""
    assert {c for c in COVERED_BY_DEFAULT if not isinstance(c, Release)} == {
        Batching.FULL,
        Batching.CYCLIC,
        Batching.SHUFFLED,
        Batching.WITHOUT_REPLACEMENT,
        Batching.POISSON,
        Relation.REPLACE_ONE,
        Relation.ZERO_OUT,
        Divisor.NOMINAL,
        Losses.FIXED,
    }
    assert Release.ALL_ITERATES in NEW


EACH_NEW = pytest.mark.parametrize("choice", NEW, ids=lambda choice: choice.value)


@EACH_NEW
def test_bounds_refuse_what_they_do_not_name(choice: Choice) -> None:
    m = mechanism(choice)
    for id, entry in bounds.CATALOGUE.items():
        if choice in entry.covers:
            continue
        assert entry.failures(m)[0] == message(choice)
        with pytest.raises(bounds.NotApplicable, match=f"^{id} {message(choice)}$"):
            bounds.evaluate(id, m)


@EACH_NEW
def test_constructions_refuse_what_they_do_not_name(choice: Choice) -> None:
    m = mechanism(choice)
    for kind, cls in all_kinds().items():
        fields = {f.name: 1 for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        if "mechanism" not in fields or choice in getattr(cls, "covers", ()):
            continue
        if choice is Losses.CHANGING and issubclass(cls, Construction):
            continue  # a pair of fixed losses is one of changing losses
        with pytest.raises(ValueError, match=f"^{kind} {message(choice)}$"):
            cls(**{**fields, "mechanism": m})


def test_every_kind_of_process_is_asked() -> None:
    assert all(issubclass(kind, Construction) for kind in kinds().values())


@EACH_NEW
def test_processes_search_and_judge_refuse(choice: Choice) -> None:
    m = mechanism(choice)
    if choice in SAMPLERS or isinstance(choice, (Relation, Losses)):
        batched_process(m, 0.0, lambda eta, holds, count: Affine())
        assert list(suggested_members(m))
        return
    with pytest.raises(ValueError, match=f"^this process {message(choice)}$"):
        batched_process(m, 0.0, lambda eta, holds, count: Affine())
    assert all(choice in getattr(pair, "covers", ()) for pair in suggested_members(m))
    with pytest.raises(ValueError, match=f"^the search {message(choice)}$"):
        search.worst_case(m, delta=1e-5, budget=1.0, seed=0, evaluations=3)


def test_an_entry_may_name_a_choice() -> None:
    entry = bounds.CATALOGUE["survey.rdp_composition"]
    open_minded = dataclasses.replace(entry, covers=(Release.ALL_ITERATES,))
    failures = open_minded.failures(mechanism(Release.ALL_ITERATES))
    assert not [f for f in failures if f.startswith("needs another")]


def test_a_construction_of_a_user_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(Construction):
        citation = "mine"

        def processes(self) -> Any: ...

    with pytest.raises(Inadmissible, match=r"^Mine needs another release"):
        Mine(mechanism(Release.ALL_ITERATES))
