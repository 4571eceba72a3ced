"""Sums: discounted ones, symmetric polynomials and binomial tails."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from audit.numerics import binomial
from audit.numerics.binomial import binomial_tails, log_binomial
from audit.numerics.discounted import discounted_sums, sum_units
from audit.numerics.symmetric_sums import SymmetricSums


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e-4, 0.01, 0.1, 1.5, 1.6, 2.0, 50.0, 900.0])
def test_sums_one_by_one_in_extended_precision(rate: float) -> None:
    rng, size = np.random.default_rng(3), 20_000  # several blocks
    values = rng.random(size) * 10.0 ** rng.uniform(-250, 0, size)
    found, total, exact = discounted_sums(values, rate), np.longdouble(0.0), []
    shrink = np.exp(-np.longdouble(rate))
    for value in values[::-1]:
        total = value + shrink * total
        exact.append(total)
    assert found.size == size + 1
    assert found[-1] == 0
    errors = np.abs(found[-2::-1] / np.array(exact) - 1)
    assert float(errors.max()) <= sum_units(size, rate) * 2.0**-53


def test_signs_are_kept() -> None:
    values = np.array([1.0, -2.0, 4.0])
    assert discounted_sums(values, math.log(2)) == pytest.approx([1.0, 0.0, 4.0, 0.0], abs=1e-15)


def test_sums_that_overflow_are_not_finite() -> None:
    assert not np.isfinite(discounted_sums(np.full(10_000, 1e300), 1e-2)[0])


def test_means_are_those_of_the_variables() -> None:
    """e_j has the mean C(n, j) mean^j; the counted rounding covers the difference."""
    found = SymmetricSums.of_lognormal(1.3, 0.2, 4).times(11, 300)
    for j, moment in enumerate(found.moments):
        expected = math.comb(11, j) * 0.2**j
        assert abs(float(moment.sum()) - expected) < found.rounding * expected
    assert found.moments.shape[1] < 330
    assert found.rounding < 1e-10


mpf = mp.mpf


def exact(k: int, n: int, q: float) -> mpf:
    with mp.workdps(60):
        rate = mpf(q)
        ways = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
        return ways + (k * mp.log(rate) if k else 0) + ((n - k) * mp.log(1 - rate) if n > k else 0)


def settings() -> list[tuple[np.ndarray, int, float]]:
    """Numbers of 1 to 10^9 trials at rates from 1e-12 to 1 - 1e-12, up to 30 deviations away."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(100):
        n, small = int(10 ** rng.uniform(0, 9)), float(10 ** rng.uniform(-12, 0))
        q = small if rng.random() < 0.5 else 1 - small
        spread = max(n * q * (1 - q), 1.0) ** 0.5
        places = np.rint(n * q + spread * np.append(0, rng.normal(0, 10, 7)))
        found.append((np.unique(np.clip(places, 0, n)).astype(np.int64), n, q))
    return found


def misses() -> int:
    count = 0
    for successes, n, q in settings():
        for k, log, error in zip(successes.tolist(), *log_binomial(successes, n, q), strict=True):
            count += abs(mpf(float(log)) - exact(k, n, q)) > error
    return count


def test_errors_of_log_probabilities_are_bounded() -> None:
    assert misses() == 0


@pytest.mark.parametrize(
    ("name", "wrong"), [("_NEAR", 0.5), ("_LARGE_COUNT", 3), ("_COEFFICIENTS", (1 / 12, -1 / 360))]
)
def test_planted_errors_are_caught(monkeypatch, name, wrong):
    """A series where it no longer holds, or with terms fewer."""
    monkeypatch.setattr(binomial, name, wrong)
    assert misses() > 0


def test_a_rate_may_be_a_rounded_quotient() -> None:
    """Next to 1 its rounding is some 1e-10 of what is left of 1."""
    n, k = 10**7, np.array([0, 1, 2, 3, 10**7 - 2, 10**7])
    for b in (n - 1, n - 3):
        for place, log, error in zip(k.tolist(), *log_binomial(k, n, b / n), strict=True):
            with mp.workdps(60):
                assert abs(mpf(float(log)) - exact(place, n, mpf(b) / n)) <= error


def test_numbers_that_do_not_occur() -> None:
    logs, errors = log_binomial(np.array([0, 3, 4]), 3, 0.5)
    assert logs[0] == pytest.approx(-3 * np.log(2))
    assert (logs[2], errors[2]) == (-np.inf, 0.0)
    assert log_binomial(np.array([0]), 0, 0.5)[0] == 0


@pytest.mark.parametrize(
    ("n", "q", "k"),
    [(1000, 0.05, 80), (1000, 0.05, 30), (40, 0.5, 15), (20, 0.97, 2), (9, 1e-9, 1), (50, 0.5, 50)],
)
def test_tails_against_incomplete_beta_functions(n: int, q: float, k: int) -> None:
    below, above, error = binomial_tails(k, n, q)
    with mp.workdps(60):
        most = mp.betainc(k, n - k + 1, 0, mpf(q), regularized=True)
        for found, true in ((above, most), (below, 1 - most)):
            assert abs(mpf(found) / true - 1) <= error < 1e-12


def test_tails_beyond_the_range() -> None:
    assert binomial_tails(0, 5, 0.5) == (0, 1, 0)
    assert binomial_tails(6, 5, 0.5) == (1, 0, 0)
    assert binomial_tails(5, 5, 1.0) == (0, 1, 0)
    # bounds on what is far below the range of doubles, and errors of the others
    _, above, error = binomial_tails(900_000, 10**6, 0.1)
    below, _, other = binomial_tails(10_000, 10**6, 0.1)
    assert 0 < above < 1e-290
    assert 0 < below < 1e-290
    assert max(error, other) < 1e-14
