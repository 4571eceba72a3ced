"""Hölder constants on Iris: gradients, estimates and statements."""

from __future__ import annotations

import dataclasses
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audit import bounds
from audit.results import Findings, Verdict
from papers import iris_holder
from papers.holder_constants import (
    Activation,
    Around,
    Differences,
    Estimation,
    Perceptron,
    across_a_kink,
    along_steepest,
    compared,
    drawn_shifts,
)
from papers.iris_holder import Curves, Figure1, IrisHolder, bound_curves, iris

SMALL = Perceptron(inputs=3, hidden=5, classes=3, activation=Activation.TANH, scale=0.1)
RELU = dataclasses.replace(SMALL, activation=Activation.RELU)
BOTH = pytest.mark.parametrize("model", [SMALL, RELU], ids=["tanh", "relu"])


def drawn(model: Perceptron, seed: int = 0, records: int = 7) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((records, model.inputs))
    return features, generator.integers(0, model.classes, records), model.start(generator)


def plain_gradients(model: Perceptron, weight: Any, features: Any, labels: Any) -> Any:
    """One record at a time, shape (n, d)."""
    return np.array(
        [
            model.gradients(weight[None], features[i : i + 1], labels[i : i + 1]).weighted_mean()[0]
            for i in range(len(labels))
        ]
    )


def differentiated(model: Perceptron, weight: Any, features: Any, labels: Any) -> Any:
    """Each record's gradient by central differences of its loss, shape (n, d)."""
    step = 1e-6
    shifts = step * np.eye(model.dimension)
    high = model.losses(weight + shifts, features, labels)
    return (high - model.losses(weight - shifts, features, labels)).T / (2 * step)


@BOTH
def test_gradients_are_those_of_the_loss(model: Perceptron) -> None:
    features, labels, weight = drawn(model)
    found = plain_gradients(model, weight, features, labels)
    # central differences err by step^2 times a third derivative below 1, and by rounding / step
    assert found == pytest.approx(differentiated(model, weight, features, labels), abs=1e-9)
    whole = model.gradients(weight[None], features, labels)
    assert whole.weighted_mean()[0] == pytest.approx(found.mean(axis=0), abs=1e-15)
    assert whole.norms()[0] == pytest.approx(np.linalg.norm(found, axis=1), rel=1e-12)
    other = SMALL if model is RELU else RELU  # would be told
    wrong = plain_gradients(other, weight, features, labels)
    assert np.max(np.abs(wrong - found)) > 1e-3


@BOTH
def test_distances_of_gradients_are_those_of_whole_vectors(model: Perceptron) -> None:
    features, labels, weight = drawn(model)
    shifts = 0.3 * np.random.default_rng(1).standard_normal((40, model.dimension))  # two chunks
    found = compared(model, weight, shifts, features, labels)
    base = plain_gradients(model, weight, features, labels)
    for i, shift in enumerate(shifts):
        moved = plain_gradients(model, weight + shift, features, labels)
        change = np.linalg.norm(moved - base, axis=1)
        assert found.record[i] == pytest.approx(np.max(change), rel=1e-10)
        mean = np.linalg.norm(np.mean(moved - base, axis=0))
        assert found.mean[i] == pytest.approx(mean, rel=1e-10)
    assert found.distance == pytest.approx(np.linalg.norm(shifts, axis=1), rel=1e-12)


def test_a_constant_is_the_largest_ratio() -> None:
    generator = np.random.default_rng(3)
    distance = generator.uniform(0.1, 1, 50)
    one = Differences(distance, 3 * distance**0.5, 4 * distance**0.5)
    assert one.constant(0.5, record=False) == pytest.approx(3, rel=1e-14)
    assert one.constant(0.5, record=True) == pytest.approx(4, rel=1e-14)
    assert one.constant(1.0, record=False) == pytest.approx(3 / np.sqrt(distance.min()), rel=1e-14)
    planted = Differences(np.array([0.5]), np.array([7.0]), np.array([7.0]))
    assert Differences.joined([one, planted]).constant(0.5, record=False) > 9.8


