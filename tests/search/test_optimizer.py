"""The search and what it certifies."""

import dataclasses
import math
from unittest import mock

import pytest

from audit import Batching, NoisySGD, Relation, Release, bounds, exact
from audit.constructions import (
    BiasedWalk,
    GradientPair,
    PiecewiseLinear,
    QuadraticPair,
    TwoSidedWalk,
)
from audit.curves import GaussianCurve
from audit.curves.brackets import BracketError
from audit.curves.quantities import EpsilonAtDelta, RenyiAtOrder
from audit.search import (
    Epsilon,
    RenyiDivergence,
    check_admissible,
    optimizer,
    read_found,
    tightest_bound,
    worst_case,
    write_found,
)
from audit.search.evaluation import Clock
from tests.mechanisms import noisy_sgd
from tests.search.cases import DELTA, mechanism, search
from tests.slow import slow


def test_what_drift_and_start_reach():
    m = mechanism(3.0, 0.2, 10)
    found = search(m, 120)
    assert 8.08 <= found.bracket[0] <= found.bracket[1] <= bounds.best(m, delta=DELTA).epsilon
    assert found.evaluations <= 120
    two_sided = exact.curve(TwoSidedWalk(m)).epsilon_bracket(DELTA)
    assert found.bracket[0] >= two_sided[0]


def test_the_certificate_is_the_construction_and_its_law():
    found = search(mechanism(1.0, 0.2, 10), 60)
    check_admissible(found.construction)
    again = exact.curve(found.construction).epsilon_bracket(DELTA)
    assert again == found.bracket == found.law.epsilon_bracket(DELTA)


def test_suggestions_end_with_their_share_of_the_time(monkeypatch):
    def members(mechanism):
        yield TwoSidedWalk(mechanism)
        raise AssertionError("asked again")

    monkeypatch.setattr(optimizer, "suggested_members", members)
    monkeypatch.setattr(optimizer, "_SEED_SHARE", -1.0)
    m = NoisySGD(
        steps=4, dataset_size=2, batch_size=2, step_size=0.1, noise_std=1.0, lipschitz=1.0,
        smoothness=1.0, diameter=1.0,
    )  # fmt: skip
    assert worst_case(m, delta=1e-5, budget=60.0, evaluations=2, seed=0).bracket[0] > 0


def test_a_pair_whose_bracket_is_broken_is_skipped(monkeypatch):
    m = mechanism(1.0, 0.2, 10)
    ask = Epsilon.bracket
    left = []

    def broken(self, curve):
        if isinstance(curve, exact.LawCurve) and len(left) < 2:
            left.append(curve)
            raise BracketError("the bracket of epsilon must have 0 <= low <= high, got (2, 1)")
        return ask(self, curve)

    monkeypatch.setattr(Epsilon, "bracket", broken)
    found = search.__wrapped__(m, 20)
    assert len(left) == 2
    assert 0 < found.bracket[0] <= found.bracket[1]
    left.clear()
    monkeypatch.setattr(Epsilon, "bracket", mock.Mock(side_effect=BracketError("low > high")))
    with pytest.raises(ValueError, match="low > high"):
        search.__wrapped__(m, 10)


def test_the_same_seed_finds_the_same_pair():
    m = mechanism(1.0, 0.2, 10)
    first, second = search(m, 60), search.__wrapped__(m, 60)
    assert first.construction == second.construction
    assert first.bracket == second.bracket


def test_more_trials_never_find_less():
    m = mechanism(3.0, 0.2, 10)
    values = [search(m, count).bracket[0] for count in (3, 30, 120)]
    # quick values rank candidates to 1e-3
    assert values[0] <= values[1] * 1.002 <= values[2] * 1.004


def test_strongly_convex_full_batches_are_known():
    m = NoisySGD(
        steps=100,
        dataset_size=50,
        batch_size=50,
        step_size=0.1,
        noise_std=0.5,
        gradient_sensitivity=2.0,
        smoothness=5.0,
        strong_convexity=0.5,
    )
    exact_value = exact.curve(QuadraticPair(m, 0.5)).epsilon(DELTA)
    found = search(m, 20)
    assert found.bracket[0] == pytest.approx(exact_value, rel=1e-6)
    assert found.bracket[0] == pytest.approx(
        bounds.evaluate("bsa24.theorem_4_2", m).epsilon(DELTA), rel=1e-6
    )


def test_one_step_is_the_gaussian():
    m = mechanism(2.0, 0.2, 1)
    found = search(m, 250)
    gaussian = GaussianCurve(m.sensitivity / 1000 / 0.2).epsilon(DELTA)
    assert found.bracket[0] == pytest.approx(gaussian, rel=1e-6)


def test_the_wall_exposes_the_last_step_of_one_pass():
    m = noisy_sgd(
        steps=10, dataset_size=10, noise_std=0.25, diameter=40.0, batching=Batching.CYCLIC
    )
    assert search(m, 12).bracket[0] > 56.6


