"""The jax-privacy adapter on jax-privacy's own auditor and execution plans."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import dp_accounting
import numpy as np
import pytest
from jax_privacy import auditing
from jax_privacy.experimental import execution_plan

from audit import exact
from audit.adapters import jax_privacy
from audit.curves import GaussianCurve
from audit.estimation import Canaries, audit_one_run, audit_samples
from audit.mechanism import Batching, NoisySGD, Relation
from tests.adapters.recorded import make

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_scores_are_those_that_the_auditor_was_given():
    rng = np.random.default_rng(2)
    held_in, held_out = rng.normal(1, 1, 500), rng.normal(0, 1, 400)
    auditor = auditing.CanaryScoreAuditor(held_in, held_out)
    before = auditor.epsilon_clopper_pearson(0.05, 1e-2)
    found = jax_privacy.from_auditor(auditor)
    assert np.array_equal(found.x, held_in)  # in their order: not sorted, not thinned out
    assert np.array_equal(found.x_prime, held_out)
    again = auditing.CanaryScoreAuditor(found.x, found.x_prime)
    assert again.epsilon_clopper_pearson(0.05, 1e-2) == before
    assert auditor.attack_auroc() == again.attack_auroc()


def test_both_lower_bounds_on_one_training_are_true():
    rng = np.random.default_rng(3)
    truth = GaussianCurve(1.0).epsilon(1e-2)
    auditor = auditing.CanaryScoreAuditor(rng.normal(1, 1, 2000), rng.normal(0, 1, 2000))
    found = jax_privacy.from_auditor(auditor)
    ours = audit_samples(found.x, found.x_prime, confidence=0.95, seed=1, deltas=(1e-2,))
    theirs = auditor.epsilon_clopper_pearson(0.05, 1e-2)
    # false with probability .05 each, on scores of one seed
    assert theirs <= ours.epsilon_lower(1e-2) <= truth
    asked = {"delta": 1e-2, "confidence": 0.95, "seed": 1, "canaries": Canaries.INDEPENDENT}
    coins = audit_one_run(found.scores, found.member, **asked)
    assert 0 < coins.epsilon_lower(1e-2) <= truth


def test_what_is_no_auditor_or_one_of_another_version():
    for given, message in (
        ([1.0, 2.0], r"auditor must be a CanaryScoreAuditor, got \[1.0, 2.0\]"),
        (auditing.CanaryScoreAuditor([1.0, np.inf], [0.0]), "finite numbers only, got inf"),
    ):
        with pytest.raises(ValueError, match=message):
            jax_privacy.from_auditor(given)
    auditor = auditing.CanaryScoreAuditor([1.0, 2.0], [0.0])
    del auditor._in_canary_scores
    with pytest.raises(ValueError, match=r"keep its scores as that of jax-privacy 2\.0 does, got"):
        jax_privacy.from_auditor(auditor)


def plan(relation: str = "REPLACE_SPECIAL", bands: int = 1, **options: Any) -> Any:
    kind = execution_plan.NeighboringRelation[relation]
    partition = execution_plan.batch_selection.PartitionType
    config = execution_plan.BandMFExecutionPlanConfig(
        iterations=200,
        strategy=np.ones(bands),
        epsilon=None,
        delta=None,
        noise_multiplier=1.5,
        sampling_prob=0.05,
        partition_type=partition.INDEPENDENT
        if relation == "ADD_OR_REMOVE_ONE"
        else partition.EQUAL_SPLIT,
        accountant=dp_accounting.pld.PLDAccountant(kind),
        **options,
    )
    return config.plan


@pytest.mark.parametrize(
    ("name", "relation"),
    [("REPLACE_SPECIAL", Relation.ZERO_OUT), ("ADD_OR_REMOVE_ONE", Relation.ADD_REMOVE)],
)
def test_the_event_of_a_plan(name: str, relation: Relation):
    found = jax_privacy.from_execution_plan(plan(name), dataset_size=1000, relation=relation)
    assert isinstance(found, NoisySGD)
    assert (found.batching, found.batch_size, found.steps) == (Batching.POISSON, 50, 200)
    assert found.noise_multiplier == pytest.approx(1.5, rel=1e-15)
    accountant = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation[name])
    claimed = accountant.compose(plan(name).dp_event).get_epsilon(1e-5)
    low, high = exact.dominating_curve(found, accuracy=1e-5).epsilon_bracket(1e-5)
    # the library rounds losses up, to a grid of 1e-4
    assert low <= claimed <= high + 1e-3


def test_the_event_of_a_plan_with_batches_of_limited_size():
    limited = plan(truncated_batch_size=60, num_examples=1000)
    with pytest.raises(ValueError, match="dataset_size"):
        jax_privacy.from_execution_plan(limited, dataset_size=999, relation=Relation.ADD_REMOVE)
    asked = {"dataset_size": 1000, "relation": Relation.ADD_REMOVE}
    found = jax_privacy.from_execution_plan(limited, **asked)
    assert isinstance(found, NoisySGD)
    assert (found.batching, found.max_batch_size) == (Batching.TRUNCATED_POISSON, 60)


def test_plans_that_the_event_does_not_describe_are_refused():
    scaled = "by which noise was scaled, got 'replace one'"
    theirs = dp_accounting.NeighboringRelation.REPLACE_ONE
    for made, relation, message in (
        (plan(bands=4), Relation.ZERO_OUT, "independent noise in every step, got one of 4 bands"),
        (plan("REPLACE_ONE"), Relation.REPLACE_ONE, scaled),
        (plan("REPLACE_ONE"), theirs, scaled),
        (SimpleNamespace(), Relation.ZERO_OUT, "plan must be a DPExecutionPlan, got namespace"),
    ):
        with pytest.raises(ValueError, match=message):
            jax_privacy.from_execution_plan(made, dataset_size=1000, relation=relation)


def test_what_is_recorded_is_what_jax_privacy_says():
    recorded = json.loads(make.JAX_PRIVACY.read_text(encoding="utf-8"))
    said, name = make.auditor(), "epsilon_clopper_pearson"
    assert said[name] == pytest.approx(recorded[name], rel=1e-9)