def test_the_trajectory_clips_each_record() -> None:
    features, labels, weight = drawn(SMALL)
    clip = 0.12
    procedure = Estimation(
        epochs=3, step_size=0.7, clip_norm=clip, points=1, near_points=1, every=1
    )
    expected = [weight]
    for _ in range(3):
        each = plain_gradients(SMALL, expected[-1], features, labels)
        norms = np.linalg.norm(each, axis=1)
        assert np.any(norms > clip)
        assert np.any(norms < clip)
        each *= np.minimum(1, clip / norms)[:, None]
        expected.append(expected[-1] - 0.7 * each.mean(axis=0))
    found = procedure.trajectory(SMALL, weight, features, labels)
    assert found == pytest.approx(np.array(expected), abs=1e-14)


@pytest.mark.parametrize(("every", "weights"), [(1, 8), (3, 4), (50, 2)])
def test_points_lie_around_the_weights_asked_for(every: int, weights: int) -> None:
    features, labels, _ = drawn(SMALL)
    procedure = Estimation(
        epochs=7, step_size=0.1, clip_norm=1.0, points=6, near_points=2, every=every
    )
    start, found = procedure.differences(SMALL, features, labels, np.random.default_rng(5))
    assert found[Around.BALL].distance.size == 6 * weights
    assert found[Around.DISTANCES].distance.size == 2 * weights
    assert start == pytest.approx(SMALL.start(np.random.default_rng(5)), abs=0)


def test_points_of_the_ball_are_uniform() -> None:
    dimension = 4
    shifts = drawn_shifts(Around.BALL, 4000, dimension, np.random.default_rng(1))
    radius = np.linalg.norm(shifts, axis=1)
    # the share of the ball within r is r^d; at seed 1, a true law fails with probability 1e-3
    assert stats.kstest(radius**dimension, "uniform").pvalue > 1e-3
    assert stats.kstest(radius, "uniform").pvalue < 1e-9  # a radius drawn evenly would be seen
    halves = (1 + shifts[:, 0] / radius) / 2  # of a uniform direction in four dimensions
    assert stats.kstest(halves, "beta", (1.5, 1.5)).pvalue > 1e-3
    logs = np.log(
        np.linalg.norm(
            drawn_shifts(Around.DISTANCES, 4000, dimension, np.random.default_rng(2)), axis=1
        )
    )
    assert stats.kstest(logs / np.log(1e-3), "uniform").pvalue > 1e-3


def test_the_gradient_of_a_relu_jumps_and_that_of_tanh_does_not() -> None:
    distances = np.geomspace(1e-10, 1e-4, 7)
    features, labels, weight = drawn(RELU)
    jump = across_a_kink(RELU, weight, features, labels, distances)
    assert jump.distance == pytest.approx(distances, rel=1e-5)  # a bias of 0.3 rounds by 5e-17
    assert jump.record == pytest.approx(jump.record[0], rel=1e-3)
    assert jump.record[0] > 1e-3
    smooth = across_a_kink(SMALL, weight, features, labels, distances)
    assert smooth.record / smooth.distance == pytest.approx(
        smooth.record[-1] / smooth.distance[-1], rel=1e-3
    )


@cache
def found(activation: Activation, threads: int = 1) -> Findings:
    study = IrisHolder(
        renyi_order=2.0,
        activation=activation,
        starts=3,
        epochs=10,
        points=20,
        near_points=20,
        every=5,
        orders=(0.25, 0.5, 1.0),
    )
    return study.find(seed=7, threads=threads, confidence=0.99, progress=lambda *_: None)


def test_estimates_are_said_to_be_no_guarantee() -> None:
    findings = found(Activation.RELU)
    assert [one.verdict for one in findings.statements] == [Verdict.HOLDS] * 5
    too_small = next(one for one in findings.statements if "too small" in one.claim)
    assert isinstance(too_small.found, float)
    assert too_small.found > 1
    said = " ".join([*findings.notes, *(table.caption for table in findings.tables)])
    assert "lower bound on the true one" in said
    assert "no guarantee" in said
    assert "sound" not in said
    assert findings.numbers["nearest_in_ball"] > 0.97


