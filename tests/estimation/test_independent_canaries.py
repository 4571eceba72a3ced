"""Independent canaries: published values, twins, sharpness, coverage, and where the bound fails.

Coverage checks allow the stated error and three standard errors, with fixed seeds: an estimator
that errs exactly as stated fails one of them with probability 0.2%.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from audit.curves import GaussianCurve
from audit.estimation import (
    Canaries,
    FixedGuesses,
    GuessCounts,
    Guesses,
    GuessesAtShares,
    OneRunAudit,
    PilotGuesses,
    audit_one_run,
    one_run_bound,
    one_run_curve_p_value,
    one_run_p_value,
)
from audit.estimation.independent_canaries import gaussian_wrong

from .audited_laws import allowed


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
def test_published_table(
    canaries: int, guesses: int, wrong: int, mu: float, printed: float
) -> None:
    bound = one_run_bound(
        GuessCounts(guesses - wrong, guesses, canaries),
        canaries=Canaries.INDEPENDENT,
        delta=None,
        confidence=0.95,
    )
    assert bound.assumption is Canaries.INDEPENDENT
    assert bound.value < mu
    assert GaussianCurve(bound.value).epsilon(1e-5) == pytest.approx(printed, abs=6e-5)


def simulated_wrong(
    canaries: int, guesses: int, epsilon: float, delta: float, runs: int, seed: int
) -> np.ndarray:
    """Wrong guesses on the surest canaries of randomised response that reveals some coins."""
    generator = np.random.default_rng(seed)
    revealed = generator.random((runs, canaries)) < delta
    lied = generator.random((runs, canaries)) > 1 / (1 + np.exp(-epsilon))
    surest = np.argsort(~revealed, axis=1, kind="stable")[:, :guesses]
    return np.sum(np.take_along_axis(lied & ~revealed, surest, axis=1), axis=1)


def test_p_value_is_attained() -> None:
    runs = 20_000
    wrong = simulated_wrong(60, 20, 1.0, 0.1, runs, 1)
    for u in (0, 2, 4, 6):
        p = one_run_p_value(
            GuessCounts(20 - u, 20, 60), canaries=Canaries.INDEPENDENT, epsilon=1.0, delta=0.1
        )
        assert np.mean(wrong <= u) == pytest.approx(p, abs=4 * np.sqrt(p / runs) + 1e-9)


class Revealing:
    """The privacy profile of randomised response that reveals a coin with probability delta."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.revealed = epsilon, delta

    def delta(self, epsilon: np.ndarray, /) -> np.ndarray:
        top = np.exp(self.epsilon)
        rest = np.maximum(0.0, (top - np.exp(epsilon)) / (1 + top))
        return np.asarray(self.revealed + (1 - self.revealed) * rest)


@pytest.mark.parametrize("counts", [(7, 10, 10), (9, 10, 30), (60, 60, 2000), (570, 800, 2000)])
def test_integral_over_the_cut_agrees_with_the_sum(counts: tuple[int, int, int]) -> None:
    correct, guesses, canaries = counts
    for epsilon, delta in ((0.0, 0.0), (1.0, 0.01), (3.0, 0.2)):
        by_sum = one_run_p_value(
            GuessCounts(correct, guesses, canaries),
            canaries=Canaries.INDEPENDENT,
            epsilon=epsilon,
            delta=delta,
        )
        k, rate = np.arange(canaries + 1), 1 / (1 + np.exp(epsilon))
        few = binom.cdf(guesses - correct, np.maximum(guesses - k, 0), rate)
        twin = np.sum(binom.pmf(k, canaries, delta) * few)
        integral = one_run_curve_p_value(
            GuessCounts(correct, guesses, canaries),
            canaries=Canaries.INDEPENDENT,
            curve=Revealing(epsilon, delta),
            epsilons=np.array([epsilon]),
        )
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
    bound = one_run_curve_p_value(
        GuessCounts(guesses - wrong, guesses, 4),
        canaries=Canaries.INDEPENDENT,
        curve=pair,
        epsilons=ratios,
    )
    assert bound == pytest.approx(exact, rel=1e-9)


