from __future__ import annotations

import numpy as np
import pytest

from audit.estimation import CredibleStatement, credible, credible_epsilon

CASES = [
    ((487, 512, 1, 0), 1e-5),
    ((60, 10, 90, 40), 0.0),
    ((60, 10, 90, 40), 0.1),
    ((5, 0, 5, 0), 1e-3),
    ((0, 1, 0, 1), 0.0),
    ((10**6, 3, 10**6, 0), 1e-5),
    ((50, 1, 3 * 10**6, 20), 1e-6),
]


def drawn(counts: tuple[int, int, int, int], delta: float, draws: int) -> np.ndarray:
    """Slow, obvious twin: draw both rates, and take the worst of the four constraints."""
    tp, fp, tn, fn = counts
    generator = np.random.default_rng(0)
    x = generator.beta(fn + 0.5, tp + 0.5, draws)
    y = generator.beta(fp + 0.5, tn + 0.5, draws)
    worst = np.zeros(draws)
    for seen, missed in ((1 - y, x), (1 - x, y), (y, 1 - x), (x, 1 - y)):
        gain = np.maximum(seen - delta, 1e-300)
        worst = np.maximum(worst, np.log(gain) - np.log(np.maximum(missed, 1e-300)))
    return worst


@pytest.mark.parametrize(("counts", "delta"), CASES)
def test_agrees_with_draws_and_twice_the_nodes(
    counts: tuple[int, int, int, int], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 42 comparisons, each 4 standard errors wide: a right answer fails one below 0.3%.
    draws = 200_000
    posterior = credible_epsilon(*counts, delta=delta)
    sample = drawn(counts, delta, draws)
    for level in (0.01, 0.05, 0.5, 0.9, 0.99):
        quantile = posterior.quantile(level)
        share = float(np.mean(sample <= quantile))
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / draws)
    middle = float(np.median(sample))
    assert posterior.probability_at_most(middle) == pytest.approx(0.5, abs=0.005)
    # twice the nodes change nothing
    epsilons = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 13.0, 15.0])
    coarse = posterior.probability_at_most(epsilons)
    monkeypatch.setattr(credible, "_NODES", 40)
    assert posterior.probability_at_most(epsilons) == pytest.approx(coarse, abs=1e-10)


def test_probability_and_quantile_are_inverse() -> None:
    posterior = credible_epsilon(60, 10, 90, 40, delta=1e-5)
    levels = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
    quantiles = np.array([posterior.quantile(level) for level in levels.tolist()])
    assert np.all(np.diff(quantiles) > 0)
    assert posterior.probability_at_most(quantiles) == pytest.approx(levels, rel=1e-6)
    assert posterior.probability_at_most(np.zeros((2, 3))).shape == (2, 3)
    low, high = credible_epsilon(487, 512, 1, 0, delta=1e-5).interval(0.9)
    # privacy-estimates 0.2 gives (0.1452, 6.3987), asked for .01.
    assert low == pytest.approx(0.1452, abs=0.01)
    assert high == pytest.approx(6.3987, abs=0.02)
    # exchanging the mechanisms or the guesses changes nothing
    tp, fp, tn, fn = 60, 10, 90, 40
    value = posterior.quantile(0.3)
    assert credible_epsilon(tn, fn, tp, fp, delta=1e-5).quantile(0.3) == pytest.approx(value)
    assert credible_epsilon(fn, tn, fp, tp, delta=1e-5).quantile(0.3) == pytest.approx(value)


def test_it_is_no_lower_bound_and_says_so() -> None:
    # Randomised response, epsilon 1: "95% credible" exceeds the truth in 7% or more of the runs
    # with 20 answers a side, while a lower bound may in 5%.
    generator = np.random.default_rng(4)
    truth = np.log(0.9 / 0.1)
    wrong = 0
    counts = [generator.binomial(20, rate, 400).tolist() for rate in (0.9, 0.1)]
    for tp, fp in zip(*counts, strict=True):
        posterior = credible_epsilon(tp, fp, 20 - fp, 20 - tp, delta=0.0)
        wrong += bool(posterior.probability_at_most(truth) < 0.05)
    assert wrong > 0.05 * 400 + 3 * np.sqrt(400 * 0.05 * 0.95)
    assert "not a bound" in (CredibleStatement.__doc__ or "")
    assert not any("lower" in name or "bound" in name for name in dir(CredibleStatement))


def test_trivial_and_extreme() -> None:
    assert credible_epsilon(9, 0, 9, 0, delta=1.0).interval(0.95) == (0.0, 0.0)
    low, high = credible_epsilon(10**9, 0, 10**9, 0, delta=0.0).interval(0.9)
    assert 15 < low < high < 50
    assert credible_epsilon(10**7, 10**7, 10**7, 10**7, delta=1e-5).quantile(0.05) == 0.0
    posterior = credible_epsilon(3, 0, 3, 0, delta=0.0)
    values = posterior.probability_at_most([0.0, 1e-300, 700.0, 1e6, 1e300, np.inf])
    assert np.all(np.diff(values) >= 0)
    assert values[-1] == 1.0
    assert np.isfinite(posterior.quantile(1 - 1e-9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0, 1, 1, 0.1), "true_positives must be a whole number of at least 0, got -1"),
        ((0, 1, 1, 0, 0.1), r"true_positives \+ false_negatives must be positive, got 0"),
        ((1, 0, 0, 1, 0.1), r"true_negatives \+ false_positives must be positive, got 0"),
        ((1, 1, 1, 1, 1.5), r"delta must be in \[0, 1\], got 1.5"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        credible_epsilon(*arguments[:4], delta=arguments[4])


def test_bad_levels() -> None:
    posterior = credible_epsilon(3, 1, 3, 1, delta=0.0)
    for level in (0.0, 1.0, np.nan):
        for ask in (posterior.quantile, posterior.interval):
            with pytest.raises(ValueError, match=r"level must be in \(0, 1\)"):
                ask(level)
    with pytest.raises(ValueError, match=r"epsilon must be in \[0, inf\], got -1.0"):
        posterior.probability_at_most(-1)
