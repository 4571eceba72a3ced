"""How claims share an error, with judgements that are made up: no samples are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from audit.claims import judge as judging
from audit.claims.claim import Budget, Claim, Samples, statement_of
from audit.claims.error_shares import ErrorShare, equal_share, step_down
from audit.claims.judgement import Evidence, Judgement, Verdict

SAMPLED = Claim(
    id="sampled",
    mechanism=None,
    statement=statement_of(epsilon=1.0, delta=1e-2),
    budget=Budget(trials=1),
)
LEAKS = Claim(
    id="leaks",
    mechanism=None,
    statement=statement_of(not_private={"epsilon": 1.0, "delta": 1e-2}),
    budget=Budget(trials=1),
)
EXACT = Claim(id="exact", mechanism=None, statement=SAMPLED.statement)
RECORDED = Claim(
    id="recorded",
    mechanism=None,
    statement=SAMPLED.statement,
    samples=Samples(x=(1.0, 2.0), x_prime=(0.0, 1.0)),
)


def judgement(claim: Claim, verdict: Verdict, error: float, exact: bool = False) -> Judgement:
    evidence = Evidence.EXACT if exact else Evidence.SAMPLED
    return Judgement(claim=claim, verdict=verdict, error=error, evidence=evidence, seconds=1.0)


def test_claims_that_may_be_sampled_share_equally() -> None:
    assert equal_share([SAMPLED, EXACT, RECORDED], 0.1) == ErrorShare(0.05, 0.05)
    assert equal_share([EXACT], 0.1) == ErrorShare(0.1, 0.1)
    assert ErrorShare(0.1, 0.4).divided(2) == ErrorShare(0.05, 0.2)
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
    false = Claim(id="false", mechanism=None, statement=SAMPLED.statement, budget=Budget(trials=1))
    found = judging.judge_all([false, SAMPLED], error=0.06)
    assert [one.verdict for one in found] == [Verdict.REFUTED] * 2
    equal = ErrorShare(0.03, 0.03)
    assert spent == [("false", equal), ("sampled", equal), ("sampled", ErrorShare(0.06, 0.03))]
