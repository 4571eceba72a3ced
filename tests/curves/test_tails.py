"""Claims of epsilon at every delta, and what they leave open beyond their limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.curves import TailCurve


@pytest.mark.parametrize("limit", [math.inf, 3.0])
def test_delta_is_the_least_whose_epsilon_is_claimed(limit: float) -> None:
    curve = TailCurve.gaussian(2.0, factor=0.8, limit=limit)
    epsilons = np.array([0.1, 1.0, 2.9, 3.1, 5.0])
    deltas = np.asarray(curve.delta(epsilons))
    assert np.all(curve.epsilon(deltas * (1 + 1e-9)) <= epsilons)
    assert np.all(np.asarray(curve.epsilon(deltas * (1 - 1e-9))) > np.minimum(epsilons, limit))
    assert curve.epsilon(1e-300) == (math.inf if limit < 50 else pytest.approx(52.5, abs=0.1))
