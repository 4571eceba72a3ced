"""Refutations are verified in a process of their own; a judge that errs ends as an error."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import Batching, Relation, exact
from audit.claims import judge as verification
from audit.claims.claim import Samples
from audit.claims.evidence import Judgement
from audit.claims.judge import Outcome, Shared, Verification, verify, with_verification
from audit.constructions import BiasedWalk, TwoSidedWalk
from audit.curves import Order
from audit.curves.quantities import RenyiAtOrder
from audit.mechanism import Composition
from audit.numerics import panels
from audit.results import Verdict
from tests.mechanisms import dp_sgd, noisy_sgd

from . import written

pytest.importorskip("flint")

import audit_verify
from audit_verify import Answer

ROOT = Path(__file__).resolve().parents[2]
MECHANISM = noisy_sgd(steps=5, dataset_size=2, batch_size=2, step_size=0.5, diameter=2.0)
PAIR = TwoSidedWalk(MECHANISM)


def judged(**keys: Any) -> Judgement:
    """Judge with laws of its own, as those of some tests are wrong."""
    return written.judged(**{"mechanism": MECHANISM, "shared": Shared(), **keys})


@pytest.fixture(scope="module")
def refuted() -> Judgement:
    found = judged(epsilon=0.5, delta=1e-3)
    assert found.verdict is Verdict.REFUTED
    return found


def outcome(found: Judgement, **options: float) -> tuple[Verdict, str]:
    found = with_verification(found, **options)
    return found.verdict, found.verification


def test_a_refutation_is_verified(refuted: Judgement) -> None:
    assert outcome(refuted) == (Verdict.REFUTED, "verified")


def test_other_verdicts_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "verify", None)
    consistent = judged(epsilon=50.0, delta=1e-3)
    assert with_verification(consistent) == consistent


def contradicted(**keys: Any) -> None:
    """Check that a wrong refutation ends as an error, with the reason of the verifier."""
    wrong = judged(**keys)
    assert wrong.verdict is Verdict.REFUTED, wrong.message
    found = with_verification(wrong)
    assert found.verdict is Verdict.ERROR
    start = "audit-verify does not confirm the refutation: not refuted by this witness"
    assert found.message.startswith(start)


@pytest.mark.parametrize("wrong", [{"noise_std": 0.95}, {"lipschitz": 1.05}])
def test_a_wrong_law_ends_as_an_error(
    wrong: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted error: less noise, or a record that pushes farther than it may."""
    law = exact.curve(TwoSidedWalk(replace(MECHANISM, **wrong)))
    truth = exact.curve(PAIR).epsilon_bracket(1e-3)[1]
    monkeypatch.setattr(exact, "curve", lambda *_, **__: law)
    contradicted(epsilon=1.01 * truth, delta=1e-3, pair=PAIR)


def test_one_node_fewer_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: one node in every panel is left out."""

    def fewer(order: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = np.polynomial.legendre.leggauss(order)
        weights[order // 2] = 0.0
        return nodes, weights

    law = exact.curve(PAIR)
    epsilon, renyi = law.epsilon_bracket(1e-3)[1], law.renyi_bracket(2.0)[1]
    power = law.power_bracket(0.1, Order.FORWARD)[1]
    monkeypatch.setattr(panels, "gauss_legendre", fewer)
    # brackets notice it before the verifier does
    for truth in (
        {"epsilon": epsilon + 1e-6, "delta": 1e-3},
        {"renyi": {2.0: renyi + 1e-6}},
        {"tradeoff": {0.1: 1 - power - 1e-6}},
    ):
        assert outcome(judged(**truth, pair=PAIR))[0] is Verdict.ERROR


def test_a_swapped_order_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: a number of one order is taken for that of the other."""
    poisson = {"batch_size": 1, "batching": Batching.POISSON, "relation": Relation.ZERO_OUT}
    m = replace(MECHANISM, noise_std=2.0, **poisson)
    pair = BiasedWalk(m)
    law = exact.curve(pair)
    low, high = sorted((law.renyi_bracket(8.0, order)[0], order) for order in Order)
    swapped = staticmethod(lambda law, places, order: law.renyi_bracket(places, order.other))
    monkeypatch.setattr(RenyiAtOrder, "brackets", swapped)
    contradicted(renyi={8.0: (low[0] + high[0]) / 2}, mechanism=m, pair=pair)


def scores(size: int, **claimed: Any) -> Judgement:
    """Judge scores of Gaussians at distance 1.5, and verify the counts."""
    rng = np.random.default_rng(3)
    x, y = (tuple(rng.normal(mean, 1.0, size).tolist()) for mean in (1.5, 0.0))
    return with_verification(written.judged(samples=Samples(x=x, x_prime=y), **claimed))


