"""The published catalogue: what is expected of its claims, and the proofs of its refutations.

`tests/test_stored_numbers.py` judges every claim again, and compares it with what is stored.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit import bounds
from audit.bounds import Status
from audit.claims.claim import Expected, LooseBy
from audit.claims.claims_file import load
from audit.claims.judge import judge
from tests.verifying import is_refuted

TOP = Path(__file__).resolve().parents[2]
LOADED = load([TOP / "scenarios" / "claims" / "published.claims.yaml"])
CLAIMS = {claim.id: claim for claim in LOADED.claims}
STORED = json.loads((TOP / "results" / "claims.json").read_text(encoding="utf-8"))["claims"]
# seconds each; the stored witnesses of the last two are computed again by another test
SLOW = {
    "fmtt18.theorem_26",
    "survey.section_vi_a_last",
    "survey.section_vi_a_last.batches_of_ten",
}
REFUTED = [id for id, claim in CLAIMS.items() if claim.expected is Expected.REFUTED]
PAPERS = ("fmtt18.", "at22.", "cl25.", "survey.", "bsa24.")


def test_every_claim_has_the_verdict_that_is_expected() -> None:
    assert not LOADED.complaints
    assert len(CLAIMS) == len(LOADED.claims)
    for id, claim in CLAIMS.items():
        expected = "consistent" if isinstance(claim.expected, LooseBy) else claim.expected.value
        assert STORED[id]["verdict"] == expected, id


def test_every_statement_of_the_papers_has_its_verdict() -> None:
    """Refuted statements are expected to be refuted, rates not to be judged, the rest to hold."""
    claimed: dict[str, set[object]] = {}
    for claim in CLAIMS.values():
        entry, _ = claim.bound
        if entry is not None:
            claimed.setdefault(entry.id, set()).add(claim.expected)
    for id, entry in bounds.CATALOGUE.items():
        if not id.startswith(PAPERS):
            continue
        expected = claimed.pop(id)
        if entry.status is Status.REFUTED:
            assert Expected.REFUTED in expected, id
        elif entry.status is Status.ASYMPTOTIC:
            assert expected == {Expected.NOT_APPLICABLE}, id
        else:
            assert not expected & {Expected.REFUTED, Expected.NOT_APPLICABLE}, id
    assert not claimed


@pytest.mark.parametrize("id", sorted({*REFUTED} - SLOW))
def test_what_is_refuted_has_a_witness_that_is_verified(id: str) -> None:
    judged = judge(CLAIMS[id])
    assert judged.as_expected, judged.message
    assert judged.witness is not None
    assert is_refuted(judged.witness)
