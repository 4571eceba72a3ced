"""Audits of trainings compared with jax-privacy's auditor on the same scores."""

from __future__ import annotations

from typing import Any

import pytest
from jax_privacy.auditing import CanaryScoreAuditor

from audit import training
from audit.curves import GaussianCurve
from audit.estimation import Canaries, WeightedColumns
from audit.results import Verdict
from tests.training import trainings

DELTA, ERROR = 1e-2, 0.05
TRUE = float(GaussianCurve(trainings.MU).epsilon(DELTA))


def audited(name: str, **changed: Any) -> tuple[training.TrainingAudit, CanaryScoreAuditor]:
    """Return an audit, and jax-privacy's auditor of its scores."""
    options: dict[str, Any] = {"claims": [(TRUE * (1 + 1e-9), DELTA)], "seed": 3}
    found = training.run(
        f"{trainings.__name__}:{name}", **{**options, "confidence": 1 - ERROR, **changed}
    )
    return found, CanaryScoreAuditor(found.scores, found.scores_prime)


@pytest.mark.parametrize("mistake", ["", "no clipping", "noise of the average"])
def test_one_canary(mistake: str) -> None:
    """Their default pays for all thresholds, as ours does; each is right with 95%."""
    found, auditor = audited(
        "steps",
        trials=800,
        columns=WeightedColumns((1.0, 0.0, 1.0, 0.0)),
        arguments={"mistake": mistake},
    )
    ours = found.epsilon_lower(DELTA)
    theirs = {
        one_sided: auditor.epsilon_clopper_pearson(ERROR, DELTA, one_sided=one_sided)
        for one_sided in (True, False)
    }
    print(f"{mistake or 'right'}: true {TRUE:.3f}, ours {ours:.3f}, theirs {theirs}")
    if mistake:
        assert found.verdict is Verdict.REFUTED
        assert min(theirs.values()) > TRUE  # they see it as well
    else:
        assert found.verdict is Verdict.CONSISTENT
        assert 0 < max(theirs.values()) <= TRUE
    # sharper than Clopper and Pearson's limits at every threshold, which share the error
    assert ours >= max(theirs.values())


def test_many_canaries() -> None:
    found, auditor = audited("many", canaries=1500, trials=2)
    ours, theirs = found.epsilon_lower(DELTA), auditor.epsilon_one_run(ERROR, DELTA)
    print(f"one run: true {TRUE:.3f}, ours {ours:.3f}, theirs {theirs:.3f}")
    assert theirs <= ours <= TRUE
    independent, _ = audited("many", canaries=1500, trials=2, assume=Canaries.INDEPENDENT)
    assert ours < independent.epsilon_lower(DELTA) <= TRUE
