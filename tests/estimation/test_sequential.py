"""Anytime-valid tests: validity at every time, speed against fixed plans, bad input.

Validity checks allow the stated error and three standard errors; the e-processes here err well
below their stated rate (Ville's inequality is not sharp), so the chance of a false alarm from all
checks together is below 1%. Seeds are fixed.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from audit.curves import GaussianCurve, Order
from audit.estimation import Betting, ClaimEvidence, SequentialAudit
from audit.estimation.sequential import candidate_ranks, choose_bets, nearest_null, play

from .audited_laws import (
    BINOMIAL,
    CLAMPED,
    COIN,
    GAUSSIAN,
    IDENTICAL,
    LAPLACE,
    PAIRS,
    KnownPair,
    allowed,
)  # fmt: skip

DELTA = 1e-2
ONE, SINGLE = [(1.0, 0.1)], float(np.float32(0.1))
TRUTH = GaussianCurve(1.0).epsilon(DELTA)  # 2.318


def truth(pair: KnownPair, delta: float) -> float:
    return max(float(pair.epsilon(np.array([delta]), order)[0]) for order in Order)


def audited(claims: Any, first: Any = None, second: Any = None, **changed: Any) -> SequentialAudit:
    audit = SequentialAudit(claims, **{"confidence": 0.95, **changed})
    if first is not None:
        audit.update(first, second)
    return audit


def bet(first: np.ndarray, second: np.ndarray, epsilon: float, delta: float, *how: float) -> Any:
    """Return the bet against one claim that samples suggest; caution and shrinkage are options."""
    claim = np.array([np.exp(epsilon)]), np.array([delta])
    ranks = candidate_ranks(first.size)
    return choose_bets(np.sort(first), np.sort(second), ranks, *claim, (True, True), 1.0, *how)


def draws(pair: KnownPair, seed: int, run: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return pair.draw(np.random.default_rng([seed, run]), size)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
@pytest.mark.parametrize("delta", [pytest.param(0.0, marks=pytest.mark.slow), DELTA])
def test_true_claims_are_rarely_ever_refuted(pair: KnownPair, delta: float) -> None:
    # The claim is exactly true, where refuting it is easiest; any crossing within 2,000 pairs.
    epsilon = truth(pair, delta) + 1e-9
    if delta == 0.0 and pair in (GAUSSIAN, LAPLACE):  # on a grid: infinite, and 1
        epsilon = 12.0 if pair is GAUSSIAN else 1.0
    wrong = 0
    for run in range(30):
        audit = audited([(epsilon, delta)], *draws(pair, 1, run, 2000), confidence=0.8)
        wrong += audit.evidence[0].refuted_after is not None
    assert wrong <= allowed(0.2, 30)


def run_by_hand(first: np.ndarray, second: np.ndarray, epsilon: float, *, foresight: bool) -> bool:
    """Whether a claim falls; with foresight, bets know the samples they are played on."""
    wealth, peak, crossed = np.zeros(2), np.zeros(2), np.zeros(2, dtype=np.int64)
    for start, end in itertools.pairwise([50, 100, 200, 400, 800]):
        seen = end if foresight else start
        bets = bet(first[:seen], second[:seen], epsilon, DELTA, 0.5, 3.0)
        play(first[start:end], second[start:end], bets, start, np.log(10), wealth, peak, crossed)
    return bool(crossed[0] > 0)


def test_harness_catches_a_test_chosen_on_the_current_samples() -> None:
    epsilon = truth(IDENTICAL, DELTA)
    wrong = {
        foresight: sum(
            run_by_hand(*draws(IDENTICAL, 2, run, 800), epsilon, foresight=foresight)
            for run in range(200)
        )
        for foresight in (True, False)
    }
    assert wrong[True] > allowed(0.1, 200)
    assert wrong[False] <= allowed(0.1, 200)


def test_e_values_have_expectation_one_at_most() -> None:
    # At a fixed time and at a stopping time, for a claim that is exactly true. The mean of 120
    # wealths is above 1 + 3 standard errors with probability below 1%.
    epsilon = truth(COIN, DELTA)
    for stop, looks in ((np.inf, 1), (2.0, 20)):
        values = []
        for run in range(120):
            audit = audited([(epsilon, DELTA)])
            for part in zip(*(np.split(x, looks) for x in draws(COIN, 3, run, 400)), strict=True):
                audit.update(*part)
                if audit.evidence[0].e_value >= stop:
                    break
            values.append(audit.evidence[0].e_value)
        error = float(np.std(values)) / np.sqrt(len(values))
        assert np.mean(values) <= 1 + 3 * error


def test_every_payoff_is_fair_or_worse_under_every_claim() -> None:
    # The proof's inequality, on grids of claims, alternatives and null rates.
    generator = np.random.default_rng(4)
    for _ in range(300):
        epsilon, delta = generator.uniform(0, 5), float(generator.choice([0, 1e-3, 0.2]))
        first, second = generator.normal(generator.uniform(0, 4), 1, 50), generator.normal(size=50)
        made = bet(first, second, epsilon, delta, 0.0, 0.1)[0]
        q = np.linspace(0, 1, 201)
        p = np.minimum(delta + np.exp(epsilon) * q, 1.0)
        won = np.exp(made[3:7])
        mean = (p * won[0] + (1 - p) * won[1]) * (q * won[2] + (1 - q) * won[3])
        assert np.all(mean <= 1 + 1e-12)
        if np.any(made):
            assert np.max(mean) > 1 - 1e-2  # nothing is wasted at the nearest null


def test_nearest_null_is_nearest() -> None:
    def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))

    cases = (0.5, 0.1, 2.0, 0.01), (0.9, 0.01, 3.0, 0.0), (0.05, 1e-4, 20, 1e-3)
    for p, q, ratio, delta in cases:
        x = np.linspace(1e-7, (1 - delta) / ratio - 1e-7, 400_001)
        y = delta + ratio * x
        total = divergence(np.full_like(y, p), y) + divergence(np.full_like(x, q), x)
        assert nearest_null(p, q, ratio, delta) == pytest.approx(x[np.argmin(total)], abs=1e-5)


# Factor, and pairs that the best fixed plans need for power .9: Clopper and Pearson's limit on each
# rate, of the best event {x >= t} and split of the error (exact sums over the counts), and the most
# powerful test of both rates against the nearest null (normal approximation).
@pytest.mark.parametrize(
    ("factor", "clopper_pearson", "joint", "runs", "size"),
    [
        (4.0, 249, 126, 100, 1000),
        pytest.param(2.0, 1194, 650, 80, 5000, marks=pytest.mark.slow),
        pytest.param(1.2, 28_288, 16_696, 30, 80_000, marks=pytest.mark.slow),
    ],
)
def test_wrong_claims_fall_soon(
    factor: float, clopper_pearson: int, joint: int, runs: int, size: int
) -> None:
    # Medians are .9 to 1.1 of the joint plan's numbers over 300 to 1,000 other seeds.
    stops = []
    for run in range(runs):
        audit = audited([(TRUTH / factor, DELTA)])
        first, second = draws(GAUSSIAN, 5, run, size)
        for part in range(0, size, size // 20):
            audit.update(first[part : part + size // 20], second[part : part + size // 20])
            if audit.evidence[0].refuted_after is not None:
                break
        stops.append(audit.evidence[0].refuted_after or 10 * size)
    assert np.median(stops) <= clopper_pearson
    assert np.median(stops) <= 1.5 * joint


def test_lower_bound_grows_and_stays_valid() -> None:
    epsilons = np.linspace(0.0, 4.0, 21)
    claims = [(e, DELTA) for e in epsilons.tolist()]
    wrong, last = 0, []
    for run in range(12):
        audit = SequentialAudit(claims, confidence=0.9)
        first, second = draws(GAUSSIAN, 6, run, 20_000)
        bounds = []
        for part in range(0, 20_000, 4000):
            audit.update(first[part : part + 4000], second[part : part + 4000])
            bounds.append(audit.epsilon_lower(DELTA))
        assert np.all(np.diff(bounds) >= 0)
        wrong += bounds[-1] > TRUTH
        last.append(bounds[-1])
    assert wrong <= allowed(0.1, 12)
    assert np.median(last) >= 1.8


def test_claims_beyond_one_that_stands_do_not_count() -> None:
    """They may be refuted by chance; the error is that of the smallest true claim."""
    audit = SequentialAudit([(epsilon, DELTA) for epsilon in (0.0, 1.0, 2.0, 3.0)], confidence=0.9)
    audit._crossed[:4] = 5, 5, 0, 7
    assert audit.epsilon_lower(DELTA) == 1.0


def test_order_can_be_fixed() -> None:
    # BINOMIAL is not symmetric: at delta .01 its orders have epsilons of their own.
    epsilons = {order: float(BINOMIAL.epsilon(np.array([DELTA]), order)[0]) for order in Order}
    weaker, stronger = sorted(Order, key=lambda order: epsilons[order])
    low, high = epsilons[weaker], epsilons[stronger]
    claim = 0.9 * low + 0.1 * high
    first, second = draws(BINOMIAL, 7, 0, 400_000)
    for order in (weaker, stronger, None):
        audit = audited([(claim, DELTA)], first, second, order=order)
        assert (audit.evidence[0].refuted_after is None) is (order is weaker)


def test_same_numbers_however_the_pairs_are_cut() -> None:
    first, second = draws(CLAMPED, 8, 0, 3000)
    claims = [(0.2, DELTA), (0.5, DELTA), (0.5, 0.1)]
    whole, cut = audited(claims, first, second), audited(claims)
    places = 1, 3, 10, 100, 500, 2000
    for part in zip(np.split(first, places), np.split(second, places), strict=True):
        cut.update(*part)
    assert (cut.evidence, cut.together) == (whole.evidence, whole.together)
    with pytest.raises(ValueError, match="samples_prime must hold one score"):
        cut.update([1.0, 2.0], [1.0])  # and is not bet on
    assert cut.pairs == whole.pairs == 3000


def test_claims_together_are_averaged() -> None:
    first, second = draws(GAUSSIAN, 9, 0, 4000)
    audit = audited([(0.5, DELTA), (1.0, DELTA), (5.0, DELTA)], first, second)
    logs = [evidence.log_e_value for evidence in audit.evidence]
    assert audit.together.log_e_value == pytest.approx(logsumexp(logs) - np.log(3))
    alone = [evidence.refuted_after for evidence in audit.evidence]
    assert alone[0] is not None
    assert alone[2] is None
    assert audit.together.refuted_after is not None
    assert audit.together.refuted_after >= min(a for a in alone if a is not None)


def test_trivial_data_and_claims_win_nothing() -> None:
    audit = audited([(0.0, 0.0), (1e9, 0.0), (0.0, 1.0)], np.ones(500), np.ones(500))
    assert [evidence.log_e_value for evidence in audit.evidence] == [0.0, 0.0, 0.0]
    assert audit.epsilon_lower(0.0) == 0.0
    claims = [(0.0, 0.0), (1.0, 0.0), (800.0, 0.0), (0.0, 1.0)]
    audit = audited(claims, np.full(3000, 1e308), np.full(3000, -1e308))
    assert audit.epsilon_lower(0.0) == 1.0
    assert audit.evidence[2].log_e_value == audit.evidence[3].log_e_value == 0.0
    assert audit.evidence[0].e_value == pytest.approx(np.finfo(float).max)
    assert audit.evidence[0].p_value == 0.0
    assert ClaimEvidence(-3.0, 0.0, None).p_value == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: audited(ONE, [1.0, np.nan], [1, 2]), "samples must hold finite numbers only, got"),
        (lambda: audited(ONE, [1, 2], [1, -np.inf]), "samples_prime must hold finite numbers only"),
        (lambda: [*map(audited(ONE).update, [[SINGLE]] * 11, [[0.1]] * 11)], "be of one precision"),
        (lambda: audited([]), "claims must be at least one pair"),
        (lambda: audited([1.0]), "claims must be a sequence of pairs"),
        (lambda: audited([(-1.0, 0.1)]), "epsilon must be a finite number of at least 0, got -1.0"),
        (lambda: audited([(1.0, 1.5)]), r"delta must be in \[0, 1\], got 1.5"),
        (lambda: audited(ONE, confidence=1), r"confidence must be in \(0, 1\), got 1"),
        (lambda: audited(ONE, order="forward"), "order must be an Order"),
        (lambda: audited(ONE).epsilon_lower(0.2), r"delta must be the delta of a claim, got 0\.2"),
        (lambda: Betting(first=3), "first must be a whole number of at least 4, got 3"),
        (lambda: Betting(renewal=1.0), "renewal must be a finite number above 1, got 1.0"),
        (lambda: Betting(pseudo_count=0.0), "pseudo_count must be a positive"),
        (lambda: Betting(shrinkage=-1.0), "shrinkage must be a finite number of at least 0"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
