"""Curves in closed form: inverses, many digits, integrals, and the better of two curves."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from audit import Order
from audit.curves import GaussianCurve, LaplaceCurve, MinimumCurve, PureCurve, RenyiCurve, TailCurve
from tests import reference

MUS = [1e-6, 1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 40.0]


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-12, 1e-9, 1e-5, 1e-2, 0.3])
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


def test_renyi_and_perfect_privacy() -> None:
    assert GaussianCurve(0.5).renyi(3.0) == pytest.approx(0.375)
    curve = GaussianCurve(0)
    assert curve.epsilon(1e-300) == curve.epsilon(0.0) == 0
    np.testing.assert_allclose(curve.delta([-1.0, 0.0, 1.0]), [1 - math.exp(-1), 0, 0])
    np.testing.assert_allclose(curve.beta([0.0, 0.3, 1.0]), [1, 0.7, 0])
    assert curve.renyi(5.0) == 0
    assert PureCurve(0.0).delta(0.0) == PureCurve(0.0).epsilon(1e-9) == 0
    assert PureCurve(0.0).beta(0.25) == 0.75
    assert LaplaceCurve(0.0).epsilon(0.0) == 0


def test_orders_and_shapes() -> None:
    curve = GaussianCurve(1.0)
    assert curve.symmetric
    assert curve.epsilon(1e-5, Order.FORWARD) == curve.epsilon(1e-5, Order.REVERSE)
    deltas = np.array([[1e-3, 1e-5], [0.1, 0.9]])
    assert curve.epsilon(deltas).shape == (2, 2)  # type: ignore[union-attr]
    assert curve.epsilon(deltas)[0, 1] == curve.epsilon(1e-5)  # type: ignore[index]
    assert isinstance(curve.delta(np.float32(1)), float)
    assert curve.renyi([]).shape == (0,)  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, True])
def test_bad_bounds(bad: object) -> None:
    for make, name in ((GaussianCurve, "mu"), (LaplaceCurve, "bound"), (PureCurve, "bound")):
        with pytest.raises(ValueError, match=f"{name} must be a finite number of at least 0, got"):
            make(bad)  # type: ignore[arg-type]


# -------------------------------------- Bounded losses: the Laplace mechanism, randomised response


BOUNDS = (0.1, 1.0, 3.0)


@pytest.mark.parametrize("bound", BOUNDS)
def test_delta_is_the_integral(bound: float) -> None:
    def excess(x: float, epsilon: float) -> float:
        return max(laplace.pdf(x) - math.exp(epsilon) * laplace.pdf(x, bound), 0.0)

    for epsilon in (-1.5 * bound, -0.3, 0.0, 0.4 * bound, 0.99 * bound, 1.2 * bound):
        kinks = sorted({-30.0, 0.0, 0.5 * (bound - epsilon), bound, 30.0})
        ends = itertools.pairwise(kinks)
        pieces = [quad(excess, *both, args=(epsilon,), epsabs=1e-13)[0] for both in ends]
        assert LaplaceCurve(bound).delta(epsilon) == pytest.approx(math.fsum(pieces), abs=1e-11)


@pytest.mark.parametrize("bound", BOUNDS)
def test_epsilon_inverts_delta_and_is_pure_at_zero(bound: float) -> None:
    curve = LaplaceCurve(bound)
    delta = np.array([1e-12, 1e-5, 1e-2, 0.03])
    assert curve.delta(curve.epsilon(delta)) == pytest.approx(delta, rel=1e-3, abs=1e-16)
    assert curve.epsilon(0.0) == bound == PureCurve(bound).epsilon(0.0)
    assert curve.epsilon(0.0, Order.REVERSE) == bound


@pytest.mark.parametrize("bound", BOUNDS)
def test_beta_is_that_of_threshold_tests(bound: float) -> None:
    threshold = np.linspace(-5.0, 5.0 + bound, 41)
    alpha, beta = laplace.sf(threshold), laplace.cdf(threshold, bound)
    assert LaplaceCurve(bound).beta(alpha) == pytest.approx(beta, rel=1e-12)
    assert LaplaceCurve(bound).beta([0.0, 1.0]) == pytest.approx([1.0, 0.0])
    assert LaplaceCurve(800.0).beta(0.0) == 1.0


@pytest.mark.parametrize("bound", [1e-6, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 8.0])
def test_renyi_is_the_integral(bound: float, alpha: float) -> None:
    with mpmath.workdps(50):
        a, b = mpmath.mpf(alpha), mpmath.mpf(bound)
        moment = (a * mpmath.exp((a - 1) * b) + (a - 1) * mpmath.exp(-a * b)) / (2 * a - 1)
        truth = float(mpmath.log(moment) / (a - 1))
    assert LaplaceCurve(bound).renyi(alpha) == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("bound", [1e-9, 1e-3, 0.5, 3.0])
def test_pure_bounds_are_those_of_randomised_response(bound: float) -> None:
    keep, curve = 1 / (1 + math.exp(-bound)), PureCurve(bound)
    p, q = np.array([keep, 1 - keep]), np.array([1 - keep, keep])
    for epsilon in (-4.0, -0.4, 0.0, 0.3, 2.0, 5.0):
        exact = np.sum(np.maximum(p - math.exp(epsilon) * q, 0))
        assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-7, abs=1e-15)
    for alpha in (1.001, 2.0, 17.0):
        exact = math.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1)
        assert curve.renyi(alpha) == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert curve.beta(1 - keep) == pytest.approx(1 - keep)
    assert curve.beta(0.5 * (1 - keep)) == pytest.approx(0.5 * (1 + 1 - keep))
    assert curve.beta(0.9) == pytest.approx((1 - 0.9) * q[0] / p[0])


@pytest.mark.parametrize("bound", [1e-9, 1e-3, 0.5, 3.0, 40.0, 900.0])
def test_inverse_and_limits(bound: float) -> None:
    curve = PureCurve(bound)
    assert curve.delta(bound) == 0
    assert curve.delta(-2 * bound) == pytest.approx(-math.expm1(-2 * bound))
    deltas = np.array([1e-12, 1e-5, 0.3, 0.9])
    epsilons = np.asarray(curve.epsilon(deltas))
    inside = (epsilons > 0) & (bound - epsilons > 1e-6)
    assert np.asarray(curve.delta(epsilons))[inside] == pytest.approx(deltas[inside], rel=1e-6)
    assert np.all(epsilons <= bound)
    values = np.asarray(curve.renyi(np.geomspace(1 + 1e-9, 1e9, 40)))
    assert np.all((values >= 0) & (values <= bound))
    assert np.all(np.diff(values) >= -1e-9 * bound)
    betas = np.asarray(curve.beta([0.0, 1e-300, 0.3, 1.0]))
    assert (betas[0], betas[-1]) == (1, 0)
    assert np.all((betas >= 0) & (betas <= 1))


# ----------------- The better of two bounds, and claims of epsilon at every delta up to their limit


ONE = GaussianCurve(1.0)
OTHER = RenyiCurve(lambda a: np.full_like(a, 0.9))  # loses at large delta, wins at small
BOTH = MinimumCurve((ONE, OTHER), ("gaussian", "bounded"))


def test_takes_the_better_of_each() -> None:
    deltas = np.geomspace(1e-15, 0.3, 30)
    values = np.asarray(BOTH.epsilon(deltas))
    assert values == pytest.approx(np.minimum(ONE.epsilon(deltas), OTHER.epsilon(deltas)))
    assert BOTH.delta(0.7) == min(ONE.delta(0.7), OTHER.delta(0.7))
    assert BOTH.beta(0.1) == max(ONE.beta(0.1), OTHER.beta(0.1))
    assert BOTH.renyi(5.0) == 0.9
    assert BOTH.renyi(1.1) == pytest.approx(0.55)
    assert BOTH.symmetric
    # at zero a bounded loss is what is left
    pure = MinimumCurve((OTHER, PureCurve(0.7)), ("renyi", "pure"))
    assert ONE.epsilon(0.0) == OTHER.epsilon(0.0) == math.inf
    assert pure.epsilon([0.0, 0.5]).tolist() == [0.7, pure.epsilon(0.5)]  # type: ignore[union-attr]
    assert pure.winner(0.0) == "pure"
    assert (BOTH.winner(0.3), BOTH.winner(1e-30)) == ("gaussian", "bounded")


def test_refuses_bad_curves() -> None:
    with pytest.raises(ValueError, match="curves must hold at least one curve, got none"):
        MinimumCurve((), ())
    with pytest.raises(ValueError, match=r"labels must be as many as curves \(1\), got 2"):
        MinimumCurve((ONE,), ("a", "b"))
    with pytest.raises(ValueError, match="curve must be a PrivacyCurve, got 3"):
        MinimumCurve((3,), ("a",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delta must be in"):
        BOTH.winner(1.0)


@pytest.mark.parametrize("limit", [math.inf, 3.0])
def test_delta_is_the_least_whose_epsilon_is_claimed(limit: float) -> None:
    curve = TailCurve.gaussian(2.0, factor=0.8, limit=limit)
    epsilons = np.array([0.1, 1.0, 2.9, 3.1, 5.0])
    deltas = np.asarray(curve.delta(epsilons))
    assert np.all(curve.epsilon(deltas * (1 + 1e-9)) <= epsilons)
    assert np.all(np.asarray(curve.epsilon(deltas * (1 - 1e-9))) > np.minimum(epsilons, limit))
    assert curve.epsilon(1e-300) == (math.inf if limit < 50 else pytest.approx(52.5, abs=0.1))
