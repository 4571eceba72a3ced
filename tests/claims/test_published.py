"""The published catalogue: its quick claims are judged, and its refutations computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import bounds
from audit.bounds import Status
from audit.claims.claim import Expected
from audit.claims.claims_file import load
from audit.claims.judge import judge
from tests.verifying import is_refuted

FILE = Path(__file__).resolve().parents[2] / "scenarios" / "claims" / "published.claims.yaml"
LOADED = load([FILE])
CLAIMS = {claim.id: claim for claim in LOADED.claims}
# a second or more each: judged with the whole file, by audit-check
SLOW = {
    "at22.theorem_4_1",
    "at22.theorem_4_1.dp",
    "cl25.output_perturbation",
    "fmtt18.corollary_31",
    "fmtt18.corollary_31_corrected",
    "fmtt18.lemma_25",
    "fmtt18.theorem_24",
    "fmtt18.theorem_26",
    # stored witnesses of these are computed again by another test
    "survey.section_vi_a_last",
    "survey.section_vi_a_last.batches_of_ten",
}
REFUTED = sorted(
    id for id, c in CLAIMS.items() if c.expected is Expected.REFUTED and id not in SLOW
)
SOUND = sorted(set(CLAIMS) - set(REFUTED) - SLOW)
PAPERS = ("fmtt18.", "at22.", "cl25.", "survey.", "bsa24.")


def test_the_file_reads_without_complaint():
    assert not LOADED.complaints
    assert len(CLAIMS) == len(LOADED.claims)
    assert set(CLAIMS) >= SLOW


def test_every_statement_of_the_papers_has_its_verdict():
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


@pytest.mark.parametrize("id", SOUND)
def test_what_holds_is_not_refuted(id):
    judged = judge(CLAIMS[id])
    assert judged.as_expected, judged.message
    if judged.claim.expected is not Expected.NOT_APPLICABLE:
        assert judged.tightness is not None
        assert judged.tightness > 1 - 1e-9


@pytest.mark.parametrize("id", REFUTED)
def test_what_is_refuted_has_a_witness_that_is_verified(id):
    judged = judge(CLAIMS[id])
    assert judged.as_expected, judged.message
    assert judged.witness is not None
    assert is_refuted(judged.witness)
