"""The order of the evidence, what it spends, and how claims share an error; pairs are stand-ins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from audit import estimation, simulation
from audit.claims import Evidence, Judgement, Verdict
from audit.claims import judge as judging
from audit.claims.candidates import NoExactLaw
from audit.claims.claim import Budget, Claim, Samples, Search, statement_of
from audit.claims.evidence import Collected, ErrorShare, LowerBound, collect
from audit.claims.judge import equal_share, step_down
from audit.constructions import TwoSidedWalk
from audit.curves import Order
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta

from .written import full

AT, ALSO = EpsilonAtDelta(1e-5), EpsilonAtDelta(1e-3)
NUMBERS = (ClaimedNumber(AT, 2.0), ClaimedNumber(ALSO, 1.0))
WALK = TwoSidedWalk(full())
Lows = Mapping[tuple[EpsilonAtDelta, Order], float] | Exception


class Judged(list[Any]):
    """A stand-in for judged scores: one bound a number, without the audit behind them."""

    audit = None


def pair(lows: Lows, seconds: float = 0.0) -> Any:
    """Return a stand-in for a known pair: what it certifies, 0 where it is left out."""
    return SimpleNamespace(pair=WALK, name=WALK.name, seconds=seconds, lows=lows)


def even(low: float) -> Lows:
    return {(AT, order): low for order in Order}


class Pairs:
    """A stand-in for `Candidates`, which notes what it was asked for."""

    def __init__(self, pairs: Sequence[Any], found: Any = None) -> None:
        self.pairs, self.asked = tuple(pairs), list[Any]()
        self.found, self.sought = found, list[EpsilonAtDelta]()

    def searched(self, claim: Claim, quantity: EpsilonAtDelta) -> Any:
        self.sought.append(quantity)
        return self.found

    def bracket(
        self, known: Any, quantity: EpsilonAtDelta, order: Order, *rest: object
    ) -> tuple[float, float]:
        if known not in self.asked:
            self.asked.append(known)
        if isinstance(known.lows, Exception):
            raise known.lows
        return known.lows.get((quantity, order), 0.0), math.inf


def collected(
    pairs: Sequence[Any] | Pairs,
    *,
    trials: int = 0,
    asked: Search | None = None,
    exhaustive: bool = False,
) -> Collected:
    budget = Budget(seconds=1.0, trials=trials, seed=7)
    claim: Any = SimpleNamespace(budget=budget, search=asked)
    found = Collected(claim=claim, numbers=NUMBERS, share=ErrorShare(0.02, 0.01))
    tried: Any = pairs if isinstance(pairs, Pairs) else Pairs(pairs)
    collect(found, tried, exhaustive=exhaustive)
    return found


def test_the_number_and_the_order_that_refute_are_reported() -> None:
    for order in Order:
        refuting = pair({(AT, Order.FORWARD): 1.9, (ALSO, order): 1.1})
        found = collected([refuting, pair(even(0.0))])
        assert found.refuted
        assert (found.closest.number, found.closest.order) == (NUMBERS[1], order)
        assert found.tried == 1


def test_the_closest_bound_is_that_of_all_pairs_or_the_first_refutation() -> None:
    found = collected([pair(even(0.5)), pair(even(1.5)), pair(even(1.0))])
    assert not found.refuted
    assert (found.closest.low, found.tried) == (1.5, 3)
    pairs = [pair(even(2.5)), pair(even(3.0))]
    assert collected(pairs).closest.low == 2.5
    assert collected(pairs, exhaustive=True).closest.low == 3.0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_fault_is_kept_whatever_comes_after_it(place: int) -> None:
    fault = ArithmeticError("of ours")
    pairs = [pair(even(1.0)), pair(even(1.5))]
    pairs.insert(place, pair(fault))
    found = collected(pairs)
    assert found.fault is fault
    assert found.tried == 2


def test_planned_times_end_the_laws_once_there_is_a_bound() -> None:
    pairs = [pair(even(0.5), 0.6), pair(even(1.0), 0.6), pair(even(1.5), 0.6)]
    tried = Pairs(pairs)
    found = collected(tried)
    assert tried.asked == pairs[:1]
    assert (found.tried, found.left) == (1, 2)
    # a pair without a law leaves nothing known, so that the next one is tried
    pairs[0] = pair(NoExactLaw("too coarse"), 0.6)
    tried = Pairs(pairs)
    found = collected(tried)
    assert tried.asked == pairs[:2]
    assert (found.tried, found.left, found.reasons) == (1, 1, ["too coarse"])


def test_a_search_is_against_the_closest_number_and_left_out_without_time() -> None:
    refuting = pair({(ALSO, Order.REVERSE): 1.5})
    tried = Pairs([pair({(ALSO, Order.FORWARD): 0.9, (AT, Order.FORWARD): 1.0})], refuting)
    found = collected(tried)
    assert tried.sought == [ALSO]
    assert (found.refuted, found.closest.order, found.tried) == (True, Order.REVERSE, 2)
    tried = Pairs([], refuting)
    assert collected(tried).refuted
    assert tried.sought == [AT]
    short = Pairs([pair(even(0.5), 0.6), pair(even(0.5), 0.6)], refuting)
    assert not collected(short).refuted
    assert collected(short, asked=Search(evaluations=1)).refuted


def test_that_a_searched_pair_has_no_law_explains_nothing() -> None:
    found = collected(Pairs([pair(even(0.5))], pair(NoExactLaw("too coarse"))))
    assert (found.tried, found.reasons, found.fault) == (1, [], None)


def test_costly_pairs_share_the_error_and_draw_from_streams_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[dict[str, Any]] = []
    asked: list[dict[str, Any]] = []

    def judged(given: None, numbers: Sequence[ClaimedNumber], **options: Any) -> Any:
        asked.append(options)
        few = SimpleNamespace(certified=0.5, order=Order.FORWARD, reason="few")
        return Judged([few] * len(numbers))

    monkeypatch.setattr(simulation, "final_iterates", lambda pair, **options: drawn.append(options))
    monkeypatch.setattr(estimation, "judge_scores", judged)
    costly = [pair(even(0.0), 2.0), pair(even(0.0), math.inf)]
    found = collected(costly, trials=1000)
    assert drawn == [{"trials": 1000, "seed": seed} for seed in (7, 9)]
    shares = {"confidence": 0.99, "planned_confidence": 0.995}
    assert asked == [{**shares, "seed": seed} for seed in (8, 10)]
    assert (found.spent, found.tried, found.inconclusive) == (0.02, 2, "few")
    quick = collected([*costly, pair(even(0.1))], trials=1000)
    assert quick.inconclusive == ""  # the exact law could have refuted


def test_without_trials_the_quickest_costly_pair_says_what_it_would_take() -> None:
    found = collected([pair(even(0.0), 50.0), pair(even(0.0), 20.0)])
    assert (found.left, found.tried, found.bounds) == (2, 0, [])
    assert "would take about 20 s, more than the budget's 1 s" in found.reasons[0]


def test_bounds_are_ordered_by_refutation_and_then_by_ratio() -> None:
    def bound(number: ClaimedNumber, low: float) -> LowerBound:
        return LowerBound(number, low, math.inf, Order.FORWARD, pair({}), Evidence.EXACT)

    slack = ClaimedNumber(AT, 1.0, slack=0.5)
    close, refuting, within = bound(NUMBERS[0], 1.99), bound(NUMBERS[1], 1.01), bound(slack, 1.4)
    assert [one.refutes for one in (close, refuting, within)] == [False, True, False]
    assert replace(collected([]), bounds=[close, within, refuting]).closest is refuting
    assert replace(collected([]), bounds=[close, within]).closest is within


BUDGET, STATEMENT = Budget(trials=1), statement_of(epsilon=1.0, delta=1e-2)
SAMPLED = Claim(id="sampled", mechanism=None, statement=STATEMENT, budget=BUDGET)
EXACT = replace(SAMPLED, id="exact", budget=Budget())
RECORDED = replace(EXACT, id="recorded", samples=Samples(x=(1.0, 2.0), x_prime=(0.0, 1.0)))
NOT_PRIVATE = statement_of(not_private={"epsilon": 1.0, "delta": 1e-2})
LEAKS = replace(SAMPLED, id="leaks", statement=NOT_PRIVATE)


def judgement(claim: Claim, verdict: Verdict, error: float, exact: bool = False) -> Judgement:
    evidence = Evidence.EXACT if exact else Evidence.SAMPLED
    return Judgement(claim=claim, verdict=verdict, error=error, evidence=evidence, seconds=1.0)


def test_claims_that_may_be_sampled_share_equally() -> None:
    assert equal_share([SAMPLED, EXACT, RECORDED], 0.1) == ErrorShare(0.05, 0.05)
    assert equal_share([EXACT], 0.1) == ErrorShare(0.1, 0.1)
    with pytest.raises(ValueError, match=r"error must be in \(0, 1\), got 0"):
        equal_share([], 0)


@pytest.mark.parametrize(
    ("claim", "verdict", "exact", "left"),
    [
        (SAMPLED, Verdict.REFUTED, False, True),
        (SAMPLED, Verdict.CONSISTENT, False, False),
        (SAMPLED, Verdict.REFUTED, True, True),
        # what contradicts the claim that a mechanism leaks less is what proves that it leaks
        (LEAKS, Verdict.CONSISTENT, False, True),
        (LEAKS, Verdict.REFUTED, False, False),
    ],
)
def test_the_share_of_a_contradicted_claim_goes_to_the_others(
    claim: Claim, verdict: Verdict, exact: bool, left: bool
) -> None:
    other = judgement(SAMPLED, Verdict.CONSISTENT, 0.03)
    asked: list[tuple[list[int], float]] = []

    def again(numbers: Sequence[int], larger: float) -> list[Judgement]:
        asked.append((list(numbers), larger))
        return [judgement(SAMPLED, Verdict.REFUTED, larger)]

    first = judgement(claim, verdict, 0.0 if exact else 0.03, exact)
    found = step_down([first, other], 0.06, again)
    assert asked == ([([1], 0.06)] if left else [])
    assert found[0] == first
    assert (found[1].verdict, found[1].error, found[1].seconds) == (
        (Verdict.REFUTED, 0.06, 2.0) if left else (Verdict.CONSISTENT, 0.03, 1.0)
    )


def test_what_stays_unrefuted_keeps_its_first_judgement() -> None:
    first = judgement(SAMPLED, Verdict.REFUTED, 0.03)
    other = judgement(SAMPLED, Verdict.CONSISTENT, 0.03)
    again = [judgement(SAMPLED, Verdict.CONSISTENT, 0.06)]
    assert step_down([first, other], 0.06, lambda *_: again) == (first, other)


def test_tests_of_samples_are_planned_for_the_equal_share(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[str, ErrorShare]] = []

    def judged(claim: Claim, share: ErrorShare, shared: Any) -> Judgement:
        spent.append((claim.id, share))
        refuted = claim.id == "false" or share.spent > 0.03
        return judgement(claim, Verdict.REFUTED if refuted else Verdict.CONSISTENT, share.spent)

    monkeypatch.setattr(judging, "_judge", judged)
    found = judging.judge_all([replace(SAMPLED, id="false"), SAMPLED], error=0.06)
    assert [one.verdict for one in found] == [Verdict.REFUTED] * 2
    equal = ErrorShare(0.03, 0.03)
    assert spent == [("false", equal), ("sampled", equal), ("sampled", ErrorShare(0.06, 0.03))]