def test_supporting_lines_say_what_the_tradeoff_function_says() -> None:
    share = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0])
    grid = np.linspace(0.0, 30.0, 200_001)
    for mu in (0.1, 1.0, 4.0):
        wrong = gaussian_wrong(share, mu)
        delta = np.asarray(GaussianCurve(mu).delta(grid))
        for c, value in zip(share, wrong, strict=True):
            lines = np.max((c - delta) / (c * (1 + np.exp(grid))))
            assert value == pytest.approx(max(lines, 0.0), rel=1e-6)
    p = one_run_curve_p_value(
        GuessCounts(903, 1000, 10000), canaries=Canaries.INDEPENDENT, curve=GaussianCurve(0.92775)
    )
    assert 0.05 <= p <= 0.0503


def test_sharper_than_without_the_assumption_where_delta_is_large() -> None:
    # Expected counts of the Gaussian mechanism, mu = 1, n = 5,000; epsilon(0.01) is 2.3178.
    best = {}
    for canaries in Canaries:
        best[canaries] = max(
            one_run_bound(
                GuessCounts(guesses - round(guesses * wrong), guesses, 5000),
                canaries=canaries,
                delta=0.01,
                confidence=0.95,
            ).value
            for guesses in (250, 1000, 2500, 5000)
            for wrong in [float(gaussian_wrong(np.array(guesses / 5000), 1.0))]
        )
    assert 0.6 < best[Canaries.ARBITRARY] < 0.7
    assert 1.88 < best[Canaries.INDEPENDENT] < 1.90
    # No bound without the assumption can do much better: a mechanism that is this one with
    # probability 0.1, and else silent, has epsilon(0.01) = epsilon_gauss(0.1), and a valid bound
    # may exceed that only in half of the runs that are not silent.
    assert best[Canaries.ARBITRARY] < GaussianCurve(1.0).epsilon(0.1) < 1.2


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.01, 0.3])
def test_never_below_the_bound_for_every_mechanism(delta: float) -> None:
    for counts in ((60, 60, 60), (18, 20, 500), (70, 100, 100), (900, 1000, 10_000)):
        general = one_run_bound(
            GuessCounts(*counts), canaries=Canaries.ARBITRARY, delta=delta, confidence=0.95
        )
        sharp = one_run_bound(
            GuessCounts(*counts), canaries=Canaries.INDEPENDENT, delta=delta, confidence=0.95
        )
        assert sharp.value >= general.value - 1e-9
        assert sharp.sampling_limit >= sharp.value
    mu = one_run_bound(
        GuessCounts(18, 20, 500), canaries=Canaries.ARBITRARY, delta=None, confidence=0.95
    )
    assert (
        one_run_bound(
            GuessCounts(18, 20, 500), canaries=Canaries.INDEPENDENT, delta=None, confidence=0.95
        ).value
        >= mu.value - 1e-9
    )


RUNS = 1500


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
def test_coverage_with_canaries_of_different_laws(choice: object) -> None:
    wrong = 0
    for run in range(RUNS):
        generator = np.random.default_rng([run, 11])
        coins = generator.integers(0, 2, 80)
        found = audit_one_run(
            different_canaries(generator, coins),
            coins,
            delta=0.02,
            confidence=0.9,
            seed=run,
            canaries=Canaries.INDEPENDENT,
            guesses=choice,
        )
        wrong += refutes(found, 1.0, 0.02)
    assert wrong <= allowed(0.1, RUNS)


def refutes(found: OneRunAudit, epsilon: float, delta: float) -> bool:
    """Whether the audit's lower bound exceeds epsilon, without searching for it."""
    return any(
        one_run_p_value(
            GuessCounts(one.correct, one.guesses.number, found.canaries),
            canaries=found.assumption,
            epsilon=epsilon,
            delta=delta,
        )
        < one.error
        for one in found.counted
    )


