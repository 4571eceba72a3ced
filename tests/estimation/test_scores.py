"""Learned scores and combined columns never certify on the samples that chose them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from audit.curves import GaussianCurve
from audit.estimation import (
    BestColumn,
    Columns,
    FixedThresholds,
    Fresh,
    GradientBoosting,
    Histogram,
    LearnedColumns,
    LinearScore,
    Logistic,
    NearestNeighbours,
    WeightedColumns,
    audit_samples,
    combine,
    split,
)

from .audited_laws import allowed

LEARNERS = [Histogram(), Logistic(), NearestNeighbours(), GradientBoosting(rounds=20)]


def shifted(size: int, dimension: int, seed: int, shift: float = 1.0) -> tuple[Any, Any]:
    """Normal draws, the first sample moved by ``shift`` along the diagonal."""
    generator = np.random.default_rng(seed)
    first = generator.normal(shift / np.sqrt(dimension), 1.0, (size, dimension))
    return first, generator.normal(0.0, 1.0, (size, dimension))


ONES = np.ones(5)


def parts(first: Any, second: Any, fraction: float = 0.5, seed: int = 0) -> Any:
    return split(first, second, fraction=fraction, seed=seed)


def held_out(learner: Any, first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of one half that the other half of the samples teaches."""
    training, certifying = parts(first, second)
    scores: tuple[np.ndarray, np.ndarray] = learner.fit(training).apply(certifying)
    return scores


def test_split_is_a_partition() -> None:
    first, second = shifted(100, 3, 0)
    training, certifying = split(first, second[:50], fraction=0.3, seed=5)
    assert training.samples.shape == (30, 3)
    assert training.samples_prime.shape == (15, 3)
    for whole, parts in (
        (first, (training.samples, certifying.samples)),
        (second[:50], (training.samples_prime, certifying.samples_prime)),
    ):
        joined = np.concatenate(parts)
        assert np.array_equal(np.sort(joined, axis=0), np.sort(whole, axis=0))
    again, _ = split(first, second[:50], fraction=0.3, seed=5)
    assert np.array_equal(again.samples, training.samples)
    assert again.digest == training.digest
    with pytest.raises(ValueError, match="read-only"):
        certifying.samples[0] = 0.0
    # With 4 draws two are left on either side.
    small, rest = split(np.arange(4.0), np.arange(4.0), fraction=0.01, seed=0)
    assert small.samples.shape == rest.samples.shape == (2, 1)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_a_score_never_meets_what_trained_it(learner: Any) -> None:
    first, second = shifted(400, 2, 1)
    training, certifying = split(first, second, fraction=0.5, seed=1)
    score = learner.fit(training)
    for scores in score.apply(certifying):
        assert scores.shape == (200,)
        assert np.all(np.isfinite(scores))
    with pytest.raises(TypeError, match="held_out must not be training samples"):
        score.apply(training)
    with pytest.raises(TypeError, match="held_out must be Certifying or Fresh, got ndarray"):
        score.apply(first)
    for other in (
        split(first, second, fraction=0.5, seed=2)[1],
        split(first, second, fraction=0.4, seed=1)[1],
        split(first + 1, second, fraction=0.5, seed=1)[1],
    ):
        with pytest.raises(ValueError, match="held_out must come from the split that trained"):
            score.apply(other)
    for known in (training.samples, training.samples.copy()):
        with pytest.raises(ValueError, match="held_out must be fresh, got samples that trained"):
            score.apply(Fresh(known, second))
    with pytest.raises(TypeError, match="training must be a Training part, got Certifying"):
        learner.fit(certifying)
    with pytest.raises(ValueError, match="held_out must be of dimension 2, got 1"):
        score.apply(Fresh([1.0], [2.0]))
    assert score.apply(Fresh(*shifted(50, 2, 9)))[0].shape == (50,)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("dimension", [1, 3])
