"""The burn-in time in the figure of epsilon against T, and its source."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import audit
from audit.constructions import BiasedWalk, TwoSidedWalk
from audit.curves import Order
from audit.curves.quantities import EpsilonAtDelta
from audit.estimation import FixedThresholds, audit_samples
from audit.exact import curve
from audit.results import Number, SampledEvidence, Verdict
from audit.scenario.pair import burn_in, by_order, evaluated_bounds, with_best

from .small import mechanism

RATE = "at22.eq_1_3"


def test_the_burn_in_time_names_its_theorem_where_it_applies() -> None:
    for pair, steps, theorem in (
        # D n / (L eta) = 1 * 10 / (1 * 0.02), and three quarters of it in the lower bound's proof
        (TwoSidedWalk(mechanism(steps=3)), 500.0, "Theorem 3.1"),
        (BiasedWalk(mechanism(steps=3)), 375.0, "Theorem 4.1"),
    ):
        found = burn_in(pair)
        assert found is not None
        assert found.steps == pytest.approx(steps, rel=1e-12)
        assert found.theorem == f"Altschuler and Talwar 2022, {theorem}"
    for changes in (
        {"convex": False},
        {"batching": audit.Batching.POISSON},
        {"smoothness": None},
        {"diameter": None},
        {"step_size": (0.02, 0.01, 0.005)},
    ):
        assert burn_in(TwoSidedWalk(mechanism(steps=3, **changes))) is None, changes


def test_the_tightest_proven_bound_comes_beside_the_listed_ones() -> None:
    m, listed = mechanism(steps=40, noise_std=0.33), "bsa24.theorem_4_8"
    (first, best) = with_best(m, [listed], [1e-5])
    found = audit.bounds.best(m, delta=1e-5)
    assert (first, best) == (listed, found.id)
    exact = curve(BiasedWalk(m)).epsilon_bracket(1e-5)[0]
    values = [float(audit.bounds.evaluate(id, m).epsilon(1e-5)) for id in (best, listed)]
    assert exact <= values[0] < values[1]
    # a listed bound that is the tightest stands once; where no bound applies, none comes besides
    assert with_best(m, [found.id], [1e-5, 1e-5]) == (found.id,)
    nothing = mechanism(convex=False, relation=audit.Relation.ADD_REMOVE, smoothness=None)
    assert listed in with_best(nothing, [listed], [1e-5])


def test_a_rate_without_constants_is_never_judged() -> None:
    (rate, bound) = evaluated_bounds(mechanism(steps=3), [RATE, "bsa24.theorem_4_8"])
    assert rate.curve is not None  # it is drawn
    rows = [one.row(EpsilonAtDelta(1e-2), 1e3) for one in (rate, bound)]
    assert [row.verdict for row in rows] == [Verdict.NOT_APPLICABLE, Verdict.REFUTED]
    assert (rows[0].value, rows[0].reason) == (None, "a rate without constants is never judged")
    assert rows[1].ratio == rows[1].value / 1e3


@pytest.mark.parametrize("order", Order)
def test_counts_are_those_of_x_and_of_x_prime_in_either_order(order: Order) -> None:
    high, low = np.repeat([0.0, 1.0], [5, 95]), np.repeat([0.0, 1.0], [78, 2])
    pair = (high, low) if order is Order.FORWARD else (low, high)
    choice = FixedThresholds((1.0,))
    found = SampledEvidence.of(
        audit_samples(*pair, confidence=0.9, thresholds=choice).evidence(0.0)
    )
    assert found.order is order
    counted = (found.count, found.total), (found.count_prime, found.total_prime)
    assert counted == tuple((np.sum(x == 1), x.size) for x in pair)


def test_numbers_are_inside_their_brackets_and_the_worst_one_is_the_larger() -> None:
    class Curve:
        def epsilon(self, delta: float, order: Order) -> float:
            return 1.2 if order is Order.FORWARD else 0.5

        def epsilon_bracket(self, delta: float, order: Order) -> tuple[float, float]:
            return (0.9, 1.0) if order is Order.FORWARD else (0.4, 0.6)

    found = by_order(cast(Any, Curve()), EpsilonAtDelta(0.1))
    assert found.forward == found.worst == Number(1.0, 0.9, 1.0)
    assert found.reverse == Number(0.5, 0.4, 0.6)
