"""The example for users: a correct accountant, and the same with half the sensitivity."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from audit.claims import Judgement, Verdict, check_file
from audit.claims.claim import FORMS, plain_statement
from audit.claims.claims_file import load
from audit.curves import GaussianCurve

EXAMPLE = Path(__file__).parents[2] / "scenarios" / "claims" / "example.claims.yaml"


@pytest.fixture(scope="module")
def judged() -> dict[str, Judgement]:
    return {judgement.claim.id: judgement for judgement in check_file(EXAMPLE)}


def test_all_is_as_expected(judged: dict[str, Judgement]) -> None:
    assert [name for name, judgement in judged.items() if not judgement.as_expected] == []
    assert {judgement.evidence for judgement in judged.values()} == {"exact"}


def test_the_accountant_holds(judged: dict[str, Judgement]) -> None:
    """100 steps with sensitivity 2 L and noise n sigma are one Gaussian mechanism with mu = 1/2."""
    judgement = judged["accountant.gaussian_composition"]
    assert judgement.verdict is Verdict.CONSISTENT
    exact = GaussianCurve(math.sqrt(100) * 2.5 / (100 * 0.5)).epsilon(float(judgement.where[6:]))
    assert judgement.certified == pytest.approx(exact, rel=1e-9)
    assert judgement.claimed == pytest.approx(exact, rel=1e-4)  # it rounds upwards


def test_half_the_sensitivity_is_refuted(judged: dict[str, Judgement]) -> None:
    judgement = judged["accountant.half_the_sensitivity"]
    assert judgement.verdict is Verdict.REFUTED
    halved = GaussianCurve(math.sqrt(100) * 1.25 / (100 * 0.5)).epsilon(float(judgement.where[6:]))
    assert judgement.claimed == pytest.approx(halved, rel=1e-4)
    assert judgement.witness is not None


def test_every_form_is_shown() -> None:
    forms = {next(iter(plain_statement(c.statement))) for c in load([EXAMPLE]).claims}
    # not_renyi is written like not_private; accountants are in a file of their own
    assert forms >= set(FORMS) - {"not_renyi", "accountant", "points", "total_variation"}


def test_claims_without_a_mechanism_are_as_expected() -> None:
    found = check_file(EXAMPLE.with_name("laws.claims.yaml"))
    assert [judgement.claim.id for judgement in found if not judgement.as_expected] == []
