from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from audit.codec import decode, encode
from audit.curves import Order
from audit.estimation import (
    Audit,
    AuditRecord,
    OrderStatistics,
    PilotSplit,
    Rates,
    SimultaneousBand,
    Tail,
    audit_samples,
    rate_lower,
    rate_upper,
)
from audit.estimation.pilot import Pilot

from .audited_laws import CLAMPED, DELTAS, GAUSSIAN

GENERATOR = np.random.default_rng(0)
FIRST, SECOND = GAUSSIAN.draw_first(GENERATOR, 8000), GAUSSIAN.draw_second(GENERATOR, 6000)
NAMED = (1e-5, 1e-2)


PILOT = PilotSplit()
CLOSE = 1e-6  # of bounds that are ends of a search


@pytest.fixture(scope="module")
def piloted() -> Audit:
    return audit_samples(FIRST, SECOND, confidence=0.95, deltas=NAMED, seed=7, thresholds=PILOT)


@pytest.fixture(scope="module", params=[PILOT, OrderStatistics()], ids=["pilot", "ranks"])
def audit(request: pytest.FixtureRequest) -> Audit:
    return audit_samples(
        FIRST, SECOND, confidence=0.95, deltas=NAMED, seed=7, thresholds=request.param
    )


def test_answers_floats_and_arrays(audit: Audit) -> None:
    assert isinstance(audit.epsilon_lower(1e-3), float)
    grid = np.array([[1e-5, 1e-3], [1e-2, 0.2]])
    answers = audit.epsilon_lower(grid)
    assert isinstance(answers, np.ndarray)
    assert answers.shape == grid.shape
    assert answers[1, 0] == audit.epsilon_lower(1e-2)
    assert isinstance(audit.beta_upper(0.1), float)
    assert np.shape(audit.beta_upper(grid)) == grid.shape
    assert isinstance(audit.renyi_lower(2.0), float)
    assert np.shape(audit.renyi_lower(1 + grid)) == grid.shape
    assert isinstance(audit.mu_lower(), float)
    assert audit.epsilon_lower(np.array([])).shape == (0,)


def test_worse_of_two_orders(audit: Audit) -> None:
    orders = [np.asarray(audit.epsilon_lower(DELTAS, order)) for order in Order]
    both = audit.epsilon_lower(DELTAS)
    if isinstance(audit.thresholds, PilotSplit):
        assert np.array_equal(both, np.maximum(*orders))
    else:  # a claim about both orders is tested as one
        assert np.all(both > np.maximum(*orders) - CLOSE)
    alpha = np.linspace(0, 1, 11)
    betas = [np.asarray(audit.beta_upper(alpha, order)) for order in Order]
    assert np.array_equal(audit.beta_upper(alpha), np.minimum(*betas))


def test_exchanging_the_samples_exchanges_the_orders() -> None:
    one = audit_samples(FIRST, -FIRST, confidence=0.9, seed=3, thresholds=PILOT)
    other = audit_samples(-FIRST, FIRST, confidence=0.9, seed=3, thresholds=PILOT)
    for order, mirrored in ((Order.FORWARD, Order.REVERSE), (Order.REVERSE, Order.FORWARD)):
        assert one.epsilon_lower(1e-2, order) == pytest.approx(
            other.epsilon_lower(1e-2, mirrored), abs=0.3
        )
    assert one.epsilon_lower(1e-2) > 1


def test_monotone_in_delta_and_renyi_order(audit: Audit) -> None:
    epsilon = np.asarray(audit.epsilon_lower(np.geomspace(1e-12, 0.9, 60)))
    assert np.all(np.diff(epsilon) <= CLOSE)
    assert np.all(np.diff(np.asarray(audit.renyi_lower(np.linspace(1.01, 50, 60)))) >= -1e-12)


def test_beta_upper_is_a_convex_bound_between_the_ends(audit: Audit) -> None:
    for order in Order:
        alpha, beta = audit.beta_points(order)
        assert (alpha[0], beta[0], alpha[-1], beta[-1]) == (0.0, 1.0, 1.0, 0.0)
        slopes = np.diff(beta) / np.diff(alpha)
        assert np.all(np.diff(slopes) > 0)
        grid = np.linspace(0, 1, 101)
        assert np.all(np.asarray(audit.beta_upper(grid, order)) <= 1 - grid + 1e-12)


