"""Brackets near 1: bounds stay below the true value under any rounding.

An error of 1e-16 in a delta next to 1 is 1e-7 in mu, so a bracket that ignores its conditioning is
right or wrong by luck, which differs between instruction sets. Truths come from 60 digits.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from audit.claims.sources import divergence_of, epsilon_of
from audit.constructions import TwoSidedWalk
from audit.constructions.explicit import Finite, Mixture, Mixtures
from audit.curves import GaussianCurve, Order, gaussian
from audit.curves.bracketed import gaussian_mu
from audit.curves.gaussian import gaussian_power_bracket
from audit.estimation.regions import Region
from audit.exact import LawCurve
from audit.exact import curve as exact_curve
from audit.exact.explicit_curves import single_curve
from audit.numerics.normal import gaussian_delta_bracket
from tests.mechanisms import noisy_sgd
from tests.reference import gaussian_delta

ORDERS = tuple(Order)
NEAR_ONE = [1 - 10.0**-k for k in (2, 4, 8, 11, 13, 15)]


def normals(mu):
    return Mixtures(Mixture((1.0,), (0.0,), (1.0,)), Mixture((1.0,), (mu,), (1.0,)))


@pytest.mark.parametrize("mu", [5.0, 8.5, 12.0, 12.5, 14.5, 17.0, 25.0, 36.0])
def test_mu_of_cells_is_never_above_the_truth(mu):
    for order in ORDERS:
        low = single_curve(normals(float(mu))).mu_bracket(order).low
        assert low <= mu
        if mu < 18:  # beyond, delta is 1 at all epsilons that are tried
            assert low > mu * (1 - 1e-3)


@pytest.mark.parametrize("mu", np.linspace(0.5, 16, 16))
def test_mu_from_one_delta_allows_for_the_last_bits_of_the_profile(mu):
    # what a certified delta may be: the true one, rounded either way
    epsilons = np.array([0.0, 0.3])
    deltas = np.array([float(gaussian_delta(float(e), float(mu))) for e in epsilons])
    for bits in (-4, 0, 4):
        rounded = np.minimum(deltas * (1 + bits * 2.0**-53), 1 - 2.0**-53)
        low, at = gaussian_mu(rounded, epsilons)
        assert low <= mu
        proven = gaussian_delta_bracket(np.array(at), np.array(low))[1]
        assert proven <= rounded[epsilons == at]


def test_every_delta_below_one_proves_its_mu():
    """Near delta = 1 the rounding of its root lost a bound: some 6 of 80 deltas proved 0."""
    rng = np.random.default_rng(5)
    for mu in rng.uniform(0.01, 10.0, 80):
        epsilon = float(rng.uniform(0.0, 10.0))
        delta = float(gaussian_delta_bracket(np.array(epsilon), np.array(mu))[0])
        if 1e-290 < delta < 1 - 1e-9:
            proven, _ = gaussian_mu(np.array([delta]), np.array([epsilon]))
            assert mu * (1 - 1e-6) <= proven <= mu


@pytest.mark.parametrize("mu", [0.1, 2.0, 6.0, 12.0])
@pytest.mark.parametrize("delta", [1e-12, 0.1, *NEAR_ONE])
def test_epsilon_of_normals_contains_the_truth_up_to_delta_one(mu, delta):
    for curve in (single_curve(normals(mu)), exact_curve(normals(mu))):
        low, high = curve.epsilon_bracket(delta, Order.FORWARD)
        assert low == 0 or gaussian_delta(low, mu) >= delta
        assert gaussian_delta(high, mu) <= delta


@functools.cache  # asked again for each mu
def tails(x, wide):
    with mpmath.workdps(40):
        rate = mpmath.ncdf(-mpmath.mpf(x))
        near = float(rate), float(rate)
        return np.nextafter(near, (-1, 2)) * (np.array([1 - wide, 1 + wide]) if rate < 0.4 else 1)


@functools.cache
def quantile(alpha):
    with mpmath.workdps(60):
        return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(alpha) - 1)


# each is right whatever its parts are, if they are what they say: a coarse quantile, tight tails
@pytest.mark.parametrize(("moved", "wide"), [(0.0, None), (0.0, 0.0), (1e-4, 1e-3), (-1e-4, 1e-3)])
@pytest.mark.parametrize("mu", [0.0, 1e-9, 0.3, 4.0])
def test_power_of_normals_contains_the_truth_at_every_alpha(mu, moved, wide, monkeypatch):
    if wide is not None:
        monkeypatch.setattr(gaussian, "normal_tail_bracket", lambda x: tails(x, wide))
        monkeypatch.setattr(gaussian, "ndtri", lambda alpha: ndtri(alpha) + moved)
    rng = np.random.default_rng(0)
    alphas = np.concatenate([10 ** rng.uniform(-40, 0, 40), 1 - 10 ** rng.uniform(-15, -1, 40)])
    for alpha in alphas:
        with mpmath.workdps(60):
            true = mpmath.ncdf(quantile(float(alpha)) + mpmath.mpf(mu))
        low, high = gaussian_power_bracket((mu, mu), float(alpha))
        assert low <= true <= high
        assert wide or high - low < 1e-11 * high


def test_a_perfectly_private_tradeoff_is_not_refuted_by_a_rounding():
    rng = np.random.default_rng(1)
    for alpha in rng.uniform(0, 1, 500):
        low, _ = gaussian_power_bracket((0.0, 0.0), float(alpha))
        assert low < 1 - (1 - alpha)


def test_finite_laws_contain_the_truth_near_delta_one():
    # randomised response: delta(e) = (p - e^e (1 - p)) for e below ln(p / (1 - p))
    for leak in (5.0, 20.0, 34.0):
        p = 1 / (1 + math.exp(-leak))
        curve = exact_curve(Finite((p, 1 - p), (1 - p, p)))
        for delta in (0.5, 0.999, *NEAR_ONE):
            with mpmath.workdps(60):
                P = mpmath.mpf(p)
                rest = P - mpmath.mpf(delta)
                true = float(mpmath.log(rest / (1 - P))) if rest > 1 - P else 0.0
            low, high = curve.epsilon_bracket(delta, Order.FORWARD)
            assert low <= true <= high


def test_renyi_near_order_one_takes_the_division_into_account():
    pair = Finite((0.5, 0.5), (0.4, 0.6))
    for gap in (1e-3, 1e-6, 1e-9, 1e-12):
        low, high = exact_curve(pair).renyi_bracket(1 + gap, Order.FORWARD)
        with mpmath.workdps(60):
            a = mpmath.mpf(1 + gap)
            terms = ((0.5, 0.4), (0.5, 0.6))
            moment = sum(mpmath.mpf(p) ** a * mpmath.mpf(q) ** (1 - a) for p, q in terms)
            assert low <= mpmath.log(moment) / (a - 1) <= high


@pytest.fixture(scope="module")
def walk():
    m = noisy_sgd(steps=6, dataset_size=2, step_size=0.5, noise_std=0.5, diameter=3.0)
    curve = exact_curve(TwoSidedWalk(m))
    assert isinstance(curve, LawCurve)
    return curve


def test_brackets_of_laws_contain_their_values_up_to_the_ends(walk):
    for order in ORDERS:
        for delta in NEAR_ONE:
            low, high = walk.epsilon_bracket(delta, order)
            assert low <= float(walk.epsilon(delta, order)) <= high
        for alpha in (1e-12, 1e-6, 0.01, 0.5, *NEAR_ONE):
            low, high = walk.power_bracket(alpha, order)
            value = 1 - float(walk.beta(alpha, order))
            slack = 2.0**-50  # of beta, next to 1
            assert low - slack <= value <= high + slack
            assert high - low < 1e-6


def test_the_bracket_of_beta_grows_with_the_slope_of_the_tradeoff_function(walk):
    # what the second law lost may be spent: it counts as often as the tradeoff is steep
    laws = (walk.first, walk.second)
    lost = LawCurve(*(dataclasses.replace(law, log_lost=math.log(1e-9)) for law in laws))
    for alpha in (1e-6, 1e-3, 0.5):
        low, high = lost.beta_bracket(alpha, Order.FORWARD)
        shifted = float(walk.beta(alpha - 1e-9, Order.FORWARD))
        assert low <= float(walk.beta(alpha, Order.FORWARD))
        assert high >= shifted


def test_the_error_of_a_computed_bound_is_what_rounding_delta_changes():
    curve = GaussianCurve(12.0)
    for delta in NEAR_ONE:
        value = curve.epsilon(delta)
        claimed = epsilon_of(curve.epsilon, delta)
        assert claimed.value == value
        assert gaussian_delta(value + claimed.slack, 12.0) <= delta
    assert epsilon_of(lambda delta: 3.0, 1e-5).slack == 4e-9
    assert divergence_of(float(curve.renyi(2.0)), 2.0).slack == 1e-9 * 145
    assert divergence_of(float(curve.renyi(1 + 1e-9)), 1 + 1e-9).slack == pytest.approx(
        1e-3, rel=1e-6
    )


def test_the_larger_of_both_errors_counts() -> None:
    """The bound's own, and near delta = 1 also what rounding delta changes, here 1e9 times it."""
    for delta, error in ((0.95, 1e9 * 0.95 * 2.0**-44), (0.5, 2e-9)):
        steep = epsilon_of(lambda at, delta=delta: 1.0 + 1e9 * (delta - at), delta)
        assert steep.slack == pytest.approx(error, rel=0.01)
        endless = epsilon_of(lambda at, delta=delta: 1.0 if at == delta else math.inf, delta)
        assert endless.slack == (math.inf if delta > 0.9 else 2e-9)
        flat = epsilon_of(lambda at: 1.0, delta)
        assert flat.slack == 2e-9


def test_limits_next_to_one_give_no_more_than_their_rounding_allows():
    rate, other = 1 - 1e-9, 0.25
    region = Region(np.array([rate]), np.array([other]))
    with mpmath.workdps(60):
        for bits in (-4, 4):  # the computed limit may be off by some bits of 1
            p = mpmath.mpf(rate) + bits * mpmath.mpf(2) ** -53
            z = mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
            assert region.mus()[0] <= z - mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(other) - 1)
            gap = p - mpmath.mpf(1 - 2e-9)
            assert region.epsilons(np.array(1 - 2e-9))[0] <= mpmath.log(gap / other)
            assert region.complement().second[0] >= 1 - p
    far = Region(np.array([0.75]), np.array([other]))
    assert far.complement().second[0] == 0.25  # elsewhere not a bit is lost
