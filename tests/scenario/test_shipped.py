"""Every shipped scenario file composes with Hydra and runs, with fewer samples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from hydra import compose, initialize
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra

from audit.cli.audit import DEFAULT_SCENARIO, Output, read_job
from audit.cli.scenarios import register
from audit.curves import GaussianCurve
from audit.results import (
    BoundRow,
    PairResult,
    Result,
    SettingResult,
    StudyResult,
    UserMechanismResult,
    Verdict,
    from_json,
    schema,
    to_json,
)
from audit.scenario import PairSetting, Scenario, Setting, run
from audit.scenario.folders import scenario_files
from audit.scenario.user_mechanism import UserMechanismSetting

# Run by default: each kind of setting, and pairs, samplers and searches that take a moment. Others
# fit the schema (`test_schema`), and their committed results their files (`test_committed`).
QUICK = (
    "at22_lower_bound", "fixed_order_epochs", "own_pure_dp", "papers/langevin", "resets",
    "searched", "papers/noisy_cgd_training", "papers/published_figures", "shuffled_batches", "stop",
)  # fmt: skip
NAMES = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
    for name in scenario_files()
]
SCHEMA = jsonschema.Draft202012Validator(schema())
# Long runs are cut where a test of a run in seconds says as much; nothing else is changed. Settings
# after "~" are left out. Published figures are whole in tests.test_stored_numbers.
SHORTER = """
papers/published_figures: ~altschuler_talwar ~chien_li ~side_statements
papers/iris_holder: ~tanh relu.study.starts=2 relu.study.every=100
papers/noisy_cgd_training: digits.study.epochs=[1,2] digits.study.runs=2
papers/noisy_cgd_canary: ~mislabelled ~half_the_noise ~unclipped_features
papers/at22_proof: proof.study.mechanism.step_size=0.02 proof.study.mechanism.steps=375
    proof.study.trials=2000 proof.study.auxiliary_trials=2000 proof.study.steps_shown=[]
batch_samplers: ~ten_epochs one_epoch.study.epochs=2 one_epoch.study.batches=5
    one_epoch.study.noise_multipliers=[0.7,1.0] one_epoch.study.numbers_of_batches=[3,5]
    one_epoch.study.last_iterate_steps=5
at22_lower_bound: ~paper ~sampled full_batch.steps_shown=[] full_batch.other_pairs=[]
    full_batch.deltas=[1e-2] full_batch.renyi_orders=[]
resets: ~huber
poisson_batches: zero_out.mechanism.steps=5 zero_out.steps_shown=[] zero_out.deltas=[1e-2]
    zero_out.renyi_orders=[2] dimensions.study.dimensions=[1,3] dimensions.study.mechanism.steps=5
    dimensions.study.trials=2000
shuffled_batches: four_epochs.steps_shown=[]
own_dp_sgd: ~noise_divided_twice ~clipped_after_averaging
own_pure_dp: ~laplace ~coins
two_sided_walk: full_batch.steps_shown=[]
drifted_walk: full_batch.steps_shown=[]
one_pass: linear.positions=[0,19]
skip: skip.mechanism.steps=4 skip.mechanism.dataset_size=4 skip.positions=[0]
stop: ~twenty_records
fixed_order_epochs: as_many_as_records.positions=[9] four_epochs.other_pairs=[]
logistic_regression: epochs_50.renyi_orders=[] epochs_100.renyi_orders=[]
    epochs_200.renyi_orders=[]
step_sizes: full_batch.mechanism.steps=5 ~sampled
without_replacement: one_in_ten.steps_shown=[] one_in_ten.renyi_orders=[]
    one_in_ten.other_pairs=[] one_in_ten.deltas=[1e-5]
    bounds=[at22.b_2,cl25.theorem_3_12,bsa24.theorem_4_8]
holder_gradients: ~absolute ~repulsive signed.mechanism.steps=5
searched: full_batch.search.evaluations=30
non_convex: ~double_well repulsive_kink.mechanism.steps=20 repulsive_kink.steps_shown=[]
    repulsive_kink.renyi_orders=[2]
papers/shifted_interpolation: ~huber ~clamped_one_sided quadratic.study.paths=2000
    clamped_linear.study.paths=2000 clamped_strongly_convex.study.paths=2000
    ten_dimensions.study.paths=2000
