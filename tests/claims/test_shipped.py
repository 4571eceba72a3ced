"""Claims files of the repository: the published catalogue, its refutations, and the example.

`tests/test_stored_numbers.py` judges every published claim again, and compares it with what is
stored.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from audit import bounds
from audit.bounds import Status
from audit.claims import check_file
from audit.claims.claim import FORMS, Expected, LooseBy, plain_statement
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
    # what is told is certified, and shows the verdict
    told = re.findall(r"(?:certified [A-Za-z ]+|claimed) ([\d.e-]+)", judged.message)
    certified, claimed = (float(number) for number in told)
    assert judged.claimed <= claimed < certified <= judged.certified


EXAMPLE = TOP / "scenarios" / "claims" / "example.claims.yaml"


@pytest.mark.slow  # a claim of each form has tests of its own
def test_the_example_is_as_expected() -> None:
    found = check_file(EXAMPLE)
    assert [judgement.claim.id for judgement in found if not judgement.as_expected] == []
    assert {judgement.evidence for judgement in found} == {"exact"}


def test_every_form_is_shown() -> None:
    forms = {next(iter(plain_statement(c.statement))) for c in load([EXAMPLE]).claims}
    # not_renyi is written like not_private; accountants are in a file of their own
    assert forms >= set(FORMS) - {"not_renyi", "accountant", "points", "total_variation"}


def test_claims_without_a_mechanism_are_as_expected() -> None:
    found = check_file(EXAMPLE.with_name("laws.claims.yaml"))
    assert [judgement.claim.id for judgement in found if not judgement.as_expected] == []
