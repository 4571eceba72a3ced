"""Quick values of candidates, beside certified values and those of the usual laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, exact
from audit.constructions import DriftedWalk, ResetWalk
from audit.exact import curve
from audit.search import Epsilon, RenyiDivergence, evaluation
from audit.search.evaluation import quick_value
from audit.search.families import Family
from tests.mechanisms import noisy_sgd
from tests.search.cases import mechanism

PAIRS = [
    DriftedWalk(mechanism(a, step_std, steps), drift * a * step_std**2, start)
    for a, step_std, steps in ((2.0, 0.1, 30), (1.0, 0.05, 10), (5.0, 0.05, 200), (1.0, 0.2, 9))
    for drift, start in ((-2.7, 0.25), (-1.2, 0.4))
] + [ResetWalk(mechanism(1.0, 0.2, 10), curvature=1.0, cap=4.0)]


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_epsilons_are_close(delta):
    """Cells end within a thirtieth of a node's distance from the best event's end: some 1e-5."""
    for pair in PAIRS:
        certified = exact.curve(pair).epsilon(delta)
        assert quick_value(pair, Epsilon(delta)) == pytest.approx(certified, rel=5e-5, abs=1e-7)


def test_divergences_are_close():
    for pair in PAIRS:
        certified = exact.curve(pair).renyi(4.0)
        assert quick_value(pair, RenyiDivergence(4.0)) == pytest.approx(certified, rel=1e-6)


def test_nodes_alone_are_not_as_close(monkeypatch):
    monkeypatch.setattr(evaluation, "_SAME_MASS", -1.0)  # no panel is followed
    errors = [
        abs(quick_value(pair, Epsilon(1e-5)) / exact.curve(pair).epsilon(1e-5) - 1)
        for pair in PAIRS
    ]
    assert max(errors) > 2e-4


def test_finer_cells_are_those_of_a_polynomial():
    followed, weights = evaluation._finer(evaluation._ORDER)
    nodes, _ = np.polynomial.legendre.leggauss(evaluation._ORDER)
    assert weights.sum() == pytest.approx(2.0)
    points = followed @ nodes  # the identity is a polynomial
    assert np.all(np.diff(points) > 0)
    np.testing.assert_allclose(followed @ nodes**5, points**5, atol=1e-13)
    assert weights @ points**6 == pytest.approx(2 / 7)


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


@pytest.mark.parametrize("batching", [Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT])
def test_other_batches_and_free_shapes(batching: Batching, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinks cut the grid; long runs are squared."""
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
