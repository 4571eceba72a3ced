"""Suggested and random members: admissible, strongest first, and yielded by every construction."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from audit import Batching, Losses, NoisySGD, Relation, Release, exact
from audit.claims.claim import Budget, Claim, Search, statement_of
from audit.claims.judge import judge
from audit.constructions import (
    Construction,
    DriftedWalk,
    HolderPair,
    Inadmissible,
    LatticeWalk,
    PiecewiseLinear,
    Process,
    TwoSidedWalk,
    all_kinds,
    construction,
    kinds,
    registry,
    suggested_members,
)
from audit.constructions.base import PositionedPair
from audit.results import Verdict
from audit.search import check_admissible, worst_case
from tests.bounds.grid import any_mechanism, random_mechanism, random_members, random_pair
from tests.constructions.test_gradients import HOLDER
from tests.constructions.test_lattice import mechanism as lattice_mechanism
from tests.mechanisms import noisy_sgd
from tests.slow import slow

FULL = noisy_sgd(
    steps=6, dataset_size=6, step_size=0.5, noise_std=0.3, smoothness=1.5, diameter=2.0
)
LATTICE = lattice_mechanism(
    steps=100, dataset_size=6400, batch_size=64, step_size=1.0, noise_std=1 / 128
)


def members(kind: type[Construction], m: NoisySGD, random: np.random.Generator) -> Iterator[Any]:
    yield from itertools.islice(kind.suggested(m), 2)
    yield from itertools.islice(kind.random(m, random), 1)


def silent(known: dict[str, type[Any]]) -> set[str]:
    """The kinds that yield no suggested or no random members, and do not say why."""
    random = np.random.default_rng(5)
    mechanisms = [LATTICE, *(any_mechanism(random, number) for number in range(60))]
    found = set()
    for name, kind in known.items():
        if kind.unsuggested:
            found |= {name} & {k for m in mechanisms for k in kinds() if next(kind.suggested(m), 0)}
        elif not any(next(kind.suggested(m), None) for m in mechanisms):
            found.add(name)
        if issubclass(kind, Construction):
            some = (next(kind.random(m, random), None) for m in mechanisms)
            found |= set() if any(some) else {name}
    return found


def test_every_construction_yields_members_or_says_why() -> None:
    determined = {"AllIterates", "ExponentialMechanism"}  # by mechanisms that release otherwise
    assert silent({n: k for n, k in all_kinds().items() if n not in determined}) == set()
    for release, name in zip(
        (Release.ALL_ITERATES, Release.EXPONENTIAL_MECHANISM), sorted(determined), strict=True
    ):
        m = dataclasses.replace(FULL, release=release)
        assert [pair.name for pair in suggested_members(m)] == [name]


def test_a_construction_that_yields_none_is_found() -> None:
    class Silent(DriftedWalk):
        @classmethod
        def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
            yield from ()

    assert silent({"Silent": Silent}) == {"Silent"}


@pytest.mark.parametrize("seed", [0, slow(1)])
def test_members_are_admissible(seed: int) -> None:
    random = np.random.default_rng(seed)
    for m in [LATTICE, *(any_mechanism(random, 16 * seed + k) for k in range(16))]:
        for kind in kinds().values():
            for member in members(kind, m, random):
                check_admissible(member)
                assert member.mechanism == m


def test_drifts_against_the_record_come_first() -> None:
    """With the record the others' drift cancels nothing: 1 is worth nothing."""
    walks = [walk.drift for walk in DriftedWalk.suggested(LATTICE) if walk.drift]
    assert walks == [-1.0, 1.0, -0.25, 0.25, -0.5, 0.5]
    short = dataclasses.replace(LATTICE, steps=10, noise_std=1 / 16)
    against, along = (exact.curve(DriftedWalk(short, drift)).epsilon(1e-6) for drift in walks[:2])
    assert against > 0.075
    assert along == 0


def test_drifts_of_both_laws_alike_are_not_suggested() -> None:
    """On the whole line, batches that are fixed make a drift a translation."""
    assert not list(DriftedWalk.suggested(dataclasses.replace(FULL, diameter=None)))
    stopped = dataclasses.replace(FULL, diameter=None, release=Release.RANDOM_STOP)
    assert list(DriftedWalk.suggested(stopped))


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({}, 7.2),
        ({"relation": Relation.REPLACE_ONE, "steps": 10}, 5.1),
        slow({"relation": Relation.REPLACE_ONE, "batching": Batching.CYCLIC}, 23.7),
    ],
)
def test_the_first_lattices_are_strong(changes: dict[str, Any], least: float) -> None:
    m = dataclasses.replace(LATTICE, **changes)
    first = itertools.islice(LatticeWalk.suggested(m), 2)
    assert max(exact.curve(pair).epsilon_bracket(1e-6)[0] for pair in first) > least


def test_the_judge_refutes_a_claim_by_a_lattice() -> None:
    """Nothing else that is suggested certifies as much."""
    statement, search = statement_of(epsilon=5.5, delta=1e-6), Search(evaluations=0)
    claim = Claim(id="a", mechanism=LATTICE, statement=statement, search=search)
    judged = judge(dataclasses.replace(claim, budget=Budget(seconds=100.0)))
    assert judged.verdict is Verdict.REFUTED
    assert (judged.pair or "").startswith("LatticeWalk")


def test_the_kinds_take_turns() -> None:
    names = [pair.name for pair in suggested_members(FULL)]
    assert names[:3] == ["TwoSidedWalk", "DriftedWalk", "ResetWalk"]
    assert len(names) > 10


def test_pairs_that_no_witness_describes_are_not_tried() -> None:
    assert list(HolderPair.suggested(HOLDER))
    claim = Claim(
        id="a", mechanism=HOLDER, statement=statement_of(epsilon=9.0, delta=1e-6),
        search=Search(evaluations=0),
    )  # fmt: skip
    found = judge(claim)
    assert found.pairs_tried < len(list(suggested_members(HOLDER)))


