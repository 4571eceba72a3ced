"""Pairs given by numbers: their brackets against closed forms and slow twins."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.special import ndtr, ndtri

from audit import Batching, NoisySGD, Relation, Release
from audit.claims.candidates import exponential_mechanism, named_pair, repeated
from audit.claims.discrete import DiscreteLaws
from audit.claims.evidence import CellEvidence, exact_evidence
from audit.claims.pairs import Densities, Finite, Mixture, Mixtures, given_pair
from audit.claims.points import Point, Quantity
from audit.curves import GaussianCurve
from audit.mechanism import Order
from audit.search.found_pairs import read_found
from tests.bounds.fmtt18.one_pass import mixed_epsilon, mixed_renyi, one_pass
from tests.bounds.survey.test_accountants import randomised_response_epsilon

ORDERS = tuple(Order)


def point(quantity, at):
    return Point(quantity, at, 0.0)


def worst(pair, quantity, at):
    brackets = [exact_evidence(pair).bracket(point(quantity, at), order) for order in ORDERS]
    return max(low for low, _ in brackets), max(high for _, high in brackets)


def normal(mean, std=1.0):
    return Mixture((1.0,), (mean,), (std,))


@pytest.mark.parametrize("mu", [0.1, 2.0, 12.0])
def test_cells_of_two_normals_are_the_gaussian_curve(mu):
    cells = CellEvidence(Mixtures(normal(0.0), normal(mu)))
    gaussian = GaussianCurve(mu)
    cases = [(Quantity.EPSILON, d, gaussian.epsilon(d)) for d in (0.1, 1e-5, 1e-12)]
    cases += [(Quantity.RENYI, a, gaussian.renyi(a)) for a in (1.1, 2.0, 1 + 40 / mu)]
    cases += [(Quantity.POWER, 0.05, float(ndtr(mu + ndtri(0.05)))), (Quantity.MU, None, mu)]
    for quantity, at, true in cases:
        for order in ORDERS:
            low, high = cells.bracket(point(quantity, at), order)
            assert low <= true * (1 + 1e-12), quantity
            assert low == pytest.approx(true, rel=1e-4, abs=1e-6), quantity
            assert high >= low


def test_mixtures_agree_with_a_grid():
    first, second, variances = [1.0, 2.0, 4.0], [-1.0, 0.5, 3.5], [1.0, 2.0, 3.0]
    stds = tuple(np.sqrt(variances))
    thirds = (1 / 3,) * 3
    pair = Mixtures(Mixture(thirds, tuple(first), stds), Mixture(thirds, tuple(second), stds))
    low, high = worst(pair, Quantity.RENYI, 1.7)
    true = mixed_renyi(1.7, first, second, variances)
    assert low <= true * (1 + 1e-9)
    assert low == pytest.approx(true, rel=1e-5)
    assert high >= true * (1 - 1e-6)
    # thresholds on the line are one family of events: never above what all events show
    law = exact_evidence(pair).bracket(point(Quantity.EPSILON, 1e-3), Order.FORWARD)
    assert law[1] >= mixed_epsilon(1e-3, first, second, variances) - 1e-6


def test_finite_laws_agree_with_the_binomial_sum():
    p = math.exp(0.9) / (1 + math.exp(0.9))
    pair = Finite((p, 1 - p), (1 - p, p), 1000)
    low, high = worst(pair, Quantity.EPSILON, 1e-5)
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
    laws = pair.cells()
    assert math.exp(laws.log_delta(0.7, Order.FORWARD)) == pytest.approx(delta, rel=1e-12)
    assert laws.renyi(2.5, Order.FORWARD) == pytest.approx(math.log(moment) / 1.5, rel=1e-12)


def test_exponential_densities_have_closed_forms():
    slope, half, alpha = 2.0, 0.7, 3.0
    pair = Densities(slope, -half, half)
    # integral of p^a q^(1-a) = sinh((2a - 1) s h)/((2a - 1) sinh(s h))
    moment = math.sinh((2 * alpha - 1) * slope * half)
    moment /= (2 * alpha - 1) * math.sinh(slope * half)
    low, high = worst(pair, Quantity.RENYI, alpha)
    assert low <= math.log(moment) / (alpha - 1) <= high
    assert high - low < 1e-6
    # the ratio is at most e^(2 s h), and comes close to it
    low, high = worst(pair, Quantity.EPSILON, 1e-10)
    assert 2 * slope * half - 1e-3 < low <= 2 * slope * half


def test_finer_cells_say_more_and_never_too_much():
    pair = Mixtures(Mixture((0.3, 0.7), (0.0, 2.0), (1.0, 0.5)), normal(1.0, 0.8))
    for quantity, at in ((Quantity.RENYI, 2.0), (Quantity.EPSILON, 1e-4), (Quantity.POWER, 0.1)):
        for order in ORDERS:
            lows = []
            for count in (60, 600, 6000):
                edges = np.linspace(-30, 30, count)
                laws = DiscreteLaws(pair.first.log_masses(edges), pair.second.log_masses(edges))
                ask = {
                    Quantity.RENYI: laws.renyi,
                    Quantity.EPSILON: laws.epsilon,
                    Quantity.POWER: laws.power,
                }[quantity]
                lows.append(ask(at, order))
            high = exact_evidence(pair).bracket(point(quantity, at), order)[1]
            assert lows[0] < lows[1] < lows[2] <= high * (1 + 1e-9)


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
    low, high = worst(repeated(m, 400), Quantity.EPSILON, 1e-5)
    assert low <= GaussianCurve(20 * 2 / 30).epsilon(1e-5) <= high
    with pytest.raises(ValueError, match="Repeated needs steps=1 and dataset_size=1, got steps=2"):
        repeated(one_pass(2), 4)


def exponential(**changes):
    values = {
        "steps": 1,
        "dataset_size": 5,
        "batch_size": 5,
        "step_size": 0.1,
        "noise_std": 2.0,
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "diameter": 1.0,
        "release": Release.EXPONENTIAL_MECHANISM,
    }
    return NoisySGD(**{**values, **changes})


def test_exponential_mechanisms():
    # exp(-2 F/(eta sigma^2)): temperature .2, potentials differ by (2L/n) x = .4 x
    flat = exponential_mechanism(exponential())
    assert flat == Densities(1.0, -0.5, 0.5)
    strong = exponential_mechanism(exponential(diameter=None, strong_convexity=0.5))
    assert strong == Mixtures(normal(0.4, math.sqrt(0.4)), normal(-0.4, math.sqrt(0.4)))
    zero = exponential_mechanism(exponential(relation=Relation.ZERO_OUT))
    assert zero == Densities(0.5, -0.5, 0.5)
    for changes, message in (
        ({"release": Release.LAST_ITERATE}, "needs release=EXPONENTIAL_MECHANISM, got release="),
        ({"strong_convexity": 0.5}, "needs a bounded domain without strong convexity"),
        ({"batching": Batching.CYCLIC}, "needs full batches, got CYCLIC"),
        (
            {"relation": Relation.ZERO_OUT, "dataset_size": 1, "batch_size": 1},
            "needs other records for relation=ZERO_OUT",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            exponential_mechanism(exponential(**changes))


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("Finite", {"first": [0.5, 0.4], "second": [0.5, 0.5]}, "first must sum to 1, got 0.9"),
        ("Finite", {"first": [0.5, 0.5], "second": [1.0]}, "second must have one probability for"),
        ("Finite", {"first": "ab", "second": [1.0]}, "first must be a list of numbers, got 'ab'"),
        (
            "Finite",
            {"first": [1.0], "second": [1.0], "times": 0},
            "times must be a whole number of at least 1, got 0",
        ),
        (
            "Finite",
            {"first": [0.25] * 4, "second": [0.25] * 4, "times": 1000},
            "times must leave at most 1000000 different counts, got 1000",
        ),
        ("Mixtures", {"first": {}, "second": {}}, "first must be a mapping with weights, means"),
        ("Mixtures", {"first": {}}, "Mixtures needs second, got first"),
        ("Densities", {"slope": 1, "low": 1, "high": 0}, r"low must be below high \(0\), got 1"),
        ("Densities", {"slope": 1, "low": 0, "high": 1, "x": 2}, "Densities has no parameter 'x'"),
    ],
)
def test_bad_numbers_are_refused(kind, parameters, message):
    with pytest.raises(ValueError, match=message):
        given_pair(kind, parameters)


def test_mixtures_refuse_uneven_lists_and_no_spread():
    with pytest.raises(ValueError, match="must be one for each normal, got 1, 2 and 1"):
        Mixture((1.0,), (0.0, 1.0), (1.0,))
    with pytest.raises(ValueError, match="stds_0 must be a positive finite number, got 0"):
        Mixture((1.0,), (0.0,), (0.0,))
    assert named_pair(None, "Finite", {"first": [1.0], "second": [1.0]}) == Finite((1.0,), (1.0,))
    with pytest.raises(ValueError, match="mechanism must be given for the pair TwoSidedWalk"):
        named_pair(None, "TwoSidedWalk", {})


def test_a_found_pair_can_be_named_by_a_claim():
    folder = Path(__file__).parents[2] / "scenarios" / "found"
    for file in sorted(folder.glob("*.yaml")):
        parameters = yaml.safe_load(file.read_text(encoding="utf-8"))["pair"]
        pair = read_found(file).construction
        kind = parameters.pop("kind")
        assert named_pair(pair.mechanism, kind, parameters) == pair


def test_a_pair_that_no_witness_can_tell_is_refused():
    m = NoisySGD(
        steps=3,
        dataset_size=5,
        batch_size=5,
        step_size=0.1,
        noise_std=2.0,
        lipschitz=2.0,
        holder=(1.6, 1 / 3),
        diameter=1.0,
    )
    with pytest.raises(ValueError, match=r"pair must be one of BiasedWalk, .*, got 'HolderPair'"):
        named_pair(m, "HolderPair", {"scale": 1.0, "form": "SIGNED"})
