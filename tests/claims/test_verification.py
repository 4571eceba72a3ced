"""Refutations are verified in a process of their own; a judge that errs ends as an error."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation, Release, exact
from audit.claims import verification
from audit.claims.claim import Claim, Samples
from audit.claims.judge import judge
from audit.claims.judgement import Judgement
from audit.claims.statements import Statement, statement_of
from audit.claims.verification import Outcome, Verification, verify, with_verification
from audit.constructions import BiasedWalk, TwoSidedWalk
from audit.curves import Order
from audit.curves.quantities import RenyiAtOrder
from audit.mechanism import Composition
from audit.numerics import panels
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


def confirmed(claim: Claim) -> Judgement:
    wrong = judge(claim)
    assert wrong.verdict is Verdict.REFUTED, wrong.message
    return with_verification(wrong)


def test_a_wrong_drift_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: the record pushes 5 % farther than its Lipschitz constant allows."""
    law = exact.curve(TwoSidedWalk(replace(MECHANISM, lipschitz=1.05)))
    truth = exact.curve(PAIR).epsilon_bracket(1e-3)[1]
    monkeypatch.setattr(exact, "curve", lambda *_, **__: law)
    statement = statement_of(epsilon=1.01 * truth, delta=1e-3)
    found = confirmed(Claim(id="true", mechanism=MECHANISM, statement=statement, pair=PAIR))
    assert found.verdict is Verdict.ERROR
    assert "not refuted by this witness" in found.message


def test_one_node_fewer_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: one node in every panel is left out."""

    def fewer(order: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = np.polynomial.legendre.leggauss(order)
        weights[order // 2] = 0.0
        return nodes, weights

    law = exact.curve(PAIR)
    truths = {
        "epsilon": statement_of(epsilon=law.epsilon_bracket(1e-3)[1] + 1e-6, delta=1e-3),
        "renyi": statement_of(renyi={2.0: law.renyi_bracket(2.0)[1] + 1e-6}),
        "power": statement_of(tradeoff={0.1: 1 - law.power_bracket(0.1, Order.FORWARD)[1] - 1e-6}),
    }
    monkeypatch.setattr(panels, "gauss_legendre", fewer)
    found = [
        judge(Claim(id=name, mechanism=MECHANISM, statement=statement, pair=PAIR))
        for name, statement in truths.items()
    ]
    # brackets notice it before the verifier does
    assert {with_verification(one).verdict for one in found} == {Verdict.ERROR}


def test_a_swapped_order_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: a number of one order is taken for that of the other."""
    m = replace(
        MECHANISM,
        batch_size=1,
        batching=Batching.POISSON,
        relation=Relation.ZERO_OUT,
        noise_std=2.0,
    )
    pair = BiasedWalk(m)
    law = exact.curve(pair)
    low, high = sorted((law.renyi_bracket(8.0, order)[0], order) for order in Order)
    bracket = RenyiAtOrder.bracket
    monkeypatch.setattr(
        RenyiAtOrder, "bracket", lambda self, law, order: bracket(self, law, order.other)
    )
    swapped = {order: law.renyi_brackets(np.array([8.0]), order.other) for order in Order}
    monkeypatch.setattr(RenyiAtOrder, "brackets", lambda law, places, order: swapped[order])
    claimed = (low[0] + high[0]) / 2
    claim = Claim(id="a", mechanism=m, statement=statement_of(renyi={8.0: claimed}), pair=pair)
    found = confirmed(claim)
    assert found.verdict is Verdict.ERROR
    assert "not refuted by this witness" in found.message


