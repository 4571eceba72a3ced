"""Quick values by matrices that are squared side by side, beside those of exact curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import NoisySGD
from audit.exact import curve
from audit.search import Epsilon, evaluation
from audit.search.evaluation import quick_value
from audit.search.families import Family

MECHANISM = NoisySGD(
    steps=100,
    dataset_size=1000,
    batch_size=1000,
    step_size=1.0,
    noise_std=0.05,
    lipschitz=1.25,
    smoothness=1.0,
    diameter=1.0,
)


@pytest.mark.parametrize("steps", [2, 3, 7, 100, 4001, 10**6])
def test_matrices_side_by_side_change_nothing(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    family, objective = Family(replace(MECHANISM, steps=steps)), Epsilon(1e-5)
    pairs = [family.pair(point, 0) for point in np.random.default_rng(3).random((4, 2))]
    quick = [quick_value(pair, objective) for pair in pairs]
    monkeypatch.setattr(evaluation, "_plain_run", lambda *_: None)
    for value, pair in zip(quick, pairs, strict=True):
        assert value == pytest.approx(quick_value(pair, objective), rel=1e-10)
        # the event of the best test ends within a cell of the grid
        assert value == pytest.approx(curve(pair).epsilon(1e-5), rel=5e-4)
