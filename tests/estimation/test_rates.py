"""Limits of rates: of one by counts, of two by regions or at ranks, and of all in a band.

They are compared with other packages, enumeration, brute force and exact fractions.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import betainc, betaln, expit, log_expit
from scipy.stats import beta, binom, binomtest, norm
from statsmodels.stats.proportion import proportion_confint

from audit.estimation import clopper_pearson, rate_lower, rate_upper
from audit.estimation.order_statistics import (
    Hypothesis,
    epsilon_hypothesis,
    gaussian_hypothesis,
    largest_rejected,
    least_p_values,
    most_rejected,
    odds_slopes,
    p_values,
    point_hypothesis,
)
from audit.estimation.regions import (
    SEPARATE,
    Counts,
    JointShape,
    Region,
    hull_renyi,
    hull_vertices,
    joint,
    two_point_renyi,
)
from audit.estimation.simultaneous_band import EXACT_UP_TO, failure_at_most, failure_exactly, limits
from audit.numerics.panels import Panels

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


def test_shapes_broadcast_and_absurd_errors_give_rates() -> None:
    low, high = clopper_pearson([[0, 3], [5, 10]], 10, confidence=[0.9, 0.95])
    assert low.shape == high.shape == (2, 2)
    assert (low[1, 1], high[0, 0]) == (rate_lower(10, 10, 0.025), rate_upper(0, 10, 0.05))
    k = np.array([0, 1, 2, 500_000, 999_999, 10**6])
    for error in (1e-300, 1e-150, 1e-20, 1 - 1e-15):
        low, high = rate_lower(k, 10**6, error), rate_upper(k, 10**6, error)
        assert np.all((low >= 0) & (low <= 1) & (high >= 0) & (high <= 1))


def test_nothing_is_known_where_functions_underflow() -> None:
    # SciPy's inverse of the mirrored law gives 0.9076, of which the error is 1e7 times as large
    assert _at_least(312, 332, 1 - mpmath.mpf(0.907635318256608)) > 1e6 * 1.482445927442371e-299
    assert rate_upper(20, 332, 1.482445927442371e-299) == 1.0
    assert rate_lower(312, 332, 1.482445927442371e-299) == 0.0


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
def test_bad_rates(count: float, total: float, error: float, message: str) -> None:
    for limit in (rate_lower, rate_upper):
        with pytest.raises(ValueError, match=message):
            limit(count, total, error)
    with pytest.raises(ValueError, match=message.replace("error", "confidence")):
        clopper_pearson(count, total, confidence=1 - error)


LARGE = [
    pytest.param(k, n, e, marks=pytest.mark.slow if k == 10**6 else [])  # series of many terms
    for k, n in ((1000, 10**5), (60_000, 10**6), (10**6, 10**9))
    for e in (1e-8, 0.025)
]
# SciPy's inverses return 1.49e-8 for the first two lower limits and fail for others
RARE = [(1000, 10**12, 1e-12), (1000, 10**13, 1.9e-9), (999, 10**10, 1e-15), (20, 10**14, 1e-30)]


@pytest.mark.parametrize(("count", "total", "error"), [*LARGE, *RARE])
def test_limits_of_large_counts_and_rare_events_have_their_error(
    count: int, total: int, error: float
) -> None:
    """SciPy's inverse misses 1e-9 of the error at 10^6 of 10^9."""
    lower, upper = float(rate_lower(count, total, error)), float(rate_upper(count, total, error))
    assert float(_at_least(count, total, lower)) == pytest.approx(error, rel=2e-12)
    assert float(1 - _at_least(count + 1, total, upper)) == pytest.approx(error, rel=2e-12)
    assert 0 < lower < count / total < upper < 1
    # at the other end the limit itself has so many digits
    mirrored = float(rate_upper(total - count, total, error))
    assert 1 - mirrored == pytest.approx(lower, rel=1e-12, abs=2**-52)


