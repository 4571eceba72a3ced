from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.stats import binomtest
from statsmodels.stats.proportion import proportion_confint

from audit.estimation import clopper_pearson, rate_lower, rate_upper

COUNTS = [
    *[(k, n) for n in (1, 2, 7, 40) for k in range(n + 1)],
    *[(k, 10**6) for k in (0, 1, 3, 50, 12_345, 500_000, 999_998, 10**6)],
]


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_statsmodels_scipy_and_the_one_sided_limits_agree(confidence: float) -> None:
    for k, n in COUNTS:
        low, high = clopper_pearson(k, n, confidence=confidence)
        scipy = binomtest(k, n).proportion_ci(confidence, method="exact")
        # SciPy's root finder stops within about 1e-12.
        assert (low, high) == pytest.approx((scipy.low, scipy.high), rel=1e-8, abs=1e-11)
        other = proportion_confint(k, n, 1 - confidence, method="beta")
        assert (low, high) == pytest.approx(other, rel=1e-9)
        half = (1 - confidence) / 2
        assert low == pytest.approx(float(rate_lower(k, n, half)), rel=1e-8)
        assert high == pytest.approx(float(rate_upper(k, n, half)), rel=1e-8)


def test_shapes_broadcast() -> None:
    low, high = clopper_pearson([[0, 3], [5, 10]], 10, confidence=[0.9, 0.95])
    assert low.shape == high.shape == (2, 2)
    assert (low[1, 1], high[0, 0]) == (rate_lower(10, 10, 0.025), rate_upper(0, 10, 0.05))


def test_exact_at_none_and_all() -> None:
    assert rate_lower(0, 50, 0.05) == 0.0
    assert rate_upper(50, 50, 0.05) == 1.0
    assert rate_upper(0, 50, 0.05) == pytest.approx(1 - 0.05 ** (1 / 50), rel=1e-13)
    assert rate_lower(50, 50, 0.05) == pytest.approx(0.05 ** (1 / 50), rel=1e-13)


def test_never_nan_at_absurd_errors() -> None:
    k = np.array([0, 1, 2, 500_000, 999_999, 10**6])
    for error in (1e-300, 1e-150, 1e-20, 1 - 1e-15):
        low, high = rate_lower(k, 10**6, error), rate_upper(k, 10**6, error)
        assert np.all((low >= 0) & (low <= 1) & (high >= 0) & (high <= 1))


def test_nothing_is_known_where_functions_underflow() -> None:
    # SciPy's inverse of the mirrored law gives 0.9076, of which the error is 1e7 times as large
    assert _binomial_at_most(20, 332, 0.907635318256608) > 1e6 * 1.482445927442371e-299
    assert rate_upper(20, 332, 1.482445927442371e-299) == 1.0
    assert rate_lower(312, 332, 1.482445927442371e-299) == 0.0


def test_intervals_of_many_counts_grow_with_the_count() -> None:
    counts = np.unique(np.random.default_rng(0).integers(0, 10**6, 10**4))
    low, high = clopper_pearson(counts, 10**6, confidence=0.95)
    assert np.all(low < counts / 10**6)
    assert np.all(high > counts / 10**6)
    assert np.all(np.diff(low) > 0)
    assert np.all(np.diff(high) > 0)


@pytest.mark.parametrize(
    ("count", "total", "error", "message"),
    [
        (5, 4, 0.05, r"count must be at most total \(4\), got 5.0"),
        (-1, 4, 0.05, r"count must be in \[0, inf\], got -1.0"),
        (np.nan, 4, 0.05, r"count must be in \[0, inf\], got nan"),
        (0, 0, 0.05, r"total must be in \(0, inf\), got 0.0"),
        (1, 4, 0.0, r"error must be in \(0, 1\), got \d.0"),
        (1, 4, 1.0, r"error must be in \(0, 1\), got \d.0"),
    ],
)
def test_bad_input(count: float, total: float, error: float, message: str) -> None:
    for limit in (rate_lower, rate_upper):
        with pytest.raises(ValueError, match=message):
            limit(count, total, error)
    with pytest.raises(ValueError, match=message.replace("error", "confidence")):
        clopper_pearson(count, total, confidence=1 - error)


@pytest.mark.parametrize(("count", "total"), [(1000, 10**5), (60_000, 10**6), (10**6, 10**9)])
@pytest.mark.parametrize("error", [1e-8, 0.025])
def test_limits_of_large_counts_have_their_error(count: int, total: int, error: float) -> None:
    """In 40 digits; SciPy's inverse misses 1e-9 of the error at 10^6 of 10^9."""
    lower = float(rate_lower(count, total, error))
    upper = float(rate_upper(total - count, total, error))
    assert _beta_probability(count, total - count + 1, lower) == pytest.approx(error, rel=2e-12)
    # at the other end the limit itself has so many digits
    assert 1 - upper == pytest.approx(lower, rel=1e-12, abs=1e-16)


@pytest.mark.parametrize(
    ("count", "total", "error"),
    [(1000, 10**12, 1e-12), (1000, 10**13, 1.9e-9), (999, 10**10, 1e-15), (20, 10**14, 1e-30)],
)
def test_limits_of_rare_events_have_their_error(count: int, total: int, error: float) -> None:
    """SciPy's inverses return 1.49e-8 for the first two lower limits and fail for others."""
    lower = float(rate_lower(count, total, error))
    upper = float(rate_upper(count, total, error))
    assert 1 - _binomial_at_most(count - 1, total, lower) == pytest.approx(error, rel=1e-6)
    assert _binomial_at_most(count, total, upper) == pytest.approx(error, rel=1e-6)
    assert 0 < lower < count / total < upper < 1


def test_no_limit_is_on_the_wrong_side_of_the_doubles_beside_one() -> None:
    # P(X <= 1) is 1 - u^2 for two trials; 1 - u has few digits here
    for error in (1e-15, 1e-12, 3e-9):
        upper = mpmath.mpf(float(rate_upper(1, 2, error)))
        assert 1 - upper**2 <= error
    for total in (10**9, 10**12):
        lower = mpmath.mpf(float(rate_lower(total, total, 0.025)))
        assert total * mpmath.log(lower) <= mpmath.log(0.025) * (1 - 1e-8)


def _binomial_at_most(count: int, total: int, rate: float) -> mpmath.mpf:
    """Sum the probabilities of 0 to ``count`` successes, in 60 digits."""
    with mpmath.workdps(60):
        p = mpmath.mpf(rate)
        term = total_probability = mpmath.exp(total * mpmath.log1p(-p))
        for k in range(count):
            term *= (total - k) * p / ((k + 1) * (1 - p))
            total_probability += term
        return total_probability


def _beta_probability(a: int, b: int, x: float) -> float:
    """Return the distribution function by x^a (1 - x)^b / (a B(a, b)) 2F1(a + b, 1; a + 1; x)."""
    with mpmath.workdps(40):
        point, term, total = mpmath.mpf(x), mpmath.mpf(1), mpmath.mpf(1)
        for n in range(10**6):
            term *= point * (a + b + n) / (a + 1 + n)
            total += term
            if term < total * mpmath.mpf("1e-25"):
                break
        log = a * mpmath.log(point) + b * mpmath.log1p(-point) - mpmath.log(a)
        log -= mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
        return float(mpmath.exp(log) * total)