def leaky(generator: np.random.Generator, coins: np.ndarray) -> np.ndarray:
    """A (0, 0.03)-DP mechanism whose canaries depend on each other.

    In one run of five it reveals each coin with probability 0.15.
    """
    told = (generator.random() < 0.2) & (generator.random(coins.size) < 0.15)
    noise = generator.random(coins.size) - 0.5
    return np.where(told, 2.0 * coins - 1, noise)


def test_independence_is_needed_and_the_general_bound_stands() -> None:
    wrong = dict.fromkeys(Canaries, 0)
    for run in range(1000):
        generator = np.random.default_rng([run, 12])
        coins = generator.integers(0, 2, 200)
        scores = leaky(generator, coins)
        for canaries in Canaries:
            found = audit_one_run(
                scores,
                coins,
                delta=0.03,
                confidence=0.95,
                seed=run,
                canaries=canaries,
                guesses=FixedGuesses((Guesses(10, 10),)),
            )
            wrong[canaries] += refutes(found, 0.0, 0.03)
    assert wrong[Canaries.INDEPENDENT] > allowed(0.05, 1000)  # wrong in most leaky runs
    assert wrong[Canaries.ARBITRARY] <= allowed(0.05, 1000)


def test_planted_mistakes_are_caught() -> None:
    # the best number of guesses, chosen after counting and not paid for
    unpaid, runs = 0, 1000
    choices = tuple(Guesses(k, k) for k in (5, 10, 20, 35, 50, 75, 100))
    for run in range(runs):
        generator = np.random.default_rng([run, 13])
        coins, scores = generator.integers(0, 2, 200), generator.random(200)
        found = audit_one_run(
            scores,
            coins,
            delta=0.0,
            confidence=0.9,
            seed=run,
            canaries=Canaries.INDEPENDENT,
            guesses=FixedGuesses(choices),
        )
        free = replace(found, counted=tuple(replace(one, error=0.1) for one in found.counted))
        unpaid += refutes(free, 0.0, 0.0)
    assert unpaid > allowed(0.1, runs)
    # canaries that were not guessed are forgotten
    wrong = simulated_wrong(80, 20, 1.0, 0.1, 2000, 14)
    forgotten = [
        one_run_bound(
            GuessCounts(20 - u, 20, 20), canaries=Canaries.INDEPENDENT, delta=0.1, confidence=0.9
        ).value
        for u in range(21)
    ]
    counted = [
        one_run_bound(
            GuessCounts(20 - u, 20, 80), canaries=Canaries.INDEPENDENT, delta=0.1, confidence=0.9
        ).value
        for u in range(21)
    ]
    assert np.sum(np.array(counted)[wrong] > 1) <= allowed(0.1, 2000)
    assert np.sum(np.array(forgotten)[wrong] > 1) > allowed(0.1, 2000)


def test_scores_and_coins() -> None:
    generator = np.random.default_rng(5)
    coins = generator.integers(0, 2, 400)
    scores = coins + generator.normal(size=400)
    found = audit_one_run(
        scores,
        coins == 1,
        delta=0.0,
        confidence=0.95,
        seed=3,
        guesses=FixedGuesses((Guesses(20, 10),)),
    )
    ranked = coins[np.argsort(scores)]
    correct = int(np.sum(ranked[:10] == 0) + np.sum(ranked[-20:] == 1))
    assert found.counted[0].correct == correct
    assert found.evidence(0.0).assumption is Canaries.ARBITRARY
    expected = one_run_bound(
        GuessCounts(correct, 30, 400), canaries=Canaries.ARBITRARY, delta=0.01, confidence=0.95
    )
    assert found.evidence(0.01) == expected
    assert (
        found.mu_lower()
        == one_run_bound(
            GuessCounts(correct, 30, 400), canaries=Canaries.ARBITRARY, delta=None, confidence=0.95
        ).value
    )

    sharp = audit_one_run(
        scores, coins, delta=0.0, confidence=0.95, seed=3, canaries=Canaries.INDEPENDENT
    )
    assert sharp.evidence(0.0).assumption is sharp.assumption is Canaries.INDEPENDENT
    mu = sharp.mu_lower()
    assert 0 < mu < 1.5
    assert sharp.refutes(GaussianCurve(0.9 * mu))
    assert not sharp.refutes(GaussianCurve(1.01 * mu))
    # the other sign: a score that speaks for "out" certifies nothing, its mirror image the same
    assert audit_one_run(-scores, coins, delta=0.0, confidence=0.95, seed=3).epsilon_lower(0) == 0
    mirrored = audit_one_run(-scores, 1 - coins, delta=0.0, confidence=0.95, seed=3)
    straight = audit_one_run(scores, coins, delta=0.0, confidence=0.95, seed=3)
    assert mirrored.epsilon_lower(0.0) == pytest.approx(straight.epsilon_lower(0.0), rel=1e-12)