def test_scores_find_the_difference(learner: Any, dimension: int) -> None:
    # The best score has P(score > score') = Phi(1.5 / sqrt 2) = .856.
    first, second = shifted(6000, dimension, 2, shift=1.5)
    a, b = held_out(learner, first, second)
    order = sum(np.searchsorted(np.sort(b), a, side=side) for side in ("left", "right"))
    assert np.mean(order) / (2 * b.size) > 0.8
    # About a log-likelihood ratio: positive where the first law is likelier.
    assert np.mean(a > 0) > 0.7 > 0.3 > np.mean(b > 0)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_scores_find_a_difference_in_spread(learner: Any) -> None:
    generator = np.random.default_rng(3)
    first, second = generator.normal(0, 2, (4000, 2)), generator.normal(0, 1, (4000, 2))
    a, b = held_out(learner, first, second)
    assert np.mean(a > 0) > np.mean(b > 0) + 0.2
    # unequal sizes are accounted for
    first, second = shifted(9000, 1, 6)
    a, b = held_out(learner, first, second[:900])
    assert np.mean(a > 0) > 0.55
    assert np.mean(b > 0) < 0.45


def test_from_samples_to_a_bound() -> None:
    first, second = shifted(60_000, 5, 4, shift=2.0)
    truth = GaussianCurve(2.0).epsilon(1e-2)
    training, certifying = split(first, second, fraction=0.2, seed=0)
    scores = Logistic().fit(training).apply(certifying)
    bound = audit_samples(*scores, confidence=0.95, deltas=(1e-2,), seed=0).epsilon_lower(1e-2)
    assert 0.8 * truth < bound < truth


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_identical_laws_stay_identical(learner: Any) -> None:
    # Error .1; an honest pipeline of 20 fails with probability below 1%, and errs far less.
    def wrong(runs: int, meets_training: bool) -> int:
        found = 0
        for seed in range(runs):
            first, second = shifted(400, 4, 100 + seed, shift=0.0)
            training, certifying = split(first, second, fraction=0.5, seed=seed)
            score = learner.fit(training)
            if meets_training:  # around every guard
                scores = score._score(training.samples), score._score(training.samples_prime)
            else:
                scores = score.apply(certifying)
            result = audit_samples(*scores, confidence=0.9, deltas=(1e-2,), seed=seed)
            found += result.epsilon_lower(1e-2) > 0
        return found

    assert wrong(20, meets_training=False) <= allowed(0.1, 20)
    if isinstance(learner, GradientBoosting):  # it can overfit, and then errs nearly always
        assert wrong(6, meets_training=True) > allowed(0.1, 6)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e300])
