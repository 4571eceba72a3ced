"""Claims about events, histories and accountants of other libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.claims import Claim
from audit.claims.checking import Checked, check, check_file
from audit.claims.claim import decode_claim, encode_claim
from audit.claims.claims_file import load
from audit.claims.formats import Format, write
from audit.claims.judge import judge
from audit.claims.library_objects import ACCOUNTANTS
from audit.claims.statements import Asked, NumberSource, statement_of
from audit.mechanism import Composition, NoisySGD
from audit.results import Verdict

dp = pytest.importorskip("dp_accounting")

MODULE = """\
import os
import dp_accounting as dp

def sampled(noise, rate, steps):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)

def event():
    return sampled(1.1, 0.01, 100)

def less_noise():
    return sampled(1.1 * 0.98, 0.01, 100)

def growing():
    return dp.ComposedDpEvent([event(), sampled(2.0, 0.02, 50)])

def laplace():
    return dp.ComposedDpEvent([event(), dp.LaplaceDpEvent(1.0)])

def dies():
    os._exit(3)

def pld():
    return dp.pld.PLDAccountant().compose(event())

def distribution():
    return pld()._pld

def rdp():
    return dp.rdp.RdpAccountant([2, 8, 16]).compose(event())

def replace_one():
    return dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE).compose(event())

NO_FUNCTION = 3
"""

FILE = """\
mechanisms:
  trained: {event: "held:event", dataset_size: 60000, relation: add remove}
  less: {base: trained, event: "held:less_noise"}
  growing: {base: trained, event: "held:growing", dataset_size: 1000}
  laplace: {base: trained, event: "held:laplace"}
  dies: {base: trained, event: "held:dies"}
  no_function: {base: trained, event: "held:NO_FUNCTION"}
  fields: {steps: 100, dataset_size: 1000, batch_size: 10, step_size: 1, noise_std: 0.11,
           clip_norm: 1, convex: false, batching: poisson, relation: add remove,
           release: all iterates}
  last_iterate: {base: fields, release: last iterate}
claims:
  - {id: pld, mechanism: trained, accountant: dp_accounting.pld, deltas: [1e-5, 0.95]}
  - {id: rdp, mechanism: fields, accountant: dp_accounting.rdp, deltas: [1e-5], orders: [2, 8.5]}
  - {id: own, mechanism: trained, accountant: "held:distribution", deltas: [1e-5]}
  - {id: growing, mechanism: growing, accountant: dp_accounting.pld, deltas: [1e-5]}
  - {id: less, mechanism: less, accountant: "held:pld", deltas: [1e-5], expected: refuted}
  - {id: less.renyi, mechanism: less, accountant: "held:rdp", orders: [2, 8], expected: refuted}
  - {id: relation, mechanism: trained, accountant: "held:replace_one", deltas: [1e-5]}
  - {id: orders, mechanism: fields, accountant: dp_accounting.pld, orders: [2]}
  - {id: release, mechanism: last_iterate, accountant: dp_accounting.pld, deltas: [1e-5]}
  - {id: no_accountant, mechanism: fields, accountant: "held:event", deltas: [1e-5]}
  - {id: laplace, mechanism: laplace, epsilon: 1, delta: 1e-5}
  - {id: no_function, mechanism: no_function, epsilon: 1, delta: 1e-5}
  - {id: dies, mechanism: dies, epsilon: 1, delta: 1e-5}  # last: it ends its process
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("held")
    (folder / "held.py").write_text(MODULE)
    (folder / "held.claims.yaml").write_text(FILE)
    return check([folder / "held.claims.yaml"], error=0.05)


def verdicts(checked: Checked) -> dict[str, Verdict]:
    return {j.claim.id: j.verdict for j in checked.judgements}


def test_claims_of_accountants_are_judged(checked: Checked) -> None:
    found = verdicts(checked)
    for id in ("pld", "rdp", "own", "growing"):
        assert found[id] is Verdict.CONSISTENT
    for id in ("less", "less.renyi"):  # two percent less noise than the claim says
        assert found[id] is Verdict.REFUTED
    ratios = {j.claim.id: j.tightness for j in checked.judgements}
    assert 1 <= (ratios["pld"] or 0) < 1.001
    assert 1 <= (ratios["growing"] or 0) < 1.001
    # 2 % of noise is some 5 % of epsilon here
    assert 0.93 < (ratios["less"] or 0) < 0.98


