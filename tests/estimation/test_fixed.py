"""Thresholds fixed in advance, and counts that add up."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.curves import Order
from audit.estimation import (
    Audit,
    AuditRecord,
    FixedThresholds,
    Rates,
    Summary,
    audit_counts,
    audit_samples,
    rate_lower,
    rate_upper,
)

from .audited_laws import CLAMPED, DELTAS, PAIRS, KnownPair, allowed, count_wrong, wrong_anywhere

THRESHOLDS = (-1.0, 0.0, 0.5, 1.0, 2.0)
GENERATOR = np.random.default_rng(5)
FIRST, SECOND = GENERATOR.normal(1, 1, 3000), GENERATOR.normal(0, 1, 2500)


def blocks(number: int) -> list[Summary]:
    parts = zip(np.array_split(FIRST, number), np.array_split(SECOND, number), strict=True)
    return [Summary.of(x, y, THRESHOLDS, source=f"block {k}") for k, (x, y) in enumerate(parts)]


def without_sources(audit: Audit) -> AuditRecord:
    return replace(audit.record(), sources=(), seed=None)


@pytest.mark.parametrize("rates", Rates)
def test_merged_counts_give_the_same_answer_as_the_samples(rates: Rates) -> None:
    choice = FixedThresholds(THRESHOLDS, rates=rates)
    whole = audit_samples(FIRST, SECOND, confidence=0.95, deltas=(1e-2,), thresholds=choice)
    first, *rest = (Summary.from_dict(json.loads(json.dumps(b.to_dict()))) for b in blocks(7))
    merged = audit_counts(sum(rest, first), confidence=0.95, deltas=(1e-2,), rates=rates)
    assert without_sources(merged) == without_sources(whole)
    assert merged.sources == tuple(f"block {k}" for k in range(7))
    assert merged.epsilon_lower(1e-2) > 1


def test_addition_does_not_depend_on_order_or_grouping() -> None:
    a, b, c = blocks(3)
    assert (a + b) + c == c + (b + a)
    assert (a + b + c).first_total == 3000


def test_a_block_is_not_counted_twice() -> None:
    a, b, _ = blocks(3)
    with pytest.raises(ValueError, match=r"sources must be counted once, got \['block 0'\]"):
        (a + b) + a
    with pytest.raises(ValueError, match=r"thresholds must be the same"):
        a + Summary.of(FIRST, SECOND, (0.0,))
    with pytest.raises(TypeError):
        a + 1


def test_counts_are_those_of_the_samples_ties_included() -> None:
    summary = Summary.of([0.0, 1.0, 1.0, 2.0], [1.0, 1.0], (2.0, 1.0))
    assert summary.thresholds == (1.0, 2.0)
    assert summary.first == (3, 1)
    assert summary.second == (2, 0)
    many = tuple(np.linspace(-2, 2, 21).tolist())
    counted = Summary.of(CLAMPED.draw_first(GENERATOR, 500), FIRST, many)
    assert counted.second == tuple(int(np.sum(t <= FIRST)) for t in many)


def test_each_test_is_paid_for_and_both_directions_are() -> None:
    audit = audit_samples(FIRST, SECOND, confidence=0.9, thresholds=FixedThresholds(THRESHOLDS))
    assert len(audit.tests) == 10
    assert sum(one.error for one in audit.tests) == pytest.approx(0.1, rel=1e-12)
    assert [(one.purpose, one.error) for one in audit.spent] == [
        ("10 tests fixed in advance, equal parts", pytest.approx(0.1))
    ]
    one_way = FixedThresholds((1.0,), favours=(Order.FORWARD,))
    bound = audit_samples(FIRST, SECOND, confidence=0.9, thresholds=one_way).epsilon_lower(1e-2)
    p, q = np.sum(FIRST >= 1), np.sum(SECOND >= 1)
    expected = math.log((rate_lower(p, FIRST.size, 0.05) - 1e-2) / rate_upper(q, SECOND.size, 0.05))
    assert bound == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
@pytest.mark.parametrize("rates", Rates)
def test_all_statements_hold_together(pair: KnownPair, rates: Rates) -> None:
    choice = FixedThresholds((0.0, 1.0), rates=rates)

    def statement(first: np.ndarray, second: np.ndarray, seed: int) -> bool:
        audit = audit_samples(first, second, confidence=0.9, thresholds=choice)
        return wrong_anywhere(audit, pair)

    wrong = count_wrong(statement, pair, repeats=150, sizes=(300, 200), seed=31)
    assert wrong <= allowed(0.1, 150)


def test_counts_that_say_nothing_certify_nothing() -> None:
    for first, second in (((5,), (7,)), ((0,), (0,)), ((0,), (7,))):
        audit = audit_counts(Summary((0.5,), first, 5, second, 7), confidence=0.95)
        forward = audit.epsilon_lower(DELTAS, Order.FORWARD)
        assert np.all(np.asarray(forward) == 0.0)
        assert math.isfinite(audit.mu_lower())


GOOD: dict[str, Any] = {
    "thresholds": (0.0, 1.0),
    "first": (3, 2),
    "first_total": 4,
    "second": (1, 1),
    "second_total": 5,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": (5, 2)}, r"first must be at most first_total \(4\), got 5"),
        ({"second": (1, 2)}, r"second must be falling with the threshold, got 2"),
        ({"first": (3, -1)}, r"first must be a whole number of at least 0, got -1"),
        ({"first": (3, 2.0)}, r"first must be a whole number of at least 0, got 2.0"),
        ({"first": (3,)}, r"first must be 2 counts, one for each threshold, got \(3,\)"),
        ({"first": 3}, r"first must be a sequence of whole numbers, got 3"),
        ({"second_total": 1.5}, r"second_total must be a whole number of at least 0, got 1.5"),
        ({"thresholds": (1.0, 0.0)}, r"thresholds must be in ascending order"),
        ({"thresholds": (1.0, 1.0)}, r"thresholds must be at least one, and distinct"),
        ({"thresholds": (math.nan, 1.0)}, r"thresholds must be a finite number, got nan"),
        ({"thresholds": 1.0}, r"thresholds must be a sequence of numbers, got 1.0"),
        (
            {"sources": ("a", "a")},
            r"sources must be a sequence of distinct strings, got \('a', 'a'",
        ),
        ({"sources": "ab"}, "sources must be a sequence of distinct strings, got 'ab'"),
    ],
)
def test_bad_summary(change: dict[str, Any], message: str) -> None:
    Summary(**GOOD)
    with pytest.raises(ValueError, match=message):
        Summary(**{**GOOD, **change})


def test_bad_stored_summary() -> None:
    stored = Summary(**GOOD).to_dict()
    with pytest.raises(ValueError, match=r"stored must be a summary of format 1"):
        Summary.from_dict({**stored, "format": 2})
    with pytest.raises(ValueError, match=r"stored.more must be left out of a Summary, got 2"):
        Summary.from_dict({**stored, "more": 2})
    with pytest.raises(ValueError, match=r"first must be at most"):
        Summary.from_dict({**stored, "first": [9, 2]})


def test_bad_choice_and_bad_counts() -> None:
    with pytest.raises(ValueError, match=r"thresholds must be at least one, and distinct"):
        FixedThresholds(())
    with pytest.raises(ValueError, match=r"favours must be one order or two distinct ones"):
        FixedThresholds((1.0,), favours=())
    with pytest.raises(ValueError, match=r"rates must be a Rates, got 'joint'"):
        FixedThresholds((1.0,), rates="joint")  # type: ignore[arg-type]
    empty = Summary((0.0,), (0,), 0, (1,), 2)
    with pytest.raises(ValueError, match=r"first_total must be a whole number of at least 1"):
        audit_counts(empty, confidence=0.95)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 1.0"):
        audit_counts(Summary(**GOOD), confidence=1.0)
    with pytest.raises(ValueError, match=r"summary must be a Summary, got 3"):
        audit_counts(3, confidence=0.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"seed must be given for order statistics"):
        audit_samples(FIRST, SECOND, confidence=0.9)
