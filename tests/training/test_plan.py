"""Planned numbers of trainings are right to a factor of two in simulated audits."""

from __future__ import annotations

import numpy as np
import pytest

from audit import estimation, training
from audit.curves import GaussianCurve, Order
from audit.estimation import judge_scores
from audit.estimation.judge import separated
from audit.estimation.sequential import EProcesses
from audit.estimation.thresholds import EventRates
from audit.results import UserClaim
from audit.training.plan import _refutes, fewest

CLAIM = UserClaim("accountant", 2.0, 1e-5)


@pytest.mark.parametrize("early_stop", [False, True])
def test_the_number_is_right_to_a_factor_of_two(early_stop: bool) -> None:
    assumed, asked = GaussianCurve(2.5), {"confidence": 0.95, "power": 0.8}
    found = training.plan(assumed, claim=(1.0, 1e-2), early_stop=early_stop, **asked)
    assert found.trials is not None
    assert found.fewest is not None
    assert found.fewest < found.trials
    if not early_stop:
        same = estimation.plan(assumed, epsilon=1.0, delta=1e-2, directed=True, **asked)
        assert found.trials == 2 * (same.trials or 0)

    # 60 audits each: by Hoeffding's inequality off by 0.25 with a chance of 1e-3
    def chance(trials: int) -> float:
        drawn, rates = np.random.default_rng(3), EventRates.of(assumed)
        sides = [rates.draw(trials // 2, drawn) for _ in range(60)]
        asked = found.claim, 0.95, early_stop
        return float(np.mean([_refutes(pair, *asked, k) for k, pair in enumerate(sides)]))

    half, all_of_them, double = map(chance, (found.trials // 2, found.trials, 2 * found.trials))
    assert half < 0.8 - 0.25
    assert abs(all_of_them - 0.8) < 0.25
    assert double > 0.95


@pytest.mark.parametrize("early_stop", [False, True])
def test_fewer_than_the_fewest_cannot_refute(early_stop: bool) -> None:
    trials = fewest(CLAIM, confidence=0.95, early_stop=early_stop)
    assert trials is not None

    def certified(pairs: int) -> float:
        asked = {"confidence": 0.95, "favours": Order.FORWARD, "anytime": early_stop}
        (found,) = judge_scores(separated(pairs, pairs), [CLAIM], **asked)
        return found.certified

    assert certified(trials // 2) > CLAIM.epsilon >= certified(trials // 2 - 1)


def test_claims_that_are_true_or_out_of_reach() -> None:
    true = training.plan(GaussianCurve(0.4), claim=CLAIM, confidence=0.95)
    assert true.true_epsilon < CLAIM.epsilon
    assert true.trials is None
    far = training.plan(GaussianCurve(9.0), claim=(14.0, 1e-5), confidence=0.95, largest=1000)
    assert far.fewest is None
    assert far.trials is None
    with pytest.raises(ValueError, match=r"power must be in \(0, 1\), got 1"):
        training.plan(GaussianCurve(1.0), claim=CLAIM, confidence=0.95, power=1)


def test_deltas_share_the_error_of_e_processes() -> None:
    """False refutations of true claims at two deltas, looked at after every pair of trainings."""
    claims = [
        UserClaim("", float(GaussianCurve(1.0).epsilon(delta)) * (1 + 1e-9), delta)
        for delta in (0.1, 0.01)
    ]
    drawn = np.random.default_rng(8)
    wrong, broken = 0, 0
    for _ in range(16):
        noise = drawn.normal(size=(2, 150))
        for shift in (1.0, 2.5):
            tests = EProcesses([(c.epsilon, c.delta) for c in claims], 0.8, farthest=3.0)
            assert tests.error == pytest.approx(0.1, rel=1e-12)
            tests.update(noise[0] + shift, noise[1])
            refuted = any(tests.epsilon_lower(c.delta) > c.epsilon for c in claims)
            wrong += refuted and shift == 1.0
            broken += refuted and shift == 2.5
    # 3.2 of 16 are allowed; 9 or more have a chance of 2e-3 where that is the truth
    assert wrong < 9
    assert broken > 13
