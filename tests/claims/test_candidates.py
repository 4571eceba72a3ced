"""Numbers of many pairs at many places: what is left out is never the largest; pairs to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit import Batching
from audit.claims import candidates as room
from audit.claims.candidates import (
    Candidates,
    Deadline,
    KnownPair,
    KnownPairs,
    LawTooSlow,
    candidates_for,
)
from audit.claims.claim import Claim, Search, statement_of
from audit.claims.sources import InvalidClaim
from audit.constructions import TwoSidedWalk
from audit.constructions.explicit import Repeated
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.curves.quantities import EpsilonAtDelta, Mu, RenyiAtOrder
from tests.bounds.one_pass import one_pass
from tests.claims.written import full

CYCLIC = full(steps=6, dataset_size=6, batch_size=2, noise_std=0.5, batching=Batching.CYCLIC)
DELTAS = tuple(np.logspace(-9, -1, 100).tolist())
ORDERS = tuple(np.linspace(1.5, 30, 100).tolist())


class Law:
    """A law whose numbers are linear in -log(delta) and in the Renyi order, with wide brackets."""

    many_at_once = True

    def __init__(self, start: float, slope: float, worse: float, width: float) -> None:
        self.start, self.slope, self.worse, self.width = start, slope, worse, width
        self.broken: float | None = None
        self.unrefined = self

    def _low(self, at: Any, order: Order) -> Any:
        return self.start + self.slope * at + self.worse * (order is Order.REVERSE)

    def _brackets(self, at: Any, order: Order) -> Any:
        low = self._low(at, order)
        return low, low + self.width

    def epsilon_bracket(self, delta: Any, order: Order) -> Any:
        if self.broken is not None and np.ndim(delta) and self.broken in delta:
            raise BracketError("of ours")
        return self._brackets(-np.log(delta), order)

    def delta_bracket(self, epsilon: Any, order: Order) -> Any:
        above = epsilon - self._brackets(0.0, order)[1]
        most = np.exp(-np.clip(above / max(self.slope, 1e-9), 0.0, 700.0))
        return most, most

    def renyi_bracket(self, alphas: Any, order: Order) -> Any:
        return self._brackets(alphas, order)

    def mu_bracket(self, order: Order) -> Any:
        low, high = self._brackets(0.0, order)
        return SimpleNamespace(low=low, high=high)


def known(law: Law) -> Any:
    found = KnownPair(law, lambda pair: None)  # type: ignore[arg-type]
    found._law = law  # type: ignore[assignment]
    return found


def candidates(laws: Sequence[Law], quantities: Sequence[Any]) -> tuple[list[Any], Candidates]:
    pairs, every = [known(law) for law in laws], KnownPairs()
    tried = Candidates(every, CYCLIC, None)
    tried.pairs = tuple(pairs)
    every.expected[CYCLIC].update(quantities)
    return pairs, tried


def bracket(tried: Candidates, pair: Any, quantity: Any, order: Order) -> Any:
    return tried.bracket(pair, quantity, order, Deadline(math.inf), math.inf)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("start", "slope", "width"), [(10.0, 1.0, 0.7), (10.0, 1.0, 1e-3), (1.0, 0.01, 0.7)]
)
@pytest.mark.parametrize(
    "quantities",
    [[EpsilonAtDelta(at) for at in DELTAS], [RenyiAtOrder(at) for at in ORDERS]],
    ids=["epsilon", "renyi"],
)
def test_the_largest_number_at_each_place_is_always_computed(
    quantities: list[Any], start: float, slope: float, width: float, seed: int
) -> None:
    """Pairs are skipped only where others have as much, by the lower ends of their brackets."""
    random = np.random.default_rng(seed)
    laws = [
        Law(start * a, slope * b, start / 2 * c, width * d)
        for a, b, c, d in random.random((5, 4)).tolist()
    ]
    pairs, tried = candidates(laws, quantities)
    first = quantities[int(random.integers(100))]  # asked before those beside it
    skipped = 0
    for quantity in (first, *quantities):
        found = [bracket(tried, pair, quantity, order) for pair in pairs for order in Order]
        skipped += found.count(None)
        at = -math.log(quantity.at) if isinstance(quantity, EpsilonAtDelta) else quantity.at
        largest = max(law._low(at, order) for law in laws for order in Order)
        assert max(one[0] for one in found if one is not None) == pytest.approx(largest, rel=2e-9)
        assert all(one[1] >= one[0] for one in found if one is not None)
    assert skipped > 10
    excluded = [bracket(tried, pair, first, order) is None for pair in pairs for order in Order]
    for pair in pairs:
        pair.law = None  # is not needed again
    again = [bracket(tried, pair, first, order) is None for pair in pairs for order in Order]
    assert again == excluded
    widths = [bracket(tried, p, q, Order.FORWARD) for p in pairs[:1] for q in quantities]
    assert {round(high - low, 9) for low, high in widths} == {round(laws[0].width, 9)}


def test_a_pair_is_computed_up_to_the_place_where_another_passes_it() -> None:
    quantities = [EpsilonAtDelta(at) for at in DELTAS]
    for level in np.linspace(3.0, 18.0, 30).tolist():
        (steep, flat), tried = candidates(
            [Law(0.0, 1.0, 0.0, 1e-6), Law(level, 0.0, 0.0, 1e-6)], quantities
        )
        for quantity in quantities:
            bracket(tried, steep, quantity, Order.FORWARD)
            found = bracket(tried, flat, quantity, Order.FORWARD)
            assert found is not None or -math.log(quantity.at) > level - 1e-5


def test_a_searched_pair_leaves_the_candidates_their_numbers() -> None:
    """A search depends on its claim, but what candidates certify must not."""
    quantity = EpsilonAtDelta(1e-5)
    (pair,), tried = candidates([Law(1.0, 0.0, 0.0, 0.1)], [quantity])
    searched = known(Law(9.0, 0.0, 0.0, 0.1))
    assert bracket(tried, searched, quantity, Order.FORWARD)[0] == 9.0
    assert bracket(tried, pair, quantity, Order.FORWARD)[0] == 1.0


def test_a_number_is_computed_where_no_other_pair_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of laws that are asked at one place at a time, also where the number is 0."""
    monkeypatch.setattr(Law, "many_at_once", False)
    near, far = EpsilonAtDelta(0.5), EpsilonAtDelta(1e-5)
    law = Law(0.0, 1.0, 0.0, 0.0)
    law._brackets = lambda at, order: (0.0 * at, 0.0 * at)  # type: ignore[method-assign]
    law.delta_bracket = lambda epsilon, order: (0.0, 0.1 + 0.0 * epsilon)  # type: ignore[method-assign]
    (pair,), tried = candidates([law], [far, near])
    assert bracket(tried, pair, far, Order.FORWARD) == (0.0, 0.0)
    assert bracket(tried, pair, near, Order.FORWARD) == (0.0, 0.0)


