"""Columns combined into one score: the choice, its cost in error, and the effect of no cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.estimation import FixedThresholds, audit_samples
from audit.estimation.score_source import (
    BestColumn,
    Columns,
    LearnedColumns,
    LinearScore,
    WeightedColumns,
    combine,
)
from audit.estimation.scores import Histogram

from .audited_laws import allowed

RUNS = 150
CHOICES = (
    LinearScore(),
    BestColumn(),
    WeightedColumns((1.0,) * 12),
    LearnedColumns(Histogram(cells=4096)),
)


def null(seed: int, size: int = 100, number: int = 12) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng([seed, 21])
    return generator.normal(size=(size, number)), generator.normal(size=(size, number))


def certified(x: np.ndarray, y: np.ndarray, confidence: float = 0.8) -> float:
    found = audit_samples(x, y, confidence=confidence, thresholds=FixedThresholds((0.0,)))
    return found.epsilon_lower(1e-9)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda one: one.kind)
def test_nothing_is_certified_where_nothing_is(choice: Columns) -> None:
    wrong = 0
    for run in range(RUNS):
        x, y, _ = combine(*null(run), columns=choice, seed=run, delta=0.01)
        wrong += certified(x, y) > 0
    assert wrong <= allowed(0.2, RUNS)


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
def test_best_column_is_found_in_either_direction(sign: int) -> None:
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(2, 1500, 20))
    x[:, 13] += sign * 1.2
    x[:, 4] += 0.3
    a, b, combined = combine(x, y, columns=BestColumn(), seed=1, delta=1e-5)
    assert combined.weights == tuple(float(j == 13) for j in range(20))
    assert sign * (a.mean() - b.mean()) > 1
    assert np.isin(a, x[:, 13]).all()
    assert np.isin(b, y[:, 13]).all()


def test_best_column_looks_at_tails() -> None:
    # A twentieth of the runs shows the record clearly in one column; another moves a little.
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(2, 4000, 2))
    x[:, 0] += np.where(generator.random(4000) < 0.05, 5.0, 0.0)
    x[:, 1] += 0.4
    assert combine(x, y, columns=BestColumn(), seed=1, delta=0.0)[2].weights == (1.0, 0.0)


def test_given_weights_use_all_runs() -> None:
    x, y = null(1, size=50, number=2)
    a, b, combined = combine(x, y, columns=WeightedColumns((2, -1)), seed=None, delta=0.0)
    assert np.allclose(a, 2 * x[:, 0] - x[:, 1])
    assert combined.choosing == (0, 0)
    assert b.shape == (50,)


def test_degenerate_columns() -> None:
    x = np.column_stack([np.ones(40), 1e300 * np.arange(40.0), np.repeat([0.0, 1.0], 20)])
    for choice in (LinearScore(), BestColumn()):
        a, b, _ = combine(x, x, columns=choice, seed=1, delta=0.0)
        assert np.all(np.isfinite(a))
        assert np.all(np.isfinite(b))
    a, _, combined = combine(
        np.zeros((10, 3)), np.zeros((10, 3)), columns=LinearScore(), seed=1, delta=0.0
    )
    assert combined.weights == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WeightedColumns((0, 0)), r"weights must be not all 0, got \(0.0, 0.0\)"),
        (lambda: BestColumn(1.0), r"fraction must be in \(0, 1\), got 1.0"),
        (lambda: LearnedColumns("forest"), "learner must be a Histogram, Logistic"),
        ({"columns": "mean"}, "columns must be WeightedColumns, LinearScore, BestColumn or"),
        (
            {"columns": WeightedColumns((1.0,))},
            r"weights must be one per column \(12\), got \(1.0,\)",
        ),
        ({"seed": None}, "seed must be given to choose from columns, got None"),
        ({"samples_prime": np.zeros((9, 3))}, "samples_prime must be of dimension 12 like samples"),
        ({"samples": np.zeros((3, 12))}, "samples must hold at least 4 draws to be split, got 3"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    x, y = null(1)
    given = {"samples": x, "samples_prime": y, "columns": LinearScore(), "seed": 1, "delta": 0.0}
    with pytest.raises(ValueError, match=message):
        make() if callable(make) else combine(**{**given, **make})


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
