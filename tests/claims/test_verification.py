"""Refutations are verified in a process of their own; a judge that errs ends as an error."""

from __future__ import annotations

import importlib.util
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation, exact
from audit.claims import verification
from audit.claims.claim import Claim
from audit.claims.judge import judge
from audit.claims.judgement import Judgement
from audit.claims.statements import Statement, statement_of
from audit.claims.verification import Outcome, Verification, verify, with_verification
from audit.constructions import Construction, TwoSidedWalk
from audit.constructions.registry import kinds
from audit.curves import Order
from audit.results import Verdict

pytest.importorskip("flint")

import audit_verify

ROOT = Path(__file__).resolve().parents[2]
MECHANISM = NoisySGD(
    steps=5, dataset_size=2, batch_size=2, step_size=0.5, noise_std=1.0, lipschitz=1.0,
    smoothness=1.0, diameter=2.0,
)  # fmt: skip
PAIR = TwoSidedWalk(MECHANISM)


def judged(statement: Statement, mechanism: NoisySGD = MECHANISM) -> Judgement:
    return judge(Claim(id="a.claim", mechanism=mechanism, statement=statement))


def test_a_refutation_is_verified() -> None:
    found = with_verification(judged(statement_of(epsilon=0.5, delta=1e-3)))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "verified")


def test_other_verdicts_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "verify", None)
    consistent = judged(statement_of(epsilon=50.0, delta=1e-3))
    assert with_verification(consistent) == consistent


def test_a_wrong_law_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: the law of a walk with less noise is taken for that of the pair."""
    law = exact.curve(TwoSidedWalk(replace(MECHANISM, noise_std=0.95)))
    truth = exact.curve(PAIR).epsilon_bracket(1e-3)[1]
    monkeypatch.setattr(exact, "curve", lambda *_, **__: law)
    claim = Claim(
        id="true",
        mechanism=MECHANISM,
        statement=statement_of(epsilon=1.01 * truth, delta=1e-3),
        pair=PAIR,
    )
    wrong = judge(claim)
    assert wrong.verdict is Verdict.REFUTED
    found = with_verification(wrong)
    assert found.verdict is Verdict.ERROR
    assert found.message.startswith("audit-verify does not confirm the refutation: not refuted by")


def test_a_slow_verification_ends_at_its_limit() -> None:
    found = with_verification(judged(statement_of(epsilon=0.5, delta=1e-3)), seconds=0.01)
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified in time")


def test_without_the_verifier_the_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = with_verification(judged(statement_of(epsilon=0.5, delta=1e-3)))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified")
    assert found.witness is not None
    assert verify(found.witness).line == "not verified: audit-verify is not installed"


def test_a_witness_that_was_tampered_with_is_contradicted() -> None:
    witness = judged(statement_of(epsilon=0.5, delta=1e-3)).witness
    assert witness is not None
    found = verify({**json.loads(witness.to_json()), "at": 2.0})
    assert found == Verification(
        Outcome.CONTRADICTED, "this is not a witness: at must be in [0, 1) for a delta, got 2.0"
    )


def test_a_claim_too_close_to_the_certified_number_is_not_verified() -> None:
    low = exact.curve(PAIR).renyi_bracket(2.0, Order.FORWARD)[0]
    claim = Claim(
        id="close",
        mechanism=MECHANISM,
        statement=statement_of(renyi={2.0: low * (1 - 1e-6)}),
        pair=PAIR,
    )
    found = with_verification(judge(claim))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified")


def mechanisms() -> list[NoisySGD]:
    found = []
    for batching, relation, diameter in itertools.product(Batching, Relation, (None, 2.0)):
        truncated = batching is Batching.TRUNCATED_POISSON
        found.append(
            NoisySGD(
                steps=4, dataset_size=4, batch_size=4 if batching is Batching.FULL else 2,
                step_size=0.5, noise_std=0.7, lipschitz=1.0, smoothness=1.0, diameter=diameter,
                batching=batching, relation=relation, max_batch_size=3 if truncated else None,
            )
        )  # fmt: skip
    return found


def numbers(pair: Construction, rng: np.random.Generator) -> list[tuple[object, float]]:
    """Return statements just below the certified numbers of a pair, and their certified values."""
    law = exact.curve(pair)
    order = Order.FORWARD if rng.random() < 0.5 else Order.REVERSE
    below = 1 - 10 ** rng.uniform(-3, -0.3)
    epsilon = law.epsilon_bracket(1e-3, order)[0]
    divergence = law.renyi_bracket(4.0, order)[0]
    power = law.power_bracket(0.1, order)[0]
    mu = law.mu_bracket(order).low
    distance = law.delta_bracket(0.0, order)[0]
    return [
        (statement_of(total_variation=below * distance), distance),
        (statement_of(epsilon=below * epsilon, delta=1e-3), epsilon),
        (statement_of(renyi={4.0: below * divergence}), divergence),
        (statement_of(tradeoff={0.1: 1 - (0.1 + below * (power - 0.1))}), power - 0.1),
        (statement_of(mu=below * mu), mu),
    ]


@pytest.mark.slow
# a lie about reshuffled batches takes a minute and more
@pytest.mark.parametrize("batching", [b for b in Batching if b is not Batching.RESHUFFLED])
def test_random_lies_over_all_constructions_are_verified(batching: Batching) -> None:
    """Claims .1 % to 50 % below a certified number are refuted; 5 % above it they are not."""
    rng = np.random.default_rng(list(Batching).index(batching))
    count = 0
    for m in mechanisms():
        if m.batching is not batching:
            continue
        for kind in kinds().values():
            pair = next(iter(kind.random(m, rng)), None)
            if pair is None or count == 2:  # some seconds each
                continue
            statement, certified = numbers(pair, rng)[rng.integers(5)]
            if certified < 1e-3:
                continue
            claim = Claim(id="lie", mechanism=m, statement=statement, pair=pair)  # type: ignore[arg-type]
            witness = judge(claim).witness
            assert witness is not None, (pair, statement)
            content = json.loads(witness.to_json())
            assert content["partition"] is not None, (pair, statement)
            found = audit_verify.verify(content)
            if found.answer is audit_verify.Answer.TOO_LONG:  # it says so
                continue
            assert found.answer is audit_verify.Answer.REFUTED, (pair, statement, found)
            high = witness.bracket[1]
            if witness.quantity != "Renyi divergence" and high is not None:
                truth = audit_verify.verify({**content, "claimed": 1.05 * high})
                assert truth.answer is audit_verify.Answer.NOT_REFUTED, (pair, statement, truth)
            count += 1
    assert count == 2


def test_the_verifier_shares_no_line_with_the_package() -> None:
    """Lines of 40 characters and more, but for imports; shorter ones are Python's own phrases."""

    def lines(folder: Path) -> set[str]:
        text = "\n".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
        every = map(str.strip, text.splitlines())
        return {line for line in every if len(line) >= 40 and "import" not in line}

    own = lines(ROOT / "extras" / "verify" / "audit_verify")
    assert len(own) > 500
    assert not own & lines(ROOT / "audit")
