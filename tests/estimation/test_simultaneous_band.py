"""The simultaneous band: every threshold, both tails, both orders, atoms."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.codec import decode, encode
from audit.curves import Order
from audit.estimation import AuditRecord, SimultaneousBand, Tail, audit_samples
from audit.estimation.simultaneous_band import limits
from audit.estimation.tradeoff_hull import hull_renyi, hull_vertices

from .audited_laws import (
    ALPHAS,
    CLAMPED,
    DELTAS,
    GAUSSIAN,
    IDENTICAL,
    LAPLACE,
    PAIRS,
    KnownPair,
    allowed,
    count_wrong,
    wrong_anywhere,
)

BAND = SimultaneousBand()


def every_event(
    first: np.ndarray, second: np.ndarray, confidence: float
) -> list[tuple[Order, float, float]]:
    """The slow and obvious twin: each event at each score, and the limits of its two rates."""
    each = 1 - math.sqrt(confidence)
    laws = {Order.FORWARD: (first, second), Order.REVERSE: (second, first)}
    found = []
    for order, (one, other) in laws.items():
        for t in np.unique(np.concatenate([one, other])):
            for event in (np.greater_equal, np.greater, np.less_equal, np.less):
                counts = np.array([np.sum(event(one, t))]), np.array([np.sum(event(other, t))])
                low = limits(one.size, each).least_rate(counts[0])[0]
                high = limits(other.size, each).greatest_rate(counts[1])[0]
                found.append((order, low, high))
    return found


@pytest.mark.parametrize(
    "pair", [GAUSSIAN, LAPLACE, CLAMPED, IDENTICAL], ids=lambda pair: pair.name
)
def test_agrees_with_the_twin_over_every_event(pair: KnownPair) -> None:
    generator = np.random.default_rng(3)
    first, second = pair.draw_first(generator, 90), pair.draw_second(generator, 70)
    audit = audit_samples(first, second, confidence=0.9, thresholds=BAND)
    events = every_event(first, second, 0.9)
    for delta in (1e-6, 1e-2, 0.2):
        for order in Order:
            best = max(
                math.log((low - delta) / high) if low > delta else -math.inf
                for one, low, high in events
                if one is order
            )
            assert audit.epsilon_lower(delta, order) == pytest.approx(max(best, 0.0), abs=1e-12)
    mu = max(norm.ppf(low) - norm.ppf(high) for _, low, high in events if low > 0 and high < 1)
    assert audit.mu_lower() == pytest.approx(max(mu, 0.0), abs=1e-9)
    for order in Order:
        beta = audit.beta_upper(ALPHAS, order)
        for one, low, high in events:
            if one is order:  # no event's point lies below the hull
                assert np.interp(1 - low, ALPHAS, beta) <= high + 2e-2
                assert audit.beta_upper(1 - low, order) <= high + 1e-12


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_all_statements_hold_together(pair: KnownPair) -> None:
    def statement(first: np.ndarray, second: np.ndarray, seed: int) -> bool:
        audit = audit_samples(first, second, confidence=0.9, thresholds=BAND)
        return wrong_anywhere(audit, pair)

    wrong = count_wrong(statement, pair, repeats=400, sizes=(300, 200), seed=23)
    assert wrong <= allowed(0.1, 400)


def test_atoms_count_with_their_left_limits() -> None:
    first = np.repeat([0.0, 1.0, 2.0], [10, 30, 60])
    second = np.repeat([0.0, 1.0, 2.0], [60, 30, 10])
    audit = audit_samples(first, second, confidence=0.95, deltas=(1e-3,), thresholds=BAND)
    evidence = audit.evidence(1e-3, Order.FORWARD)
    event = {
        Tail.AT_LEAST: np.greater_equal,
        Tail.AT_MOST: np.less_equal,
        Tail.ABOVE: np.greater,
        Tail.BELOW: np.less,
    }[evidence.tail]
    assert evidence.first_count == np.sum(event(first, evidence.threshold))
    assert evidence.second_count == np.sum(event(second, evidence.threshold))
    assert evidence.first_count in (60, 90)


def test_exchanging_or_mirroring_the_samples_changes_nothing_else() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(0.7, 1, 500), generator.normal(0, 1.2, 400)
    plain, exchanged, mirrored = (
        audit_samples(a, b, confidence=0.95, thresholds=BAND) for a, b in ((x, y), (y, x), (-x, -y))
    )
    for order, other in ((Order.FORWARD, Order.REVERSE), (Order.REVERSE, Order.FORWARD)):
        values = plain.epsilon_lower(DELTAS, order)
        assert exchanged.epsilon_lower(DELTAS, other) == pytest.approx(values, rel=1e-12)
        assert mirrored.epsilon_lower(DELTAS, order) == pytest.approx(values, rel=1e-12)


def test_result_tells_what_it_rests_on() -> None:
    generator = np.random.default_rng(0)
    x, y = GAUSSIAN.draw_first(generator, 5000), GAUSSIAN.draw_second(generator, 4000)
    audit = audit_samples(x, y, confidence=0.95, deltas=(1e-2,), thresholds=BAND)
    stored = json.loads(json.dumps(encode(audit.record()), allow_nan=False))
    assert decode(AuditRecord, stored) == audit.record()
    assert stored["thresholds"] == {
        "kind": "SimultaneousBand",
        "favours": ["forward", "reverse"],
    }
    assert stored["seed"] is None
    assert stored["pilot_sizes"] == [0, 0]
    assert stored["certifying_sizes"] == [5000, 4000]
    assert sum(one["error"] for one in stored["spent"]) == pytest.approx(0.05, rel=1e-12)
    assert stored["tests"][0]["local_levels"][0] < 1e-3
    evidence = audit.evidence(1e-2)
    assert evidence.value == audit.epsilon_lower(1e-2)
    assert 0 < evidence.value < evidence.sampling_limit
    assert evidence.error_spent == pytest.approx(0.05)


def test_disjoint_laws_reach_the_bands_sampling_limit() -> None:
    audit = audit_samples(np.ones(500), np.zeros(400), confidence=0.95, thresholds=BAND)
    for delta in (1e-9, 0.3):
        evidence = audit.evidence(delta)
        assert evidence.value == pytest.approx(evidence.sampling_limit, rel=1e-12)


def test_power_of_the_band() -> None:
    generator = np.random.default_rng(1)
    first, second = GAUSSIAN.draw_first(generator, 10**6), GAUSSIAN.draw_second(generator, 10**6)
    band = audit_samples(first, second, confidence=0.95, thresholds=BAND)
    assert band.epsilon_lower(1e-5) > 2.95  # 3.1 to 3.2
    assert band.epsilon_lower(1e-2) > 2.18
    assert band.mu_lower() > 0.985
    assert band.renyi_lower(2.0) > 0.92  # truth 1; the best single event gives .65


def test_joined_renyi_bound_between_one_event_and_the_truth() -> None:
    # The hull of the exact tradeoff function of a Gaussian pair has nearly its own divergence.
    threshold = np.linspace(6, -5, 400)
    p, q = norm.sf(threshold - 1), norm.sf(threshold)
    alpha, beta = np.concatenate([[0], 1 - p[::-1], [1]]), np.concatenate([[1], q[::-1], [0]])
    orders = np.array([1 + 1e-9, 1.5, 2.0, 4.0])
    found = hull_renyi(orders, alpha, beta)
    assert np.all(found <= orders / 2)
    assert found[:3] == pytest.approx(orders[:3] / 2, rel=2e-3)
    two = hull_renyi(orders, np.array([0.0, 0.3, 1.0]), np.array([1.0, 0.1, 0.0]))
    direct = np.log(0.3**orders * 0.9 ** (1 - orders) + 0.7**orders * 0.1 ** (1 - orders))
    assert two[1:] == pytest.approx((direct / (orders - 1))[1:], rel=1e-12)
    assert two[0] == pytest.approx(0.3 * math.log(0.3 / 0.9) + 0.7 * math.log(7), rel=1e-7)
    assert np.isfinite(hull_renyi(np.array([1e308]), alpha, beta)[0])
    assert hull_renyi(orders, np.array([0.0, 1.0]), np.array([1.0, 0.0])).tolist() == [0.0] * 4


def test_hull_keeps_vertices_only() -> None:
    alpha = np.array([0.5, 0.1, 0.3, 0.3, 0.9, 0.2, 0.7])
    beta = np.array([0.2, 0.6, 0.3, 0.9, 0.5, 0.45, 0.29])
    assert hull_vertices(alpha, beta).tolist() == [1, 2, 0]
    assert hull_vertices(np.array([0.5]), np.array([0.5])).size == 0


@pytest.mark.parametrize("confidence", [1e-300, 0.5, 1 - 1e-15])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(1), np.zeros(1)),
        (np.zeros(50), np.zeros(60)),
        (np.ones(3), np.zeros(1)),
        (np.linspace(-1, 1, 100) * 1e308, np.linspace(-1, 1, 99) * 1.7e308),
        (np.arange(4000) * 5e-324, np.arange(900) * 1e-323),
    ],
    ids=["one", "constant", "three", "wide", "tiny"],
)
def test_hard_samples_give_numbers_and_no_warning(
    first: np.ndarray, second: np.ndarray, confidence: float
) -> None:
    audit = audit_samples(first, second, confidence=confidence, deltas=(0.5,), thresholds=BAND)
    answers = [
        audit.epsilon_lower(np.array([1e-300, 1e-9, 0.5, 1 - 1e-12])),
        audit.renyi_lower(np.array([1 + 1e-12, 2.0, 1e308])),
        audit.beta_upper(np.linspace(0, 1, 5)),
        audit.mu_lower(),
    ]
    for answer in answers:
        assert np.all(np.isfinite(answer))
        assert np.all(np.asarray(answer) >= 0)
    if np.unique(np.concatenate([first, second])).size == 1:
        assert np.all(np.asarray(answers[0]) == 0)
    json.dumps(encode(audit.record()), allow_nan=False)