@pytest.mark.parametrize("size", [400, 30_000])
@pytest.mark.parametrize("claimed", [{"epsilon": 0.5, "delta": 1e-3}, {"mu": 0.6}])
def test_counts_are_verified_and_the_draws_taken_on_trust(
    size: int, claimed: dict[str, float]
) -> None:
    """By ranks that are fixed in advance, and by a pilot split."""
    found = scores(size, **claimed)
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "verified but for the draws")
    assert found.witness is not None
    assert found.certified is not None
    content = json.loads(found.witness.to_json())
    assert audit_verify.verify(content).trusted[0].startswith("the counts")
    for factor, answer in ((0.95, Answer.REFUTED), (1.05, Answer.NOT_REFUTED)):
        moved = audit_verify.verify({**content, "claimed": factor * found.certified})
        assert moved.answer is answer, moved


def test_a_bound_from_several_events_is_not_verified() -> None:
    found = scores(400, renyi={2.0: 0.05})
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified")
    assert found.message.endswith("not verified: its bound combines several events")


def test_compositions_are_verified() -> None:
    """Two runs at different rates that release all iterates."""
    run = dp_sgd(dataset_size=40, batch_size=1, noise_std=1.0)
    both = Composition((run, replace(run, batch_size=2, noise_std=0.6)))
    low = exact.dominating_curve(both).epsilon_bracket(1e-5)[0]
    found = judged(epsilon=0.99 * low, delta=1e-5, mechanism=both)
    assert outcome(found) == (Verdict.REFUTED, "verified")
    assert found.witness is not None
    content = json.loads(found.witness.to_json())
    truth = audit_verify.verify({**content, "claimed": 1.001 * low})
    assert truth.answer is Answer.NOT_REFUTED


def test_what_cannot_be_verified_says_so(
    refuted: Judgement, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(MECHANISM, smoothness=None)  # quick theorems
    unwitnessed = judged(not_private={"epsilon": 9.0, "delta": 1e-3}, mechanism=quick)
    found = with_verification(unwitnessed)
    assert (found.verdict, found.verification) == (Verdict.REFUTED, "not verified")
    assert found.message.endswith("not verified: there is no witness")
    assert outcome(refuted, seconds=0.01) == (Verdict.REFUTED, "not verified in time")
    low = exact.curve(PAIR).renyi_bracket(2.0, Order.FORWARD)[0]
    close = judged(renyi={2.0: low * (1 - 1e-6)}, pair=PAIR)
    assert outcome(close) == (Verdict.REFUTED, "not verified")  # no partition decides it
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert outcome(refuted) == (Verdict.REFUTED, "not verified")
    assert refuted.witness is not None
    assert verify(refuted.witness).line == "not verified: audit-verify is not installed"


@pytest.mark.parametrize(
    ("status", "said", "line"),
    [
        (0, ("refuted by 3 cells\nmore", ""), "verified: refuted by 3 cells"),
        (3, ("too slow\nmore", ""), "not verified in time: too slow"),
        (1, ("not refuted", ""), "contradicted: not refuted"),
        (2, ("this is no witness", ""), "contradicted: this is no witness"),
        (1, ("", "Traceback\nError: x"), "not verified: audit-verify did not answer (Error: x)"),
        (-9, ("", ""), "not verified: audit-verify did not answer (no answer)"),
    ],
)
def test_the_status_of_the_verifier_is_its_answer(
    refuted: Judgement,
    status: int,
    said: tuple[str, str],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = subprocess.CompletedProcess([], status, *said)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert refuted.witness is not None
    assert verify(refuted.witness).line == line


def test_a_witness_that_was_tampered_with_is_contradicted(refuted: Judgement) -> None:
    assert refuted.witness is not None
    found = verify({**json.loads(refuted.witness.to_json()), "at": 2.0})
    assert found == Verification(
        Outcome.CONTRADICTED, "this is not a witness: at must be in [0, 1) for a delta, got 2.0"
    )


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
@pytest.mark.parametrize("composed", [False, True])
def test_random_lies_are_verified_and_truths_are_not(composed: bool) -> None:
    """A few of the claims that ``extras/verify/tests/lies.py`` verifies by the hundred."""
    file = ROOT / "extras" / "verify" / "tests" / "lies.py"
    spec = importlib.util.spec_from_file_location("lies", file)
    assert spec is not None
    assert spec.loader is not None
    lies = importlib.util.module_from_spec(spec)
    sys.modules["lies"] = lies  # its dataclasses look for their module
    spec.loader.exec_module(lies)
    (lie,) = lies.lies(1, 7, composed=composed)
    assert lie.witness, lie.subject
    assert audit_verify.verify(lie.witness).answer is Answer.REFUTED, lie.subject
    if lie.truth is not None:
        truth = {**lie.witness, "claimed": lie.truth, "slack": 0.0}
        told = audit_verify.verify(truth)
        assert told.answer is Answer.NOT_REFUTED, (lie.subject, told)
