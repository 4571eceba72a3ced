import dataclasses
import math

import pytest

from audit import Batching, bounds
from audit.bounds.calibration import least_noise, most_steps
from tests.mechanisms import noisy_sgd

M = noisy_sgd(steps=1000, dataset_size=20, step_size=0.1, noise_std=0.5)
SAMPLED = dataclasses.replace(M, batch_size=2, steps=30, batching=Batching.WITHOUT_REPLACEMENT)
CYCLIC = dataclasses.replace(M, batch_size=2, batching=Batching.CYCLIC, strong_convexity=0.1)


def epsilon(id, m, delta, **changes):
    return bounds.evaluate(id, dataclasses.replace(m, **changes)).epsilon(delta)


@pytest.mark.parametrize("target", [1e-9, 0.1, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("id", ["bsa24.theorem_4_1", "bsa24.theorem_3_3", "at22.b_1"])
def test_noise_meets_the_budget_and_no_less_does(id, target, delta):
    noise = bounds.calibrate(id, M, target, delta)
    assert epsilon(id, M, delta, noise_std=noise) <= target
    assert epsilon(id, M, delta, noise_std=noise * (1 - 1e-6)) > target


@pytest.mark.parametrize("start", [1e-6, 0.5, 1e7])
def test_noise_does_not_depend_on_the_start(start):
    far = dataclasses.replace(M, noise_std=start)
    noise = bounds.calibrate("bsa24.theorem_4_3", far, epsilon=1.0, delta=1e-5)
    expected = bounds.calibrate("bsa24.theorem_4_3", M, epsilon=1.0, delta=1e-5)
    assert noise == pytest.approx(expected, rel=1e-6)


def test_noise_of_numerical_compositions():
    noise = bounds.calibrate("bsa24.theorem_4_8", SAMPLED, 1.0, 1e-5)
    assert epsilon("bsa24.theorem_4_8", SAMPLED, 1e-5, noise_std=noise) <= 1.0
    assert epsilon("bsa24.theorem_4_8", SAMPLED, 1e-5, noise_std=noise * (1 - 1e-5)) > 1.0
    by_tau = bounds.calibrate("bsa24.theorem_4_10", SAMPLED, 3.0, 1e-5, tau=20)
    assert by_tau > 0


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


@pytest.mark.parametrize(
    ("id", "m", "options", "message"),
    [
        (
            "bsa24.theorem_3_3",
            M,
            {"epsilon": 100.0, "parameter": "steps"},
            "epsilon must be smaller",
        ),
        (
            "bsa24.theorem_4_3",
            M,
            {"epsilon": 1.0, "parameter": "steps"},
            "at least 24.38.* any steps",
        ),
        ("bsa24.theorem_4_1", M, {"epsilon": 1e-3, "parameter": "steps"}, "met by any steps"),
        ("bsa24.theorem_4_5", M, {"epsilon": 1.0}, "bsa24.theorem_4_5 needs cyclic batches"),
        ("bsa24.theorem_4_5", M, {"epsilon": 1.0, "parameter": "steps"}, "needs cyclic batches"),
        (
            "bsa24.theorem_4_1",
            M,
            {"epsilon": -1.0},
            "epsilon must be a finite number of at least 0",
        ),
        ("bsa24.theorem_4_1", M, {"epsilon": math.inf}, "epsilon must be a finite number"),
        ("bsa24.theorem_4_1", M, {"epsilon": 1.0, "delta": 0.0}, r"delta must be in \(0, 1\)"),
        ("bsa24.theorem_4_1", M, {"epsilon": 1.0, "parameter": "eta"}, "parameter must be one of"),
        ("bsa24.theorem_4_1", M, {"epsilon": 1.0, "tau": 3}, "has no option 'tau'"),
        ("bsa24.theorem_41", M, {"epsilon": 1.0}, "id must be the id of a bound"),
        (
            "bsa24.theorem_4_1",
            dataclasses.replace(M, steps=2, step_size=(0.1, 0.2)),
            {"epsilon": 1.0, "parameter": "steps"},
            "step_size must be one number to calibrate steps",
        ),
    ],
)
def test_what_cannot_be_met_ends_in_one_line(id, m, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        bounds.calibrate(id, m, **{"delta": 1e-5, **options})
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
    with pytest.raises(ValueError, match=r"at least 2 to be met by any noise_std, got 1\.0"):
        least_noise(lambda x: 2.0, 1.0, 1.0)
    assert most_steps(lambda t: t / 7, 100.0, 1) == 700
    assert most_steps(lambda t: t / 7, 100.0, 3) == 699