@pytest.mark.parametrize("size", [400, 30_000])
@pytest.mark.parametrize("claimed", [{"epsilon": 0.5, "delta": 1e-3}, {"mu": 0.6}])
def test_counts_are_verified_and_the_draws_taken_on_trust(
    size: int, claimed: dict[str, float]
) -> None:
    """By ranks that are fixed in advance, and by a pilot split."""
    rng = np.random.default_rng(3)
    x, y = (tuple(rng.normal(mean, 1.0, size).tolist()) for mean in (1.5, 0.0))
    claim = Claim(
        id="scores",
        mechanism=None,
        statement=statement_of(**claimed),
        samples=Samples(x=x, x_prime=y),
    )
    found = with_verification(judge(claim))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "verified but for the draws")
    assert found.witness is not None
    content = json.loads(found.witness.to_json())
    outcome = audit_verify.verify(content)
    assert outcome.trusted[0].startswith("the counts")
    assert found.certified is not None
    close = audit_verify.verify({**content, "claimed": 0.95 * found.certified})
    assert close.answer is audit_verify.Answer.REFUTED, close
    above = audit_verify.verify({**content, "claimed": 1.05 * found.certified})
    assert above.answer is audit_verify.Answer.NOT_REFUTED, above


def test_a_bound_from_several_events_is_not_verified() -> None:
    rng = np.random.default_rng(3)
    x, y = (tuple(rng.normal(mean, 1.0, 400).tolist()) for mean in (1.5, 0.0))
    claim = Claim(
        id="scores", mechanism=None, statement=statement_of(renyi={2.0: 0.05}),
        samples=Samples(x=x, x_prime=y),
    )  # fmt: skip
    found = with_verification(judge(claim))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified")
    assert found.message.endswith("not verified: its bound combines several events")


def test_compositions_are_verified() -> None:
    """Two runs of 10,000 steps at different rates that release all iterates."""
    run = NoisySGD(
        steps=5000, dataset_size=1000, batch_size=1, step_size=1.0, noise_std=1.0, clip_norm=1.0,
        convex=False, batching=Batching.POISSON, relation=Relation.ADD_REMOVE,
        release=Release.ALL_ITERATES,
    )  # fmt: skip
    both = Composition((run, replace(run, batch_size=2, noise_std=0.6)))
    low = exact.dominating_curve(both).epsilon_bracket(1e-5)[0]
    claim = Claim(id="a", mechanism=both, statement=statement_of(epsilon=0.99 * low, delta=1e-5))
    found = with_verification(judge(claim))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "verified"), found.message
    assert found.witness is not None
    content = json.loads(found.witness.to_json())
    truth = audit_verify.verify({**content, "claimed": 1.001 * low})
    assert truth.answer is audit_verify.Answer.NOT_REFUTED


def test_a_refutation_without_a_witness_says_so() -> None:
    statement = statement_of(not_private={"epsilon": 9.0, "delta": 1e-3})
    found = with_verification(judged(statement))
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified")
    assert found.message.endswith("not verified: there is no witness")


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


def test_the_verifier_shares_no_line_with_the_package() -> None:
    """Lines of 40 characters and more, but for imports; shorter ones are Python's own phrases."""

    def lines(folder: Path) -> set[str]:
        text = "\n".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
        every = map(str.strip, text.splitlines())
        return {line for line in every if len(line) >= 40 and "import" not in line}

    own = lines(ROOT / "extras" / "verify" / "audit_verify")
    assert len(own) > 500
    assert not own & lines(ROOT / "audit")


@pytest.mark.slow
@pytest.mark.parametrize(("composed", "count"), [(False, 5), (True, 3)])
def test_random_lies_are_verified_and_truths_are_not(composed: bool, count: int) -> None:
    """A few of the claims that ``extras/verify/tests/lies.py`` verifies by the hundred."""
    file = ROOT / "extras" / "verify" / "tests" / "lies.py"
    spec = importlib.util.spec_from_file_location("lies", file)
    assert spec is not None
    assert spec.loader is not None
    lies = importlib.util.module_from_spec(spec)
    sys.modules["lies"] = lies  # its dataclasses look for their module
    spec.loader.exec_module(lies)
    found = list(lies.lies(count, 7, composed=composed))
    assert len(found) == count
    for lie in found:
        assert lie.witness, lie.subject
        assert audit_verify.verify(lie.witness).answer is audit_verify.Answer.REFUTED, lie.subject
        if lie.truth is not None:
            truth = {**lie.witness, "claimed": lie.truth, "slack": 0.0}
            told = audit_verify.verify(truth)
            assert told.answer is audit_verify.Answer.NOT_REFUTED, (lie.subject, told)
