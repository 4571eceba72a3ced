"""The pair of a composition of runs: the quantities that the judge needs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from audit import Batching, Composition, NoisySGD, Order, Relation, Release, exact
from audit.constructions.explicit_laws import AllIterates, Laplace
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi

EARLY = NoisySGD(
    steps=20,
    dataset_size=100,
    batch_size=10,
    step_size=1.0,
    noise_std=0.1,
    clip_norm=1.0,
    convex=False,
    batching=Batching.POISSON,
    relation=Relation.ADD_REMOVE,
    release=Release.ALL_ITERATES,
)
LATE = replace(EARLY, steps=30, batch_size=20)
FULL = replace(EARLY, batching=Batching.FULL, batch_size=100)
ALLOCATED = replace(EARLY, batching=Batching.RANDOM_ALLOCATION)


def test_epsilon_and_delta_are_those_of_the_composition():
    run = Composition((EARLY, LATE))
    law = exact.curve(AllIterates(run))
    assert law.epsilon_bracket(1e-5) == exact.dominating_curve(run).epsilon_bracket(1e-5)
    low, high = law.delta_bracket(1.0, Order.REVERSE)
    assert 0 < low <= high < low * 1.0001


@pytest.mark.parametrize(
    ("law", "causes"),
    [
        (exact.curve(Laplace(sensitivity=1.0, scale=1.0, times=30)), {"rounding", "grid"}),
        (exact.dominating_curve(ALLOCATED), {"rounding", "grid"}),
        (
            exact.dominating_curve(
                replace(EARLY, batching=Batching.RESHUFFLED, relation=Relation.ZERO_OUT)
            ),
            {"rounding", "enclosure"},
        ),
        (exact.curve(AllIterates(FULL)), {"rounding"}),
    ],
)
def test_widths_are_divided_among_their_causes(law, causes):
    low, high = law.epsilon_bracket(1e-5)
    widths = law.errors(1e-5)
    assert set(widths) == causes
    assert sum(widths.values()) == pytest.approx(high - low, rel=1e-3)
    assert all(width >= 0 for width in widths.values())


def test_without_a_finite_end_no_cause_has_a_width():
    law = exact.curve(Laplace(sensitivity=1.0, scale=1.0, times=30))
    assert law.errors(0.0)["cells"] < 1e-9
    assert exact.curve(AllIterates(FULL)).errors(0.0) == {"rounding": 0.0}


def test_renyi_divergences_add_up():
    law = exact.curve(AllIterates(Composition((EARLY, LATE, FULL))))
    for order in Order:
        sampled = [(20, 0.1, 1.0), (30, 0.2, 2.0)]
        total = sum(n * sampled_gaussian_renyi(3.0, q, z, order) for n, q, z in sampled)
        total += 20 * 3.0 / (2 * FULL.noise_multiplier**2)
        low, high = law.renyi_bracket(3.0, order)
        assert low <= total * (1 + 1e-9)
        assert total <= high * (1 + 1e-9)
        assert high - low < 1e-3 * total


def test_the_largest_loss_adds_up():
    """Without the record nothing says more than that it was in no batch."""
    law = exact.curve(AllIterates(Composition((EARLY, LATE))))
    low, high = law.epsilon_bracket(0.0, Order.REVERSE)
    assert low <= -20 * math.log(0.9) - 30 * math.log(0.8) <= high < low * (1 + 1e-6)
    assert law.epsilon_bracket(0.0)[1] == math.inf


def test_full_batches_alone_are_normal():
    law = exact.curve(AllIterates(Composition((FULL, replace(FULL, steps=7)))))
    assert isinstance(law, exact.GaussianPairCurve)
    assert law.mu == pytest.approx(math.sqrt(27) / FULL.noise_multiplier)


def test_where_no_formula_is_known_epsilon_still_is():
    law = exact.curve(AllIterates(Composition((EARLY, ALLOCATED))))
    low, high = law.epsilon_bracket(1e-5)
    assert 0 < low <= high < low * 1.001
    assert law.renyi_bracket(2.0)[0] == 0
    with pytest.raises(ValueError, match="AllIterates by formula needs a single run, got a"):
        AllIterates(Composition((EARLY, ALLOCATED))).distributions()
