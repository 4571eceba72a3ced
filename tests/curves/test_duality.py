"""Brackets of power from brackets of delta."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from audit.curves import GaussianCurve, PureCurve
from audit.curves.duality import power_bracket, profile_points, tradeoff_from_profile


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.5, 3.0, 12.0, 60.0])
@pytest.mark.parametrize("alpha", [1e-12, 0.05, 0.5, 0.99, 1 - 1e-9])
def test_power_of_two_normals(mu: float, alpha: float) -> None:
    curve = GaussianCurve(mu)

    def delta(epsilon: float) -> tuple[float, float]:
        value = float(curve.delta(epsilon))
        return value * (1 - 1e-12), min(value * (1 + 1e-12), 1.0)

    low, high = power_bracket(delta, alpha)
    true = float(ndtr(mu + ndtri(alpha)))
    assert low <= true * (1 + 1e-12)
    assert true * (1 - 1e-12) <= high
    # of tiny powers the deltas, known to 1e-12, decide
    assert high - low < (1e-6 if alpha < 1e-9 else 2e-9) * high
    assert high <= alpha + delta(0.0)[1] * (1 + 1e-9) + 1e-12 * alpha


@pytest.mark.parametrize(
    ("epsilon", "alpha"),
    [
        (1.5, 1 / (1 + math.exp(1.5))),  # the best tangents are many
        (1.4710354785793887, 0.05764366993023561),  # a search ends beside the only one
    ],
)
def test_power_at_a_kink(epsilon: float, alpha: float) -> None:
    """Of randomised response, whose delta has a corner at epsilon."""
    delta = PureCurve(epsilon).delta
    low, high = power_bracket(lambda e: (float(delta(e)),) * 2, alpha)
    assert low <= math.exp(epsilon) * alpha * (1 + 1e-12)
    assert math.exp(epsilon) * alpha <= high * (1 + 1e-12)
    assert high - low < 1e-9


def test_a_lower_end_that_is_not_convex_would_be_missed() -> None:
    """A test of the test: where deltas are above the truth, the bracket lies above it."""
    curve = GaussianCurve(1.0)
    low, _ = power_bracket(lambda e: (1.05 * float(curve.delta(e)),) * 2, 0.05)
    assert low > float(ndtr(1.0 + ndtri(0.05)))


def test_duality_recovers_the_gaussian_from_below():
    exact = GaussianCurve(1.5)
    alphas = np.linspace(0, 1, 101)
    points = profile_points(exact.epsilon(1e-13), 4096)
    found = tradeoff_from_profile(alphas, points, np.asarray(exact.delta(points)))
    assert np.all(found <= np.asarray(exact.beta(alphas)) + 1e-14)
    assert found == pytest.approx(exact.beta(alphas), rel=1e-5, abs=1e-9)


def test_duality_with_no_points_but_zero():
    assert profile_points(math.inf).tolist() == [0.0]
    beta = tradeoff_from_profile(np.array([0.0, 0.2]), np.zeros(1), np.array([0.1]))
    assert beta == pytest.approx([0.9, 0.7])
