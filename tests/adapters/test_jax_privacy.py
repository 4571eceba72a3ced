"""The jax-privacy adapter without jax-privacy, on recorded output of its auditor."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.adapters import jax_privacy
from audit.adapters.scores import read_table
from audit.estimation import audit_samples
from audit.mechanism import Relation

FOLDER = Path(__file__).parent / "recorded"
RECORDED = json.loads((FOLDER / "jax_privacy.json").read_text("utf-8"))


class Auditor:
    """Scores where `CanaryScoreAuditor` of jax-privacy 2.0.0 keeps them."""

    def __init__(self, held_in: Any, held_out: Any) -> None:
        self._in_canary_scores = np.asarray(held_in)
        self._out_canary_scores = np.asarray(held_out)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(CanaryScoreAuditor=Auditor)
    monkeypatch.setattr(jax_privacy, "load", lambda name, extra: module)


@pytest.mark.usefixtures("stand_in")
def test_the_recorded_scores_certify_no_less_than_the_auditor_said():
    table = read_table(FOLDER / "attack_result_0.npz", score="scores", member="memberships")
    found = jax_privacy.from_auditor(Auditor(table.x, table.x_prime))
    assert np.array_equal(found.x, table.x)
    assert np.array_equal(found.x_prime, table.x_prime)
    delta = RECORDED["delta"]
    ours = audit_samples(
        found.x, found.x_prime, confidence=RECORDED["confidence"], seed=1, deltas=(delta,)
    )
    assert ours.epsilon_lower(delta) >= RECORDED["epsilon_clopper_pearson"] > 0


@pytest.mark.usefixtures("stand_in")
def test_what_is_no_auditor_or_no_scores_is_refused():
    with pytest.raises(ValueError, match="auditor must be a CanaryScoreAuditor, got 3"):
        jax_privacy.from_auditor(3)
    with pytest.raises(ValueError, match="scores must hold finite numbers only, got nan"):
        jax_privacy.from_auditor(Auditor([1.0, np.nan], [0.0]))


def test_the_extra_is_named_where_jax_privacy_is_missing(not_installed: None):
    named = r"cannot be imported .*: pip install 'noisy-sgd-audit\[jax-privacy\]'$"
    with pytest.raises(ImportError, match=named):
        jax_privacy.from_auditor(None)
    with pytest.raises(ImportError, match=named):
        jax_privacy.from_execution_plan(None, dataset_size=10, relation=Relation.ADD_REMOVE)
