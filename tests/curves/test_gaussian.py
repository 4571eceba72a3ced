"""The Gaussian curve: inverses, many digits, and the shapes of a curve."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from audit import Order
from audit.curves import GaussianCurve
from tests import reference

MUS = [1e-6, 1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 40.0]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-9, 1e-5, 1e-2, 0.3]


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_against_many_digits(mu: float, delta: float) -> None:
    epsilon = GaussianCurve(mu).epsilon(delta)
    if epsilon == 0:
        assert float(reference.gaussian_delta(0.0, mu)) <= delta * (1 + 1e-10)
        return
    assert float(reference.gaussian_delta(epsilon, mu)) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("mu", MUS)
def test_beta(mu: float) -> None:
    curve = GaussianCurve(mu)
    for alpha in (1e-12, 0.01, 0.5, 0.99):
        with mpmath.workdps(40):
            quantile = -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(alpha))
            expected = float(mpmath.ncdf(-quantile - mu))
        assert curve.beta(alpha) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    np.testing.assert_array_equal(curve.beta([0.0, 1.0]), [1.0, 0.0])


def test_renyi() -> None:
    assert GaussianCurve(0.5).renyi(3.0) == pytest.approx(0.375)


def test_perfect_privacy() -> None:
    curve = GaussianCurve(0)
    assert curve.epsilon(1e-300) == 0
    np.testing.assert_allclose(curve.delta([-1.0, 0.0, 1.0]), [1 - math.exp(-1), 0, 0])
    np.testing.assert_allclose(curve.beta([0.0, 0.3, 1.0]), [1, 0.7, 0])
    assert curve.renyi(5.0) == 0


def test_orders_agree_and_are_checked() -> None:
    curve = GaussianCurve(1.0)
    assert curve.symmetric
    assert curve.epsilon(1e-5, Order.FORWARD) == curve.epsilon(1e-5, Order.REVERSE)
    with pytest.raises(ValueError, match="order must be an Order, got 1"):
        curve.epsilon(1e-5, 1)  # type: ignore[arg-type]


def test_shapes() -> None:
    curve = GaussianCurve(1.0)
    deltas = np.array([[1e-3, 1e-5], [0.1, 0.9]])
    assert curve.epsilon(deltas).shape == (2, 2)  # type: ignore[union-attr]
    assert curve.epsilon(deltas)[0, 1] == curve.epsilon(1e-5)  # type: ignore[index]
    assert isinstance(curve.delta(np.float32(1)), float)
    assert curve.renyi([]).shape == (0,)  # type: ignore[union-attr]


@pytest.mark.parametrize("mu", [-1.0, math.nan, math.inf, "1", None, True])
def test_bad_mu(mu: object) -> None:
    with pytest.raises(ValueError, match="mu must be a finite number of at least 0, got"):
        GaussianCurve(mu)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [1.0, -0.1, math.nan, 2.0])
def test_bad_delta(delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\), got"):
        GaussianCurve(1.0).epsilon(delta)