def test_numbers_without_a_place_are_of_their_order() -> None:
    (pair,), tried = candidates([Law(1.0, 0.0, 2.0, 0.5)], [])
    assert bracket(tried, pair, Mu(), Order.FORWARD) == (1.0, 1.5)
    assert bracket(tried, pair, Mu(), Order.REVERSE) == (3.0, 3.5)


def test_a_broken_bracket_elsewhere_leaves_a_number_its_own() -> None:
    law = Law(1.0, 1.0, 0.0, 0.5)
    law.broken = DELTAS[0]
    (pair,), tried = candidates([law], [EpsilonAtDelta(at) for at in DELTAS])
    low = 1.0 - math.log(DELTAS[50])
    found = bracket(tried, pair, EpsilonAtDelta(DELTAS[50]), Order.FORWARD)
    assert found == pytest.approx((low, low + 0.5))


def test_a_law_that_was_given_up_is_not_begun_again_for_less_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[float] = []

    def slow(pair: object, progress: Callable[[int, int], None]) -> None:
        begun.append(clock[0])
        clock[0] += 5.0
        progress(1, 2)

    clock = [100.0]
    monkeypatch.setattr(room.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(room.exact, "curve", slow)
    pair = KnownPairs().one(TwoSidedWalk(CYCLIC))
    for until, times in ((102.0, 1), (106.0, 1), (108.5, 2)):
        with pytest.raises(LawTooSlow):
            pair.law(until)
        assert len(begun) == times


def test_the_laws_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def curve(pair: str, progress: object) -> Law:
        computed.append(pair)
        return Law(0.0, 0.0, 0.0, 0.0)

    monkeypatch.setattr(room, "_MAX_LAWS", 2)
    monkeypatch.setattr(room.exact, "curve", curve)
    known: KnownPairs = KnownPairs()
    for name in ("a", "b", "a", "c", "a", "b"):
        known.one(name).law()  # type: ignore[arg-type]
    assert computed == ["a", "b", "c", "b"]


def test_records_are_in_the_last_batch_that_is_allowed() -> None:
    pairs = KnownPairs()
    bound, pair = "fmtt18.corollary_31", TwoSidedWalk(CYCLIC)
    statement = statement_of(bound=bound, orders=[2.0], options={"public": 2})
    claim = Claim(id="x", mechanism=CYCLIC, statement=statement, pair=pair)
    (one,) = candidates_for(claim, pairs).pairs
    assert getattr(one.pair, "position", None) == 1
    for batches in (range(2), range(1, 3), range(1)):
        found = pairs.of(CYCLIC, batches).pairs
        assert found
        positions = {getattr(one.pair, "position", None) for one in found}
        assert positions <= set(batches)
        assert batches[-1] in positions


def test_quick_pairs_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = known(Law(0.0, 0.0, 0.0, 0.0))
    ranks = {0.0: 0, 0.049: 0, 0.05: 0, 0.06: 1, 0.1: 1, 0.2: 2, 0.21: 3, math.inf: math.inf}
    for seconds, rank in ranks.items():
        pair.seconds = seconds
        assert pair.rank == rank
    monkeypatch.setattr(KnownPair, "rank", property(lambda one: len(one.pair.name)))
    found = [one.rank for one in KnownPairs().of(CYCLIC).pairs]
    assert found == sorted(found)
    assert len(set(found)) > 1


def test_pairs_that_no_witness_describes_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {type(one.pair) for one in KnownPairs().of(CYCLIC).pairs}
    assert TwoSidedWalk in every
    monkeypatch.setattr(room, "describable", lambda pair: not isinstance(pair, TwoSidedWalk))
    assert {type(one.pair) for one in KnownPairs().of(CYCLIC).pairs} == every - {TwoSidedWalk}


def test_a_bound_on_other_runs_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pair that a search finds is of the mechanism's own run."""
    found = TwoSidedWalk(one_pass(3))
    monkeypatch.setattr(room, "_found", lambda *_, **__: found)
    asked = Search(evaluations=1)

    def searched(**options: int) -> object:
        statement = statement_of(bound="fmtt18.theorem_1", orders=[2.0], options=options)
        claim = Claim(id="x", mechanism=found.mechanism, statement=statement, search=asked)
        return KnownPairs().of(found.mechanism).searched(claim, RenyiAtOrder(2.0))

    assert searched() is not None
    assert searched(distance=3) is None


def test_a_pair_of_several_runs_needs_a_bound_on_as_many() -> None:
    step = replace(CYCLIC, steps=1, dataset_size=1, batch_size=1, batching=Batching.FULL)
    claim = Claim(
        id="x", mechanism=step, statement=statement_of(mu=1.0), pair=Repeated(step, times=2)
    )
    with pytest.raises(InvalidClaim, match="needs a bound on at least 2 tasks, got tasks=1"):
        candidates_for(claim, KnownPairs())
    once = Repeated(step, times=1)
    assert candidates_for(replace(claim, pair=once), KnownPairs()).pairs[0].pair == once