def test_no_limit_is_on_the_wrong_side_of_the_doubles_beside_one() -> None:
    # P(X <= 1) is 1 - u^2 for two trials; 1 - u has few digits here
    for error in (1e-15, 1e-12, 3e-9):
        upper = mpmath.mpf(float(rate_upper(1, 2, error)))
        assert 1 - upper**2 <= error
    for total in (10**9, 10**12):
        lower = mpmath.mpf(float(rate_lower(total, total, 0.025)))
        assert total * mpmath.log(lower) <= mpmath.log(0.025) * (1 - 1e-8)


def _at_least(count: int, total: int, rate: float | mpmath.mpf) -> mpmath.mpf:
    """Return the probability of at least ``count`` successes, to 40 digits.

    With a = count, b = total - count + 1 it is x^a (1 - x)^b / (a B(a, b)) 2F1(a + b, 1; a + 1; x).
    """
    a, b = count, total - count + 1
    with mpmath.workdps(60):
        x, term, series = mpmath.mpf(rate), mpmath.mpf(1), mpmath.mpf(1)
        for n in itertools.count():
            term *= x * (a + b + n) / (a + 1 + n)
            series += term
            if term < series * mpmath.mpf("1e-45"):
                break
        log = a * mpmath.log(x) + b * mpmath.log1p(-x) - mpmath.log(a)
        log -= mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
        return mpmath.exp(log) * series


