"""Curves of explicit distributions: their brackets against closed forms and slow twins."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from audit import exact
from audit.constructions.explicit import (
    Densities,
    Finite,
    LaplaceMixtures,
    Mixture,
    Mixtures,
    Repeated,
)
from audit.curves import GaussianCurve, LaplaceCurve, Order
from audit.curves.brackets import BracketError
from audit.curves.finite_pair import Cells
from audit.exact import GaussianPairCurve
from audit.exact.cell_curve import FiniteCells
from audit.exact.explicit_curves import single_curve
from tests.bounds.one_pass import one_pass
from tests.bounds.test_survey import randomised_response_epsilon

ORDERS = tuple(Order)


def normal(mean, std=1.0):
    return Mixture((1.0,), (mean,), (std,))


def test_positive_deltas_below_the_range_of_doubles_are_not_zero():
    """At epsilon 47 delta of two normals at a distance of 1 is 5e-480."""
    first, second = normal(0.0), normal(1.0)
    for pair in (
        Mixtures(first, second),
        Mixtures(Mixture((0.5, 0.5), (0.0, 0.1), (1, 1)), second),
    ):
        low, high = exact.curve(pair).delta_bracket(47.0)
        assert low == 0 < high < 1e-319
    bounded = Finite((0.75, 0.25), (0.25, 0.75))
    assert exact.curve(bounded).delta_bracket(2.0) == (0, 0)


@pytest.mark.parametrize("planted", ["merged", "split"])
def test_a_wrong_side_is_an_error(monkeypatch, planted):
    """A loss .1 too large below, or too small above, puts the lower end above the upper one."""
    curve, true = single_curve(Mixtures(normal(0.0), normal(2.0))), getattr(Cells, planted)
    sign = 1 if planted == "merged" else -1

    def wrong(self, **options):
        pair = true(self, **options)
        shift = sign * 0.1
        return dataclasses.replace(pair, loss=pair.loss + shift, log_q=pair.log_q - shift)

    monkeypatch.setattr(Cells, planted, wrong)
    for ask, at in ((curve.epsilon_bracket, 1e-5), (curve.delta_bracket, 1.0)):
        with pytest.raises(BracketError, match="must have 0 <= low <= high"):
            ask(at)


@pytest.mark.parametrize("mu", [0.1, 2.0, 12.0])
def test_cells_of_two_normals_are_the_gaussian_curve(mu):
    pair = Mixtures(normal(0.0), normal(mu))
    curve, gaussian = single_curve(pair), GaussianCurve(mu)
    assert isinstance(exact.curve(pair), GaussianPairCurve)  # the closed form, where there is one
    for order in ORDERS:
        cases = [(curve.epsilon_bracket(d, order), gaussian.epsilon(d)) for d in (0.1, 1e-5, 1e-12)]
        cases += [
            (curve.renyi_bracket(a, order), gaussian.renyi(a)) for a in (1.1, 2.0, 1 + 40 / mu)
        ]
        cases += [(curve.power_bracket(0.05, order), float(ndtr(mu + ndtri(0.05))))]
        cases += [(curve.delta_bracket(e, order), gaussian.delta(e)) for e in (0.0, 1.0, 8.0)]
        for (low, high), true in cases:
            # the closed form itself has some 1e-12
            assert low * (1 - 1e-12) <= true <= high * (1 + 1e-12)
            assert high - low <= 1e-9 * true + 1e-319
        assert mu * (1 - 1e-3) < curve.mu_bracket(order).low <= mu


def test_finite_laws_agree_with_the_binomial_sum():
    p = math.exp(0.9) / (1 + math.exp(0.9))
    pair = Finite((p, 1 - p), (1 - p, p), 1000)
    low, high = exact.curve(pair).epsilon_bracket(1e-5)
    true = randomised_response_epsilon(0.9, 1000, 1e-5)
    assert low <= true <= high
    assert high - low < 1e-5


def test_outcomes_of_one_law_count_in_both_orders_of_a_composition():
    """Of a symmetric pair; with probability 1 - (1 - 1e-5)^1000 an outcome tells the law."""
    p = 0.5249739376870652
    rest = 1 - 1e-5 - p
    pair = Finite((1e-5, 0.0, p, rest), (0.0, 1e-5, rest, p), 1000)
    curve = exact.curve(pair)
    for order in ORDERS:
        assert curve.epsilon_bracket(1e-3, order)[1] == math.inf
        low, high = curve.epsilon_bracket(0.1, order)
        assert low == pytest.approx(high, rel=1e-6)
        low, high = curve.delta_bracket(300.0, order)
        assert low <= -math.expm1(1000 * math.log1p(-1e-5)) <= high


def test_three_outcomes_by_enumeration():
    first, second = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    pair = Finite(tuple(first), tuple(second), 4)
    delta = 0.0
    moment = 0.0
    for draws in itertools.product(range(3), repeat=4):
        p, q = float(np.prod(first[list(draws)])), float(np.prod(second[list(draws)]))
        delta += max(p - math.exp(0.7) * q, 0.0)
        moment += p**2.5 * q**-1.5
    curve = exact.curve(pair)
    low, high = curve.delta_bracket(0.7, Order.FORWARD)
    assert low <= delta <= high < delta * (1 + 1e-11)
    low, high = curve.renyi_bracket(2.5, Order.FORWARD)
    assert low <= math.log(moment) / 1.5 <= high < low + 1e-11


def test_exponential_densities_have_closed_forms():
    slope, half, alpha = 2.0, 0.7, 3.0
    pair = Densities(slope, -half, half)
    # integral of p^a q^(1-a) = sinh((2a - 1) s h)/((2a - 1) sinh(s h))
    moment = math.sinh((2 * alpha - 1) * slope * half)
    moment /= (2 * alpha - 1) * math.sinh(slope * half)
    low, high = exact.curve(pair).renyi_bracket(alpha)
    assert low <= math.log(moment) / (alpha - 1) <= high
    assert high - low < 1e-6
    # the ratio is at most e^(2 s h), and comes close to it
    low, high = exact.curve(pair).epsilon_bracket(1e-10)
    assert 2 * slope * half - 1e-3 < low <= 2 * slope * half


@pytest.mark.parametrize("distance", [0.1, 1.0, 30.0])
def test_two_laplace_laws_have_a_closed_form(distance):
    curve = exact.curve(LaplaceMixtures(1.0, (0.0, distance), (1.0, 0.0), (0.0, 1.0)))
    true = LaplaceCurve(distance)
    for order in ORDERS:
        low, high = curve.epsilon_bracket(0.0, order)
        assert low <= distance <= high <= distance * (1 + 1e-12)
        for epsilon in (0.0, 0.5 * distance, 0.999 * distance):
            low, high = curve.delta_bracket(epsilon, order)
            assert low <= true.delta(epsilon) * (1 + 1e-13) <= high * (1 + 2e-13)
            assert high - low <= 1e-12
        assert curve.delta_bracket(1.01 * distance, order) == (0, 0)


def test_the_tightest_test_counts_what_only_one_law_meets():
    curve = exact.curve(Finite((0.5, 0.5, 0.0), (0.1, 0.5, 0.4)))
    # 0.4 for free; the middle outcome at rate 1 up to its 0.5
    for alpha, power in ((0.25, 0.4 + 0.25), (0.75, 0.9 + 0.05)):
        low, high = curve.power_bracket(alpha, Order.FORWARD)
        assert low <= power <= high < power * (1 + 1e-12)
    assert curve.renyi_bracket(2.0, Order.REVERSE) == (math.inf, math.inf)
    assert curve.epsilon_bracket(0.3, Order.REVERSE) == (math.inf, math.inf)


def test_errors_of_counts_grow_with_the_number_of_draws():
    short, long = (
        FiniteCells.of(Finite((0.5, 0.5), (0.4, 0.6), times)).cells() for times in (1, 100_000)
    )
    assert long.error_p.max() > 100 * short.error_p.max()
    off = FiniteCells.of(Finite((0.3, 0.7 - 1e-10), (0.5, 0.5), 50)).cells()
    assert off.error_p.min() > 50e-10


def test_divergences_that_are_infinite_are_said_to_be():
    """Of normals of deviations 1 and 2, the moment of order a is finite where a/4 > a - 1."""
    curve = exact.curve(Mixtures(normal(0.0, 2.0), normal(0.0, 1.0)))
    assert math.isfinite(curve.renyi_bracket(1.3, Order.FORWARD)[1])
    assert curve.renyi_bracket(1.34, Order.FORWARD) == (math.inf, math.inf)
    assert curve.epsilon_bracket(0.0, Order.FORWARD) == (math.inf, math.inf)
    low, high = curve.epsilon_bracket(0.0, Order.REVERSE)
    assert low <= math.log(2.0) <= high < low + 1e-12
    finite = math.log(2) + math.log(4 / (1 + 3 * 1.34)) / (2 * 0.34)
    low, high = curve.renyi_bracket(1.34, Order.REVERSE)
    assert low <= finite <= high < low + 1e-9


def test_epsilons_above_a_billion_are_finite():
    """The losses of N(1, 10^4) against N(0, 1) are of the order of the squared ratio."""
    low, high = exact.curve(Mixtures(normal(1.0, 1e4), normal(0.0))).epsilon_bracket(
        1e-12, Order.FORWARD
    )
    z = float(ndtri(0.5e-12))  # but for the mean, and the tail of the second law: far out
    assert low <= 0.5 * (z * 1e4) ** 2 * (1 + 1e-3)
    assert high >= 0.5 * (z * 1e4) ** 2 * (1 - 1e-3)
    assert high < low * (1 + 1e-3)


def test_repeated_runs_are_one_gaussian_pair():
    m = one_pass(1, noise_std=30.0)
    low, high = exact.curve(Repeated(m, 400)).epsilon_bracket(1e-5)
    assert low <= GaussianCurve(20 * 2 / 30).epsilon(1e-5) <= high