papers/langevin: limits.study.step_sizes=[0.5,0.01] short.steps_shown=[]
papers/exponential_mechanism: limit.study.step_sizes=[0.01,0.003,0.001] walk.steps_shown=[]
"""


@pytest.fixture(scope="module", autouse=True)
def hydra() -> Iterator[None]:
    GlobalHydra.instance().clear()
    with initialize(version_base="1.3", config_path=None):
        yield


def composed(name: str, *changes: str) -> Scenario:
    store = ConfigStore.instance()
    store.repo.pop("scenario", None)  # Hydra copies all that is registered
    register([name], DEFAULT_SCENARIO, None, Output)
    config = compose(config_name="audit", overrides=[f"scenario={name}", *changes])
    return read_job(config, []).scenario


def shorter(name: str) -> list[str]:
    """The overrides that make a run shorter."""
    changes = yaml.safe_load(SHORTER).get(name, "").split()
    return [re.sub("^(~?)(?!bounds=)", r"\1settings.", change) for change in changes]


def with_fewer_samples(setting: Setting) -> Setting:
    if isinstance(setting, UserMechanismSetting):
        return replace(setting, own=replace(setting.own, trials=2000))
    return replace(setting, trials=2000) if isinstance(setting, PairSetting) else setting


@cache
def result(name: str) -> Result:
    scenario = composed(name, *shorter(name))
    return run(replace(scenario, settings=tuple(map(with_fewer_samples, scenario.settings))))


def settings(name: str) -> dict[str, SettingResult]:
    return {setting.name: setting for setting in result(name).settings}


def pair_result(name: str, setting: str) -> PairResult:
    found = settings(name)[setting]
    assert isinstance(found, PairResult)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_is_named_like_its_file(name: str) -> None:
    scenario = composed(name)
    assert scenario.name == name.rpartition("/")[2]
    assert scenario.title != name
    assert scenario.reference
    assert all(setting.title != setting.name for setting in scenario.settings)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_runs_and_its_sandwich_holds(name: str) -> None:
    text = to_json(result(name))
    SCHEMA.validate(json.loads(text))
    assert from_json(text) == result(name)
    kept = result(name).reproducible()
    assert kept.provenance.environment is None
    assert from_json(to_json(kept)) == kept
    for setting in settings(name).values():
        if isinstance(setting, StudyResult):
            # statements that papers get wrong are tested one by one, beside the study's class
            assert setting.findings.statements
            continue
        for row in setting.deltas:
            if isinstance(setting, UserMechanismResult):  # samples are all there is
                assert row.exact is None
                assert row.sampled.epsilon == row.certified.epsilon
                continue
            assert row.exact is not None
            low, high = row.exact.worst.bracket
            # each fails for a true law with probability 0.001 over seeds; the seed is fixed
            assert 0 <= row.sampled.epsilon <= high
            assert 0 < low <= high
            sound = [bound for bound in row.bounds if bound.sound]
            assert any(bound.verdict is Verdict.CONSISTENT for bound in sound)
            assert not [bound.id for bound in sound if bound.verdict is Verdict.REFUTED]


def claimed(bound: BoundRow) -> float:
    assert bound.value is not None
    return bound.value


def test_a_known_value() -> None:
    (row,) = [row for row in pair_result("resets", "wall").deltas if row.delta == 1e-5]
    assert row.certified.epsilon == pytest.approx(56.6, abs=0.05)


def test_stop_as_printed_is_refuted_and_its_correction_stands() -> None:
    (order,) = [r for r in pair_result("stop", "two_records").renyi if r.order == 1.2]
    assert {bound.id: bound.verdict for bound in order.bounds} == {
        "fmtt18.theorem_26": Verdict.REFUTED,
        "fmtt18.theorem_26_corrected": Verdict.CONSISTENT,
        "fmtt18.theorem_26_sharper": Verdict.CONSISTENT,
        "fmtt18.lemma_27_corrected": Verdict.CONSISTENT,  # the tightest at a delta
    }
    assert order.exact.worst.low == pytest.approx(3.533, abs=5e-4)


@pytest.mark.slow
def test_the_leak_of_each_record() -> None:
    """The last record leaks most, and the bound of Theorem 23 knows which record it is."""
    first, last = pair_result("one_pass", "linear").positions
    assert (first.index, last.index) == (1, 20)
    (earliest,), (latest,) = first.deltas, last.deltas
    assert latest.certified > 2 * earliest.certified
    by_index = {
        index: next(bound for bound in row.bounds if bound.id == "fmtt18.theorem_23")
        for index, row in ((1, earliest), (20, latest))
    }
    assert claimed(by_index[1]) < claimed(by_index[20])
    assert {bound.verdict for bound in by_index.values()} == {Verdict.CONSISTENT}
    # where the record comes first, twenty noises hide it and the walls are far: mu = 2/sqrt(5)
    walk = next(one for one in earliest.pairs if one.pair == "TwoSidedWalk")
    assert walk.epsilon.low == pytest.approx(GaussianCurve(0.8**0.5).epsilon(1e-5), rel=1e-6)
