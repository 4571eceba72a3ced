"""Claims about groups, scaled soundly and tightly; families of claims, by Holm's procedure."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm

from audit.codec import decode, encode
from audit.curves import GaussianCurve
from audit.estimation import AuditRecord, FixedThresholds, LinearScore, audit_samples, holm
from audit.estimation.result import group_claim, per_record_epsilon

from .audited_laws import allowed


def test_scaled_claim_is_attained_step_by_step() -> None:
    # The most that k steps of (epsilon, delta) can raise the probability of one event.
    for epsilon, delta, size in ((0.3, 1e-3, 4), (1.0, 1e-6, 3), (0.0, 0.01, 5), (2.0, 0.0, 2)):
        rate = start = 1e-4
        for _ in range(size):
            rate = math.exp(epsilon) * rate + delta
        assert rate < 1
        group_epsilon, group_delta = group_claim(epsilon, delta, size)
        assert group_epsilon == pytest.approx(size * epsilon)
        excess = rate - math.exp(group_epsilon) * start
        assert group_delta == pytest.approx(excess, rel=1e-9, abs=1e-15)
    closed = 1e-6 * math.expm1(3.0) / math.expm1(1.0)
    assert group_claim(1.0, 1e-6, 3)[1] == pytest.approx(closed, rel=1e-12)
    assert group_claim(5.0, 0.3, 1) == (5.0, 0.3)
    assert group_claim(400.0, 1e-9, 3) == (1200.0, 1.0)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 2.0])
def test_record_is_never_above_the_truth(size: int, mu: float) -> None:
    # k records move a Gaussian mechanism k times as far.
    pair = GaussianCurve(size * mu)
    for delta in (1e-9, 1e-5, 1e-2):
        truth = float(GaussianCurve(mu).epsilon(delta))
        # the planted mistake: epsilon of the pair over k is no lower bound
        assert size == 1 or float(pair.epsilon(delta)) / size > truth
        found = per_record_epsilon(lambda d: float(pair.epsilon(d)), delta, size)
        assert found <= truth + 1e-9
        if size == 1:
            assert found == pytest.approx(truth, abs=1e-9)
        # the claim just below is refuted by the pair, the claim just above is not
        if found > 0:
            for factor, refuted in ((0.999, True), (1.001, False)):
                epsilon, group_delta = group_claim(factor * found, delta, size)
                assert (group_delta < 1 and float(pair.epsilon(group_delta)) > epsilon) is refuted


def test_pure_claims_are_divided() -> None:
    # Laplace noise: the privacy loss of k records is k times that of one.
    assert per_record_epsilon(lambda _: 3.6, 0.0, 3) == pytest.approx(1.2)
    assert per_record_epsilon(lambda _: 0.0, 0.0, 3) == 0.0
    assert per_record_epsilon(lambda _: 3.0, 1.0, 2) == 0.0
    assert per_record_epsilon(lambda d: 1e-3 if d < 0.5 else 0.0, 0.3, 2) == 0.0  # 2 delta > 0.5


def test_audit_of_a_group() -> None:
    # Three records, each moves a coordinate of its own by mu: the pair is Gaussian, mu sqrt(3).
    generator = np.random.default_rng(4)
    x, y = generator.normal(size=(2, 20_000, 3))
    found = audit_samples(x + 0.8, y, confidence=0.95, deltas=(1e-4,), seed=2, group_size=3)
    assert found.group_size == 3
    assert isinstance(found.columns.choice, LinearScore)
    one = found.per_record_evidence(1e-4)
    assert one.group_size == 3
    assert 0.5 < one.epsilon == found.per_record_epsilon_lower(1e-4)
    assert one.epsilon < float(GaussianCurve(0.8).epsilon(1e-4))
    assert one.pair_delta == group_claim(one.epsilon, 1e-4, 3)[1]
    assert one.evidence.value == found.epsilon_lower(one.pair_delta)
    assert one.evidence.value == pytest.approx(3 * one.epsilon, rel=1e-9)
    record = found.record()
    assert record.per_record == (one,)
    assert record.group_size == 3
    assert decode(AuditRecord, encode(record)) == record


def test_a_pair_of_one_record_is_itself() -> None:
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(2, 400))
    found = audit_samples(
        x + 2, y, confidence=0.9, thresholds=FixedThresholds((1.0,)), deltas=(1e-3,)
    )
    assert found.per_record_epsilon_lower(1e-3) == pytest.approx(found.epsilon_lower(1e-3))
    assert found.record().per_record == ()


def test_bad_groups() -> None:
    with pytest.raises(ValueError, match="group_size must be a whole number of at least 1, got 0"):
        group_claim(1.0, 0.1, 0)
    with pytest.raises(ValueError, match=r"group_size must be a whole number of .*, got 1\.5"):
        audit_samples([1, 2, 3, 4], [1, 2, 3, 4], confidence=0.9, seed=1, group_size=1.5)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\], got 2.0"):
        per_record_epsilon(lambda _: 1.0, 2.0, 2)


@pytest.fixture(scope="module", autouse=True)
def _little_garbage() -> Iterator[None]:
    """Statsmodels collects garbage in each call: leave it little."""
    holm([1.0], error=0.5)
    gc.freeze()
    yield
    gc.unfreeze()


def twin(p_values: np.ndarray, error: float) -> np.ndarray:
    """Holm (1979), step by step."""
    rejected = np.zeros(p_values.size, dtype=bool)
    for step, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] > error / (p_values.size - step):
            break
        rejected[place] = True
    return rejected


def test_agrees_with_its_twin_and_contains_an_equal_split() -> None:
    generator = np.random.default_rng(1)
    for size in (1, 2, 7, 40):
        for _ in range(60):
            p = generator.random(size) ** generator.integers(1, 6)
            found = holm(p, error=0.1)
            assert np.array_equal(found, twin(p, 0.1))
            assert np.all(found[p <= 0.1 / size])
        # p-values that are the levels themselves are rejected
        assert np.all(holm([0.05 / (size - k) for k in range(size)], error=0.05))


def dependent_p_values(runs: int, false: int) -> np.ndarray:
    """P-values of 40 tests that share noise; the first ``false`` hypotheses are false."""
    generator = np.random.default_rng(2)
    z = generator.normal(size=(runs, 40)) * 0.8 + 0.6 * generator.normal(size=(runs, 1))
    z[:, :false] += 3.0
    return norm.sf(z)


def test_family_error_and_power() -> None:
    runs = 1000
    true = dependent_p_values(runs, 0)
    assert sum(holm(p, error=0.05).any() for p in true) <= allowed(0.05, runs)
    # the planted mistake: each test at the whole error
    assert np.sum(np.any(true <= 0.05, axis=1)) > allowed(0.05, runs)
    mixed = dependent_p_values(runs, 8)
    found = np.array([holm(p, error=0.05) for p in mixed])
    assert np.sum(found[:, 8:].any(axis=1)) <= allowed(0.05, runs)
    assert np.sum(found[:, :8]) > np.sum(mixed[:, :8] <= 0.05 / 40)


@pytest.mark.parametrize(
    ("p_values", "error", "message"),
    [
        ([0.1, 1.5], 0.05, r"p_values must be in \[0, 1\], got 1.5"),
        ([0.1, np.nan], 0.05, r"p_values must be in \[0, 1\], got nan"),
        ([0.1], 1.0, r"error must be in \(0, 1\), got 1.0"),
    ],
)
def test_bad_p_values(p_values: list[float], error: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        holm(p_values, error=error)