@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.1])
def test_evidence_recounts_and_recomputes(audit: Audit, delta: float) -> None:
    evidence = audit.evidence(delta)
    assert evidence.value == audit.epsilon_lower(delta)
    assert evidence.value == pytest.approx(
        math.log((evidence.first_rate - delta) / evidence.second_rate), rel=1e-12
    )
    assert evidence.value <= evidence.sampling_limit
    assert (evidence.first_total, evidence.second_total) == (
        audit.certifying_sizes if evidence.order is Order.FORWARD else audit.certifying_sizes[::-1]
    )
    event = {
        Tail.AT_LEAST: np.greater_equal,
        Tail.AT_MOST: np.less_equal,
        Tail.ABOVE: np.greater,
        Tail.BELOW: np.less,
    }[evidence.tail]
    first = FIRST if evidence.order is Order.FORWARD else SECOND
    total = np.count_nonzero(event(first, evidence.threshold))
    assert 0 < evidence.first_count <= total
    assert evidence.first_rate < evidence.first_count / evidence.first_total


def test_other_evidence_agrees_with_its_bound(audit: Audit) -> None:
    assert audit.mu_evidence().value == audit.mu_lower()
    for order in (None, *Order):  # the events joined certify a little more than the best of them
        value, joined = audit.renyi_evidence(4.0, order).value, audit.renyi_lower(4.0, order)
        assert 0.85 * joined < value <= joined


def test_spends_the_whole_error_and_no_more(piloted: Audit) -> None:
    audit = piloted
    assert sum(one.error for one in audit.tests) == pytest.approx(0.05, rel=1e-12)
    for delta in NAMED:
        planned = [one for one in audit.tests if one.planned_delta == delta]
        assert {one.test.order for one in planned} == set(Order)
        assert sum(one.error for one in planned) == pytest.approx(0.05 * 0.95 / 2, rel=1e-12)
    band = audit_samples(FIRST, SECOND, confidence=0.95, seed=7, thresholds=PILOT)
    assert sum(one.error for one in band.tests) == pytest.approx(0.05, rel=1e-12)


def test_tests_depend_on_the_pilot_alone(piloted: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert piloted.pilot_sizes == (800, 600)
    assert piloted.certifying_sizes == (7200, 5400)
    pilots = []

    class Spy(Pilot):
        def __init__(self, first: np.ndarray, second: np.ndarray, *totals: Any) -> None:
            pilots.append(first)
            super().__init__(first, second, *totals)

    monkeypatch.setattr("audit.estimation.pilot_split.Pilot", Spy)
    audit_samples(FIRST, SECOND, confidence=0.95, deltas=NAMED, seed=7, thresholds=PILOT)
    changed = np.where(np.isin(FIRST, pilots[0]), FIRST, 10.0)  # the pilot's scores stay
    other = audit_samples(changed, SECOND, confidence=0.95, deltas=NAMED, seed=7, thresholds=PILOT)
    assert [one.test for one in other.tests] == [one.test for one in piloted.tests]
    assert [one.counts for one in other.tests] != [one.counts for one in piloted.tests]


def test_same_seed_same_audit_and_json(audit: Audit) -> None:
    plan = audit.thresholds
    again, other = (
        audit_samples(FIRST, SECOND, confidence=0.95, deltas=NAMED, seed=seed, thresholds=plan)
        for seed in (7, 8)
    )
    assert again.record() == audit.record()
    assert other.record() != audit.record()
    stored = json.loads(json.dumps(encode(audit.record()), allow_nan=False))
    assert decode(AuditRecord, stored) == audit.record()
    assert stored["epsilon_lower"][0]["delta"] == 1e-5
    assert stored["epsilon_lower"][0]["evidence"]["value"] == audit.epsilon_lower(1e-5)
    assert stored["beta_upper"]["forward"]["alpha"][0] == 0.0
    assert stored["tests"][0]["tail"] == audit.tests[0].test.tail.value


def test_result_is_frozen(audit: Audit) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        audit.seed = 8  # type: ignore[misc]


def test_atoms_at_the_ends_are_counted_exactly() -> None:
    generator = np.random.default_rng(2)
    first, second = CLAMPED.draw_first(generator, 20_000), CLAMPED.draw_second(generator, 20_000)
    audit = audit_samples(first, second, confidence=0.95, deltas=(1e-3,), seed=2)
    evidence = audit.evidence(1e-3)
    assert abs(evidence.threshold) == 1.0  # the best event of this pair is an atom
    truth = CLAMPED.epsilon(np.array([1e-3]), Order.FORWARD)[0]
    assert 0.9 * truth < evidence.value < truth
    end = [one for one in audit.tests if one.test.threshold == 1.0]
    assert all(one.counts.first > 0 for one in end if one.test.tail is Tail.AT_LEAST)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(50), np.zeros(50)),
        (np.ones(50), np.zeros(60)),
        (np.arange(4.0), np.arange(4.0)),
        (np.full(1000, 1e308), np.full(1000, -1e308)),
        (np.linspace(-1, 1, 1000) * 1e308, np.linspace(-1, 1, 999) * 1.7e308),
        (np.arange(1000) * 5e-324, np.arange(900) * 1e-323),
        (np.arange(1000, dtype=np.int64), np.arange(1000, dtype=np.float32)),
        (np.random.default_rng(0).standard_cauchy(3000) ** 3, np.arange(3000.0)),
    ],
    ids=["constant", "two points", "four", "huge", "wide", "tiny", "integers", "heavy"],
)
@pytest.mark.parametrize("confidence", [1e-300, 0.95, 1 - 1e-15])
@pytest.mark.parametrize("plan", [PILOT, OrderStatistics()], ids=["pilot", "ranks"])
def test_hard_samples_give_numbers_and_no_warning(
    first: np.ndarray, second: np.ndarray, confidence: float, plan: PilotSplit | OrderStatistics
) -> None:
    audit = audit_samples(
        first, second, confidence=confidence, deltas=(0.0, 1e-9, 0.5), seed=0, thresholds=plan
    )
    answers = [
        audit.epsilon_lower(np.array([0.0, 1e-300, 1e-9, 0.5, 1 - 1e-12])),
        audit.renyi_lower(np.array([1 + 1e-12, 2.0, 1e308])),
        audit.beta_upper(np.linspace(0, 1, 5)),
        audit.mu_lower(),
    ]
    for answer in answers:
        assert np.all(np.isfinite(answer))
        assert np.all(np.asarray(answer) >= 0)
    json.dumps(encode(audit.record()), allow_nan=False)