def test_a_history_needs_no_dataset_size(tmp_path: Path) -> None:
    file = tmp_path / "x.claims.yaml"
    file.write_text(
        "claims:\n- {id: a, mechanism: {history: [[1.1, 0.01, 9]], relation: add remove}, "
        "epsilon: 9, delta: 0.1}\n"
    )
    (judgement,) = check_file(file)
    assert judgement.verdict is Verdict.CONSISTENT
    assert judgement.claim.source == (
        "history: 9 steps on poisson batches at rate 0.01 with noise multiplier 1.1 (noise over "
        "clip norm); any number of records, relation 'add remove', all iterates released; "
        "given beside it: the relation and the clip norm 1; assumed: a public divisor"
    )


def test_what_was_read(checked: Checked) -> None:
    by_id = {j.claim.id: j.claim for j in checked.judgements}
    trained, growing = by_id["pld"].mechanism, by_id["growing"].mechanism
    assert isinstance(trained, NoisySGD)
    assert (trained.steps, trained.batch_size, trained.noise_multiplier) == (100, 600, 1.1)
    assert isinstance(growing, Composition)
    assert growing.steps == 150
    assert by_id["pld"].source == (
        "DpEvent of held:event: 100 steps on poisson batches at rate 0.01 with noise multiplier "
        "1.1 (noise over clip norm); 60000 records, relation 'add remove', all iterates released; "
        "given beside it: the records, the relation and the clip norm 1; assumed: a public divisor"
    )
    assert by_id["rdp"].source == ""
    # in the text once for all claims on it, in JSON at each
    text = write(checked, Format.TEXT)
    assert text.count("DpEvent of held:event:") == 1
    assert "\npld, own, relation: DpEvent of held:event:" in text
    entries = {e["id"]: e for e in json.loads(write(checked, Format.JSON))["claims"]}
    assert entries["own"]["judged"] == by_id["pld"].source
    assert entries["rdp"]["judged"] is None
    assert [part["steps"] for part in entries["growing"]["mechanism"]["parts"]] == [100, 50]
    assert entries["dies"]["verdict"] == "error"


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("dies", "held:dies ended its process with status 3"),
        ("laplace", "held:laplace: event.events[1] must be one of GaussianDpEvent, "),
        ("no_function", "held:NO_FUNCTION must be a function, got 3"),
        (
            "relation",
            "held:replace_one must return an accountant for the mechanism's relation "
            "('add remove'), got one for 'replace one'",
        ),
        ("orders", "dp_accounting.pld: orders must be left out: this accountant claims no Renyi"),
        ("release", "dp_accounting.pld: release must be 'all iterates' for a DpEvent, got 'last"),
        ("no_accountant", "held:event: source must be a PrivacyAccountant or a PrivacyLossDistr"),
    ],
)
def test_what_goes_wrong_is_an_error_of_its_claim(checked: Checked, id: str, message: str) -> None:
    assert verdicts(checked)[id] is Verdict.ERROR
    (line,) = (str(wrong) for wrong in checked.complaints if f"claim {id!r}: " in str(wrong))
    assert message in line
    assert len(checked.complaints) == 7


