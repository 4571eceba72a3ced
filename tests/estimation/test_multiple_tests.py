"""Holm's procedure: its definition, its family error, and a procedure that must fail."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm

from audit.estimation import holm

from .audited_laws import allowed


@pytest.fixture(autouse=True)
def _little_garbage() -> Iterator[None]:
    """Statsmodels collects garbage in each call: leave it little."""
    holm([1.0], error=0.5)
    gc.freeze()
    yield
    gc.unfreeze()


def twin(p_values: np.ndarray, error: float) -> np.ndarray:
    """Holm (1979), step by step."""
    rejected = np.zeros(p_values.size, dtype=bool)
    for step, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] > error / (p_values.size - step):
            break
        rejected[place] = True
    return rejected


def test_agrees_with_its_twin_and_contains_an_equal_split() -> None:
    generator = np.random.default_rng(1)
    for size in (1, 2, 7, 40):
        for _ in range(200):
            p = generator.random(size) ** generator.integers(1, 6)
            found = holm(p, error=0.1)
            assert np.array_equal(found, twin(p, 0.1))
            assert np.all(found[p <= 0.1 / size])


def test_p_values_that_are_the_levels_themselves_are_rejected() -> None:
    for size in (3, 7, 40, 41):
        levels = [0.05 / (size - k) for k in range(size)]
        assert np.all(holm(levels, error=0.05))


def dependent_p_values(runs: int, false: int) -> np.ndarray:
    """P-values of 40 tests that share noise; the first ``false`` hypotheses are false."""
    generator = np.random.default_rng(2)
    z = generator.normal(size=(runs, 40)) * 0.8 + 0.6 * generator.normal(size=(runs, 1))
    z[:, :false] += 3.0
    return norm.sf(z)


def test_family_error_and_power() -> None:
    runs = 2000
    true = dependent_p_values(runs, 0)
    assert sum(holm(p, error=0.05).any() for p in true) <= allowed(0.05, runs)
    # the planted mistake: each test at the whole error
    assert np.sum(np.any(true <= 0.05, axis=1)) > allowed(0.05, runs)
    mixed = dependent_p_values(runs, 8)
    found = np.array([holm(p, error=0.05) for p in mixed])
    assert np.sum(found[:, 8:].any(axis=1)) <= allowed(0.05, runs)
    assert np.sum(found[:, :8]) > np.sum(mixed[:, :8] <= 0.05 / 40)


@pytest.mark.parametrize(
    ("p_values", "error", "message"),
    [
        ([0.1, 1.5], 0.05, r"p_values must be in \[0, 1\], got 1.5"),
        ([0.1, np.nan], 0.05, r"p_values must be in \[0, 1\], got nan"),
        ([0.1], 1.0, r"error must be in \(0, 1\), got 1.0"),
    ],
)
def test_bad_input(p_values: list[float], error: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        holm(p_values, error=error)
