"""Bounds from one run: published values, twins, sharpness, coverage, and where a bound fails.

Coverage checks allow the stated error and three standard errors, with fixed seeds: an estimator
that errs exactly as stated fails one of them with probability 0.2%.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from audit.curves import GaussianCurve
from audit.estimation import (
    Canaries,
    FixedGuesses,
    GuessCounts,
    Guesses,
    GuessesAtShares,
    OneRunAudit,
    OneRunBound,
    PilotGuesses,
    audit_one_run,
    one_run_bound,
    one_run_curve_p_value,
    one_run_p_value,
)
from audit.estimation.one_run import gaussian_wrong

from .audited_laws import allowed

ARBITRARY, INDEPENDENT = Canaries.ARBITRARY, Canaries.INDEPENDENT
RUNS = 4000
Counts = tuple[int, int, int]  # correct guesses, guesses, canaries


def bound(
    counts: Counts, canaries: Canaries, delta: float | None = None, confidence: float = 0.95
) -> OneRunBound:
    """Return the bound on epsilon at delta, or on mu."""
    made = GuessCounts(*counts)
    return one_run_bound(made, canaries=canaries, delta=delta, confidence=confidence)


def bounds(
    guesses: int, number: int, canaries: Canaries, delta: float | None, confidence: float = 0.9
) -> np.ndarray:
    """Return the bounds of 0, 1, ... right guesses about a number of canaries."""
    every = range(guesses + 1)
    return np.array([bound((k, guesses, number), canaries, delta, confidence).value for k in every])


def p_value(counts: Counts, canaries: Canaries, epsilon: float, delta: float) -> float:
    return one_run_p_value(GuessCounts(*counts), canaries=canaries, epsilon=epsilon, delta=delta)


def curve_p_value(
    counts: Counts, canaries: Canaries, curve: Any, epsilons: np.ndarray | None = None
) -> float:
    made = GuessCounts(*counts)
    return one_run_curve_p_value(made, canaries=canaries, curve=curve, epsilons=epsilons)


# Xiang et al. 2025, table of their repository: canaries, guesses, wrong guesses, true mu, and the
# epsilon at delta = 1e-5 of the largest mu that is refuted. It is no bound on the epsilon of a
# mechanism that is not Gaussian.
@pytest.mark.parametrize(
    ("canaries", "guesses", "wrong", "mu", "printed"),
    [
        (1000, 100, 10, 1.0, 3.1645),
        (10_000, 1000, 97, 1.0, 4.0141),
        (10_000, 2500, 364, 1.0, 4.1371),
        (10_000, 10_000, 3085, 1.0, 4.1592),
        (100_000, 25_000, 3641, 1.0, 4.3013),
        (1000, 1000, 401, 0.5, 1.4140),
        (10_000, 1000, 5, 2.0, 8.7173),
    ],
)
def test_published_table_of_independent_canaries(
    canaries: int, guesses: int, wrong: int, mu: float, printed: float
) -> None:
    found = bound((guesses - wrong, guesses, canaries), INDEPENDENT)
    assert found.assumption is INDEPENDENT
    assert found.value < mu
    assert GaussianCurve(found.value).epsilon(1e-5) == pytest.approx(printed, abs=6e-5)


def test_published_values_of_arbitrary_canaries() -> None:
    for size, expected in ((100, 3.493), (1000, 5.809)):
        for delta in (0.0, 1e-9):
            found = bound((size, size, size), ARBITRARY, delta)
            assert found.value == pytest.approx(expected, abs=5e-4)
            assert found.sampling_limit == found.value
    # Steinke, Nasr and Jagielski 2023, Appendix D prints 0.673 for these numbers.
    counts = (75, 100, 1000)
    assert (
        p_value(counts, ARBITRARY, 0.6725, 1e-4) < 0.05 < p_value(counts, ARBITRARY, 0.6735, 1e-4)
    )
    assert 0.673 < bound(counts, ARBITRARY, 1e-4).value < 0.69  # the f-DP form gives a little more
    for correct, guesses in ((60, 100), (99, 100), (700, 1000)):  # Clopper and Pearson's
        low = beta.ppf(0.05, correct, guesses - correct + 1)
        found = bound((correct, guesses, 2000), ARBITRARY, 0.0)
        assert found.value == pytest.approx(np.log(low / (1 - low)), abs=1e-8)


def steinke(v: int, r: int, m: int, epsilon: float, delta: float) -> float:
    """Steinke, Nasr and Jagielski 2023, Theorem 5.2, term by term."""
    rate = 1 / (1 + np.exp(-epsilon))
    tail = binom.sf(v - 1, r, rate)
    below = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, rate))  # of v - i to v - 1
    return min(1.0, tail + 2 * m * delta * np.max(below / np.arange(1, v + 1)))


@pytest.mark.parametrize("counts", [(1, 1, 1), (7, 10, 30), (40, 60, 60), (60, 60, 100)])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 0.05])
def test_p_value_of_arbitrary_canaries_agrees_with_its_twin(counts: Counts, delta: float) -> None:
    for epsilon in (0.0, 0.3, 2.0, 6.0):
        twin = steinke(*counts, epsilon, delta)
        twin = twin if delta == 0 or twin <= 0.5 else 1.0
        assert p_value(counts, ARBITRARY, epsilon, delta) == pytest.approx(twin, rel=1e-9)
    # of three coins, all but their complement alike, are told: a theorem's .8825 of .88375
    assert steinke(1, 3, 3, 0.0, 0.01) < 7 * (1 / 8 + 0.01 / 8)
    assert p_value((1, 3, 3), ARBITRARY, 0.0, 0.01) == 1


class Revealing:
    """The privacy profile of randomised response that reveals a coin with probability delta."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.revealed = epsilon, delta

    def delta(self, epsilon: np.ndarray, /) -> np.ndarray:
        top = np.exp(self.epsilon)
        rest = np.maximum(0.0, (top - np.exp(epsilon)) / (1 + top))
        return np.asarray(self.revealed + (1 - self.revealed) * rest)


