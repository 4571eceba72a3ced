import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from audit.bounds.accounting import SubsampledGaussian
from audit.curves import GaussianCurve
from tests.bounds import reference


@pytest.mark.parametrize(("rate", "mu"), [(0.05, 1.0), (0.3, 4.0), (0.9, 0.2), (1e-4, 2.0)])
def test_profile_is_that_of_the_mixture(rate, mu):
    curve = SubsampledGaussian(rate, mu)
    for epsilon in (0.0, 0.01, 0.5, 1.0, 2.5):
        expected = reference.mixture_delta(epsilon, rate, mu)
        assert curve.delta(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert curve.delta(-epsilon) == pytest.approx(
            1 - math.exp(-epsilon) * (1 - expected), rel=1e-9
        )


@pytest.mark.parametrize("rate", [1e-8, 0.05, 0.9999])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 40.0])
def test_epsilon_inverts_delta(rate, mu):
    curve = SubsampledGaussian(rate, mu)
    deltas = np.geomspace(1e-12, 0.99, 40) * curve.delta(0.0)
    assert np.asarray(curve.delta(curve.epsilon(deltas))) == pytest.approx(deltas, rel=1e-9)


def test_sampling_everything_is_the_gaussian():
    curve, gaussian = SubsampledGaussian(1.0, 1.3), GaussianCurve(1.3)
    deltas = np.geomspace(1e-12, 0.3, 20)
    assert np.asarray(curve.epsilon(deltas)) == pytest.approx(gaussian.epsilon(deltas), rel=1e-12)
    assert np.asarray(curve.renyi([1.5, 40.0])) == pytest.approx(gaussian.renyi([1.5, 40.0]))


@pytest.mark.parametrize(("rate", "mu"), [(0.05, 1.0), (0.3, 4.0), (0.9, 0.2), (1e-4, 2.0)])
@pytest.mark.parametrize("order", [1.001, 2.0, 5.0, 12.0])
def test_moments_agree_with_adaptive_quadrature(rate, mu, order):
    expected = reference.subsampled_moment(order, rate, mu)
    found = (order - 1) * SubsampledGaussian(rate, mu).renyi(order)
    assert found == pytest.approx(expected, rel=1e-9, abs=2e-12)


@pytest.mark.parametrize("rate", [1e-8, 0.1, 0.999])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 200.0])
def test_renyi_stays_within_its_limits(rate, mu):
    orders = np.geomspace(1.001, 1e4, 30)
    values = np.asarray(SubsampledGaussian(rate, mu).renyi(orders))
    assert np.all(np.diff(values) >= 0)
    assert np.all(values <= orders * mu**2 / 2 * (1 + 1e-12))
    # the mixture has rate * N(mu, 1) inside it
    floor = orders * mu**2 / 2 + orders / (orders - 1) * math.log(rate)
    assert np.all(values >= floor * (1 - 1e-12))


def test_moment_does_not_lose_digits_near_order_one():
    law = SubsampledGaussian(0.1, 1.0)
    divergences = np.asarray(law.renyi([1 + 1e-8, 1 + 1e-6, 1 + 1e-4]))
    assert divergences == pytest.approx(divergences[0], rel=2e-4)


def test_tradeoff_is_the_convexified_one():
    rate, mu = 0.4, 1.5
    curve = SubsampledGaussian(rate, mu)
    # beside the straight piece around the fixed point, C_p is f_p and, mirrored, its inverse
    alpha = 1e-3
    f_p = rate * GaussianCurve(mu).beta(alpha) + (1 - rate) * (1 - alpha)
    assert curve.beta(alpha) == pytest.approx(f_p, rel=1e-6)
    assert curve.beta(float(curve.beta(alpha))) == pytest.approx(alpha, rel=1e-2)
    assert curve.beta(0.3) <= rate * GaussianCurve(mu).beta(0.3) + (1 - rate) * 0.7
    assert ndtri(curve.beta(alpha)) > ndtri(GaussianCurve(mu).beta(alpha))


@pytest.mark.parametrize(
    ("rate", "mu", "message"),
    [
        (0.0, 1.0, "rate must be a positive finite number, got 0.0"),
        (1.5, 1.0, r"rate must be in \[0, 1\], got 1.5"),
        (0.5, math.nan, "mu must be a positive finite number, got nan"),
    ],
)
def test_refuses_bad_parameters(rate, mu, message):
    with pytest.raises(ValueError, match=message):
        SubsampledGaussian(rate, mu)


@pytest.mark.parametrize(("rate", "mu", "order"), [(1e-8, 4.0, 2.5), (1e-10, 5.0, 2.0)])
def test_small_moments_keep_their_digits(rate, mu, order):
    """A composition of 1e9 steps multiplies what a moment has lost."""
    with mpmath.workdps(30):
        q, shift, power = mpmath.mpf(rate), mpmath.mpf(mu), mpmath.mpf(order) - 1

        def excess(x):
            rise = q * mpmath.expm1(shift * (x - shift / 2))
            loss = mpmath.log1p(rise)
            even = 4 * mpmath.sinh(power * loss / 2) ** 2
            return mpmath.npdf(x) * (rise * mpmath.expm1(power * loss) + even)

        start = shift / 2
        truth = mpmath.log1p(mpmath.quad(excess, [start + k for k in range(0, 25, 2)]))
        error = abs((order - 1) * SubsampledGaussian(rate, mu).renyi(order) / truth - 1)
        # 1 + moment in double precision, as a sum of both would have it
        rounded = math.log(1 + float(mpmath.expm1(truth)))
        assert error < 1e-12  # the counted rounding
        assert abs(rounded / truth - 1) > 10 * error
