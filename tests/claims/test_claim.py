"""A claim as plain data, as JSON and lock files hold it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from audit.claims.claim import Claim, decode_claim, encode_claim
from audit.claims.claims_file import load
from audit.claims.statements import Numbers, plain_statement
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta

FOLDER = Path(__file__).parents[2] / "scenarios" / "claims"
CLAIMS = load(FOLDER / f"{name}.claims.yaml" for name in ("published", "example", "own")).claims


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_comes_back(claim: Claim) -> None:
    plain = json.loads(json.dumps(encode_claim(claim), allow_nan=False))
    again = decode_claim(plain, claim.id)
    for name in ("id", "mechanism", "statement", "pair"):
        assert getattr(again, name) == getattr(claim, name)
    assert encode_claim(again) == plain


def test_lock_files_hold_claims() -> None:
    stored = json.loads((FOLDER.parents[1] / "results" / "claims.json").read_text())["claims"]
    by_id = {claim.id: claim for claim in CLAIMS}
    for id, plain in stored.items():
        assert decode_claim(plain, id).statement == by_id[id].statement


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"statement": {"luck": 1}},
            "a claim needs one of epsilon, points, renyi, .*",
        ),
        ({"statement": {"mu": "x"}}, "mu must be a number, got 'x'"),
        ({"mechanism": {"steps": 1}}, "mechanism.dataset_size, batch_size, .* must be given"),
        ({"pair": {"kind": "NoWalk"}}, "pair.kind must be one of .*, got 'NoWalk'"),
    ],
)
def test_what_is_no_claim_is_refused(change: dict[str, object], message: str) -> None:
    plain = encode_claim(dataclasses.replace(CLAIMS[0], pair=None))
    with pytest.raises(ValueError, match=message):
        decode_claim({**plain, **change}, "x")


def test_the_error_of_a_number_is_written_as_a_part_of_it() -> None:
    number = ClaimedNumber(EpsilonAtDelta(1e-5), 1.0, slack=0.5)
    assert plain_statement(Numbers((number,))) == {"epsilon": 1.5, "delta": 1e-5}


def test_fields_with_their_defaults_are_left_out() -> None:
    plain = encode_claim(CLAIMS[0])
    assert "convex" not in plain["mechanism"]
    assert set(plain["mechanism"]) >= {"steps", "noise_std"}