@pytest.mark.parametrize("counts", [(7, 10, 10), (9, 10, 30), (60, 60, 2000), (570, 800, 2000)])
def test_integral_over_the_cut_agrees_with_the_sum(counts: Counts) -> None:
    correct, guesses, canaries = counts
    for epsilon, delta in ((0.0, 0.0), (1.0, 0.01), (3.0, 0.2)):
        by_sum = p_value(counts, INDEPENDENT, epsilon, delta)
        k, rate = np.arange(canaries + 1), 1 / (1 + np.exp(epsilon))
        few = binom.cdf(guesses - correct, np.maximum(guesses - k, 0), rate)
        twin = np.sum(binom.pmf(k, canaries, delta) * few)
        revealing = Revealing(epsilon, delta)
        integral = curve_p_value(counts, INDEPENDENT, revealing, np.array([epsilon]))
        assert by_sum == pytest.approx(twin, rel=1e-9)
        assert integral == pytest.approx(by_sum, rel=1e-8)


class Finite:
    """The privacy profile of a pair of finite laws that is its own mirror image."""

    def __init__(self, first: np.ndarray) -> None:
        self.first, self.second = first, first[::-1]

    def delta(self, epsilon: np.ndarray, /) -> np.ndarray:
        gap = self.first - np.exp(np.asarray(epsilon)[..., None]) * self.second
        return np.asarray(np.sum(np.maximum(gap, 0.0), axis=-1))


def most_adaptive(errors: tuple[float, ...], guesses: int, wrong: int) -> float:
    """The largest P[T <= wrong] of anybody who is told after each guess whether it was right."""
    if wrong < 0:
        return 0.0
    if guesses == 0:
        return 1.0
    best = 0.0
    for i, error in enumerate(errors):
        left = (*errors[:i], *errors[i + 1 :])
        value = error * most_adaptive(left, guesses - 1, wrong - 1)
        best = max(best, value + (1 - error) * most_adaptive(left, guesses - 1, wrong))
    return best