HEAD = "mechanisms: {m: {event: 'held:event', dataset_size: 10, relation: add remove}}\nclaims:\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mechanisms: {m: {event: held.event, dataset_size: 1, relation: add remove}}",
            "event must be package.module:function, got 'held.event'",
        ),
        ("mechanisms: {m: {event: 'a:b', relation: add remove}}", "dataset_size must be given"),
        ("mechanisms: {m: {event: 'a:b', dataset_size: 1}}", "relation must be given"),
        (
            "mechanisms: {m: {event: 'a:b', dataset_size: 0, relation: add remove}}",
            "dataset_size must be a whole number of at least 1, got 0",
        ),
        (
            "mechanisms: {m: {event: 'a:b', dataset_size: 1, relation: add remove, steps: 3}}",
            "unknown key 'steps' in a mechanism with 'event'",
        ),
        (
            "mechanisms: {m: {history: [], dataset_size: 1, relation: add remove}}",
            "history must be a list with at least one entry",
        ),
        (
            HEAD + " - {id: x, mechanism: m, accountant: dp_accounting.pdl, deltas: [1e-5]}",
            f"accountant must be one of {', '.join(ACCOUNTANTS)} or package.module:function, got "
            "'dp_accounting.pdl'; did you mean 'dp_accounting.pld'?",
        ),
        (
            HEAD + " - {id: x, mechanism: m, accountant: dp_accounting.pld}",
            "a claim of an accountant needs 'deltas' or 'orders'",
        ),
        (
            HEAD + " - {id: x, mechanism: m, accountant: dp_accounting.rdp, orders: [1]}",
            "orders[0] must be a finite number above 1, got 1.0",
        ),
    ],
)
def test_what_is_written_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "me.claims.yaml"
    path.write_text(text)
    (complaint,) = load([path]).complaints
    assert message in str(complaint)


def test_an_event_of_an_included_file_is_found_beside_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "held_there.py").write_text(MODULE)
    (inner / "mechanisms.yaml").write_text(
        "mechanisms: {m: {event: 'held_there:event', dataset_size: 99, relation: zero out}}"
    )
    path = tmp_path / "my.claims.yaml"
    path.write_text(
        "include: inner/mechanisms.yaml\n"
        "claims: [{id: x, mechanism: {base: m, dataset_size: 50}, epsilon: 1, delta: 0.1}]"
    )
    loaded = load([path])
    assert loaded.complaints == ()
    (claim,) = loaded.claims
    assert claim.unread == ""
    assert claim.mechanism is not None
    assert claim.mechanism.dataset_size == 50


def composition() -> Composition:
    from audit.adapters.dp_accounting import from_dp_event
    from audit.mechanism import Relation

    parts = [
        dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)),
        dp.SelfComposedDpEvent(dp.GaussianDpEvent(8.0), 3),
    ]
    found = from_dp_event(dp.ComposedDpEvent(parts), dataset_size=100, relation=Relation.ADD_REMOVE)
    assert isinstance(found, Composition)
    return found


def test_claims_about_compositions() -> None:
    m = composition()
    true = judge(Claim(id="x", mechanism=m, statement=statement_of(epsilon=3.0, delta=1e-5)))
    assert true.verdict is Verdict.CONSISTENT
    false = Claim(id="x", mechanism=m, statement=statement_of(epsilon=0.5, delta=1e-5))
    assert judge(false).verdict is Verdict.REFUTED
    assert decode_claim(json.loads(json.dumps(encode_claim(false))), "x") == false
    low = judge(
        Claim(
            id="x", mechanism=m, statement=statement_of(not_private={"epsilon": 0.5, "delta": 1e-5})
        )
    )
    assert low.verdict is Verdict.CONSISTENT


def test_what_was_not_written_for_compositions_refuses_them(tmp_path: Path) -> None:

    bound = Asked(NumberSource.BOUND, "accounting.poisson", deltas=(1e-5,))
    judged = judge(Claim(id="x", mechanism=composition(), statement=bound))
    assert judged.verdict is Verdict.ERROR
    assert judged.message == ("accounting.poisson needs a single run, got a composition of 2")
    (tmp_path / "held.py").write_text(MODULE)
    path = tmp_path / "my.claims.yaml"
    path.write_text(
        "mechanisms: {m: {event: 'held:growing', dataset_size: 9, relation: add remove}}\n"
        "claims: [{id: x, mechanism: m, epsilon: 1, delta: 0.1, pair: TwoSidedWalk}]"
    )
    (complaint,) = load([path]).complaints
    assert "pair must be left out for a composition of several runs, got 'TwoSid" in str(complaint)


def test_an_accountant_needs_a_mechanism() -> None:
    statement = Asked(NumberSource.ACCOUNTANT, "dp_accounting.pld", deltas=(1e-5,))
    judged = judge(Claim(id="x", mechanism=None, statement=statement))
    assert judged.message == "mechanism must be given for an accountant, got none"