def test_a_constant_score_says_nothing() -> None:
    audit = audit_samples(np.zeros(500), np.zeros(400), confidence=0.9, deltas=(1e-5,), seed=0)
    assert audit.epsilon_lower(1e-5) == 0.0
    assert audit.mu_lower() == 0.0
    assert audit.renyi_lower(2.0) == 0.0
    assert audit.beta_upper(0.25) == 0.75


GOOD: dict[str, Any] = {"samples": FIRST, "samples_prime": SECOND, "confidence": 0.95, "seed": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": [1.0, math.nan, 2.0, 3.0]}, r"samples must hold finite numbers only, got nan"),
        (
            {"samples_prime": [math.inf] * 9},
            r"samples_prime must hold finite numbers only, got inf",
        ),
        ({"samples": []}, r"samples must be a non-empty one-dimensional array, got shape \(0,\)"),
        (
            {"samples": np.zeros((5, 2))},
            r"samples_prime must be of dimension 2 like samples, got 1",
        ),
        (
            {"samples": np.zeros((5, 2, 2))},
            r"samples must be a non-empty .*, got shape \(5, 2, 2\)",
        ),
        ({"samples": "abc"}, "samples must be an array of real numbers, got one of <U3"),
        ({"samples": ["1", "2"]}, "samples must be an array of real numbers, got one of <U1"),
        (
            {"samples": [1j, 2, 3, 4]},
            "samples must be an array of real numbers, got one of complex",
        ),
        (
            {"samples": FIRST.astype("M8[s]")},
            "samples must be an array of real numbers, got one of",
        ),
        (
            {"samples_prime": np.ma.masked_less(SECOND, 0)},
            "samples_prime must be an array without a",
        ),
        ({"samples": [None, "a"]}, "samples must be a one-dimensional array of numbers, got"),
        ({"samples": [[1], [1, 2]]}, "samples must be a one-dimensional array of numbers, got"),
        (
            {"samples": [1.0, 2.0, 3.0], "thresholds": PILOT},
            r"samples must hold at least 4 scores .*, got 3",
        ),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"confidence": math.nan}, r"confidence must be in \(0, 1\), got nan"),
        ({"deltas": (-0.1,)}, r"deltas must be in \[0, 1\), got -0.1"),
        ({"deltas": (1e-5, 1.0)}, r"deltas must be in \[0, 1\), got 1.0"),
        ({"deltas": (1e-5, 1e-5)}, r"deltas must be distinct, got \(1e-05, 1e-05\)"),
        ({"deltas": 1e-5}, r"deltas must be a sequence of numbers in \[0, 1\), got 1e-05"),
        ({"seed": -1}, r"seed must be a whole number of at least 0, got -1"),
        ({"seed": 1.5}, r"seed must be a whole number of at least 0, got 1.5"),
        (
            {"thresholds": 7},
            r"must be an OrderStatistics, PilotSplit, SimultaneousBand or FixedThresholds, got 7",
        ),
        ({"seed": None}, r"seed must be given for order statistics, a whole number of at least 0"),
        (
            {"seed": None, "thresholds": PILOT},
            r"seed must be given for a pilot split, a whole number of at least 0",
        ),
        ({"favours": "forward"}, r"favours must be an Order, got 'forward'"),
        (
            {
                "favours": Order.FORWARD,
                "thresholds": SimultaneousBand(favours=(Order.REVERSE,)),
            },
            r"favours must be one of those of thresholds \(reverse\), got 'forward'",
        ),
    ],
)
def test_bad_input_is_one_line(change: dict[str, Any], message: str) -> None:
    arguments = {**GOOD, **change}
    samples = arguments.pop("samples"), arguments.pop("samples_prime")
    with pytest.raises(ValueError, match=message) as caught:
        audit_samples(*samples, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fraction": 0.0}, r"fraction must be in \(0, 1\), got 0.0"),
        ({"band_thresholds": 1}, r"band_thresholds must be a whole number of at least 2, got 1"),
        ({"band_share": 1.0}, r"band_share must be in \(0, 1\), got 1.0"),
        ({"lead_share": -1.0}, r"lead_share must be in \(0, 1\), got -1.0"),
    ],
)
def test_bad_plan(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PilotSplit(**change)


def test_bad_questions(audit: Audit) -> None:
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\), got 1.0"):
        audit.epsilon_lower(1.0)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\), got nan"):
        audit.evidence(math.nan)
    with pytest.raises(ValueError, match=r"alpha must be in \(1, inf\), got 1.0"):
        audit.renyi_lower(1.0)
    with pytest.raises(ValueError, match=r"alpha must be in \[0, 1\], got 1.5"):
        audit.beta_upper(1.5)
    with pytest.raises(ValueError, match=r"order must be an Order, got 'forward'"):
        audit.epsilon_lower(1e-5, "forward")  # type: ignore[call-overload]


