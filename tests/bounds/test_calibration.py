from __future__ import annotations

import dataclasses
import math
import re
from itertools import pairwise

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import audit
from audit import Batching, Relation, bounds
from audit.adapters.steps import any_dataset_size
from audit.bounds.calibration import least_noise, most_steps, needed_noise
from audit.bounds.trainings import _ANY_SIZE, epsilon_risk, power_risk
from audit.curves import GaussianCurve
from audit.dominating import dominating_curve
from audit.dominating.curve import GaussianDominatingCurve
from tests.mechanisms import dp_sgd, noisy_sgd
from tests.slow import slow

M = noisy_sgd(steps=1000, dataset_size=20, step_size=0.1, noise_std=0.5)
SAMPLED = dataclasses.replace(M, batch_size=2, steps=30, batching=Batching.WITHOUT_REPLACEMENT)
CYCLIC = dataclasses.replace(M, batch_size=2, batching=Batching.CYCLIC, strong_convexity=0.1)


def epsilon(id, m, delta, **changes):
    return bounds.evaluate(id, dataclasses.replace(m, **changes)).epsilon(delta)


@pytest.mark.parametrize("target", [1e-9, 0.1, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("id", ["bsa24.theorem_3_3", "at22.b_1"])
def test_noise_meets_the_budget_and_no_less_does(id, target, delta):
    noise = bounds.calibrate(id, M, target, delta)
    assert epsilon(id, M, delta, noise_std=noise) <= target
    assert epsilon(id, M, delta, noise_std=noise * (1 - 1e-6)) > target


def test_noise_does_not_depend_on_the_start():
    expected = bounds.calibrate("bsa24.theorem_4_3", M, epsilon=1.0, delta=1e-5)
    for start in (1e-6, 1e7):
        far = dataclasses.replace(M, noise_std=start)
        noise = bounds.calibrate("bsa24.theorem_4_3", far, epsilon=1.0, delta=1e-5)
        assert noise == pytest.approx(expected, rel=1e-6)


def test_noise_of_numerical_compositions():
    noise = bounds.calibrate("bsa24.theorem_4_8", SAMPLED, 1.0, 1e-5)
    assert epsilon("bsa24.theorem_4_8", SAMPLED, 1e-5, noise_std=noise) <= 1.0
    assert epsilon("bsa24.theorem_4_8", SAMPLED, 1e-5, noise_std=noise * (1 - 1e-5)) > 1.0
    by_tau = bounds.calibrate("bsa24.theorem_4_10", SAMPLED, 3.0, 1e-5, tau=20)
    given = dataclasses.replace(SAMPLED, noise_std=by_tau)
    assert 2.999 < bounds.evaluate("bsa24.theorem_4_10", given, tau=20).epsilon(1e-5) <= 3.0


def test_perfect_privacy_where_delta_allows_it():
    noise = bounds.calibrate("bsa24.theorem_4_1", M, 0.0, 1e-5)
    curve = bounds.evaluate("bsa24.theorem_4_1", dataclasses.replace(M, noise_std=noise))
    assert curve.delta(0.0) == pytest.approx(1e-5, rel=1e-5)


def test_steps_are_the_most_that_meet_the_budget():
    for target in (2.0, 30.0, 1e4):
        steps = bounds.calibrate("bsa24.theorem_4_1", M, target, 1e-5, parameter="steps")
        assert isinstance(steps, int)
        assert epsilon("bsa24.theorem_4_1", M, 1e-5, steps=steps) <= target
        assert epsilon("bsa24.theorem_4_1", M, 1e-5, steps=steps + 1) > target


def test_cyclic_steps_are_whole_epochs():
    steps = bounds.calibrate("bsa24.theorem_4_4", CYCLIC, 100.0, 1e-5, parameter="steps")
    assert steps % 10 == 0
    assert epsilon("bsa24.theorem_4_4", CYCLIC, 1e-5, steps=steps) <= 100
    assert epsilon("bsa24.theorem_4_4", CYCLIC, 1e-5, steps=steps + 10) > 100


STEPS = {"parameter": "steps"}
SCHEDULE = dataclasses.replace(M, steps=2, step_size=(0.1, 0.2))


@pytest.mark.parametrize(
    ("theorem", "options", "message"),
    [
        ("3_3", {"epsilon": 100.0, **STEPS}, "epsilon must be smaller"),
        ("4_3", STEPS, "at least 24.38.* any steps"),
        ("4_1", {"epsilon": 1e-3, **STEPS}, "provably by any steps"),
        ("4_5", {}, "bsa24.theorem_4_5 needs cyclic batches"),
        ("4_5", STEPS, "needs cyclic batches"),
        ("4_1", {"epsilon": -1.0}, "epsilon must be a finite number of at least 0"),
        ("4_1", {"epsilon": math.inf}, "epsilon must be a finite number"),
        ("4_1", {"delta": 0.0}, r"delta must be in \(0, 1\)"),
        ("4_1", {"parameter": "eta"}, "parameter must be one of"),
        ("4_1", {"tau": 3}, "has no option 'tau'"),
        ("41", {}, "id must be the id of a bound"),
        ("4_1", {"m": SCHEDULE, **STEPS}, "step_size must be one number to calibrate steps"),
    ],
)
def test_what_cannot_be_met_ends_in_one_line(theorem, options, message):
    given = {"m": M, "epsilon": 1.0, "delta": 1e-5, **options}
    with pytest.raises(ValueError, match=message) as caught:
        bounds.calibrate(f"bsa24.theorem_{theorem}", given.pop("m"), **given)
    assert "\n" not in str(caught.value)


def test_search_is_safe_on_steps_and_gaps():
    """A bound that jumps, or that speaks for some noises only, is met from above."""
    found = least_noise(lambda x: 2.0 if x < 3 else 0.5, 1.0, 1e-3)
    assert 3 <= found <= 3 * (1 + 1e-6)

    def partial(x):
        if x < 5:
            raise bounds.NotApplicable("needs more noise")
        return 1 / x

    assert 5 <= least_noise(partial, 1.0, 100.0) <= 5 * (1 + 1e-6)
    with pytest.raises(ValueError, match="every noise_std down to"):
        least_noise(lambda x: 0.5, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"^tpr must be at least 2 to be met provably by any"):
        least_noise(lambda x: 2.0, 1.0, 1.0, goal="tpr")
    assert most_steps(lambda t: t / 7, 100.0, 1) == 700
    assert most_steps(lambda t: t / 7, 100.0, 3) == 699


# ------------------------------------ Epsilon and noise in the terms of trainings, from both sides


RUN = {"sampling_rate": 0.01, "steps": 20, "relation": Relation.ADD_REMOVE}
FULL = {"sampling_rate": 1, "steps": 16, "relation": Relation.ZERO_OUT}


@pytest.mark.parametrize(
    "relation", [slow(Relation.ADD_REMOVE), Relation.REPLACE_ONE, slow(Relation.ZERO_OUT)]
)
def test_epsilon_is_that_of_the_mechanism_at_any_dataset_size(relation: Relation) -> None:
    m = dp_sgd(
        dataset_size=7000,
        batch_size=70,
        step_size=0.3,
        noise_std=1.1 * 2.0 / 70,
        clip_norm=2.0,
        relation=relation,
    )
    low, high = dominating_curve(m).epsilon_bracket(1e-5)
    found = audit.epsilon(noise_multiplier=1.1, delta=1e-5, **{**RUN, "relation": relation})
    assert found.lower == pytest.approx(low, rel=1e-9)
    assert found.upper == pytest.approx(high, rel=1e-9)
    assert found.bound == "accounting.poisson"


def test_full_batches_in_closed_form() -> None:
    found = audit.epsilon(noise_multiplier=2.0, delta=1e-5, **FULL)
    truth = GaussianCurve(2.0).epsilon(1e-5)
    assert found.lower <= truth * (1 + 1e-12)
    assert found.upper == pytest.approx(truth, rel=1e-9)


def test_epochs_count_begun_steps() -> None:
    def asked(**length: float) -> object:
        run = {"sampling_rate": 1 / 5, "relation": Relation.ADD_REMOVE, "delta": 1e-5}
        return audit.epsilon(noise_multiplier=2.0, **run, **length)

    assert asked(epochs=2) == asked(steps=10)
    assert asked(epochs=2.01) == asked(steps=11)
    rare = {"sampling_rate": 1e-9, "batching": Batching.CYCLIC, "relation": Relation.ZERO_OUT}
    rare |= {"noise_multiplier": 1.0, "delta": 1e-5}
    begun = audit.epsilon(epochs=1.0000000005, **rare)
    assert begun == audit.epsilon(steps=1_000_000_001, **rare)
    assert begun.lower > audit.epsilon(epochs=1, **rare).upper


@pytest.mark.parametrize("batching", _ANY_SIZE)
def test_the_named_statement_proves_the_upper_end(batching: Batching) -> None:
    if batching is Batching.FULL:
        return  # named by a sampling rate of 1
    relation = {Batching.WITHOUT_REPLACEMENT: Relation.REPLACE_ONE}.get(batching, Relation.ZERO_OUT)
    run = {"sampling_rate": 0.1, "steps": 10, "relation": relation, "batching": batching}
    found = audit.epsilon(noise_multiplier=1.5, delta=1e-5, **run)
    m = dp_sgd(
        steps=10, dataset_size=10, batch_size=1, noise_std=1.5, batching=batching, relation=relation
    )
    best = audit.bounds.best(m, delta=1e-5)
    assert found.upper == pytest.approx(best.compared[found.bound], rel=1e-4)
    assert found.upper == pytest.approx(best.epsilon, rel=1e-4)  # no other proves less


def test_noise_that_is_needed_misses_and_noise_that_is_enough_meets() -> None:
    goal, run = 2.0, {"sampling_rate": 0.1, "steps": 2, "relation": Relation.REPLACE_ONE}
    noise = audit.noise_multiplier(epsilon=goal, delta=1e-5, **run)
    assert 0 < noise.needed < noise.enough < noise.needed * (1 + 1e-4)
    assert audit.epsilon(noise_multiplier=noise.needed, delta=1e-5, **run).upper > goal
    assert audit.epsilon(noise_multiplier=noise.enough, delta=1e-5, **run).lower <= goal
    assert audit.epsilon(noise_multiplier=noise.enough * (1 + 1e-4), delta=1e-5, **run).upper < goal
    assert audit.epsilon(noise_multiplier=noise.needed * (1 - 1e-4), delta=1e-5, **run).lower > goal


def test_goals_of_attacks_in_closed_form() -> None:
    noise = audit.noise_multiplier(advantage=0.2, **FULL)
    truth = 4 / (2 * norm.ppf(0.6))  # 2 Phi(mu/2) - 1 = 0.2, mu = 4/z
    assert noise.needed <= truth * (1 + 1e-9)
    assert noise.enough == pytest.approx(truth, rel=2e-6)
    assert noise.needed == pytest.approx(truth, rel=4e-6)

    noise = audit.noise_multiplier(tpr=0.3, fpr=0.01, **FULL)
    truth = 4 / (norm.ppf(0.3) - norm.ppf(0.01))
    assert noise.needed <= truth * (1 + 1e-9)
    assert noise.enough == pytest.approx(truth, rel=1e-5)
    assert noise.needed == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize(("mu", "fpr"), [(0.05, 0.2), (1.0, 0.01), (4.0, 1e-6)])
def test_power_is_enclosed(mu: float, fpr: float) -> None:
    low, high = power_risk(1 - 1e-12, fpr).bracket(GaussianDominatingCurve(mu))
    truth = norm.sf(norm.isf(fpr) - mu)
    assert low <= truth * (1 + 1e-9)
    assert high >= truth * (1 - 1e-9)
    assert high - low < 1e-3 * high


@pytest.mark.parametrize("factor", [-1e-3, slow(1e-3)])
def test_power_of_a_sampled_step_in_closed_form(factor: float) -> None:
    # (1-q) N(0, z^2) + q N(1, z^2) against N(0, z^2): thresholds on the output are optimal
    q, z, fpr = 0.2, 0.8, 0.05
    run = {"sampling_rate": q, "steps": 1, "relation": Relation.ADD_REMOVE}
    forward = (1 - q) * fpr + q * norm.sf(norm.isf(fpr) - 1 / z)
    t = brentq(lambda t: (1 - q) * norm.cdf(t) + q * norm.cdf(t - 1 / z) - fpr, -9, 9)
    truth = max(forward, norm.cdf(t))
    noise = audit.noise_multiplier(tpr=truth * (1 + factor), fpr=fpr, **run)
    assert (noise.needed > z) is (factor < 0)
    assert (noise.enough > z) is (factor < 0)


def test_needed_noise_is_0_where_nothing_is_proven() -> None:
    def unknown(value: float) -> float:
        raise ValueError("no pair is known")

    assert needed_noise(lambda value: 0.0, 1.0, 5.0) == 0
    assert needed_noise(unknown, 1.0, 5.0) == 0
    assert needed_noise(lambda value: 3.0 / value, 1.0, 5.0) == pytest.approx(3.0, rel=1e-5)
    assert 3.0 / needed_noise(lambda value: 3.0 / value, 1.0, 5.0) > 1.0


def test_rates_stand_for_simple_fractions() -> None:
    assert any_dataset_size(0.004) == 250
    assert any_dataset_size(1 / 235, 0.01) == 4700
    assert any_dataset_size(1.0) == 1
    assert any_dataset_size(0.9999999) == 10**7
    near = [audit.epsilon(**{**RUN, "sampling_rate": q}, noise_multiplier=1.0, delta=1e-5).upper
            for q in (0.0123456789012345, 0.02)]  # fmt: skip
    assert all(a < b for a, b in pairwise(near))


def test_print() -> None:
    assert str(audit.epsilon(noise_multiplier=2.0, delta=1e-5, **FULL)) == (
        "9.997256 <= epsilon <= 9.997257 at delta 1e-05 (accounting.full_batch)"
    )
    goal = audit.noise_multiplier(tpr=0.3, fpr=0.01, **FULL).goal
    assert goal == "the true positive rate of an attack at false positive rate 0.01 <= 0.3"
    assert epsilon_risk(0.1).text == "epsilon at delta 0.1"
    exact = audit.noise_multiplier(tpr=0.9999999, fpr=0.00012345678, **FULL)
    assert exact.goal.endswith("positive rate 0.00012345678 <= 0.9999999")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 1}, "delta must be in (0, 1), got 1"),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be a positive finite number, got"),
        ({"sampling_rate": 1.5}, "sampling_rate must be in [0, 1], got 1.5"),
        ({"sampling_rate": 0}, "sampling_rate must be a positive finite number, got 0"),
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"epochs": 2}, "steps or epochs must be given, and not both, got both"),
        ({"steps": None}, "steps or epochs must be given, and not both, got neither"),
        ({"relation": "add remove"}, "write Relation.ADD_REMOVE"),
        ({"batching": "poisson"}, "write Batching.POISSON"),
        ({"batching": Batching.TRUNCATED_POISSON}, "batching must be one of full, cyclic,"),
        (
            {"batching": Batching.SHUFFLED, "sampling_rate": 0.03},
            "sampling_rate must be 1 over a whole number for shuffled batches, got 0.03",
        ),
        (
            {"batching": Batching.FULL, "sampling_rate": 0.5},
            "sampling_rate must be 1 for full batches, got 0.5",
        ),
        (
            {"batching": Batching.DROP_LAST, "sampling_rate": 1 / math.pi},
            "sampling_rate must be b/n with n <= 10^9 for drop last batches, got 0.318",
        ),
    ],
)
def test_refusals_of_epsilon(changes: dict[str, object], message: str) -> None:
    given = {"noise_multiplier": 1.0, "delta": 1e-5, **RUN, **changes}
    with pytest.raises(ValueError, match=re.escape(message)):
        audit.epsilon(**given)


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({}, "the goal must be epsilon and delta, or advantage, or tpr and fpr, got nothing"),
        ({"epsilon": 1.0}, "or tpr and fpr, got epsilon"),
        ({"advantage": 0.1, "delta": 0.1}, "got delta and advantage"),
        ({"epsilon": -1.0, "delta": 0.1}, "epsilon must be a positive finite number, got -1.0"),
        ({"epsilon": math.nan, "delta": 0.1}, "epsilon must be a positive finite number, got nan"),
        ({"advantage": math.nan}, "advantage must be in (0, 1), got nan"),
        ({"advantage": 1.0}, "advantage must be in (0, 1), got 1.0"),
        ({"tpr": 0.1, "fpr": 0.2}, "tpr must be above fpr (0.2), which guessing attains, got 0.1"),
    ],
)
def test_refusals_of_noise(goal: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        audit.noise_multiplier(**goal, **RUN)