@pytest.mark.parametrize(("guesses", "wrong"), [(1, 0), (2, 0), (2, 1), (3, 1), (4, 1)])
def test_no_adaptive_guesser_does_better(guesses: int, wrong: int) -> None:
    # Four independent canaries, all outcomes and all ways to go on enumerated.
    pair = Finite(np.array([0.01, 0.05, 0.1, 0.2, 0.24, 0.4]))
    mixture = (pair.first + pair.second)[:3]
    errors = np.minimum(pair.first, pair.second)[:3] / mixture
    exact = sum(
        np.prod([mixture[i] for i in seen])
        * most_adaptive(tuple(errors[i] for i in seen), guesses, wrong)
        for seen in itertools.product(range(3), repeat=4)
    )
    ratios = np.append(0.0, np.log(pair.first / pair.second)[3:])
    found = curve_p_value((guesses - wrong, guesses, 4), INDEPENDENT, pair, ratios)
    assert found == pytest.approx(exact, rel=1e-9)


def test_supporting_lines_say_what_the_tradeoff_function_says() -> None:
    share = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0])
    grid = np.linspace(0.0, 30.0, 200_001)
    for mu in (0.1, 1.0, 4.0):
        wrong = gaussian_wrong(share, mu)
        delta = np.asarray(GaussianCurve(mu).delta(grid))
        for c, value in zip(share, wrong, strict=True):
            lines = np.max((c - delta) / (c * (1 + np.exp(grid))))
            assert value == pytest.approx(max(lines, 0.0), rel=1e-6)
    p = curve_p_value((903, 1000, 10000), INDEPENDENT, GaussianCurve(0.92775))
    assert 0.05 <= p <= 0.0503
    for counts in ((75, 100, 100), (18, 20, 500), (100, 100, 100)):
        curve = GaussianCurve(bound(counts, ARBITRARY).value)
        p = curve_p_value(counts, ARBITRARY, curve)
        assert 0.05 - 1e-6 <= p <= 0.0515  # supporting lines say a little less than the curve
        finer = curve_p_value(counts, ARBITRARY, curve, np.linspace(0, 12, 2001))
        assert 0.05 - 1e-6 <= finer <= p + 1e-9
    # One coin, f-DP with mu: the best guess is right with probability Phi(mu / 2).
    p = curve_p_value((1, 1, 1), ARBITRARY, GaussianCurve(1.0))
    assert norm.cdf(0.5) <= p < norm.cdf(0.5) + 2e-3


def test_monotone() -> None:
    def epsilon(canaries: int, delta: float, confidence: float) -> float:
        return bound((90, 100, canaries), ARBITRARY, delta, confidence).value

    rising = bounds(40, 40, ARBITRARY, 1e-4, 0.95)
    assert rising[20] == 0.0 < rising[30]
    for values in (rising, bounds(40, 40, ARBITRARY, None, 0.95)):
        assert np.all(np.diff(values) >= -1e-9)
    for falling in (
        [epsilon(100, delta, 0.95) for delta in (0.0, 1e-6, 1e-3, 0.1, 0.9, 1.0)],
        [epsilon(m, 1e-3, 0.95) for m in (100, 200, 1000, 10**6)],
        [epsilon(100, 1e-3, c) for c in (0.5, 0.9, 0.95, 0.999)],
    ):
        assert np.all(np.diff(falling) <= 1e-9)
        assert falling[0] > falling[-1]
    assert bound((100, 100, 100), ARBITRARY, 1.0).value == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.01, 0.3, None])
def test_never_below_the_bound_for_every_mechanism(delta: float | None) -> None:
    for counts in ((60, 60, 60), (18, 20, 500), (70, 100, 100), (900, 1000, 10_000)):
        if delta is None and counts[1] > 20:  # mu takes a while
            continue
        general, sharp = (bound(counts, canaries, delta) for canaries in Canaries)
        assert sharp.value >= general.value - 1e-9
        assert sharp.sampling_limit >= sharp.value


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.02), (2.0, 0.1)])
def test_coverage_of_epsilon_and_a_forgotten_delta(epsilon: float, delta: float) -> None:
    # randomised response: each coin is revealed with probability delta, else noisy
    rate = delta + (1 - delta) / (1 + np.exp(-epsilon))
    correct = np.random.default_rng(1).binomial(80, rate, RUNS)
    wrong = np.sum(bounds(80, 80, ARBITRARY, delta)[correct] > epsilon)
    assert wrong <= allowed(0.1, RUNS)
    if delta == 0:  # the error is used
        assert wrong >= 0.04 * RUNS
    else:
        forgotten = bounds(80, 80, ARBITRARY, 0.0)
        assert delta < 0.1 or np.sum(forgotten[correct] > epsilon) > allowed(0.1, RUNS)


