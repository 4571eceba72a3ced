"""One-run bounds: published values, monotony, and coverage on canaries of known privacy.

Coverage checks allow the stated error and three standard errors, and simulate 4,000 runs each with
fixed seeds; an estimator that errs exactly as stated fails one check with probability 0.2%, one of
all with less than 3%.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from audit.curves import GaussianCurve
from audit.estimation import (
    Canaries,
    GuessCounts,
    one_run_bound,
    one_run_curve_p_value,
    one_run_p_value,
)

from .audited_laws import allowed

RUNS = 4000


def twin_p_value(v: int, r: int, m: int, epsilon: float, delta: float) -> float:
    """Steinke, Nasr and Jagielski 2023, Theorem 5.2, term by term."""
    rate = 1 / (1 + np.exp(-epsilon))
    tail = binom.sf(v - 1, r, rate)
    slope = max([sum(binom.pmf(k, r, rate) for k in range(v - i, v)) / i for i in range(1, v + 1)])
    return min(1.0, tail + 2 * m * delta * slope)


@pytest.mark.parametrize(
    ("counts", "delta", "expected"),
    [
        ((100, 100, 100), 0.0, 3.493),
        ((1000, 1000, 1000), 0.0, 5.809),
        ((100, 100, 100), 1e-9, 3.493),
        ((1000, 1000, 1000), 1e-9, 5.809),
    ],
)
def test_all_correct(counts: tuple[int, int, int], delta: float, expected: float) -> None:
    correct, guesses, canaries = counts
    bound = one_run_bound(
        GuessCounts(correct, guesses, canaries),
        canaries=Canaries.ARBITRARY,
        delta=delta,
        confidence=0.95,
    )
    assert bound.value == pytest.approx(expected, abs=5e-4)
    assert bound.sampling_limit == bound.value


def test_published_value() -> None:
    # Steinke, Nasr and Jagielski 2023, Appendix D prints 0.673 for these numbers.
    assert (
        one_run_p_value(
            GuessCounts(75, 100, 1000), canaries=Canaries.ARBITRARY, epsilon=0.6725, delta=1e-4
        )
        < 0.05
    )
    assert (
        one_run_p_value(
            GuessCounts(75, 100, 1000), canaries=Canaries.ARBITRARY, epsilon=0.6735, delta=1e-4
        )
        > 0.05
    )
    bound = one_run_bound(
        GuessCounts(75, 100, 1000), canaries=Canaries.ARBITRARY, delta=1e-4, confidence=0.95
    )
    assert 0.673 < bound.value < 0.69  # the f-DP form gives a little more


@pytest.mark.parametrize("counts", [(1, 1, 1), (7, 10, 30), (40, 60, 60), (60, 60, 100)])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 0.05])
def test_p_value_agrees_with_its_twin(counts: tuple[int, int, int], delta: float) -> None:
    for epsilon in (0.0, 0.3, 2.0, 6.0):
        value = one_run_p_value(
            GuessCounts(*counts), canaries=Canaries.ARBITRARY, epsilon=epsilon, delta=delta
        )
        assert value == pytest.approx(twin_p_value(*counts, epsilon, delta), rel=1e-9)


def test_pure_epsilon_is_clopper_pearson() -> None:
    for correct, guesses in ((60, 100), (99, 100), (700, 1000)):
        low = beta.ppf(0.05, correct, guesses - correct + 1)
        bound = one_run_bound(
            GuessCounts(correct, guesses, 2000),
            canaries=Canaries.ARBITRARY,
            delta=0.0,
            confidence=0.95,
        )
        assert bound.value == pytest.approx(np.log(low / (1 - low)), abs=1e-8)


def test_monotone() -> None:
    def epsilon(correct: int, canaries: int, delta: float, confidence: float) -> float:
        return one_run_bound(
            GuessCounts(correct, 100, canaries),
            canaries=Canaries.ARBITRARY,
            delta=delta,
            confidence=confidence,
        ).value

    rising = [epsilon(k, 100, 1e-4, 0.95) for k in range(101)]
    assert np.all(np.diff(rising) >= -1e-9)
    assert rising[50] == 0.0
    assert rising[70] > 0
    mus = [
        one_run_bound(
            GuessCounts(k, 100, 100), canaries=Canaries.ARBITRARY, delta=None, confidence=0.95
        ).value
        for k in range(101)
    ]
    assert np.all(np.diff(mus) >= -1e-9)
    for values in (
        [epsilon(90, 100, delta, 0.95) for delta in (0.0, 1e-6, 1e-3, 0.1, 0.9, 1.0)],
        [epsilon(90, m, 1e-3, 0.95) for m in (100, 200, 1000, 10**6)],
        [epsilon(90, 100, 1e-3, c) for c in (0.5, 0.9, 0.95, 0.999)],
    ):
        assert np.all(np.diff(values) <= 1e-9)
        assert values[0] > values[-1]
    assert epsilon(100, 100, 1.0, 0.95) == 0.0


def randomised_response(epsilon: float, delta: float, canaries: int, seed: int) -> np.ndarray:
    """Right guesses in RUNS runs: each coin is revealed with probability delta, else noisy."""
    rate = delta + (1 - delta) / (1 + np.exp(-epsilon))
    return np.random.default_rng(seed).binomial(canaries, rate, RUNS)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.02), (2.0, 0.1)])
def test_coverage_of_epsilon(epsilon: float, delta: float) -> None:
    canaries = 80
    bounds = [
        one_run_bound(
            GuessCounts(k, canaries, canaries),
            canaries=Canaries.ARBITRARY,
            delta=delta,
            confidence=0.9,
        ).value
        for k in range(canaries + 1)
    ]
    wrong = np.sum(np.array(bounds)[randomised_response(epsilon, delta, canaries, 1)] > epsilon)
    assert wrong <= allowed(0.1, RUNS)
    if delta == 0:  # the error is used
        assert wrong >= 0.04 * RUNS


def test_coverage_of_mu_with_abstentions() -> None:
    # The release is coin * 1 + N(0, 1/mu^2) a canary; guesses on the most extreme ones.
    mu, canaries, guesses = 1.0, 300, 15
    generator = np.random.default_rng(2)
    coins = generator.integers(0, 2, (RUNS, canaries))
    seen = coins + generator.normal(0, 1 / mu, (RUNS, canaries)) - 0.5
    places = np.argsort(-np.abs(seen), axis=1)[:, :guesses]
    right = (seen > 0) == (coins == 1)
    correct = np.take_along_axis(right, places, axis=1).sum(axis=1)
    bounds = np.array(
        [
            one_run_bound(
                GuessCounts(k, guesses, canaries),
                canaries=Canaries.ARBITRARY,
                delta=None,
                confidence=0.9,
            ).value
            for k in range(guesses + 1)
        ]
    )
    assert np.sum(bounds[correct] > mu) <= allowed(0.1, RUNS)
    assert np.median(bounds[correct]) > 0.25
    # The planted mistake: canaries that were not guessed are not counted.
    forgotten = np.array(
        [
            one_run_bound(
                GuessCounts(k, guesses, guesses),
                canaries=Canaries.ARBITRARY,
                delta=None,
                confidence=0.9,
            ).value
            for k in range(guesses + 1)
        ]
    )
    assert np.sum(forgotten[correct] > mu) > allowed(0.1, RUNS)


def test_harness_catches_a_forgotten_delta() -> None:
    epsilon, delta, canaries = 1.0, 0.1, 80
    bounds = np.array(
        [
            one_run_bound(
                GuessCounts(k, canaries, canaries),
                canaries=Canaries.ARBITRARY,
                delta=0.0,
                confidence=0.9,
            ).value
            for k in range(canaries + 1)
        ]
    )
    wrong = np.sum(bounds[randomised_response(epsilon, delta, canaries, 3)] > epsilon)
    assert wrong > allowed(0.1, RUNS)


def test_curve_and_mu_say_the_same() -> None:
    for correct, guesses, canaries in ((75, 100, 100), (18, 20, 500), (100, 100, 100)):
        mu = one_run_bound(
            GuessCounts(correct, guesses, canaries),
            canaries=Canaries.ARBITRARY,
            delta=None,
            confidence=0.95,
        ).value
        p = one_run_curve_p_value(
            GuessCounts(correct, guesses, canaries),
            canaries=Canaries.ARBITRARY,
            curve=GaussianCurve(mu),
        )
        assert 0.05 - 1e-6 <= p <= 0.0515  # supporting lines say a little less than the curve
        finer = one_run_curve_p_value(
            GuessCounts(correct, guesses, canaries),
            canaries=Canaries.ARBITRARY,
            curve=GaussianCurve(mu),
            epsilons=np.linspace(0, 12, 2001),
        )
        assert 0.05 - 1e-6 <= finer <= p + 1e-9


def test_one_canary_guessed_right_has_the_exact_probability() -> None:
    # One coin, f-DP with mu: the best guess is right with probability Phi(mu / 2).
    p = one_run_curve_p_value(
        GuessCounts(1, 1, 1), canaries=Canaries.ARBITRARY, curve=GaussianCurve(1.0)
    )
    assert p == pytest.approx(norm.cdf(0.5), abs=2e-3)
    assert p >= norm.cdf(0.5)


def test_extremes_and_speed() -> None:
    for correct in (0, 1, 50, 100):
        for delta in (0.0, 1e-300, 0.5, 1.0):
            for confidence in (1e-9, 0.5, 1 - 1e-12):
                value = one_run_bound(
                    GuessCounts(correct, 100, 10**9),
                    canaries=Canaries.ARBITRARY,
                    delta=delta,
                    confidence=confidence,
                ).value
                assert 0 <= value < 1000
    none = one_run_bound(
        GuessCounts(0, 0, 5), canaries=Canaries.ARBITRARY, delta=0.0, confidence=0.95
    )
    assert none.value == none.sampling_limit == 0.0
    assert (
        one_run_bound(
            GuessCounts(0, 0, 5), canaries=Canaries.ARBITRARY, delta=None, confidence=0.95
        ).value
        == 0.0
    )
    assert (
        one_run_p_value(GuessCounts(0, 0, 5), canaries=Canaries.ARBITRARY, epsilon=1.0, delta=0.0)
        == 1.0
    )
    assert (
        one_run_curve_p_value(
            GuessCounts(0, 9, 9), canaries=Canaries.ARBITRARY, curve=GaussianCurve(1.0)
        )
        == 1.0
    )
    assert (
        one_run_p_value(GuessCounts(5, 5, 5), canaries=Canaries.ARBITRARY, epsilon=1e6, delta=0.0)
        == 1.0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4, 9, 0.1, 0.9), r"correct must be at most guesses \(4\), got 5"),
        ((4, 5, 3, 0.1, 0.9), r"guesses must be at most canaries \(3\), got 5"),
        ((-1, 5, 9, 0.1, 0.9), "correct must be a whole number of at least 0, got -1"),
        ((1.5, 5, 9, 0.1, 0.9), "correct must be a whole number of at least 0, got 1.5"),
        ((0, 0, 0, 0.1, 0.9), "canaries must be a whole number of at least 1, got 0"),
        ((1, 5, 9, np.nan, 0.9), r"delta must be in \[0, 1\], got nan"),
        ((1, 5, 9, 0.1, 1.0), r"confidence must be in \(0, 1\), got 1.0"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    correct, guesses, canaries, delta, confidence = arguments
    with pytest.raises(ValueError, match=message):
        one_run_bound(
            GuessCounts(correct, guesses, canaries),
            canaries=Canaries.ARBITRARY,
            delta=delta,
            confidence=confidence,
        )


def test_bad_claims() -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number of at least 0"):
        one_run_p_value(
            GuessCounts(1, 2, 2), canaries=Canaries.ARBITRARY, epsilon=np.inf, delta=0.0
        )
    with pytest.raises(ValueError, match=r"epsilons must be in \[0, 700\], got -1.0"):
        one_run_curve_p_value(
            GuessCounts(1, 2, 2),
            canaries=Canaries.ARBITRARY,
            curve=GaussianCurve(1.0),
            epsilons=np.array([-1.0]),
        )
