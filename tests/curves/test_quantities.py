"""The registry of quantities: values of known pairs, places, and lower bounds from samples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit import exact
from audit.codec import decode, encode
from audit.constructions.explicit import Finite
from audit.constructions.explicit_laws import Gaussian
from audit.curves import FinitePair, GaussianCurve, Order
from audit.curves.quantities import (
    QUANTITIES,
    AnyQuantity,
    ClaimedNumber,
    EpsilonAtDelta,
    Mu,
    PowerAtAlpha,
    RenyiAtOrder,
    TotalVariation,
)
from audit.estimation import audit_samples, judge_scores

LAWS = Finite((0.5, 0.3, 0.2), (0.2, 0.3, 0.5))
PAIR = FinitePair.of(np.log(LAWS.first), np.log(LAWS.second))
VALUES = {
    EpsilonAtDelta(0.1): PAIR.epsilon(0.1),
    RenyiAtOrder(3.0): PAIR.log_moment(3.0) / 2,
    PowerAtAlpha(0.25): PAIR.power(0.25),
    TotalVariation(): 0.3,
}


@pytest.mark.parametrize("quantity", VALUES, ids=lambda quantity: quantity.kind)
def test_a_bracket_holds_the_value_of_the_finite_pair(quantity: AnyQuantity) -> None:
    law = exact.curve(LAWS)
    for order in Order:
        low, high = quantity.bracket(law, order)
        assert low <= VALUES[quantity] <= high
        assert high - low < 1e-8
        known = law.mu_bracket(order)  # the lower end certifies
        assert Mu().bracket(law, order) == (known.low, known.high)
        assert known.low < known.high


@pytest.mark.parametrize("cls", [cls for cls in QUANTITIES.values() if cls.place])
def test_numbers_rise_or_fall_with_their_place(cls: type[AnyQuantity]) -> None:
    law, places = exact.curve(LAWS), np.array([0.1, 0.2]) + (1 if cls is RenyiAtOrder else 0)
    for order in Order:
        lows, highs = cls.brackets(law, places, order)
        assert bool(highs[0] < lows[1]) is cls.rises
        assert not cls.may_exceed(law, places, highs + 1e-6, order).any()
        assert cls.may_exceed(law, places, lows - 1e-6, order).all()


def test_numbers_of_independent_draws_add_up_where_they_say_so() -> None:
    twice = exact.curve(Finite(LAWS.first, LAWS.second, times=2))
    for quantity in (*VALUES, EpsilonAtDelta(0.0)):
        once = quantity.bracket(exact.curve(LAWS), Order.FORWARD)[0]
        both = quantity.bracket(twice, Order.FORWARD)[0]
        assert bool(both == pytest.approx(2 * once, rel=1e-6)) is quantity.adds_up


def test_mu_and_total_variation_of_normals() -> None:
    law, curve = exact.curve(Gaussian(sensitivity=1.0, noise_std=0.5)), GaussianCurve(2.0)
    assert Mu().bracket(law, Order.FORWARD)[0] == pytest.approx(2.0, abs=1e-9)
    distance = math.erf(1 / math.sqrt(2))  # 2 Phi(mu/2) - 1
    assert TotalVariation().bracket(law, Order.REVERSE)[0] == pytest.approx(distance, abs=1e-9)
    assert TotalVariation().upper_bound(curve) == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("kind", QUANTITIES)
def test_every_quantity_is_read_back_and_checks_its_place(kind: str) -> None:
    cls = QUANTITIES[kind]
    quantity = cls(1.5 if kind == "renyi" else 0.25) if cls.place else cls()  # type: ignore[call-arg]
    number = ClaimedNumber(quantity, 0.5, 1e-9)
    assert decode(ClaimedNumber, encode(number)) == number
    quantity.check()
    assert quantity.where.startswith(cls.place)
    assert quantity.recipe(0.25, 0.5)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"{cls.place or 'at'} must be"):
            cls.check_place(wrong)
        with pytest.raises(ValueError, match=f"{cls.value or kind} must be"):
            cls.check_value(wrong)


def test_samples_bound_the_total_variation() -> None:
    """Two laws that overlap by half: at most 0.5, and near it from many samples."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0.0, 1.0, 40_000)

    def bound(low: float, records: int = 1) -> float:
        y = generator.uniform(low, low + 1.0, 40_000)
        found = audit_samples(x, y, confidence=0.95, seed=1, group_size=records)
        return TotalVariation().sampled_bound(found)[0]

    one = bound(0.5)
    assert 0.45 < one < 0.5
    assert bound(0.5, records=2) == pytest.approx(one / 2, abs=0.01)
    assert bound(0.0) < 0.02


def test_scores_judge_any_quantity() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(2.0, size=20_000), generator.normal(0.0, size=20_000)
    claims = [ClaimedNumber(q, 0.1) for q in (*VALUES, Mu())]
    judged = judge_scores(scores, claims, confidence=0.95)
    assert [one.verdict.value for one in judged] == ["refuted"] * len(claims)
    true = [ClaimedNumber(TotalVariation(), 0.6827), ClaimedNumber(Mu(), 2.01)]
    assert {one.verdict.value for one in judge_scores(scores, true, confidence=0.95)} == {
        "consistent"
    }


def test_ratios_are_claimed_over_certified() -> None:
    number = ClaimedNumber(Mu(), 3.0)
    assert number.ratio(2.0) == 1.5
    assert number.ratio(0.0) == math.inf
