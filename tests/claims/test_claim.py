"""A claim as plain data, as JSON and lock files hold it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from audit.claims.claim import Claim, Numbers, encode_claim, plain_statement, statement_of
from audit.claims.claims_file import load
from audit.codec import decode, encode
from audit.constructions import decode_any_pair
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta
from audit.mechanism import Composition, NoisySGD
from tests.simulation.cases import two_lengths

FOLDER = Path(__file__).parents[2] / "scenarios" / "claims"
CLAIMS = load(FOLDER / f"{name}.claims.yaml" for name in ("published", "example", "own")).claims


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_comes_back(claim: Claim) -> None:
    """To workers all but the pair and the place, to lock files what the claim is about."""
    sent = dataclasses.replace(claim, pair=None, location=None)
    assert decode(Claim, json.loads(json.dumps(encode(sent), allow_nan=False))) == sent
    plain = json.loads(json.dumps(encode_claim(claim), allow_nan=False))
    assert statement_of(**plain["statement"]) == claim.statement
    assert decode(NoisySGD | Composition | None, plain["mechanism"]) == claim.mechanism
    if claim.pair is not None and not isinstance(claim.mechanism, Composition):
        assert decode_any_pair(plain["pair"], claim.mechanism) == claim.pair


def test_lock_files_hold_claims() -> None:
    stored = json.loads((FOLDER.parents[1] / "results" / "claims.json").read_text())["claims"]
    by_id = {claim.id: claim for claim in CLAIMS}
    for id, plain in stored.items():
        assert statement_of(**plain["statement"]) == by_id[id].statement


def test_the_error_of_a_number_is_written_as_a_part_of_it() -> None:
    number = ClaimedNumber(EpsilonAtDelta(1e-5), 1.0, slack=0.5)
    assert plain_statement(Numbers((number,))) == {"epsilon": 1.5, "delta": 1e-5}


def test_fields_with_their_defaults_are_left_out() -> None:
    plain = encode_claim(CLAIMS[0])
    assert "convex" not in plain["mechanism"]
    assert set(plain["mechanism"]) >= {"steps", "noise_std"}


def test_a_pair_that_is_not_neighbouring_refutes_nothing() -> None:
    pair, statement = two_lengths(), statement_of(epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="pair must be a pair of neighbouring datasets, got TwoL"):
        Claim(id="x", mechanism=pair.mechanism, statement=statement, pair=pair)
