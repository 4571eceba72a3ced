"""The committed audits of trainings: verdicts, accountants, and the law of the scores.

``tests/test_stored_numbers.py`` computes their certified numbers again from the recorded scores.
"""

from __future__ import annotations

import csv
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import digits_canary as digits
from audit import Relation, exact
from results.trainings import make
from tests.mechanisms import dp_sgd

Array = NDArray[np.float64]


@cache
def table() -> list[dict[str, str]]:
    with (make.HERE / "trainings.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def scores() -> dict[str, Array]:
    with np.load(make.HERE / "scores.npz") as stored:
        return {name: stored[name] for name in stored.files}


def trainings() -> list[tuple[str, str]]:
    return sorted({(row["script"], row["training"]) for row in table()})


def recorded(script: str, training: str) -> tuple[Array, Array]:
    name = f"{script}/{'_'.join(training.lower().split())}"
    return scores()[f"{name}/scores"], scores()[f"{name}/scores_prime"]


def test_the_right_ones_are_consistent_and_each_mistake_is_refuted() -> None:
    for script, training in trainings():
        verdicts = {
            row["verdict"]
            for row in table()
            if (row["script"], row["training"]) == (script, training)
        }
        assert (verdicts == {"consistent"}) == (training == "Right")
        assert ("refuted" in verdicts) == (training != "Right")


def test_accountants_claim_the_exact_epsilon_of_the_right_training() -> None:
    claimed = dp_sgd(
        steps=digits.EPOCHS * digits.STEPS_PER_EPOCH,
        dataset_size=digits.PICTURES,
        batch_size=digits.BATCH_SIZE,
        noise_std=digits.NOISE_MULTIPLIER * digits.CLIP_NORM / digits.BATCH_SIZE,
        clip_norm=digits.CLIP_NORM,
        relation=Relation.ZERO_OUT,
    )
    exactly = exact.dominating_curve(claimed)
    for row in table():
        if row["training"] != "Right":
            continue
        low, high = exactly.epsilon_bracket(float(row["delta"]))
        assert low <= float(row["claimed"]) <= 1.01 * high
        assert float(row["certified"]) < low
        assert float(row["jax_privacy"]) < low


def simulated(rate: float, noise_multiplier: float, seed: int) -> Array:
    """Scores if batches are Poisson samples at a rate, with so much noise."""
    rng = np.random.default_rng(seed)
    shape = 1500, digits.EPOCHS * digits.STEPS_PER_EPOCH, 1
    products = rng.binomial(1, rate, shape) + noise_multiplier * rng.normal(size=shape)
    return np.array([digits.scores(-digits.CLIP_NORM * one)[0] for one in products])


@pytest.mark.parametrize("script", make.SCRIPTS)
def test_recorded_scores_have_the_law_that_the_accountant_assumes(script: str) -> None:
    sides = zip(recorded(script, "Right"), (digits.SAMPLING_RATE, 0.0), strict=True)
    for seed, (scores, rate) in enumerate(sides):
        right = simulated(rate, digits.NOISE_MULTIPLIER, seed)
        assert stats.ks_2samp(scores, right).pvalue > 1e-3
        wrong = simulated(rate, 0.8 * digits.NOISE_MULTIPLIER, seed)
        assert stats.ks_2samp(scores, wrong).pvalue < 1e-3
