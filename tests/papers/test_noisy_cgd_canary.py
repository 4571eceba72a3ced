"""The black-box audit of a training: correct ones are consistent, mistakes are refuted."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from audit import bounds
from audit.estimation import ScoreSource
from audit.results import AtDelta, Verdict
from audit.scenario.run_user_mechanism import audit_scores
from audit.scenario.user_mechanism import UserClaim, UserMechanismSetting
from papers import noisy_cgd, noisy_cgd_canary

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "papers" / "noisy_cgd_canary.yaml"
BROKEN = ("half_the_noise", "in_every_batch", "unclipped_features")
TRIALS = 4_000
DELTA = 1e-1


def claimed() -> Any:
    return bounds.evaluate("bsa24.theorem_4_5", noisy_cgd_canary.mechanism())


@lru_cache
def audited(function: str) -> AtDelta:
    setting = UserMechanismSetting(
        name=function.replace("_", " "),
        title=function,
        summary="",
        own=ScoreSource(function=f"papers.noisy_cgd_canary:{function}", trials=TRIALS),
        claims=(UserClaim("Theorem 4.5", float(claimed().epsilon(DELTA)) * (1 + 1e-9), DELTA),),
    )
    (row,) = audit_scores(setting, confidence=0.95, seed=11).deltas
    return row


def test_the_scenario_claims_what_the_theorem_gives() -> None:
    scenario = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))
    for name, setting in scenario["settings"].items():
        module, _, function = setting["own"]["function"].partition(":")
        assert module == noisy_cgd_canary.__name__
        assert function == name
        assert callable(getattr(noisy_cgd_canary, function))
        for claim in setting["claims"]:
            epsilon = float(claimed().epsilon(claim["delta"]))
            assert epsilon <= claim["epsilon"] <= epsilon + 1e-4  # rounded up


@pytest.mark.parametrize(
    "pair", [noisy_cgd_canary.crafted_pair(), noisy_cgd_canary.mislabelled_pair()]
)
def test_the_datasets_are_neighbours_within_the_sensitivity(pair: Any) -> None:
    (features, labels), (other_features, other_labels) = pair
    m = noisy_cgd_canary.mechanism()
    differs = (features != other_features).any(axis=1) | (labels != other_labels)
    assert np.flatnonzero(differs).tolist() == [m.dataset_size - 1]
    assert len(features) == m.dataset_size
    assert np.max(np.linalg.norm(features, axis=1)) <= noisy_cgd_canary.FEATURE_NORM * (1 + 1e-12)
    both = np.array([features[-1], other_features[-1]])
    classes = np.array([labels[-1], other_labels[-1]])
    for _, weights in noisy_cgd_canary.ALGORITHM.weights(
        features,
        labels,
        classes=10,
        epochs=range(1, 6),
        runs=50,
        generator=np.random.default_rng(0),
    ):
        for w in weights:
            assert noisy_cgd.largest_gradient_difference(w, both, classes) <= m.sensitivity


def test_the_claim_is_of_the_algorithm_that_is_run() -> None:
    m, algorithm = noisy_cgd_canary.mechanism(), noisy_cgd_canary.ALGORITHM
    assert m.sensitivity == pytest.approx(10.0)
    assert (m.steps, m.batch_size, m.dataset_size) == (20, 20, 80)
    assert (m.step_size, m.noise_std) == (algorithm.step_size, algorithm.noise_std)
    assert claimed().mu == pytest.approx(1.38337, abs=1e-5)


def test_the_right_training_stands() -> None:
    row = audited("crafted")
    assert row.bounds[0].verdict is Verdict.CONSISTENT
    assert 0.3 < row.sampled.epsilon < float(claimed().epsilon(DELTA))
    natural = audited("mislabelled")
    assert natural.bounds[0].verdict is Verdict.CONSISTENT
    assert natural.sampled.epsilon < row.sampled.epsilon


@pytest.mark.parametrize("function", BROKEN)
def test_broken_trainings_are_refuted(function: str) -> None:
    row = audited(function)
    assert row.bounds[0].verdict is Verdict.REFUTED
    assert row.sampled.epsilon > float(claimed().epsilon(DELTA))


def test_scores_have_the_distance_of_one_direction_with_the_pair_s_sensitivity() -> None:
    """Losses are about linear there, so last iterates and their scores are about Gaussian."""
    m = noisy_cgd_canary.mechanism()
    (features, labels), (other, other_labels) = noisy_cgd_canary.crafted_pair()
    sensitivity = noisy_cgd.largest_gradient_difference(
        np.zeros((features.shape[1], 10)),
        np.array([features[-1], other[-1]]),
        np.array([labels[-1], other_labels[-1]]),
    )
    contraction = 1 - 0.05 * 0.5
    moved = sum(contraction ** (4 * epoch) for epoch in range(5)) * sensitivity / m.batch_size
    spread = m.noise_std * math.sqrt(sum(contraction ** (2 * step) for step in range(20)))
    x, y = (noisy_cgd_canary.crafted(dataset, 8000, 3 + dataset) for dataset in (0, 1))
    found = abs(x.mean() - y.mean()) / math.sqrt((x.var() + y.var()) / 2)
    # four standard errors sqrt(2/8000) are .063; what is left out, curvature and ink, is below .04
    assert found == pytest.approx(moved / spread, abs=0.1)
    assert moved / spread == pytest.approx(0.7706, abs=1e-3)


def test_scores_are_losses_on_the_canary_and_depend_on_nothing_but_the_seed() -> None:
    first = noisy_cgd_canary.crafted(0, 700, 5)
    assert np.array_equal(first, noisy_cgd_canary.crafted(0, 700, 5))
    assert not np.array_equal(first, noisy_cgd_canary.crafted(0, 700, 6))
    (features, labels), _ = noisy_cgd_canary.crafted_pair()
    ((_, weights),) = noisy_cgd_canary.ALGORITHM.weights(
        features,
        labels,
        classes=10,
        epochs=(noisy_cgd_canary.EPOCHS,),
        runs=500,
        generator=np.random.default_rng(5),
    )
    logits = features[-1] @ weights
    plain = np.log(np.sum(np.exp(logits), axis=1)) - logits[:, labels[-1]]
    assert first[:500] == pytest.approx(plain, rel=1e-12)
