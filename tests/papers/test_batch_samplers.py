"""The study of batch samplers: verdicts, and what a planted error does to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.mechanism import Batching
from audit.results import Verdict
from papers import batch_samplers
from papers.batch_samplers import BatchSamplers

STUDY = BatchSamplers(
    delta=1e-5,
    epochs=2,
    batch_size=50,
    truncation=1.5,
    batches=20,
    noise_multipliers=(0.7, 1.0),
    noise_multiplier=1.0,
    numbers_of_batches=(2, 10),
    last_iterate_steps=4,
)


def test_shuffling_refutes_accounting_for_poisson_batches() -> None:
    findings = STUDY.find(progress=lambda done, total: None)
    assert [one.verdict for one in findings.statements] == [
        Verdict.REFUTED,
        Verdict.CONSISTENT,
        Verdict.HOLDS,
        Verdict.CONSISTENT,
    ]
    assert len(findings.charts) == 2
    for noise, poisson, allocated, low, high, enough in findings.tables[0].rows:
        assert allocated < poisson < low < high
        assert enough > noise
    assert findings.notes[0].startswith("What to take home: account for the batches that you draw.")


def test_a_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poisson batches under another name do not refute; full ones for random allocation do."""
    names = ("Poisson", "random allocation", "shuffled every epoch")
    kinds = (Batching.POISSON, Batching.RESHUFFLED, Batching.POISSON)
    monkeypatch.setattr(batch_samplers, "SAMPLERS", dict(zip(names, kinds, strict=True)))
    findings = replace(STUDY, last_iterate_steps=0).find(progress=lambda done, total: None)
    verdicts = [one.verdict for one in findings.statements]
    assert verdicts[:2] == [Verdict.CONSISTENT, Verdict.REFUTED]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="noise_multipliers must be two or more rising numbers"):
        replace(STUDY, noise_multipliers=(1.0, 0.7))
    with pytest.raises(ValueError, match="truncation must be"):
        replace(STUDY, truncation=0.5)