SHAPES = [
    SEPARATE,
    JointShape(0.3, 0.1),
    JointShape(0.8, 0.03),
    JointShape(1.4, 0.15),
    JointShape(math.pi / 2, 0.2),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("error", [0.05, 0.3])
def test_misses_the_true_rates_no_more_often_than_stated(shape: JointShape, error: float) -> None:
    # Exact: every outcome of the two counts is enumerated, nothing is drawn.
    n, m = 9, 12
    rates = np.linspace(0.02, 0.98, 13)
    p, q = rates[:, None], rates  # one true pair for each entry
    missed = np.zeros((rates.size, rates.size))
    for k in range(n + 1):
        for j in range(m + 1):
            (found,) = joint([Counts(k, n, j, m)], error, shape)
            above, below = p[..., None] >= found.first, q[..., None] <= found.second
            held = np.any(above & below, axis=-1)
            missed += np.where(held, 0.0, binom.pmf(k, n, p) * binom.pmf(j, m, q))
    assert 0.1 * error < missed.max() <= error


def test_joint_region_is_sharper_than_a_rectangle_where_both_rates_are_uncertain() -> None:
    counts, delta = Counts(1350, 10**6, 32, 10**6), np.array([1e-5])
    plain = np.min(joint([counts], 0.05, SEPARATE)[0].epsilons(delta))
    sharp = np.min(joint([counts], 0.05, JointShape(1.4, 0.05))[0].epsilons(delta))
    assert plain == pytest.approx(3.330, abs=0.01)
    assert sharp > plain + 0.05
    # more corners only sharpen
    counts, shape, delta = Counts(40, 500, 4, 700), JointShape(1.0, 0.1), np.array([1e-3])
    values = [np.min(joint([counts], 0.05, shape, c)[0].epsilons(delta)) for c in (32, 512, 8192)]
    assert values[0] < values[1] < values[2] < values[1] + 0.01


def test_bounds_are_minima_over_the_region() -> None:
    found = Region(np.array([0.2, 0.4, 0.6]), np.array([0.01, 0.05, 0.2]))
    p, q = found.first, found.second
    delta = np.array([1e-3, 0.1, 0.3])
    expected = [
        min(math.log(max(a - d, 1e-300) / b) for a, b in zip(p, q, strict=True)) for d in delta
    ]
    values = found.epsilons(delta)
    value, corner = np.min(values, axis=1), np.argmin(values, axis=1)
    finite = np.array([True, True, False])
    assert value[finite] == pytest.approx(np.array(expected)[finite], rel=1e-12)
    assert value[2] == -np.inf
    assert list(corner[:2]) == [2, 2]
    assert np.min(found.mus()) == pytest.approx(np.min(norm.ppf(p) - norm.ppf(q)), rel=1e-12)
    order = np.array([4.0])
    divergence = np.log(p**4 * q**-3 + (1 - p) ** 4 * (1 - q) ** -3) / 3
    assert np.min(found.renyis(order)) == pytest.approx(np.min(divergence), rel=1e-12)
    # the complement swaps the laws
    found = Region(np.array([0.7]), np.array([0.2])).complement()
    assert found.first == pytest.approx([0.8])
    assert found.second == pytest.approx([0.3])
    assert np.min(found.mus()) == pytest.approx(norm.ppf(0.7) - norm.ppf(0.2), rel=1e-12)


def test_two_point_renyi_from_order_one_to_the_largest_float() -> None:
    p, q = np.array(0.3), np.array(0.1)
    kullback = 0.3 * math.log(3) + 0.7 * math.log(7 / 9)
    assert two_point_renyi(np.array(1 + 1e-10), p, q) == pytest.approx(kullback, rel=1e-8)
    assert two_point_renyi(np.array(2.0), p, q) == pytest.approx(math.log(0.09 / 0.1 + 0.49 / 0.9))
    assert two_point_renyi(np.array(1.7e308), p, q) == pytest.approx(math.log(3), rel=1e-12)
    orders = np.geomspace(1e-8, 1e8, 200) + 1
    assert np.all(np.diff(two_point_renyi(orders, p, q)) > -1e-12)  # Renyi grows with its order
    assert two_point_renyi(np.array(3.0), np.array(0.5), np.array(0.5)) == 0.0


def test_counts_that_say_nothing_give_no_bound_and_no_nan() -> None:
    deltas, orders = np.array([1e-300, 0.5, 1 - 1e-12]), np.array([1 + 1e-12, 1e300])
    for counts in (Counts(0, 5, 5, 5), Counts(0, 5, 0, 5), Counts(5, 5, 5, 5), Counts(5, 5, 0, 5)):
        for shape in SHAPES:
            for error in (1e-12, 0.5, 1 - 1e-12):
                (found,) = joint([counts], error, shape)
                for view in (found, found.complement()):
                    values = [
                        np.min(view.epsilons(deltas), axis=1),
                        np.min(view.mus()),
                        np.min(view.renyis(orders), axis=1),
                    ]
                    assert not any(np.any(np.isnan(v) | (v == np.inf)) for v in values)
    nothing = joint([Counts(0, 5, 5, 5)], 0.5, SEPARATE)[0]
    assert np.min(nothing.epsilons(np.array([1e-5]))) == -np.inf


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.0, 0.1), r"angle must be in \(0, pi/2\], got 0.0"),
        ((2.0, 0.1), r"angle must be in \(0, pi/2\], got 2.0"),
        ((1.0, 0.6), r"first_guard must be in \(0, 1/2\], got 0.6"),
        ((1.0, 0.1, 0.0), r"second_guard must be in \(0, 1/3\], got 0.0"),
    ],
)
def test_bad_shape(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JointShape(*values)


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
    # a hull keeps vertices only
    alpha = np.array([0.5, 0.1, 0.3, 0.3, 0.9, 0.2, 0.7])
    beta = np.array([0.2, 0.6, 0.3, 0.9, 0.5, 0.45, 0.29])
    assert hull_vertices(alpha, beta).tolist() == [1, 2, 0]
    assert hull_vertices(np.array([0.5]), np.array([0.5])).size == 0


def ranked(rank: int, second_total: int, count: int, first_total: int) -> Counts:
    return Counts.of([Counts(count, first_total, rank - 1, second_total)])


HYPOTHESES = {
    "both": epsilon_hypothesis(np.array([0.9]), 0.01, True, True),
    "own": epsilon_hypothesis(np.array([0.9]), 0.01, True, False),
    "other, delta 0": epsilon_hypothesis(np.array([0.9]), 0.0, False, True),
    "gaussian": gaussian_hypothesis(np.array([0.8])),
    "point": point_hypothesis(np.array([0.1]), np.array([0.3])),
}


def test_a_claim_bounds_one_rate_by_the_other() -> None:
    e, rates = math.exp(0.9), np.array([[0.0, 0.1, 0.28, 0.38]])
    steep, flat = 0.01 + e * rates, 1 - (0.99 - rates) / e
    for name, expected in (("own", steep), ("both", np.minimum(steep, flat))):
        highest = HYPOTHESES[name].highest(rates)
        assert highest == pytest.approx(expected, rel=1e-12)
        assert HYPOTHESES[name].lowest(highest) == pytest.approx(rates, rel=1e-12, abs=1e-15)


def random_tests(size: int, largest: float) -> tuple[Counts, np.ndarray]:
    """Tests of 10 scores and more that reject (epsilon, .01) or nearly so, and their epsilons."""
    generator = np.random.default_rng(1)
    m, n = ((10 ** generator.uniform(1, largest, size)).astype(np.int64) for _ in range(2))
    rank = np.maximum(((m / 2) ** generator.random(size)).astype(np.int64), 1)
    epsilon = generator.uniform(0, 4, size)
    mean = epsilon_hypothesis(epsilon, 0.01, True, True).highest((rank / m)[:, None])[:, 0]
    spread = np.sqrt(n * mean * (1 - mean) + (n * np.exp(epsilon)) ** 2 * rank / m**2)
    count = np.clip(n * mean + generator.uniform(0, 4, size) * spread, 1, n).astype(np.int64)
    # and one of few scores, where wide cells lose less than a tangent on the wrong side hides
    counts = np.append([count, n, rank - 1, m], [[25], [37], [0], [2]], axis=1)
    return Counts(*counts), np.append(epsilon, 0.857)


def quadrature(test: Counts, hypothesis: Hypothesis) -> float:
    """The p-value by Gauss-Legendre quadrature between quantiles of both laws and kinks."""
    a, b = test.second + 1, test.second_total - test.second
    c, d = test.first, test.first_total - test.first + 1
    levels = 10.0 ** np.arange(-24, -1, 2)
    own = np.concatenate([beta.ppf(levels, a, b), beta.isf(levels, a, b)])
    other = np.concatenate([beta.ppf(levels, c, d), beta.isf(levels[6:], c, d)])
    met = np.concatenate([own, hypothesis.lowest(other[None])[0], hypothesis.kinks[0]])
    inside = met[(met >= own.min()) & (met <= own.max()) & (met < 1)]
    edges = np.log(inside) - np.log1p(-inside)
    panels = Panels(
        np.unique(np.concatenate([edges, np.linspace(edges.min(), edges.max(), 40)])), 20
    )
    t = panels.nodes.ravel()
    density = np.exp(a * log_expit(t) + b * log_expit(-t) - betaln(a, b))
    share = betainc(c, d, np.clip(hypothesis.highest(expit(t)[None])[0], 0, 1))
    return float(np.sum(panels.weights.ravel() * density * share))


@pytest.mark.parametrize("kind", ["both", "own", "other", "gaussian", "point"])
def test_p_values_are_above_their_integrals_and_near_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests, epsilon = random_tests(39, 7)

    def hypothesis(k: int) -> Hypothesis:
        rate = (tests.second[[k]] + 1) / (tests.second_total[[k]] + 1)
        if kind == "gaussian":
            return gaussian_hypothesis(epsilon[[k]])
        if kind == "point":
            return point_hypothesis(rate, np.minimum(np.exp(epsilon[[k]]) * rate, 1))
        delta = 0.01 if kind == "both" else 0.0
        return epsilon_hypothesis(epsilon[[k]], delta, kind != "other", kind != "own")

    for k in range(epsilon.size):
        value = float(p_values(tests[[k]], hypothesis(k))[0])
        expected = quadrature(tests[k], hypothesis(k))
        assert min(expected, 1.0) * (1 - 1e-8) <= value <= 1.02 * expected + 1e-13
        assert 0.1 * value - 1e-6 < least_p_values(tests[[k]], hypothesis(k))[0] <= value
        with monkeypatch.context() as patch:  # wide cells lose more, but they err to one side too
            patch.setattr("audit.estimation.order_statistics._CELLS", 1)
            assert p_values(tests[[k]], hypothesis(k))[0] >= min(expected, 1.0) * (1 - 1e-8)
    nothing = epsilon_hypothesis(np.zeros(1), 0.0, True, True)
    assert p_values(ranked(1, 10, 0, 10), nothing)[0] == 1.0


@pytest.mark.parametrize("name", list(HYPOTHESES))
def test_slopes_of_log_odds_in_halves_of_cells(name: str) -> None:
    hypothesis = HYPOTHESES[name]
    kinks = hypothesis.kinks[(hypothesis.kinks > 0) & (hypothesis.kinks < 1)]
    edges = np.unique(np.concatenate([np.linspace(-9, 5, 12), np.log(kinks / (1 - kinks))]))
    points = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))[None]
    rate = expit(points)
    highest = np.minimum(hypothesis.highest(rate), 1)
    least, most = odds_slopes(hypothesis.slope(rate), rate, rate * (1 - rate), highest)
    lower, upper = np.nan_to_num(least[0]), np.nan_to_num(most[0], nan=1e9)
    for k in range(2 * least.size):  # each half of a cell, with ten secants
        t = np.linspace(points[0, k], points[0, k + 1], 11)[None]
        f = np.minimum(hypothesis.highest(expit(t)), 1 - 1e-16)
        secants = np.diff(np.log(f) - np.log1p(-f)) / np.diff(t)
        if k % 2:
            assert np.max(secants) <= min(upper[k // 2], 1e9) * (1 + 1e-6)
        elif f[0, -1] < 0.999:
            assert np.min(secants) >= lower[k // 2] * (1 - 1e-6)


@pytest.mark.parametrize("error", [0.3, 1e-3, 1e-7])
def test_the_end_of_a_search_is_rejected_and_just_beyond_is_not(error: float) -> None:
    ranks = np.array([1, 5, 40, 150])
    tests = Counts(np.array([30, 60, 150, 300]), np.full(4, 400), ranks - 1, np.full(4, 400))

    def claim(_: np.ndarray, epsilon: np.ndarray) -> Hypothesis:
        return epsilon_hypothesis(epsilon, 1e-3, True, True)

    found = largest_rejected(tests, np.full(4, error), claim, 700.0)
    inside = found > 0
    assert np.all(p_values(tests, claim(ranks, found))[inside] <= error)
    beyond = p_values(tests, claim(ranks, found + 1e-5))
    assert np.all(beyond > error)


@pytest.mark.parametrize("error", [0.3, 1e-3, 1e-7])
def test_the_best_test_of_a_row_is_the_best_of_all(error: float) -> None:
    tests, _ = random_tests(399, 3)
    delta = np.repeat(np.geomspace(1e-4, 0.3, 80), 5)
    asked = (
        tests,
        np.full(400, error),
        lambda k, e: epsilon_hypothesis(e, delta[k], True, k % 2 > 0),
    )
    every = largest_rejected(*asked, 700.0).reshape(80, 5)
    places, found = most_rejected(*asked, 700.0, rows=80)
    assert found == pytest.approx(np.max(every, axis=1), abs=1e-6)
    assert every[np.arange(80), places] == pytest.approx(found, abs=1e-6)


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
        tests = Counts.of(Counts(count, n, assumed - 1, m) for count in values)
        repeated = epsilon_hypothesis(np.full(values.size, epsilon), 0.0, True, True)
        return float(np.mean((p_values(tests, repeated) <= error)[place]))

    spread = 3 * np.sqrt(error * (1 - error) / drawn.size)
    assert 0.6 * error < rate_of_rejection(rank) <= error + spread
    assert rate_of_rejection(rank - 2) > error + spread  # the planted mistake


def test_no_fixed_test_of_a_known_event_is_sharper_at_zero_counts() -> None:
    # Twenty of a hundred beyond the largest of a hundred others: q of Clopper and Pearson's limit
    # at the whole error would give log(.2 / .0295) = 1.91 were p known.
    tests = ranked(1, 100, 20, 100)
    found = largest_rejected(
        tests, np.array([0.05]), lambda _, e: epsilon_hypothesis(e, 0.0, True, True), 700.0
    )
    assert 1.7 < found[0] < np.log(0.2 / -np.expm1(np.log(0.05) / 100))


def test_gaussian_claims() -> None:
    tests = ranked(50, 1000, round(1000 * norm.sf(norm.isf(0.05) - 1.0)), 1000)
    found = largest_rejected(tests, np.array([0.05]), lambda _, mu: gaussian_hypothesis(mu), 75.0)
    assert 0.8 < found[0] < 1.0


def failure_twin(size: int, cuts: list[Fraction]) -> Fraction:
    """P(N(c_i) >= i for some i), by the law of the counts between cuts, in exact fractions."""
    edges = [Fraction(0), *cuts, Fraction(1)]
    law = {0: Fraction(1)}
    for rank, (low, high) in enumerate(itertools.pairwise(edges), start=1):
        share = (high - low) / (1 - low)
        moved: dict[int, Fraction] = {}
        for count, mass in law.items():
            rest = size - count
            for more in range(rest + 1):
                weight = math.comb(rest, more) * share**more * (1 - share) ** (rest - more)
                moved[count + more] = moved.get(count + more, Fraction(0)) + mass * weight
        law = {k: v for k, v in moved.items() if k < rank or rank > size}
    return 1 - law.get(size, Fraction(0))


@pytest.mark.parametrize("size", [1, 2, 3, 6, 11])
def test_exact_probability_agrees_with_enumeration(size: int) -> None:
    ranks = np.arange(1, size + 1)
    cuts = np.sort(np.random.default_rng(size).uniform(0, ranks / size * 0.7))
    twin = failure_twin(size, [Fraction(float(c)) for c in cuts])
    assert failure_exactly(cuts) == pytest.approx(float(twin), rel=1e-11)
    # Two ranks make the second-order union exact; more make it larger.
    bound = failure_at_most(size, ranks, cuts)
    assert bound >= float(twin) * (1 - 1e-12)
    if size <= 2:
        assert bound == pytest.approx(float(twin), rel=1e-11)


def test_second_order_union_is_above_the_exact_probability_and_below_the_plain_union() -> None:
    for size in (40, 400, 3000):
        found = limits(size, 0.05)
        exact = failure_exactly(found.lower)
        bound = failure_at_most(size, found.ranks, found.lower)
        assert exact < bound < size * found.level
        assert bound < 4 * exact


@pytest.mark.parametrize("size", [1, 2, 100, EXACT_UP_TO + 1, 10**7])
@pytest.mark.parametrize("error", [0.1, 1e-3, 1e-8, 1e-15])
def test_the_error_is_spent_and_not_exceeded(size: int, error: float) -> None:
    found = limits(size, error)
    exactly = size <= EXACT_UP_TO and error > 1e-9
    union = failure_at_most(size, found.ranks, found.lower)
    chance = failure_exactly(found.lower) if exactly else union
    assert 0.49 * error <= chance <= 0.5 * error
    assert np.all(np.diff(found.lower) > 0)
    assert found.ranks[0] == 1
    assert found.ranks[-1] == size


def test_every_limit_is_clopper_and_pearsons_at_one_level() -> None:
    found = limits(60, 0.05)
    assert binom.sf(found.ranks - 1, 60, found.lower) == pytest.approx(found.level, rel=1e-9)
    assert binom.cdf(60 - found.ranks, 60, found.upper) == pytest.approx(found.level, rel=1e-9)
    assert found.lower == pytest.approx(1 - found.upper, rel=1e-9)


def test_covers_uniform_draws_as_often_as_stated() -> None:
    # 20,000 draws of 50: the frequency of a miss has a standard error of .0021.
    found = limits(50, 0.1)
    draws = np.sort(np.random.default_rng(0).random((20_000, 50)), axis=1)
    low, high = found.lower, 1 - found.lower[::-1]
    missed = np.mean(np.any((draws < low) | (draws > high), axis=1))
    assert 0.085 < missed < 0.1063


def test_counts_between_ranks_take_the_safe_side() -> None:
    found = limits(10**6, 0.05)
    counts = np.arange(0, 10**6 + 1, 997)
    low, high = found.least_rate(counts), found.greatest_rate(counts)
    assert np.all(low <= counts / 10**6)
    assert np.all(high >= counts / 10**6)
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    assert found.least_rate(np.array([0]))[0] == 0.0
    assert found.greatest_rate(np.array([10**6]))[0] == 1.0
