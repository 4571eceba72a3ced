"""Exact tests at ranks: p-values against brute force, ends of searches, and the level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from audit.estimation.order_statistics import (
    Hypothesis,
    RankCounts,
    epsilon_hypothesis,
    gaussian_hypothesis,
    largest_rejected,
    p_values,
    point_hypothesis,
)


def counts(rank: int, second_total: int, count: int, first_total: int) -> RankCounts:
    return RankCounts(*(np.array([n]) for n in (rank, second_total, count, first_total)))


def brute_force(test: tuple[int, int, int, int], hypothesis: Hypothesis) -> float:
    """P(Bin(n, f(B)) >= C) by the midpoint rule over the quantiles of B."""
    rank, m, count, n = test
    quantiles = beta.ppf((np.arange(200_000) + 0.5) / 200_000, rank, m - rank + 1)
    return float(np.mean(binom.sf(count - 1, n, hypothesis.highest(quantiles[None])[0])))


HYPOTHESES = {
    "both": epsilon_hypothesis(np.array([0.9]), 0.01, True, True),
    "own": epsilon_hypothesis(np.array([0.9]), 0.01, True, False),
    "other, delta 0": epsilon_hypothesis(np.array([0.9]), 0.0, False, True),
    "gaussian": gaussian_hypothesis(np.array([0.8])),
    "point": point_hypothesis(np.array([0.1]), np.array([0.3])),
}


@pytest.mark.parametrize("name", list(HYPOTHESES))
@pytest.mark.parametrize(
    "test",
    [(1, 100, 8, 100), (24, 400, 80, 300), (150, 400, 290, 400), (3, 40, 30, 20_000), (5, 5, 5, 5)],
)
def test_p_values_by_brute_force(name: str, test: tuple[int, int, int, int]) -> None:
    # the midpoint rule errs by 1e-4 and less; p-values are raised by 1e-3 of themselves
    value = float(p_values(counts(*test), HYPOTHESES[name])[0])
    assert value == pytest.approx(brute_force(test, HYPOTHESES[name]), rel=1.5e-3, abs=2e-6)


def test_quadrature_errors_are_within_what_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    size = 1000
    m, n = ((10 ** generator.uniform(1, 6, size)).astype(np.int64) for _ in range(2))
    rank = np.maximum(((m / 2) ** generator.random(size)).astype(np.int64), 1)
    epsilon = generator.uniform(0, 4, size)
    hypothesis = epsilon_hypothesis(epsilon, 0.01, True, True)
    mean = hypothesis.highest((rank / m)[:, None])[:, 0]
    spread = np.sqrt(n * mean * (1 - mean) + (n * np.exp(epsilon)) ** 2 * rank / m**2)
    count = np.clip(n * mean + generator.uniform(0, 4, size) * spread, 1, n).astype(np.int64)
    tests = RankCounts(rank, m, count, n)
    used = p_values(tests, hypothesis)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    for name, value in (("_NODES", nodes), ("_WEIGHTS", weights)):
        monkeypatch.setattr(f"audit.estimation.order_statistics.{name}", value)
    monkeypatch.setattr("audit.estimation.order_statistics._RELATIVE", 0.0)
    monkeypatch.setattr("audit.estimation.order_statistics._ABSOLUTE", 0.0)
    assert np.all(used >= p_values(tests, hypothesis))
    assert np.mean(used < 0.05) > 0.2


def test_a_count_of_zero_rejects_nothing() -> None:
    hypothesis = epsilon_hypothesis(np.zeros(1), 0.0, True, True)
    assert p_values(counts(1, 10, 0, 10), hypothesis)[0] == 1.0


@pytest.mark.parametrize("error", [0.3, 1e-3, 1e-7])
def test_the_end_of_a_search_is_rejected_and_just_beyond_is_not(error: float) -> None:
    ranks = np.array([1, 5, 40, 150])
    tests = RankCounts(ranks, np.full(4, 400), np.array([30, 60, 150, 300]), np.full(4, 400))

    def claim(_: np.ndarray, epsilon: np.ndarray) -> Hypothesis:
        return epsilon_hypothesis(epsilon, 1e-3, True, True)

    found = largest_rejected(tests, np.full(4, error), claim, 700.0)
    inside = found > 0
    assert np.all(p_values(tests, claim(ranks, found))[inside] <= error)
    beyond = p_values(tests, claim(ranks, found + 1e-5))
    assert np.all(beyond > error)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_level_on_the_edge_of_the_claim(epsilon: float) -> None:
    # Rates exactly as the claim allows: C given B is Bin(n, f(B)), and the level is kept nearly
    # with equality (counts are whole). 40,000 draws; a count of B one less errs at .09 and more.
    generator, error, n, m, rank = np.random.default_rng(2), 0.05, 200, 150, 12
    hypothesis = epsilon_hypothesis(np.array([epsilon]), 0.0, True, True)
    rates = generator.beta(rank, m - rank + 1, 40_000)
    drawn = generator.binomial(n, hypothesis.highest(rates[None])[0])
    values, place = np.unique(drawn, return_inverse=True)

    def rate_of_rejection(assumed: int) -> float:
        tests = RankCounts(
            np.full(values.size, assumed),
            np.full(values.size, m),
            values,
            np.full(values.size, n),
        )
        repeated = epsilon_hypothesis(np.full(values.size, epsilon), 0.0, True, True)
        return float(np.mean((p_values(tests, repeated) <= error)[place]))

    spread = 3 * np.sqrt(error * (1 - error) / drawn.size)
    assert 0.6 * error < rate_of_rejection(rank) <= error + spread
    assert rate_of_rejection(rank - 2) > error + spread  # the planted mistake


def test_no_fixed_test_of_a_known_event_is_sharper_at_zero_counts() -> None:
    # Twenty of a hundred beyond the largest of a hundred others: q of Clopper and Pearson's limit
    # at the whole error would give log(.2 / .0295) = 1.91 were p known.
    tests = counts(1, 100, 20, 100)
    found = largest_rejected(
        tests,
        np.array([0.05]),
        lambda _, e: epsilon_hypothesis(e, 0.0, True, True),
        700.0,
    )
    assert 1.7 < found[0] < np.log(0.2 / -np.expm1(np.log(0.05) / 100))


def test_gaussian_claims() -> None:
    rank, m = 50, 1000
    rate = norm.sf(norm.isf(rank / m) - 1.0)
    tests = counts(rank, m, round(1000 * rate), 1000)
    found = largest_rejected(tests, np.array([0.05]), lambda _, mu: gaussian_hypothesis(mu), 75.0)
    assert 0.8 < found[0] < 1.0
