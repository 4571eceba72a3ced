"""Quick values of candidates against their certified values."""

import numpy as np
import pytest

from audit import exact
from audit.constructions import DriftedWalk, ResetWalk
from audit.search import Epsilon, RenyiDivergence, evaluation
from audit.search.evaluation import quick_value
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
