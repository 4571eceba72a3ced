"""Quick values on few nodes, beside those of the usual laws and of exact curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import Batching
from audit.exact import curve
from audit.search import Epsilon, evaluation, quick_laws
from audit.search.evaluation import quick_value
from audit.search.families import Family
from tests.mechanisms import noisy_sgd

MECHANISM = noisy_sgd(steps=100, dataset_size=1000, noise_std=0.05, lipschitz=1.25)


@pytest.mark.parametrize("steps", [2, 3, 7, 100, 4001, 10**6])
def test_few_nodes_are_enough(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    family, objective = Family(replace(MECHANISM, steps=steps)), Epsilon(1e-5)
    pairs = [family.pair(point, 0) for point in np.random.default_rng(3).random((4, 2))]
    quick = [quick_value(pair, objective) for pair in pairs]
    monkeypatch.setattr(evaluation, "quick_states", lambda *_: None)
    for value, pair in zip(quick, pairs, strict=True):
        assert value == pytest.approx(quick_value(pair, objective), rel=1e-5)
        # the event of the best test ends within a cell of the grid
        assert value == pytest.approx(curve(pair).epsilon(1e-5), rel=5e-4)


@pytest.mark.parametrize("solved", [10, 10**6])
@pytest.mark.parametrize("batching", [Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT])
def test_other_batches_and_free_shapes(
    batching: Batching, solved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinks cut the grid; long runs are solved for, or squared, with the same result."""
    monkeypatch.setattr(quick_laws, "_LEAST_SOLVED", solved)
    objective = Epsilon(1e-5)
    quick, slow = [], []
    for steps, seed in ((37, 0), (100_003, 1)):
        mechanism = replace(MECHANISM, batch_size=100, batching=batching, steps=steps)
        family = Family(mechanism)
        point = np.random.default_rng(seed).random(len(family.names(2)))
        pair = family.pair(point, 2)
        quick.append(quick_value(pair, objective))
        with monkeypatch.context() as patched:
            patched.setattr(evaluation, "quick_states", lambda *_: None)
            slow.append(quick_value(pair, objective))
    assert quick == pytest.approx(slow, rel=1e-4)


def test_a_start_that_is_not_forgotten_is_not_solved_for() -> None:
    """Two states that hardly exchange anything: the relaxation time is 50,000 steps."""
    matrix = np.array([[1 - 1e-5, 1e-5], [1e-5, 1 - 1e-5]])
    start = np.array([1.0, 0.0])
    assert quick_laws._stationary(matrix, start, 100_000) is None
    assert quick_laws._stationary(matrix, start, 10**7) == pytest.approx([0.5, 0.5])


def test_a_start_that_is_stationary_has_no_relaxation_to_measure() -> None:
    matrix = np.full((2, 2), 0.5)
    start = np.array([0.5, 0.5])
    with np.errstate(all="raise"):
        assert quick_laws._stationary(matrix, start, 100_000) is None
