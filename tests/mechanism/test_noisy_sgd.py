"""The mechanism's parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import audit
from audit import Batching, Divisor, NoisySGD, Relation, Release
from audit.constructions.explicit_laws import Gaussian
from tests.mechanisms import noisy_sgd

mechanism = partial(
    noisy_sgd, steps=1000, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5
)


def test_the_names_that_others_rely_on() -> None:
    m = mechanism()
    assert m.sensitivity == 2.0
    assert m.step_std == pytest.approx(0.05)
    assert m.contraction == 1.0
    assert m.epochs == 1000
    assert mechanism(relation=Relation.ZERO_OUT).sensitivity == 1.0
    assert mechanism(gradient_sensitivity=0.7).sensitivity == 0.7
    assert mechanism(lipschitz=None, gradient_sensitivity=5).sensitivity == 5.0


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"smoothness": None}, math.inf),
        ({"smoothness": 30.0}, 2.0),
        ({"smoothness": 5.0, "strong_convexity": 2.0}, 0.8),
        ({"smoothness": 5.0, "convex": False}, 1.5),
        ({"steps": 2, "step_size": (0.1, 0.4), "smoothness": 6.0}, 1.4),
        ({"steps": 2, "step_size": (0.1, 0.4), "smoothness": 3.0, "strong_convexity": 1.0}, 0.9),
    ],
)
def test_contraction(changes: dict[str, object], value: float) -> None:
    assert mechanism(**changes).contraction == pytest.approx(value)


def test_rates() -> None:
    m = mechanism(batch_size=5, batching=Batching.POISSON, steps=10)
    assert m.sampling_rate == 0.25
    assert m.epochs == 2.5


@pytest.mark.parametrize(
    ("relation", "multiplier"),
    [(Relation.REPLACE_ONE, 1.25), (Relation.ZERO_OUT, 2.5), (Relation.ADD_REMOVE, 2.5)],
)
def test_noise_multiplier(relation: Relation, multiplier: float) -> None:
    m = mechanism(batch_size=5, batching=Batching.POISSON, relation=relation)
    assert m.noise_multiplier == multiplier


def test_epochs_of_an_allocation_and_without_incomplete_batches() -> None:
    m = mechanism(batch_size=8, batching=Batching.RANDOM_ALLOCATION, participations=2)
    assert m.steps_per_epoch == 5  # each record is in 2 of them
    assert m.sampling_rate == 2 / 5
    assert mechanism(batch_size=8, batching=Batching.DROP_LAST).steps_per_epoch == 2


def test_a_rate_that_is_no_whole_number_of_records() -> None:
    m = mechanism(
        batch_size=5,
        batching=Batching.POISSON,
        release=Release.ALL_ITERATES,
        steps=10,
        poisson_rate=0.26,
    )
    assert m.sampling_rate == 0.26
    assert m.epochs == 2.6
    assert m.noise_multiplier == 1.25  # of batches that are divided by 5
    assert dataclasses.replace(m, poisson_rate=0.25) == dataclasses.replace(m, poisson_rate=None)


def test_choices_that_nothing_covers_by_default() -> None:
    assert mechanism().uncovered() is None
    m = mechanism(relation=Relation.ADD_REMOVE, release=Release.ALL_ITERATES)
    assert m.uncovered() == "needs another relation, got relation='add remove'"
    assert m.uncovered((Relation.ADD_REMOVE,)) == (
        "needs another release, got release='all iterates'"
    )
    assert m.uncovered((Relation.ADD_REMOVE, Release.ALL_ITERATES)) is None
    m = mechanism(divisor=Divisor.ACTUAL)
    assert m.uncovered() == "needs another divisor, got divisor='actual'"


def test_schedules() -> None:
    for sizes in ([0.1, 0.2, 0.3], np.array([0.1, 0.2, 0.3])):
        m = mechanism(steps=3, step_size=sizes)
        assert m.step_size == (0.1, 0.2, 0.3)
    np.testing.assert_array_equal(m.step_sizes, [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="step_size must be one number here, got a schedule"):
        _ = m.step_std
    assert mechanism(steps=2, step_size=(0.1, 0.1)).step_std == pytest.approx(0.05)
    np.testing.assert_array_equal(mechanism(steps=3).step_sizes, [0.1] * 3)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.longdouble, Fraction])
def test_all_is_computed_in_double_precision(kind: type) -> None:
    """Brackets of numbers of 32 bits were wrong in the eighth digit, steps of 8 bits overflowed."""

    def bracket(number: Callable[[Any], Any], count: Callable[[int], Any]) -> Any:
        half, seventh = (number(kind(1) / kind(n)) for n in (2, 7))
        counts = dict.fromkeys(("steps", "dataset_size", "batch_size"), count(200))
        m = mechanism(**counts, step_size=(seventh,) * 200, noise_std=half, diameter=half)
        pair = audit.constructions.DriftedWalk(m, drift=-seventh / 8, start=number(kind(0)))
        assert {*map(type, (m.steps, m.noise_std, *m.step_size, pair.drift))} == {int, float}
        step = Gaussian(sensitivity=half, noise_std=seventh, times=count(200))
        bound = audit.bounds.evaluate("survey.advanced_composition", m, step_epsilon=seventh)
        curves = [audit.exact.curve(one) for one in (pair, step)]
        return [bound.epsilon(1e-5), *(curve.epsilon_bracket(1e-5) for curve in curves)]

    assert bracket(lambda x: x, np.uint8) == bracket(float, int)


def test_mechanisms_are_values() -> None:
    assert mechanism() == mechanism()
    assert hash(mechanism(holder=[1.0, 0.5])) == hash(mechanism(holder=(1.0, 0.5)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism().steps = 3  # type: ignore[misc]
    assert dataclasses.replace(mechanism(), steps=5).steps == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 10**30}, r"steps must be at most 1e\+15, got 10{30}$"),
        ({"batch_size": 21}, r"batch_size must be at most dataset_size \(20\), got 21"),
        ({"batch_size": 5}, r"batch_size must be dataset_size \(20\) for full batches, got 5"),
        (
            {"batch_size": 3, "batching": Batching.CYCLIC},
            r"batch_size must divide dataset_size \(20\) for fixed|batch_size must divide",
        ),
        ({"batch_size": 3, "batching": Batching.SHUFFLED}, "batch_size must divide"),
        ({"batch_size": 3, "batching": Batching.RESHUFFLED}, "batch_size must divide"),
        (
            {"batch_size": 3, "batching": Batching.RANDOM_ALLOCATION, "participations": 2},
            r"batch_size must divide participations \* dataset_size \(40\) .* got 3",
        ),
        ({"participations": 2}, "participations must be 1 for full batches, got 2"),
        (
            {"batching": Batching.TRUNCATED_POISSON},
            "max_batch_size must be given for truncated poisson batches",
        ),
        (
            {"batching": Batching.TRUNCATED_POISSON, "max_batch_size": 0},
            "max_batch_size must be a whole number of at least 1, got 0",
        ),
        ({"max_batch_size": 9}, "max_batch_size must be None for full batches, got 9"),
        ({"poisson_rate": 0.1}, "poisson_rate must be None for full batches, got 0.1"),
        (
            {"poisson_rate": 0.1, "batching": Batching.POISSON},
            "poisson_rate must be None for the release of the last iterate, got 0.1",
        ),
        (
            {"poisson_rate": 1.1, "batching": Batching.POISSON, "release": Release.ALL_ITERATES},
            r"poisson_rate must be in \[0, 1\], got 1.1",
        ),
        ({"divisor": "actual"}, "divisor must be a Divisor, got 'actual'"),
        ({"noise_std": -0.5}, "noise_std must be a positive finite number, got -0.5"),
        ({"step_size": 0.0}, "step_size must be a positive finite number, got 0.0"),
        ({"step_size": (0.1,)}, r"step_size must have one number a step \(1000\), got 1 numbers"),
        ({"steps": 2, "step_size": (0.1, -1)}, "step_size must be a positive .*, got -1"),
        ({"steps": 2, "step_size": [[1], [2, 3]]}, r"step_size must be a positive .*, got \[1\]"),
        ({"lipschitz": math.inf}, "lipschitz must be a positive finite number, got inf"),
        ({"lipschitz": None}, "lipschitz.* or gradient_sensitivity must be given, got None"),
        ({"gradient_sensitivity": 2.1}, "gradient_sensitivity must be at most 2, .* got 2.1"),
        (
            {"gradient_sensitivity": 1.1, "relation": Relation.ZERO_OUT},
            "gradient_sensitivity must be at most 1, .* got 1.1",
        ),
        ({"smoothness": -1}, "smoothness must be a positive finite number, got -1"),
        ({"strong_convexity": -1}, "strong_convexity must be a finite number of at least 0"),
        ({"strong_convexity": 2}, r"strong_convexity must be at most smoothness \(1\), got 2"),
        (
            {"strong_convexity": 0.5, "convex": False},
            "strong_convexity must be 0 where convex is False, got 0.5",
        ),
        ({"convex": 1}, "convex must be a bool, got 1"),
        ({"diameter": 0}, "diameter must be a positive finite number, got 0"),
        ({"batching": "FULL"}, "batching must be a Batching, got 'FULL'"),
        ({"relation": None}, "relation must be a Relation, got None"),
        ({"holder": (1.0,)}, r"holder must be \(constant, order\), got \(1.0,\)"),
        ({"holder": 3}, r"holder must be \(constant, order\), got 3"),
        ({"holder": (1.0, 1.5)}, r"holder_order must be in \[0, 1\], got 1.5"),
        ({"holder": (-1.0, 0.5)}, "holder_constant must be a finite number of at least 0"),
    ],
)
def test_bad_input(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mechanism(**changes)


def test_positional_arguments_are_refused() -> None:
    with pytest.raises(TypeError):
        NoisySGD(10, 1, 1, 0.1, 0.5)  # type: ignore[misc]