def test_coverage_of_mu_with_abstentions() -> None:
    # The release is coin * 1 + N(0, 1/mu^2) a canary; guesses on the most extreme ones.
    mu, canaries, guesses = 1.0, 300, 15
    generator = np.random.default_rng(2)
    coins = generator.integers(0, 2, (RUNS, canaries))
    seen = coins + generator.normal(0, 1 / mu, (RUNS, canaries)) - 0.5
    places = np.argsort(-np.abs(seen), axis=1)[:, :guesses]
    right = (seen > 0) == (coins == 1)
    correct = np.take_along_axis(right, places, axis=1).sum(axis=1)
    found = bounds(guesses, canaries, ARBITRARY, None)[correct]
    assert np.sum(found > mu) <= allowed(0.1, RUNS)
    assert np.median(found) > 0.25
    # The planted mistake: canaries that were not guessed are not counted.
    forgotten = bounds(guesses, guesses, ARBITRARY, None)[correct]
    assert np.sum(forgotten > mu) > allowed(0.1, RUNS)


def simulated_wrong(
    canaries: int, guesses: int, epsilon: float, delta: float, runs: int, seed: int
) -> np.ndarray:
    """Wrong guesses on the surest canaries of randomised response that reveals some coins."""
    generator = np.random.default_rng(seed)
    revealed = generator.random((runs, canaries)) < delta
    lied = generator.random((runs, canaries)) > 1 / (1 + np.exp(-epsilon))
    surest = np.argsort(~revealed, axis=1, kind="stable")[:, :guesses]
    return np.sum(np.take_along_axis(lied & ~revealed, surest, axis=1), axis=1)


def test_p_value_of_independent_canaries_is_attained() -> None:
    runs = 20_000
    wrong = simulated_wrong(60, 20, 1.0, 0.1, runs, 1)
    for u in (0, 2, 4, 6):
        p = p_value((20 - u, 20, 60), INDEPENDENT, 1.0, 0.1)
        assert np.mean(wrong <= u) == pytest.approx(p, abs=4 * np.sqrt(p / runs) + 1e-9)
    # forgotten canaries are caught
    correct = 20 - simulated_wrong(80, 20, 1.0, 0.1, 2000, 14)
    assert np.sum(bounds(20, 80, INDEPENDENT, 0.1)[correct] > 1) <= allowed(0.1, 2000)
    assert np.sum(bounds(20, 20, INDEPENDENT, 0.1)[correct] > 1) > allowed(0.1, 2000)


def audited(scores: Any, coins: Any, delta: float = 0.0, **changed: Any) -> OneRunAudit:
    return audit_one_run(scores, coins, delta=delta, **{"confidence": 0.95, "seed": 1, **changed})


def refutes(found: OneRunAudit, epsilon: float, delta: float) -> bool:
    """Whether the audit's lower bound exceeds epsilon, without searching for it."""
    return any(
        one_run_p_value(one.counts, canaries=found.assumption, epsilon=epsilon, delta=delta)
        < one.error
        for one in found.counted
    )


def different_canaries(generator: np.random.Generator, coins: np.ndarray) -> np.ndarray:
    """Independent canaries of different laws, each (1, 0.02) or less: response, noise, silence."""
    kinds = np.arange(coins.size) % 4
    side = 2.0 * coins - 1
    lies = np.where(generator.random(coins.size) < 1 / (1 + np.exp(-1.0)), side, -side)
    revealed = generator.random(coins.size) < 0.02
    noisy = coins + generator.laplace(size=coins.size) - 0.5
    scores = np.select([kinds < 2, kinds == 2], [np.where(revealed, 9 * side, lies), noisy], 0.0)
    return scores + 1e-6 * generator.random(coins.size)