def test_constants_and_extreme_scales(learner: Any, scale: float) -> None:
    first, second = shifted(60, 2, 5)
    first, second = first * scale, second * scale
    first[:, 1] = second[:, 1] = 7.0  # constant
    for scores in held_out(learner, first, second):
        assert np.all(np.isfinite(scores))


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("neighbors", "ensemble"):
        monkeypatch.setitem(sys.modules, f"sklearn.{module}", None)
    training, _ = split(*shifted(20, 1, 7), fraction=0.5, seed=0)
    for learner in LEARNERS[:2]:
        learner.fit(training)
    for learner in LEARNERS[2:]:
        with pytest.raises(ImportError, match=r"pip install 'noisy-sgd-audit\[learn\]'"):
            learner.fit(training)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parts([], [1.0]), r"samples must be a non-empty array of shape \(n,\) or"),
        (lambda: parts(np.zeros((5, 2, 2)), [1.0]), "samples must be a non-empty array"),
        (lambda: parts([[1.0], [np.inf]] * 3, [1.0]), "samples must hold finite .* inf in row 1"),
        (lambda: parts(np.zeros((5, 2)), np.zeros((5, 3))), "samples_prime must be of dimension 2"),
        (lambda: parts(np.zeros(3), ONES), "samples must hold at least 4 draws to be split, got 3"),
        (lambda: parts(ONES, np.ma.zeros(5)), "samples_prime must be an array without a mask"),
        (lambda: parts(ONES, ONES, fraction=1), r"fraction must be in \(0, 1\), got 1"),
        (lambda: parts(ONES, ONES, seed=-1), "seed must be a whole number"),
        (lambda: Histogram(1), "cells must be a whole number of at least 2, got 1"),
        (lambda: Logistic(strength=0.0), "strength must be a positive"),
        (lambda: Logistic(squares=1), "squares must be a"),
        (lambda: NearestNeighbours(0), "neighbours must be a whole number of at least 1, got 0"),
        (lambda: GradientBoosting(rounds=0), "rounds must be a whole number of at least 1, got 0"),
        (lambda: GradientBoosting(learning_rate=1.0), r"learning_rate must be in \(0, 1\), got"),
        (lambda: GradientBoosting(leaves=1), "leaves must be a whole number of at least 2, got 1"),
        (lambda: held_out(Histogram(64), *shifted(20, 7, 8)), r"cells must be at least 2\^dimensi"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_logistic_coefficients_are_those_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    generator = np.random.default_rng(5)
    for shift, strength in ((0.5, 1.0), (9.0, 1.0), (1.0, 0.01)):  # the second one separates
        first, second = shifted(3000, 3, 6, shift=shift)
        x = np.concatenate([first, second])
        labels = np.repeat([1, 0], [first.shape[0], second.shape[0]])
        rank = generator.permutation(labels.size)
        learner = Logistic(squares=False, strength=strength)
        log_odds = learner._log_odds(x[rank], labels[rank])
        theirs = linear_model.LogisticRegression(C=strength, tol=1e-8).fit(x, labels)
        # statsmodels' search ends where the gradient a sample is 1e-5: 0.5 % where lines separate
        expected = theirs.decision_function(x)
        assert log_odds(x) == pytest.approx(expected, rel=1e-2, abs=1e-2)
        planted = np.abs(log_odds(1.03 * x) - expected)
        assert np.any(planted > 1e-2 + 1e-2 * np.abs(expected))


CHOICES = (
    LinearScore(),
    BestColumn(),
    WeightedColumns((1.0,) * 12),
    LearnedColumns(Histogram(cells=4096)),
)


def null(seed: int, size: int = 100, number: int = 12) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng([seed, 21])
    return generator.normal(size=(size, number)), generator.normal(size=(size, number))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda one: one.kind)
@pytest.mark.parametrize("runs", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_nothing_is_certified_where_nothing_is(choice: Columns, runs: int) -> None:
    wrong = 0
    for run in range(runs):
        x, y, _ = combine(*null(run), columns=choice, seed=run, delta=0.01)
        found = audit_samples(x, y, confidence=0.8, thresholds=FixedThresholds((0.0,)))
        wrong += found.epsilon_lower(1e-9) > 0
    assert wrong <= allowed(0.2, runs)


def test_linear_score_finds_the_direction() -> None:
    # Mean and covariance of a group of canaries: the likelihood ratio is linear.
    generator = np.random.default_rng(1)
    mixing = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [100.0, -50.0, 10.0]])
    shift = mixing @ np.array([1.5, -1.0, 0.0])
    x = generator.normal(size=(4000, 3)) @ mixing.T + shift
    y = generator.normal(size=(4000, 3)) @ mixing.T
    best = np.linalg.solve(mixing @ mixing.T, shift)
    a, b, combined = combine(x, y, columns=LinearScore(), seed=1, delta=0.0)
    assert combined.choosing == (800, 800)
    assert a.shape == b.shape == (3200,)
    found = np.array(combined.weights)
    # compared as scores: the correlation of two weighted sums
    covariance = mixing @ mixing.T
    inner = found @ covariance @ best
    norm = np.sqrt((found @ covariance @ found) * (best @ covariance @ best))
    assert inner / norm > 0.99
    separation = (a.mean() - b.mean()) / np.sqrt(0.5 * (a.var() + b.var()))
    assert separation == pytest.approx(np.hypot(1.5, 1.0), rel=0.05)


