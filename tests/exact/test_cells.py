"""Curves of explicit distributions: their brackets against closed forms and slow twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from audit import exact
from audit.constructions.explicit import Densities, Finite, Mixture, Mixtures, Repeated
from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.exact import CellCurve, GaussianPairCurve
from audit.exact.cells import DiscreteLaws, cells, mixture_masses
from tests.bounds.fmtt18.one_pass import mixed_epsilon, mixed_renyi, one_pass
from tests.bounds.survey.test_accountants import randomised_response_epsilon

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


@pytest.mark.parametrize("planted", ["cells", "split"])
def test_a_wrong_side_is_an_error(planted):
    """A loss .1 too large below, or too small above, puts the lower end above the upper one."""
    curve = CellCurve(Mixtures(normal(0.0), normal(2.0)))
    law = curve._fine if planted == "cells" else curve._split
    sign = 1 if planted == "cells" else -1
    for cached in ("_forward", "_reverse"):
        log_p, ratio = getattr(law, cached)
        law.__dict__[cached] = log_p, ratio + sign * 0.1
    for ask, at in ((curve.epsilon_bracket, 1e-5), (curve.delta_bracket, 1.0)):
        with pytest.raises(BracketError, match="must have 0 <= low <= high"):
            ask(at)


@pytest.mark.parametrize("mu", [0.1, 2.0, 12.0])
def test_cells_of_two_normals_are_the_gaussian_curve(mu):
    pair = Mixtures(normal(0.0), normal(mu))
    curve, gaussian = CellCurve(pair), GaussianCurve(mu)
    assert isinstance(exact.curve(pair), GaussianPairCurve)  # the closed form, where there is one
    for order in ORDERS:
        cases = [(curve.epsilon_bracket(d, order), gaussian.epsilon(d)) for d in (0.1, 1e-5, 1e-12)]
        cases += [
            (curve.renyi_bracket(a, order), gaussian.renyi(a)) for a in (1.1, 2.0, 1 + 40 / mu)
        ]
        cases += [(curve.power_bracket(0.05, order), float(ndtr(mu + ndtri(0.05))))]
        found = curve.mu_bracket(order)
        cases += [((found.low, found.high), mu)]
        for (low, high), true in cases:
            assert low <= true * (1 + 1e-12)
            assert low == pytest.approx(true, rel=1e-4, abs=1e-6)
            assert high >= low
        for epsilon in (0.0, 1.0, 8.0):
            low, high = curve.delta_bracket(epsilon, order)
            assert low <= gaussian.delta(epsilon) * (1 + 1e-12)
            assert low == pytest.approx(gaussian.delta(epsilon), rel=1e-4, abs=1e-12)
            assert high >= low


def test_values_lie_in_their_brackets():
    curve = CellCurve(Mixtures(Mixture((0.3, 0.7), (0.0, 2.0), (1.0, 0.5)), normal(1.0, 0.8)))
    for order in ORDERS:
        for (low, high), value in (
            (curve.epsilon_bracket(1e-4, order), curve.epsilon(1e-4, order)),
            (curve.delta_bracket(0.5, order), curve.delta(0.5, order)),
            (curve.renyi_bracket(3.0, order), curve.renyi(3.0, order)),
            (curve.power_bracket(0.1, order), 1 - curve.beta(0.1, order)),
        ):
            assert low <= value <= high
    both = [curve.epsilon_bracket(1e-4, order) for order in ORDERS]
    assert curve.epsilon_bracket(1e-4) == (max(b[0] for b in both), max(b[1] for b in both))


def test_mixtures_agree_with_a_grid():
    first, second, variances = [1.0, 2.0, 4.0], [-1.0, 0.5, 3.5], [1.0, 2.0, 3.0]
    stds = tuple(np.sqrt(variances))
    thirds = (1 / 3,) * 3
    pair = Mixtures(Mixture(thirds, tuple(first), stds), Mixture(thirds, tuple(second), stds))
    low, high = exact.curve(pair).renyi_bracket(1.7)
    true = mixed_renyi(1.7, first, second, variances)
    assert low <= true * (1 + 1e-9)
    assert low == pytest.approx(true, rel=1e-5)
    assert high >= true * (1 - 1e-6)
    # thresholds on the line are one family of events: never above what all events show
    law = exact.curve(pair).epsilon_bracket(1e-3, Order.FORWARD)
    assert law[1] >= mixed_epsilon(1e-3, first, second, variances) - 1e-6


def test_finite_laws_agree_with_the_binomial_sum():
    p = math.exp(0.9) / (1 + math.exp(0.9))
    pair = Finite((p, 1 - p), (1 - p, p), 1000)
    low, high = exact.curve(pair).epsilon_bracket(1e-5)
    true = randomised_response_epsilon(0.9, 1000, 1e-5)
    assert low <= true <= high
    assert high - low < 1e-5


def test_three_outcomes_by_enumeration():
    first, second = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    pair = Finite(tuple(first), tuple(second), 4)
    delta = 0.0
    moment = 0.0
    for draws in itertools.product(range(3), repeat=4):
        p, q = float(np.prod(first[list(draws)])), float(np.prod(second[list(draws)]))
        delta += max(p - math.exp(0.7) * q, 0.0)
        moment += p**2.5 * q**-1.5
    laws = cells(pair)
    assert math.exp(laws.log_delta(0.7, Order.FORWARD)) == pytest.approx(delta, rel=1e-12)
    assert laws.renyi(2.5, Order.FORWARD) == pytest.approx(math.log(moment) / 1.5, rel=1e-12)


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


def test_finer_cells_say_more_and_never_too_much():
    pair = Mixtures(Mixture((0.3, 0.7), (0.0, 2.0), (1.0, 0.5)), normal(1.0, 0.8))
    curve = exact.curve(pair)
    for order in ORDERS:
        lows = []
        for count in (60, 600, 6000):
            edges = np.linspace(-30, 30, count)
            laws = DiscreteLaws(
                mixture_masses(pair.first, edges), mixture_masses(pair.second, edges)
            )
            lows.append((laws.renyi(2.0, order), laws.epsilon(1e-4, order), laws.power(0.1, order)))
        highs = (
            curve.renyi_bracket(2.0, order)[1],
            curve.epsilon_bracket(1e-4, order)[1],
            curve.power_bracket(0.1, order)[1],
        )
        for (coarse, middle, fine), high in zip(zip(*lows, strict=True), highs, strict=True):
            assert coarse < middle < fine <= high * (1 + 1e-9)


def test_power_counts_what_only_one_law_meets():
    with np.errstate(divide="ignore"):
        laws = DiscreteLaws(np.log([0.5, 0.5, 0.0]), np.log([0.1, 0.5, 0.4]))
    # 0.4 for free; the middle outcome at rate 1 up to its 0.5
    assert laws.power(0.25, Order.FORWARD) == pytest.approx(0.4 + 0.25)
    assert laws.power(0.75, Order.FORWARD) == pytest.approx(0.9 + 0.05)
    assert laws.renyi(2.0, Order.REVERSE) == math.inf
    assert laws.epsilon(0.3, Order.REVERSE) == math.inf


def test_repeated_runs_are_one_gaussian_pair():
    m = one_pass(1, noise_std=30.0)
    low, high = exact.curve(Repeated(m, 400)).epsilon_bracket(1e-5)
    assert low <= GaussianCurve(20 * 2 / 30).epsilon(1e-5) <= high