def test_a_construction_from_outside_is_picked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))

    @construction
    @dataclass(frozen=True)
    class OutsideWalk(Construction):
        """The two-sided walk, from a start that is drawn."""

        start: float = field(
            default=0.0, metadata={"draw": lambda m, rng: float(rng.uniform(-0.5, 0.5))}
        )
        citation: ClassVar[str] = "a test"

        def processes(self) -> tuple[Process, Process]:
            return TwoSidedWalk(self.mechanism, self.start).processes()

    random = np.random.default_rng(1)
    assert OutsideWalk(FULL) in list(suggested_members(FULL))
    assert "OutsideWalk" in {pair.name for pair in random_members(FULL, random)}
    assert "OutsideWalk" in {random_pair(FULL, random).name for _ in range(60)}
    # the judge tries it before other walks, and the search keeps it: none is stronger here
    m = dataclasses.replace(FULL, diameter=None)
    claim = Claim(id="a", mechanism=m, statement=statement_of(epsilon=1.0, delta=1e-6))
    assert judge(claim).pair == "OutsideWalk"
    assert worst_case(m, delta=1e-6, evaluations=1, seed=0).construction.name == "OutsideWalk"
    # none for losses that it does not cover
    stopped = dataclasses.replace(FULL, batching=Batching.RESHUFFLED, batch_size=2)
    assert "OutsideWalk" not in {pair.name for pair in suggested_members(stopped)}


def test_members_of_losses_that_change() -> None:
    m = dataclasses.replace(FULL, losses=Losses.CHANGING)
    assert "ChangingPair" in {pair.name for pair in suggested_members(m)}
    assert "ChangingPair" not in {pair.name for pair in suggested_members(FULL)}


def test_random_members_end_where_none_is_admissible() -> None:
    curved = dataclasses.replace(FULL, strong_convexity=0.5)
    assert list(DriftedWalk.random(curved, np.random.default_rng(0))) == []
    with pytest.raises(Inadmissible, match=r"^DriftedWalk needs strong_convexity = 0"):
        DriftedWalk(curved)


# ------------------- Gradients of all records are as far apart, and as long, as a mechanism allows


def excess(pair):
    """The largest gradient, or distance of two, in multiples of what the mechanism allows.

    Gradients are read off the updates of batches, on a grid; far out where there are no walls. They
    include the regulariser, unless batches have a random size.
    """
    m, bound, found = pair.mechanism, pair.mechanism.gradient_bound or np.inf, []
    x = np.linspace(-1, 1, 201) * (1e4 if m.diameter is None else m.diameter / 2)
    for one, other in zip(*(process.batches for process in pair.processes()), strict=True):
        cycle = [update for count, update in one.others for _ in range(count)]
        own, scale = cycle[one.position], one.step_size / m.batch_size
        if one.empty is None:
            rest = x + (1 - 1 / m.batch_size) * (own(x) - x)
            others = [(x - update(x)) / one.step_size for update in cycle]
        else:
            rest = one.empty(x)
            others = [(rest - own(x)) / scale]
        records = [(rest - b.record(x)) / scale for b in (one, other) if b.record is not None]
        every = np.array(records + others * (m.dataset_size > 1)) + getattr(pair, "cancelled", 0.0)
        compared = every if m.gradient_sensitivity is not None else every[: len(records)]
        found.append(np.ptp(compared, axis=0).max() / m.sensitivity)
        if m.strong_convexity == 0 or m.clip_norm is not None or m.batching.has_random_size:
            found.append(np.abs(every).max() / bound)
        elif m.relation is Relation.ZERO_OUT:  # what is left of the record is the regulariser
            found.append(np.abs(every - every[1]).max() / bound)
        else:  # some regulariser is close enough to all
            found.append(np.ptp(every, axis=0).max() / (2 * bound))
    return max(found)


def changed(pair, random):
    """The pair with some of its numbers and gradients changed; itself if that is refused."""
    changes = {}
    for name in (f.name for f in fields(pair)[1:] if random.random() < 0.4):
        value, factor = getattr(pair, name), float(random.choice([-1, 0.5, 2, random.normal()]))
        if isinstance(value, float):
            changes[name] = factor * (value or 1.0)
        elif isinstance(value, PiecewiseLinear):
            changes[name] = PiecewiseLinear.total([(factor, value)])
    try:
        found = replace(pair, **changes)
        found.processes()
    except ValueError:
        return pair
    return found


def tried():
    """Members of each kind and changed ones, with their excess, of mechanisms with assumptions."""
    random = np.random.default_rng(20240608)
    for number in range(44):
        m = any_mechanism(random, number // 2) if number % 2 else random_mechanism(random)
        for kind in () if m.gradient_sensitivity is m.lipschitz is None else kinds().values():
            for pair in itertools.islice(kind.random(m, random), 1):
                for one in (pair, *(changed(pair, random) for _ in range(2))):
                    yield m, pair.name, excess(one)


def test_gradients_are_within_what_is_assumed(monkeypatch):
    seen = {"gradient_sensitivity": set(), "lipschitz": set()}
    for m, name, found in tried():
        assert found <= 1 + 1e-8
        for assumption, names in seen.items():
            names |= {name} if getattr(m, assumption) is not None else set()
    for names in seen.values():
        assert set(kinds()) - names <= {"LatticeWalk", "HolderPair"}  # of few mechanisms
    for assumption, check in zip(seen, ("_check_sensitivity", "_check_others"), strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(PositionedPair, check, lambda *_: None)
            assert any(getattr(m, assumption) and found > 1.5 for m, _, found in tried())