CHOICES = (
    PilotGuesses(),
    GuessesAtShares(),
    FixedGuesses((Guesses(12, 12),)),
    FixedGuesses((Guesses(30, 0), Guesses(0, 30))),
)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("runs", [150, pytest.param(600, marks=pytest.mark.slow)])
def test_coverage_with_canaries_of_different_laws(choice: object, runs: int) -> None:
    wrong = 0
    options = {"confidence": 0.9, "canaries": INDEPENDENT, "guesses": choice}
    for run in range(runs):
        generator = np.random.default_rng([run, 11])
        coins = generator.integers(0, 2, 80)
        scores = different_canaries(generator, coins)
        found = audited(scores, coins, 0.02, seed=run, **options)
        assert sum(one.error for one in found.counted) == pytest.approx(0.1, rel=1e-12)
        wrong += refutes(found, 1.0, 0.02)
    assert wrong <= allowed(0.1, runs)


@pytest.mark.parametrize("runs", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_a_pilot_certifies_nothing_itself(runs: int) -> None:
    wrong = 0
    for run in range(runs):
        generator = np.random.default_rng([run, 12])
        scores, coins = generator.random(300), generator.integers(0, 2, 300)
        options = {"confidence": 0.9, "canaries": INDEPENDENT, "guesses": PilotGuesses(0.5)}
        wrong += refutes(audited(scores, coins, seed=run, **options), 0.0, 0.0)
    assert wrong <= allowed(0.1, runs)


def test_independence_is_needed_and_the_general_bound_stands() -> None:
    # (0, 0.03)-DP with dependent canaries: one run of five reveals each coin with probability 0.15
    wrong = dict.fromkeys(Canaries, 0)
    guesses = FixedGuesses((Guesses(10, 10),))
    for run in range(500):
        generator = np.random.default_rng([run, 12])
        coins = generator.integers(0, 2, 200)
        told = (generator.random() < 0.2) & (generator.random(200) < 0.15)
        scores = np.where(told, 2.0 * coins - 1, generator.random(200) - 0.5)
        for canaries in Canaries:
            found = audited(scores, coins, 0.03, seed=run, canaries=canaries, guesses=guesses)
            wrong[canaries] += refutes(found, 0.0, 0.03)
    assert wrong[INDEPENDENT] > allowed(0.05, 500)  # wrong in most leaky runs
    assert wrong[ARBITRARY] <= allowed(0.05, 500)


def test_scores_and_coins() -> None:
    generator = np.random.default_rng(5)
    coins = generator.integers(0, 2, 400)
    scores = coins + generator.normal(size=400)
    found = audited(scores, coins == 1, seed=3, guesses=FixedGuesses((Guesses(20, 10),)))
    ranked = coins[np.argsort(scores)]
    correct = int(np.sum(ranked[:10] == 0) + np.sum(ranked[-20:] == 1))
    assert found.counted[0].counts.correct == correct
    assert found.evidence(0.0).assumption is ARBITRARY
    assert found.evidence(0.01) == bound((correct, 30, 400), ARBITRARY, 0.01)
    assert found.mu_lower() == bound((correct, 30, 400), ARBITRARY).value

    sharp = audited(scores, coins, seed=3, canaries=INDEPENDENT)
    assert sharp.evidence(0.0).assumption is sharp.assumption is INDEPENDENT
    mu = sharp.mu_lower()
    assert 0 < mu < 1.5
    assert sharp.refutes(GaussianCurve(0.9 * mu))
    assert not sharp.refutes(GaussianCurve(1.01 * mu))
    # the other sign: a score that speaks for "out" certifies nothing, its mirror image the same
    assert audited(-scores, coins, seed=3).epsilon_lower(0) == 0
    mirrored, straight = audited(-scores, 1 - coins, seed=3), audited(scores, coins, seed=3)
    assert mirrored.epsilon_lower(0.0) == pytest.approx(straight.epsilon_lower(0.0), rel=1e-12)
    # several runs are one run of the product
    for canaries in Canaries:
        shaped = scores.reshape(40, 10), coins.reshape(40, 10)
        assert audited(*shaped, canaries=canaries) == audited(scores, coins, canaries=canaries)
    # sorted coins: a stable sort of equal scores would guess all, whichever way it goes
    for sides in ([0, 1], [1, 0]):
        assert audited(np.zeros(100), np.repeat(sides, 50)).epsilon_lower(0.0) == 0.0


def test_extremes() -> None:
    for correct in (0, 1, 50, 100):
        for delta in (0.0, 1e-300, 0.5, 1.0):
            for confidence in (1e-9, 0.5, 1 - 1e-12):
                assert 0 <= bound((correct, 100, 10**9), ARBITRARY, delta, confidence).value < 1000
    for canaries in Canaries:
        none = bound((0, 0, 5), canaries, 0.0)
        assert none.value == none.sampling_limit == bound((0, 0, 5), canaries).value == 0.0
        assert p_value((0, 0, 5), canaries, 1.0, 0.0) == 1.0
        assert p_value((0, 9, 9), canaries, 1.0, 0.0) == 1.0
        assert curve_p_value((0, 9, 9), canaries, GaussianCurve(1.0)) == 1.0
    assert p_value((5, 5, 5), ARBITRARY, 1e6, 0.0) == 1.0


SCORES, COINS = np.arange(6.0), [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GuessCounts(5, 4, 9), r"correct must be at most guesses \(4\), got 5"),
        (lambda: GuessCounts(4, 5, 3), r"guesses must be at most canaries \(3\), got 5"),
        (lambda: GuessCounts(-1, 5, 9), "correct must be a whole number of at least 0, got -1"),
        (lambda: GuessCounts(0, 0, 0), "canaries must be a whole number of at least 1, got 0"),
        (lambda: bound((1, 5, 9), ARBITRARY, np.nan), r"delta must be in \[0, 1\], got nan"),
        (lambda: bound((1, 5, 9), ARBITRARY, 0.1, 1.0), r"confidence must be in \(0, 1\), got 1.0"),
        (lambda: p_value((1, 2, 2), ARBITRARY, np.inf, 0.0), "epsilon must be a finite number of"),
        (
            lambda: curve_p_value((1, 2, 2), ARBITRARY, GaussianCurve(1.0), np.array([-1.0])),
            r"epsilons must be in \[0, 700\], got -1.0",
        ),
        (lambda: Guesses(0, 0), "guesses must be at least one, got 0"),
        (lambda: GuessesAtShares((0.5, 1.5)), r"shares must be in \(0, 1\], got 1.5"),
        (lambda: FixedGuesses(()), "choices must be one or more distinct Guesses"),
        (lambda: audited(SCORES, [1, 0, 1]), r"coins must have the shape of scores \(6,\), got"),
        (lambda: audited(SCORES, [1, 0, 2, 0, 1, 0]), "coins must be True or False"),
        (lambda: audited(SCORES, np.ma.masked_equal(COINS, 0)), "coins must be .* without a mask"),
        (
            lambda: audited(np.arange(2000), np.arange(2000) < 1180),
            "coins must be those of fair tosses, one for each canary, got 1180 of 2000 included",
        ),
        (
            lambda: audited(np.zeros((2, 64)), [np.arange(64) % 2, np.arange(1, 65) % 2]),
            "coins must be tossed for each of 2 runs, got 1",
        ),
        (lambda: audited([1, np.nan, 4, 5], [0, 1, 0, 1]), "scores must hold finite numbers only"),
        (lambda: audited(SCORES, COINS, 1.5), r"delta must be in \[0, 1\], got 1.5"),
        (lambda: audited(SCORES, COINS, seed=-1), "seed must be a whole number of at least 0, got"),
        (lambda: audited(SCORES, COINS, canaries="both"), "canaries must be a Canaries, got 'bo"),
        (lambda: audited(SCORES, COINS, guesses=7), "guesses must be .*or PilotGuesses, got 7"),
        (lambda: audited(SCORES, COINS, guesses=PilotGuesses()), "must be chosen in advance for"),
        (
            lambda: audited(SCORES, COINS, guesses=FixedGuesses((Guesses(4, 3),))),
            r"guesses must be at most as many as canaries \(6\), got 7",
        ),
    ],
)
def test_bad_input_is_one_line(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