@pytest.mark.parametrize("sign", [1, -1])
def test_best_column_is_found_in_either_direction_and_in_tails(sign: int) -> None:
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(2, 1500, 20))
    x[:, 13] += sign * 1.2
    x[:, 4] += 0.3
    a, b, combined = combine(x, y, columns=BestColumn(), seed=1, delta=1e-5)
    assert combined.weights == tuple(float(j == 13) for j in range(20))
    assert sign * (a.mean() - b.mean()) > 1
    assert np.isin(a, x[:, 13]).all()
    assert np.isin(b, y[:, 13]).all()
    # A twentieth of the runs shows the record clearly in one column; another moves a little.
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(2, 4000, 2))
    x[:, 0] += np.where(generator.random(4000) < 0.05, sign * 5.0, 0.0)
    x[:, 1] += sign * 0.4
    assert combine(x, y, columns=BestColumn(), seed=1, delta=0.0)[2].weights == (1.0, 0.0)


def test_given_weights_use_all_runs_and_degenerate_columns_give_numbers() -> None:
    x, y = null(1, size=50, number=2)
    a, b, combined = combine(x, y, columns=WeightedColumns((2, -1)), seed=None, delta=0.0)
    assert np.allclose(a, 2 * x[:, 0] - x[:, 1])
    assert combined.choosing == (0, 0)
    assert b.shape == (50,)
    x = np.column_stack([np.ones(40), 1e300 * np.arange(40.0), np.repeat([0.0, 1.0], 20)])
    for choice in (LinearScore(), BestColumn()):
        a, b, _ = combine(x, x, columns=choice, seed=1, delta=0.0)
        assert np.all(np.isfinite(a))
        assert np.all(np.isfinite(b))
    x = np.zeros((10, 3))
    _, _, combined = combine(x, x, columns=LinearScore(), seed=1, delta=0.0)
    assert combined.weights == (1.0, 1.0, 1.0)


def test_equal_rows_have_equal_scores_in_every_layout_and_number() -> None:
    weights = WeightedColumns((0.3, 0.17, 0.29, -0.41, 0.73))
    rows = np.tile([1.0, 2.0, 1.0, 2.0, 1.0], (1003, 1))
    for other in (np.asfortranarray(rows), rows[:500]):
        a, b, _ = combine(other, rows, columns=weights, seed=None, delta=0.0)
        assert np.unique(np.append(a, b)).size == 1


def test_audit_samples_takes_columns() -> None:
    generator = np.random.default_rng(6)
    x, y = generator.normal(size=(2, 3000, 5))
    x[:, 2] += 2
    for choice in (None, BestColumn(), WeightedColumns((0, 0, 1, 0, 0))):
        found = audit_samples(x, y, confidence=0.95, seed=1, deltas=(0.01,), columns=choice)
        assert found.epsilon_lower(0.01) > 1.5
        chosen = found.columns.choosing[0]
        assert found.pilot_sizes[0] + found.certifying_sizes[0] == 3000 - chosen
        assert found.record().columns == found.columns
    alone = audit_samples(x[:, 2:3], y[:, 2:3], confidence=0.95, seed=1, deltas=(0.01,))
    same = audit_samples(x[:, 2], y[:, 2], confidence=0.95, seed=1, deltas=(0.01,))
    assert alone.epsilon_lower(0.01) == same.epsilon_lower(0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WeightedColumns((0, 0)), r"weights must be not all 0, got \(0.0, 0.0\)"),
        (lambda: BestColumn(1.0), r"fraction must be in \(0, 1\), got 1.0"),
        (lambda: LearnedColumns("forest"), "learner must be a Histogram, Logistic"),
        ({"columns": "mean"}, "columns must be WeightedColumns, LinearScore, BestColumn or"),
        ({"columns": WeightedColumns((1.0,))}, r"weights must be one per column \(12\), got \(1.0"),
        ({"seed": None}, "seed must be given to choose from columns, got None"),
        ({"samples_prime": np.zeros((9, 3))}, "samples_prime must be of dimension 12 like samples"),
        ({"samples": np.zeros((9, 12), np.float32)}, "samples_prime must be of one precision"),
        ({"samples": np.zeros((3, 12))}, "samples must hold at least 4 draws to be split, got 3"),
    ],
)
def test_bad_columns(make: Any, message: str) -> None:
    x, y = null(1)
    given = {"samples": x, "samples_prime": y, "columns": LinearScore(), "seed": 1, "delta": 0.0}
    with pytest.raises(ValueError, match=message):
        make() if callable(make) else combine(**{**given, **make})
