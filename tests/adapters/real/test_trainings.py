"""The scripts of ``scenarios/trainings`` on Opacus and jax-privacy themselves, in a short form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from jax_privacy.auditing import CanaryScoreAuditor
from scipy import stats

import digits_canary
import jax_digits
import opacus_digits
from audit import training
from audit.curves import GaussianCurve, Order
from audit.estimation import Audit, BestColumn, Canaries, WeightedColumns, audit_samples
from audit.results import Verdict
from tests.training import trainings

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch and JAX
torch.set_num_threads(1)  # as in the processes of an audit

SCRIPTS = Path(__file__).resolve().parents[3] / "scenarios" / "trainings"
CONFIDENCE = 0.95
# Trainings with the canary, and as many without it.
OPACUS = {"RIGHT": 100, "FIXED_ORDER": 300, "BATCH_STATISTICS": 60, "NEW_ACCOUNTANT": 300}
JAX = dict.fromkeys(jax_digits.Variant.__members__, 300)
BROKEN = [
    (script, name, number)
    for script, numbers in ((opacus_digits, OPACUS), (jax_digits, JAX))
    for name, number in numbers.items()
    if name != "RIGHT"
]


def audit(script: ModuleType, variant: str, number: int) -> Audit:
    with_canary, without = (
        [script.train(canary, 2 * i + canary, variant) for i in range(number)]
        for canary in (True, False)
    )
    return audit_samples(
        with_canary,
        without,
        confidence=CONFIDENCE,
        deltas=digits_canary.DELTAS,
        seed=1,
        columns=BestColumn(),
        favours=Order.FORWARD,
    )


@pytest.mark.parametrize("script", [opacus_digits, jax_digits])
def test_a_right_training_adds_the_claimed_noise_to_a_clipped_canary_that_is_sampled(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits_canary, "scores", lambda gradients: gradients)
    runs = 60
    without, with_canary = (
        -np.array([script.train(canary, seed) for seed in range(runs)])[:, :, 0]
        for canary in (False, True)
    )
    noise = without / (digits_canary.NOISE_MULTIPLIER * digits_canary.CLIP_NORM)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    rate, size = digits_canary.SAMPLING_RATE, with_canary.size
    error = np.sqrt((rate * (1 - rate) + digits_canary.NOISE_MULTIPLIER**2) / size)
    assert abs(with_canary.mean() / digits_canary.CLIP_NORM - rate) < 3.5 * error
    # a wrong deviation is seen: the test has the power that it needs
    assert stats.kstest(1.25 * noise.ravel(), "norm").pvalue < 1e-3


@pytest.mark.parametrize(
    ("script", "number"), [(opacus_digits, OPACUS["RIGHT"]), (jax_digits, JAX["RIGHT"])]
)
def test_a_right_training_is_consistent(script: ModuleType, number: int) -> None:
    found = audit(script, "RIGHT", number)
    for epsilon, delta in script.claims("RIGHT"):
        assert 0 < found.epsilon_lower(delta) < epsilon


@pytest.mark.parametrize(
    ("script", "variant", "number"), BROKEN, ids=[f"{s.__name__}-{v}" for s, v, _ in BROKEN]
)
def test_a_mistake_is_refuted(script: ModuleType, variant: str, number: int) -> None:
    found = audit(script, variant, number)
    assert any(found.epsilon_lower(delta) > claim for claim, delta in script.claims(variant))


def test_every_mistake_is_tested() -> None:
    assert set(OPACUS) == set(opacus_digits.Variant.__members__)


def test_a_script_audits_all_and_writes_a_report(tmp_path: Path) -> None:
    options = "--trials", "60", "--processes", "1", "--folder", str(tmp_path)
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "jax_digits.py"), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout.splitlines()
    assert printed[0].split() == [
        "training", "delta", "claimed", "certified", "jax-privacy", "verdict",
    ]  # fmt: skip
    rows = printed[1 : 1 + len(JAX) * len(digits_canary.DELTAS)]
    # of the right training 60 show no difference, which is not consistent
    assert [row.split()[-1] for row in rows[:2]] == ["inconclusive", "inconclusive"]
    assert any(row.endswith("refuted") for row in rows)
    assert (tmp_path / "report.html").is_file()


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
