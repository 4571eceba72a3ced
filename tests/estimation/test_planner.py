"""Pilots choose events that certify much; planned numbers of trials refute as often as audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import expon, genpareto, norm

from audit import exact
from audit.constructions import TwoSidedWalk
from audit.constructions.explicit_laws import Gaussian
from audit.curves import GaussianCurve, LaplaceCurve, Order, PrivacyCurve, PureCurve
from audit.estimation import (
    FixedThresholds,
    OrderStatistics,
    PilotSplit,
    SimultaneousBand,
    audit_samples,
    plan,
)
from audit.estimation.evidence import Tail
from audit.estimation.pilot_split import Pilot, SmoothTail, _refutes
from audit.estimation.samples import smallest
from audit.estimation.thresholds import EventRates, Thresholds
from tests.mechanisms import noisy_sgd
from tests.slow import slow

Array = NDArray[np.float64]
CONFIDENCE = 0.95


def gaussian(generator: np.random.Generator, trials: int) -> tuple[Array, Array]:
    return generator.normal(2.0, 1.0, trials), generator.normal(0.0, 1.0, trials)


def response(generator: np.random.Generator, trials: int) -> tuple[Array, Array]:
    keep = 1 / (1 + np.exp(-1.0))
    first, second = generator.random(trials) < keep, generator.random(trials) >= keep
    return first.astype(float), second.astype(float)


@pytest.mark.parametrize(
    ("curve", "draw", "epsilon", "delta", "thresholds", "error"),
    [
        # the standard errors of the planner: 1000 draws of the counts, or 100 audits with a band
        pytest.param(GaussianCurve(2.0), gaussian, 2.0, 1e-2, None, 0.013, marks=pytest.mark.slow),
        (PureCurve(1.0), response, 0.5, 0.0, None, 0.013),
        pytest.param(
            PureCurve(1.0), response, 0.25, 0.0, SimultaneousBand(), 0.05, marks=pytest.mark.slow
        ),
    ],
    ids=["gaussian", "randomised response", "band"],
)
def test_audits_refute_as_often_as_planned(
    curve: PrivacyCurve,
    draw: Any,
    epsilon: float,
    delta: float,
    thresholds: Any,
    error: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("audit.estimation.thresholds._SIMULATIONS", 100)
    monkeypatch.setattr("audit.estimation.order_statistics._DRAWS", 1000)
    asked = {"confidence": CONFIDENCE, "thresholds": thresholds}
    found = plan(curve, epsilon=epsilon, delta=delta, **asked)
    assert found.trials is not None
    assert found.strategy == (thresholds or OrderStatistics()).kind

    def refuted(trials: int, repeats: int) -> float:
        generator = np.random.default_rng(11)
        lower = [
            audit_samples(
                *draw(generator, trials), deltas=(delta,), seed=seed, **asked
            ).epsilon_lower(delta)
            for seed in range(repeats)
        ]
        return float(np.mean(np.array(lower) > epsilon))

    # three standard errors of 100 audits and of the planner's own draws
    assert refuted(found.trials, 100) == pytest.approx(0.8, abs=3 * np.hypot(0.04, error))
    assert refuted(round(0.6 * found.trials), 40) < 0.8 - 0.1  # a plan of too few trials is seen


@pytest.mark.parametrize(
    ("choice", "trials", "epsilon"),
    [slow(PilotSplit(), 1_000, 1.2), (OrderStatistics(favours=(Order.FORWARD,)), 500, 1.2)],
    ids=["pilot", "ranks"],
)
def test_power_is_that_of_simulated_audits(
    choice: PilotSplit | OrderStatistics,
    trials: int,
    epsilon: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("audit.estimation.thresholds._SIMULATIONS", 120)
    monkeypatch.setattr("audit.estimation.pilot_split._PILOTS", 20)  # standard error 0.04
    spent: list[float] = []

    def spied(plan: Any, counts: Any, error: float, claim: Any) -> Any:
        spent.append(error)
        return _refutes(plan, counts, error, claim)

    monkeypatch.setattr("audit.estimation.pilot_split._refutes", spied)
    rates, claim = EventRates.of(GaussianCurve(1.0)), (epsilon, 1e-2)
    power = choice.power(rates, trials, claim=claim, error=1 - CONFIDENCE)
    # each pilot spends what its audit spends on a named delta
    assert sum(spent) == pytest.approx(len(spent) / 2 * 0.05 * 0.95, rel=1e-9)
    assert 0.2 < power < 0.95
    simulated = Thresholds.power(choice, rates, trials, claim=claim, error=1 - CONFIDENCE)
    # three standard errors of 120 audits and of 20 pilots
    assert power == pytest.approx(simulated, abs=3 * np.hypot(0.046, 0.04))
    monkeypatch.setattr("audit.estimation.pilot_split._PILOTS", 6)
    more = choice.power(rates, trials * 2, claim=claim, error=1 - CONFIDENCE)
    assert more > simulated + 0.1  # another number of trials is seen


def test_a_claim_that_is_true_or_nearly_so_is_refuted_by_no_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("audit.estimation.thresholds._SIMULATIONS", 150)
    found = plan(PureCurve(1.0), epsilon=1.0, delta=0.0, confidence=CONFIDENCE)
    assert (found.refutable, found.trials, found.reached) == (False, None, 0.0)
    assert found.true_epsilon == 1.0
    found = plan(PureCurve(1.0), epsilon=0.99, delta=0.0, confidence=CONFIDENCE, largest=1000)
    assert (found.refutable, found.trials) == (True, None)
    assert found.reached < 0.8
    rates = EventRates.of(PureCurve(0.4))
    assert SimultaneousBand().power(rates, 200, claim=(0.5, 0.0), error=0.05) < 0.05


def test_what_asks_for_more_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.estimation.order_statistics._DRAWS", 200)

    def trials(**changes: Any) -> int:
        asked = {"epsilon": 0.3, "delta": 0.0, "confidence": 0.95, **changes}
        found = plan(PureCurve(1.0), **asked)
        assert found.trials is not None
        assert found.reached >= changes.get("power", 0.8)
        return found.trials

    usual = trials()
    assert trials(directed=True) < usual
    assert usual < trials(confidence=0.99)
    assert usual < trials(power=0.9)
    assert usual > trials(epsilon=0.2)


def test_the_rates_are_those_of_the_curve() -> None:
    unlike = exact.curve(Gaussian(sensitivity=1.0, noise_std=0.5, sampling_rate=0.3))
    for curve in (GaussianCurve(1.0), PureCurve(1.0), LaplaceCurve(3.0), unlike):
        rates = EventRates.of(curve)
        drawn = rates.draw(20_000, np.random.default_rng(2))
        for threshold in (-4.0, -0.7, 0.0, 1.3, 4.0):
            first, second = rates.above(threshold)
            assert 1 - curve.beta(second, Order.REVERSE) == pytest.approx(first, rel=2e-3)
            seen = [float(np.mean(scores >= threshold)) for scores in drawn]
            assert seen == pytest.approx([first, second], abs=0.015)
        for masses in rates.cells:
            assert np.sum(masses) == pytest.approx(1.0)


def test_the_exact_law_of_a_pair_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.estimation.order_statistics._DRAWS", 1000)
    m = noisy_sgd(steps=4, lipschitz=0.5, diameter=200.0)
    law = exact.curve(TwoSidedWalk(m))  # unclamped: N(0, 1) against N(2, 1)
    asked = {"epsilon": 2.0, "delta": 1e-2, "confidence": CONFIDENCE}
    found, known = plan(law, **asked).trials, plan(GaussianCurve(2.0), **asked).trials
    assert found == pytest.approx(known, rel=0.02)


def test_the_smallest_that_is_enough() -> None:
    for least in (1, 9, 10, 11, 39, 7777, 8973):
        found = smallest(lambda n, least=least: n >= least, 10**6)
        assert max(least, 10) <= (found or 0) <= max(least, 10) * 1.01
        assert smallest(lambda n, least=least: n >= least, 10**6, least=4, step=1) == max(least, 4)
    assert smallest(lambda n: n >= 8973, 8900) is None
    assert smallest(lambda n: n >= 8973, 8973) == 8973


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"assumed": 1.0}, "assumed must be a PrivacyCurve, got 1.0"),
        ({"epsilon": -1}, "epsilon must be a finite number of at least 0, got -1"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got 1.0"),
        ({"confidence": 1}, r"confidence must be in \(0, 1\), got 1"),
        ({"power": 0}, r"power must be in \(0, 1\), got 0"),
        ({"largest": 3}, "largest must be a whole number of at least 10, got 3"),
        ({"thresholds": 3}, "thresholds must be a Thresholds, got 3"),
        (
            {"thresholds": FixedThresholds((1.0,))},
            "thresholds must be chosen by the scores, .*Fixed",
        ),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    asked = {"assumed": PureCurve(1.0), "epsilon": 0.5, "delta": 0.0, "confidence": 0.95, **changes}
    with pytest.raises(ValueError, match=message):
        plan(asked.pop("assumed"), **asked)


@pytest.mark.parametrize(
    "law", [norm, expon, genpareto(0.2)], ids=["normal", "exponential", "heavy"]
)
def test_fitted_tail_reaches_past_the_sample(law: Any) -> None:
    # Quantile samples, not random draws: the fit alone is at fault for an error.
    rates, size = [0.3, 1e-3, 1e-6], 100_000
    tail = SmoothTail.fit(law.ppf((np.arange(size) + 0.5) / size))
    estimate, error = tail.rate(law.isf(rates))
    assert estimate == pytest.approx(rates, rel=0.6)
    assert np.all(np.diff(error) > 0)


def test_atoms_are_not_extrapolated() -> None:
    scores = np.sort(np.clip(np.random.default_rng(0).normal(size=5000), -1, 1))
    tail = SmoothTail.fit(scores)
    assert tail.exceedances == 0
    assert tail.rate(np.array([1.0]))[0] == pytest.approx(norm.sf(1.0), rel=0.1)
    assert tail.rate(np.array([1.001]))[0] < 1e-3
    # the data overrule a fit
    generator = np.random.default_rng(0)
    bump = np.where(generator.random(20_000) < 2e-3, 20.0, 0.0)
    tail = SmoothTail.fit(np.sort(generator.normal(size=20_000) + bump))
    assert tail.rate(np.array([15.0]))[0] == pytest.approx(2e-3, rel=0.4)


def test_band_tests_cover_both_tails_in_the_right_order() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.normal(1, 1, 10_000), generator.normal(0, 1, 10_000)
    tests = Pilot(first, second, 90_000, 90_000).band_tests(32)
    assert len(tests) == 32
    for tail, order in ((Tail.AT_LEAST, Order.FORWARD), (Tail.AT_MOST, Order.REVERSE)):
        assert {test.order for test in tests if test.tail is tail} == {order}


def test_threshold_does_not_chase_luck() -> None:
    # Every event in the tail has the same loss; the certified one should be a large one.
    generator = np.random.default_rng(4)
    pilot = Pilot(generator.laplace(1, 1, 10_000), generator.laplace(0, 1, 10_000), 90_000, 90_000)
    plan = pilot.plan(1e-5, Order.FORWARD, 0.05)
    assert 0.5 < plan.test.threshold < 2.0