def test_rates_may_be_bounded_separately() -> None:
    plan = PilotSplit(rates=Rates.SEPARATE)
    found = audit_samples(FIRST, SECOND, confidence=0.95, deltas=(1e-2,), seed=7, thresholds=plan)
    evidence = found.evidence(1e-2)
    planned = [one for one in found.tests if one.planned_delta == 1e-2]
    for counted in planned:  # Clopper and Pearson's limits, the error shared as planned
        assert counted.region.first.size == 1
        p = rate_lower(counted.counts.first, counted.counts.first_total, counted.error)
        q = rate_upper(counted.counts.second, counted.counts.second_total, counted.error)
        assert counted.region.first[0] < p
        assert counted.region.second[0] > q
    assert evidence.value > 1.5
    assert encode(found.record())["thresholds"]["rates"] == "separate"
    with pytest.raises(ValueError, match=r"rates must be a Rates, got 'joint'"):
        PilotSplit(rates="joint")  # type: ignore[arg-type]


def test_tells_how_the_confidence_was_spent(piloted: Audit) -> None:
    audit, record = piloted, piloted.record()
    assert record.seed == 7
    assert record.thresholds == PilotSplit(fraction=0.1)
    assert record.error_spent == pytest.approx(0.05, rel=1e-12)
    assert [one.purpose for one in record.spent] == [
        "32 thresholds for every delta, equal parts",
        "tests for delta 1e-05, one per order",
        "tests for delta 0.01, one per order",
    ]
    assert sum(one.error for one in audit.tests) == pytest.approx(
        sum(one.error for one in audit.spent), rel=1e-12
    )
