"""Claims about the mechanism that a loader and an optimizer of Opacus really run."""

from __future__ import annotations

from pathlib import Path

from audit.claims.checking import check
from audit.claims.formats import Format, write
from audit.results import Verdict

# As from_private finds them, without Opacus: `tests/adapters/real` has the real ones.
MODULE = """\
from audit.adapters import opacus
from audit.mechanism import Batching, Relation

HISTORY = ((0.5, 0.01, 100),)

def told(batching, **drawn):
    loader = opacus.Loader(
        sampler="Sampler", batching=batching, records=10_000, batches=100, **drawn
    )
    relation = Relation.ZERO_OUT
    return opacus.PrivateTraining(
        history=HISTORY,
        claimed=opacus.from_history(HISTORY, dataset_size=10_000, relation=relation),
        actual=loader.mechanism(HISTORY, relation=relation, clip_norm=1.0),
        loader=loader,
        divisor=100,
        divisor_without_record=99,
        clipping=opacus.Clipping.FLAT,
        clip_norm=1.0,
        noise_multiplier=HISTORY[-1][0],
    )

def poisson():
    return told(Batching.POISSON, rate=0.01)

def shuffled():
    return told(Batching.RESHUFFLED, batch_size=100)

def history():
    return HISTORY
"""

# What Opacus 1.6.0's prv accountant says of the history: 7.926709979462523.
FILE = """\
mechanisms:
  poisson: {training: "trained:poisson"}
  shuffled: {training: "trained:shuffled"}
  history: {training: "trained:history"}
claims:
  - {id: poisson, mechanism: poisson, epsilon: 7.926709979462523, delta: 1e-6}
  - {id: shuffled, mechanism: shuffled, epsilon: 7.926709979462523, delta: 1e-6, expected: refuted}
  - {id: history, mechanism: history, epsilon: 7.926709979462523, delta: 1e-6}
"""


def test_an_accountant_is_judged_on_the_batches_that_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "trained.py").write_text(MODULE, encoding="utf-8")
    file = tmp_path / "trained.claims.yaml"
    file.write_text(FILE, encoding="utf-8")
    found = check([file], error=1e-6)
    (complaint,) = found.complaints
    assert "trained:history must return a PrivateTraining, got ((0.5" in complaint.message
    poisson, shuffled, history = found.judgements
    assert poisson.verdict is Verdict.CONSISTENT
    assert shuffled.verdict is Verdict.REFUTED
    assert shuffled.certified > 10.99
    assert history.verdict is Verdict.ERROR
    text = write(found, Format.MARKDOWN)
    assert "loader and optimizer of trained:shuffled: 100 steps on reshuffled batches" in text
    assert "assumed: a public number of records" in text


def test_slips(tmp_path: Path) -> None:
    file = tmp_path / "trained.claims.yaml"
    for mechanism, message in (
        ("{training: trained}", "training must be package.module:function, got 'trained'"),
        ('{training: "trained:poisson", relation: zero out}', "unknown key 'relation'"),
    ):
        file.write_text(
            f"claims: [{{id: x, mechanism: {mechanism}, epsilon: 1, delta: .1}}]", encoding="utf-8"
        )
        (complaint,) = check([file], error=1e-6).complaints
        assert message in complaint.message
