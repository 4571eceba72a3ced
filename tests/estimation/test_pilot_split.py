from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import expon, genpareto, norm

from audit.curves import Order
from audit.estimation.evidence import Tail, count_event
from audit.estimation.pilot_split import Pilot, SmoothTail


@pytest.mark.parametrize(
    ("law", "rate"),
    [(norm, 1e-6), (expon, 1e-6), (genpareto(0.2), 1e-6)],
    ids=["normal", "exponential", "heavy"],
)
def test_fitted_tail_reaches_past_the_sample(law: object, rate: float) -> None:
    # Quantile samples, not random draws: the fit alone is at fault for an error.
    size = 100_000
    scores = law.ppf((np.arange(size) + 0.5) / size)  # type: ignore[attr-defined]
    tail = SmoothTail.fit(scores)
    threshold = law.isf([0.3, 1e-3, rate])  # type: ignore[attr-defined]
    estimate, error = tail.rate(threshold)
    assert estimate == pytest.approx([0.3, 1e-3, rate], rel=0.6)
    assert np.all(np.diff(error) > 0)


def test_atoms_are_not_extrapolated() -> None:
    scores = np.sort(np.clip(np.random.default_rng(0).normal(size=5000), -1, 1))
    tail = SmoothTail.fit(scores)
    assert tail.exceedances == 0
    assert tail.rate(np.array([1.0]))[0] == pytest.approx(norm.sf(1.0), rel=0.1)
    assert tail.rate(np.array([1.001]))[0] < 1e-3


def test_the_data_overrule_a_fit() -> None:
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


def test_counts_treat_ties_exactly() -> None:
    scores = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    counts = {tail: int(count_event(scores, tail, 1.0)) for tail in Tail}
    assert counts == {Tail.AT_LEAST: 4, Tail.AT_MOST: 4, Tail.ABOVE: 1, Tail.BELOW: 1}
    for tail in Tail:
        assert counts[tail] + counts[tail.complement] == 5
