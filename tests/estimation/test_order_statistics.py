"""Audits at order statistics: valid together, sharp with few scores, ties, and the ladder."""

from __future__ import annotations

import numpy as np
import pytest

from audit.codec import decode, encode
from audit.curves import Order
from audit.estimation import (
    AuditRecord,
    OrderStatistics,
    PilotSplit,
    SimultaneousBand,
    Tail,
    audit_samples,
)
from audit.estimation.order_statistics import ladder
from audit.estimation.samples import FEWEST_FOR_PILOT

from .audited_laws import (
    BINOMIAL,
    COIN,
    GAUSSIAN,
    IDENTICAL,
    LAPLACE,
    KnownPair,
    allowed,
    count_wrong,
    wrong_anywhere,
)

RANKS = OrderStatistics()
CONFIDENCE = 0.9


@pytest.mark.parametrize("pair", [GAUSSIAN, BINOMIAL], ids=lambda pair: pair.name)
def test_all_statements_hold_together(pair: KnownPair) -> None:
    # wrong at any delta, order, alpha or mu; .1 is allowed and about .05 is seen
    def statement(first: np.ndarray, second: np.ndarray, seed: int) -> bool:
        audit = audit_samples(first, second, confidence=CONFIDENCE, seed=seed, thresholds=RANKS)
        return wrong_anywhere(audit, pair)

    wrong = count_wrong(statement, pair, repeats=12, sizes=(60, 50), seed=11)
    assert wrong <= allowed(1 - CONFIDENCE, 12)


@pytest.mark.parametrize("favours", [None, Order.FORWARD, Order.REVERSE])
@pytest.mark.parametrize("pair", [IDENTICAL, COIN, LAPLACE], ids=lambda pair: pair.name)
def test_the_level_at_delta_zero(pair: KnownPair, favours: Order | None) -> None:
    truth = max(float(pair.epsilon(np.zeros(1), order)[0]) for order in Order)

    def statement(first: np.ndarray, second: np.ndarray, seed: int) -> bool:
        audit = audit_samples(first, second, confidence=CONFIDENCE, seed=seed, favours=favours)
        return audit.epsilon_lower(0.0) > truth + 1e-6

    wrong = count_wrong(statement, pair, repeats=400, sizes=(100, 80), seed=5)
    assert wrong <= allowed(1 - CONFIDENCE, 400)


@pytest.mark.parametrize(
    ("pair", "size", "delta", "least"),
    [
        (GAUSSIAN, 400, 1e-5, 1.30),  # 1.43 over 200 seeds; 1.05 by jax-privacy's Bonferroni
        (LAPLACE, 400, 0.0, 0.70),  # .76; .65
        (COIN, 400, 0.01, 0.79),  # .85; .84
    ],
    ids=["gaussian", "laplace", "coin"],
)
def test_power_with_few_scores(pair: KnownPair, size: int, delta: float, least: float) -> None:
    values = []
    for seed in range(30):
        generator = np.random.default_rng([seed, size])
        first, second = pair.draw_first(generator, size), pair.draw_second(generator, size)
        audit = audit_samples(first, second, confidence=0.95, seed=seed, favours=Order.FORWARD)
        values.append(audit.epsilon_lower(delta))
    assert np.median(values) >= least


def test_the_number_of_scores_alone_decides() -> None:
    few, many = np.zeros(FEWEST_FOR_PILOT - 1), np.zeros(FEWEST_FOR_PILOT)
    chosen = [
        audit_samples(a, b, confidence=0.9, seed=0).thresholds
        for a, b in ((few, many), (many, few), (many, many))
    ]
    assert chosen == [OrderStatistics(), OrderStatistics(), PilotSplit()]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 399, 5000, 10**6])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_ladder_of_ranks(size: int, offset: float) -> None:
    ranks, shares = ladder(size, offset)
    assert np.all((ranks >= 1) & (ranks <= size))
    assert np.all(np.diff(ranks) > 0)
    assert np.sum(shares) == pytest.approx(1.0)
    assert ranks[0] == 1
    if size >= 100:
        assert 0.3 * size < ranks[-1] <= 0.5 * size + 1
        assert np.max(ranks[1:] / ranks[:-1]) < 3.0**1.6


def test_a_declared_direction_halves_the_tests_and_shares_all_the_error() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(1, 1, 500), generator.normal(0, 1, 400)
    either = audit_samples(x, y, confidence=0.95, seed=1)
    declared = audit_samples(x, y, confidence=0.95, seed=1, favours=Order.FORWARD)
    wrongly = audit_samples(x, y, confidence=0.95, seed=1, favours=Order.REVERSE)
    assert len(declared.tests) < 0.6 * len(either.tests)
    for audit in (either, declared, wrongly):
        assert sum(one.error for one in audit.tests) == pytest.approx(0.05, rel=1e-12)
    assert {(one.test.order, one.test.tail) for one in declared.tests} == {
        (Order.FORWARD, Tail.ABOVE),
        (Order.REVERSE, Tail.BELOW),
    }
    assert declared.epsilon_lower(1e-2) > either.epsilon_lower(1e-2) > 0.5
    assert wrongly.epsilon_lower(1e-2) == 0.0
    exchanged = audit_samples(y, x, confidence=0.95, seed=1, favours=Order.REVERSE)
    assert exchanged.epsilon_lower(1e-2) == pytest.approx(declared.epsilon_lower(1e-2), abs=1e-6)


@pytest.mark.parametrize("plan", [PilotSplit(), SimultaneousBand()], ids=["pilot", "band"])
def test_other_strategies_take_a_declared_direction(plan: PilotSplit | SimultaneousBand) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(1, 1, 2000), generator.normal(0, 1, 2000)
    bounds = [
        audit_samples(
            x, y, confidence=0.95, seed=1, deltas=(0.0,), favours=favours, thresholds=plan
        ).epsilon_lower(0.0)
        for favours in (Order.FORWARD, None, Order.REVERSE)
    ]
    assert bounds[0] >= bounds[1] > 0.5
    assert bounds[2] == 0.0


def test_atoms_are_cut_at_random_and_counted_exactly() -> None:
    # All of one law on an atom that the other never meets: the sampling limit is reached.
    audit = audit_samples(np.ones(300), np.zeros(300), confidence=0.95, deltas=(0.0,), seed=3)
    evidence = audit.evidence(0.0)
    assert evidence.value == pytest.approx(evidence.sampling_limit, abs=1e-6)
    assert all(audit.evidence(0.0, one).value <= evidence.value for one in Order)
    assert (evidence.first_count, evidence.second_count) == (300, 0)
    assert np.exp(evidence.value) < 300
    constant = audit_samples(np.zeros(300), np.zeros(200), confidence=0.95, seed=3)
    # half a tie goes either way, at every rank
    assert all(0 <= one.counts.first <= 300 for one in constant.tests)
    assert constant.epsilon_lower(0.0) == 0.0


def test_evidence_of_the_reverse_order_is_the_complement() -> None:
    generator = np.random.default_rng(4)
    x, y = generator.normal(1, 1, 900), generator.normal(0, 1, 900)
    audit = audit_samples(x, y, confidence=0.95, seed=2, favours=Order.FORWARD)
    for order in Order:
        evidence = audit.evidence(1e-3, order)
        assert evidence.order is order
        gap = (evidence.first_rate - 1e-3) / evidence.second_rate
        assert np.log(gap) == pytest.approx(evidence.value, rel=1e-9)
    record = audit.record()
    assert decode(AuditRecord, encode(record)) == record
    assert encode(record)["thresholds"] == {"kind": "OrderStatistics", "favours": ["forward"]}