def test_sentences_take_their_numbers_from_the_run() -> None:
    """One hidden unit, three steps, other sizes: nothing of the shipped settings is said."""
    study = IrisHolder(
        renyi_order=2.0,
        hidden=1,
        starts=2,
        epochs=5,
        points=30,
        near_points=10,
        every=5,
        clip_norm=0.5,
        figure=Figure1(dataset_size=50, clip_norm=3.0, diameter=2.0, steps=3),
    )
    findings = study.find(seed=7, threads=1, confidence=0.99, progress=lambda *_: None)
    said = " ".join([*findings.notes, *(chart.caption for chart in findings.charts)])
    nearest = findings.numbers["nearest_in_ball"]
    assert nearest < 0.9  # 11 dimensions: far from the rim
    assert f"lie beyond {nearest:.3f}" in said
    assert f"distances above {nearest:.3f} only" in said
    assert "cannot tell orders apart" not in said
    assert "n = 50, clip norm 3 and a domain of diameter 2" in said
    assert "150 records, clip norm 0.5" in said
    assert "not level yet" in said
    whole = found(Activation.TANH)
    assert "cannot tell orders apart" in " ".join(whole.notes)


def test_the_course_of_a_bound_is_computed() -> None:
    steps = (1, 2, 4, 8, 16)
    composition = tuple(float(t) for t in steps)
    curves = Curves(
        steps=steps,
        constants={},
        holder={1.0: (1.0, 2.0, 3.0, 3.0, 3.0), 0.5: composition},
        composition=composition,
        last_step=composition,
        last_step_corrected=composition,
    )
    level = iris_holder.course(1.0, curves)
    assert "below composition from 4 steps on" in level
    assert level.endswith("from 8 to 16 steps and is level.")
    rising = iris_holder.course(0.5, curves)
    assert "is that of composition" in rising
    assert rising.endswith("grows by 100 percent from 8 to 16 steps and is not level yet.")


@pytest.mark.parametrize(("size", "outcome"), [(0.45, Verdict.HOLDS), (0.55, Verdict.INCONCLUSIVE)])
def test_much_smaller_is_at_most_half(size: float, outcome: Verdict) -> None:
    """Two points: order 1 gives 1 at a distance of 1/10, order 0.1 the size at a distance of 1."""
    distance = np.array([0.1, 1.0])
    both = np.array([0.1, size])
    near = Differences(distance, both, both)
    one = iris_holder._smaller_orders(near, (0.1, 1.0))
    assert one.found == pytest.approx(size, rel=1e-12)
    assert one.verdict is outcome


def test_findings_are_the_same_for_any_number_of_threads() -> None:
    assert found(Activation.TANH) == found(Activation.TANH, threads=2)


def test_estimates_that_nothing_exceeds_are_not_called_right() -> None:
    distance = np.array([0.5, 1.0])
    ball = Differences(distance, 2 * distance, 2 * distance)
    below = Differences(distance / 2, distance / 2, distance / 2)
    around = {Around.BALL: ball, Around.DISTANCES: below}
    one = iris_holder._exceeded(around, (below,), (0.5, 1.0))
    assert one.verdict is Verdict.INCONCLUSIVE
    assert one.found == pytest.approx(0.5 / 0.5**0.5 / 2)  # at order 1/2
    # 1.1 at a distance of 1/2 is above 2 * 1/2, and below 2 * sqrt(1/2)
    above = Differences(distance / 2, 1.1 * distance, 1.1 * distance)
    outcomes = [
        iris_holder._exceeded(around, (below, above), orders).verdict
        for orders in ((1.0,), (0.5, 1.0))
    ]
    assert outcomes == [Verdict.HOLDS, Verdict.INCONCLUSIVE]