def test_several_runs_are_one_run_of_the_product() -> None:
    generator = np.random.default_rng(7)
    coins = generator.integers(0, 2, (40, 25))
    scores = coins + generator.normal(size=(40, 25))
    for canaries in Canaries:
        together, flat = (
            audit_one_run(a, b, delta=0.0, confidence=0.95, seed=1, canaries=canaries)
            for a, b in ((scores, coins), (scores.ravel(), coins.ravel()))
        )
        assert together == flat


def test_ties_are_broken_at_random_and_tell_nothing() -> None:
    coins = np.repeat([1, 0], 50)  # sorted coins: a stable sort of equal scores would guess all
    found = audit_one_run(np.zeros(100), coins, delta=0.0, confidence=0.95, seed=1)
    assert found.epsilon_lower(0.0) == 0.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"coins": [1, 0, 1]}, r"coins must have the shape of scores \(6,\), got \(3,\)"),
        ({"coins": [1, 0, 2, 0, 1, 0]}, "coins must be True or False"),
        ({"coins": [1, 0, -1, 0, 1, 0]}, "coins must be True or False"),
        ({"scores": [1, 2, np.nan, 4, 5, 6]}, "scores must hold finite numbers only, got nan"),
        ({"delta": 1.5}, r"delta must be in \[0, 1\], got 1.5"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"canaries": "independent"}, "canaries must be a Canaries, got 'independent'"),
        ({"guesses": 7}, "guesses must be FixedGuesses, GuessesAtShares or PilotGuesses, got 7"),
        ({"guesses": PilotGuesses()}, "guesses must be chosen in advance for arbitrary canaries"),
        (
            {"guesses": FixedGuesses((Guesses(4, 3),))},
            r"guesses must be at most as many as canaries \(6\), got 7",
        ),
    ],
)
def test_bad_input(changed: dict, message: str) -> None:
    given = {
        "scores": np.arange(6.0),
        "coins": [0, 0, 0, 1, 1, 1],
        "delta": 0.0,
        "confidence": 0.9,
        "seed": 1,
    }
    given.update(changed)
    with pytest.raises(ValueError, match=message):
        audit_one_run(given.pop("scores"), given.pop("coins"), **given)


def test_bad_choices() -> None:
    with pytest.raises(ValueError, match="guesses must be at least one, got 0"):
        Guesses(0, 0)
    with pytest.raises(ValueError, match=r"shares must be in \(0, 1\], got 1.5"):
        GuessesAtShares((0.5, 1.5))
    with pytest.raises(ValueError, match="choices must be one or more distinct Guesses"):
        FixedGuesses(())
    with pytest.raises(ValueError, match=r"correct must be at most guesses \(4\), got 5"):
        one_run_bound(
            GuessCounts(5, 4, 9), canaries=Canaries.INDEPENDENT, delta=0.1, confidence=0.9
        )
    none = one_run_bound(
        GuessCounts(0, 0, 5), canaries=Canaries.INDEPENDENT, delta=0.0, confidence=0.95
    )
    assert none.value == none.sampling_limit == 0.0
    assert (
        one_run_bound(
            GuessCounts(0, 0, 5), canaries=Canaries.INDEPENDENT, delta=None, confidence=0.95
        ).value
        == 0.0
    )
    assert (
        one_run_p_value(GuessCounts(0, 9, 9), canaries=Canaries.INDEPENDENT, epsilon=1.0, delta=0.0)
        == 1.0
    )