@pytest.mark.parametrize(
    ("batching", "relation"),
    [
        (Batching.WITHOUT_REPLACEMENT, Relation.REPLACE_ONE),
        slow(Batching.WITHOUT_REPLACEMENT, Relation.ZERO_OUT),
        (Batching.CYCLIC, Relation.ZERO_OUT),
        slow(Batching.SHUFFLED, Relation.REPLACE_ONE),
        slow(Batching.RESHUFFLED, Relation.ZERO_OUT),
    ],
)
def test_other_batches_and_relations_stay_below_their_bounds(batching, relation):
    small = noisy_sgd(
        steps=10,
        dataset_size=10,
        batch_size=2,
        step_size=0.1,
        smoothness=5.0,
        batching=Batching.CYCLIC,
    )
    m = dataclasses.replace(small, batching=batching, relation=relation)
    found = search(m, 12)
    assert found.bracket[0] <= tightest_bound(m, EpsilonAtDelta(DELTA))[1] < math.inf
    plain = BiasedWalk if relation is Relation.ZERO_OUT else TwoSidedWalk
    # quick values rank candidates to 1e-3
    assert found.bracket[0] >= exact.curve(plain(m)).epsilon(DELTA) * 0.998


@pytest.mark.slow
def test_cyclic_batches_with_drifts_of_their_own(tmp_path):
    """Weak pushes over a long run: a push before the record's batch and back in it."""
    v = 10 * 0.1 * 0.05**2
    m = noisy_sgd(
        steps=4000,
        dataset_size=1000,
        batch_size=100,
        noise_std=0.05,
        lipschitz=50 * v,
        batching=Batching.CYCLIC,
    )
    drifts = ((3, -1.4), (4, -2.3), (1, 5.5), (1, 35.3), (1, -41.2))  # in s^2
    known = GradientPair(
        m,
        record=PiecewiseLinear.constant(-50 * v),
        record_prime=PiecewiseLinear.constant(50 * v),
        others_by_batch=tuple(
            (count, PiecewiseLinear.constant(-drift * 0.05**2)) for count, drift in drifts
        ),
    )
    assert exact.curve(known).epsilon(DELTA) == pytest.approx(0.2318, abs=5e-4)
    found = search(m, 150)
    assert found.bracket[0] >= 0.2312  # 0.19897 with one drift for all batches
    assert found.bracket[1] <= bounds.best(m, delta=DELTA).epsilon
    # anyone can recompute the witness
    path = tmp_path / "pair.yaml"
    write_found(found, Epsilon(DELTA), path)
    assert read_found(path).recomputed() == found.bracket
    constant = GradientPair(m, record=known.record, record_prime=known.record_prime)
    assert exact.curve(constant).epsilon(DELTA) < 0.2


def test_other_objectives():
    m = mechanism(1.0, 0.2, 10)
    divergence = search(m, 20, delta=None, objective=RenyiDivergence(4.0))
    assert divergence.bracket == divergence.law.renyi_bracket(4.0)
    id, bound = tightest_bound(m, RenyiAtOrder(4.0))
    assert id in bounds.applicable(m)
    assert exact.curve(TwoSidedWalk(m)).renyi(4.0) < divergence.bracket[0] <= bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0.0}, "budget must be .* got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"delta": None}, "delta or objective must be given"),
        ({"objective": RenyiDivergence(2.0)}, "delta or objective must be given, and not both"),
        ({"evaluations": 0}, "evaluations must be a whole number of at least 1, got 0"),
    ],
)
def test_refusals(options, message):
    given = {"budget": 1.0, "seed": 0, "delta": DELTA, **options}
    with pytest.raises(ValueError, match=message):
        worst_case(mechanism(1.0, 0.2, 10), **given)


def test_a_mechanism_without_a_process_is_refused():
    m = dataclasses.replace(mechanism(1.0, 0.2, 10), release=Release.EXPONENTIAL_MECHANISM)
    with pytest.raises(ValueError, match="a pair whose laws can be computed, got none: release"):
        worst_case(m, delta=DELTA, budget=1.0, seed=0)


def test_a_mechanism_without_an_admissible_pair_is_refused_whatever_the_evaluations():
    m = dataclasses.replace(
        mechanism(1.0, 0.2, 2),
        batching=Batching.POISSON,
        relation=Relation.ADD_REMOVE,
        strong_convexity=0.1,
    )
    with pytest.raises(ValueError, match="got none: GradientPair needs no regulariser"):
        worst_case(m, delta=DELTA, evaluations=40, seed=0)


def test_a_structured_pair_keeps_its_place_among_gradients_with_larger_quick_values():
    """Quick values err by 1e-5, and the structured pair may be the best one that there is."""
    m = mechanism(1.0, 0.2, 10)
    evaluator = optimizer._Evaluator(Epsilon(1e-5), Clock(), 10, None, 0)
    walk, gradients = TwoSidedWalk(m), [GradientPair(m, start=0.01 * k) for k in range(4)]
    for value, pair in [(1.0, walk), *zip((1.1, 1.2, 1.3, 1.4), gradients, strict=True)]:
        evaluator._keep(value, pair)
    assert evaluator.best == [(1.4, gradients[3]), (1.3, gradients[2]), (1.0, walk)]