def test_the_steepest_direction_is_that_of_the_largest_curvature() -> None:
    features, labels, weight = drawn(SMALL)
    found = along_steepest(
        SMALL, weight, features, labels, np.array([1e-4]), np.random.default_rng(8)
    )
    record = int(np.argmax(SMALL.gradients(weight[None], features, labels).norms()))
    one, label = features[record : record + 1], labels[record : record + 1]
    step = 1e-5
    shifts = step * np.eye(SMALL.dimension)
    high = SMALL.gradients(weight + shifts, one, label).weighted_mean()
    hessian = (high - SMALL.gradients(weight - shifts, one, label).weighted_mean()) / (2 * step)
    steepest = float(np.max(np.abs(np.linalg.eigvalsh((hessian + hessian.T) / 2))))
    among_all = found.constant(1.0, record=True)
    assert among_all >= 0.95 * steepest  # twenty iterations come close, and no further is needed
    random = drawn_shifts(Around.BALL, 20, SMALL.dimension, np.random.default_rng(9)) * 1e-4
    assert among_all > 1.5 * compared(SMALL, weight, random, features, labels).constant(
        1.0, record=True
    )


def test_bounds_are_those_of_figure_1() -> None:
    figure = Figure1()
    curves = bound_curves(figure, {0.5: 1.0, 1.0: 1.0}, 2.0)
    # order 1 is smoothness 1: Theorem 3.1, non-convex, whose value at T = 200 is known
    smooth = dataclasses.replace(figure.mechanism(200, (1.0, 1.0)), smoothness=1.0, holder=None)
    theorem_3_1 = float(bounds.evaluate("cl25.theorem_3_1", smooth).renyi(2.0))
    assert theorem_3_1 == pytest.approx(0.5463434543, abs=1e-10)
    assert curves.steps[-1] == 200
    # the shifts of Theorem 3.7 are found by shooting, to within 1e-6 of the best
    assert curves.holder[1.0][-1] == pytest.approx(theorem_3_1, rel=1e-6)
    assert curves.composition == pytest.approx([0.0064 * t for t in curves.steps], rel=1e-12)
    for values in curves.holder.values():
        assert np.all(np.diff(values) >= -1e-12)
        assert all(v <= c * (1 + 1e-9) for v, c in zip(values, curves.composition, strict=True))


def test_a_power_law_is_fitted_through_the_largest_values() -> None:
    generator = np.random.default_rng(4)
    distance = np.exp(generator.uniform(np.log(1e-3), 0, 5000))
    size = 0.7 * distance**0.4 * generator.uniform(0, 1, 5000)
    centres, tops = iris_holder.bin_maxima(distance, size)
    for centre, top in zip(centres, tops, strict=True):
        assert np.any((distance == centre) & (size == top))
    fit = iris_holder.fitted(centres, tops)
    # the largest of some 300 uniform factors in a bin is within a few percent of 1
    assert fit.order == pytest.approx(0.4, abs=0.05)
    assert fit.constant == pytest.approx(0.7, rel=0.1)


def test_iris_is_what_fisher_measured_and_the_paper_s_network_has_515_weights() -> None:
    features, labels = iris()
    assert features.shape == (150, 4)
    assert np.bincount(labels).tolist() == [50, 50, 50]
    assert features[0].tolist() == [5.1, 3.5, 1.4, 0.2]
    assert IrisHolder(renyi_order=2.0).model(4, 3).dimension == 515


def test_without_scikit_learn_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'noisy-sgd-audit\[learn\]'"):
        iris()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders": (1.0, 0.5)}, "orders must be increasing numbers in"),
        ({"orders": (0.0, 1.0)}, "orders must be increasing numbers in"),
        ({"orders": ()}, "orders must be increasing numbers in"),
        ({"renyi_order": 1.0}, "renyi_order must be a finite number above 1, got 1.0"),
        ({"every": 0}, "every must be a whole number of at least 1, got 0"),
        ({"starts": 0}, "starts must be a whole number of at least 1, got 0"),
        ({"hidden": 0}, "hidden must be a whole number of at least 1, got 0"),
        ({"activation": "relu"}, "activation must be an Activation, got 'relu'"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IrisHolder(**{"renyi_order": 2.0, **changes})
