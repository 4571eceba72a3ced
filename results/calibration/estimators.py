"""The estimators that are calibrated; each turns two samples into lower bounds at every delta."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from audit.curves import GaussianCurve, Order
from audit.estimation import (
    BestColumn,
    Betting,
    Canaries,
    FixedThresholds,
    GuessCounts,
    PilotSplit,
    Rates,
    SequentialAudit,
    SimultaneousBand,
    Summary,
    audit_counts,
    audit_one_run,
    audit_samples,
    credible_epsilon,
    one_run_bound,
    rate_lower,
    rate_upper,
)
from audit.estimation.evidence import Tail, count_event
from audit.estimation.regions import Counts, JointShape, joint
from results.calibration.mechanisms import DELTAS, Mechanism

Array = NDArray[np.float64]

_BETTING = Betting(renewal=1.5)  # validity does not depend on it, and it is quick
# (samples, samples_prime, confidence, seed, mechanism) -> lower bounds at DELTAS; 0 where none
Bound = Callable[[Array, Array, float, int, Mechanism], Array]


@dataclass(frozen=True)
class Estimator:
    """An estimator, and whether it is one of the mistakes that the harness must catch."""

    name: str
    bound: Bound
    planted: bool = False
    beside: bool = False  # no bound of this package
    only: tuple[str, ...] = ()  # mechanisms; all where empty
    share: float = 1.0  # of the repeats: what is slow, or wrong by far, needs fewer
    package: str = ""  # another distribution that must be installed


_MANY = 20_000


def ranks(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """The default at this size: thresholds at order statistics, either law may be favoured."""
    found = audit_samples(x, y, confidence=confidence, seed=seed)
    return np.asarray(found.epsilon_lower(DELTAS))


def ranks_declared(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """The same, where high scores are declared to favour the first law, rightly or wrongly."""
    found = audit_samples(x, y, confidence=confidence, seed=seed, favours=Order.FORWARD)
    return np.asarray(found.epsilon_lower(DELTAS))


def pilot_named(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """A tenth of the samples chooses, one delta is named, the joint test bounds its rates."""
    plan = PilotSplit()
    found = audit_samples(x, y, confidence=confidence, deltas=(1e-2,), seed=seed, thresholds=plan)
    return np.asarray(found.epsilon_lower(DELTAS))


def pilot_zero(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """A pilot split that names delta = 0."""
    plan = PilotSplit()
    found = audit_samples(x, y, confidence=confidence, deltas=(0.0,), seed=seed, thresholds=plan)
    return np.asarray(found.epsilon_lower(DELTAS))


def pilot_separate(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """The same with Clopper and Pearson's limit on each rate of the named delta."""
    plan = PilotSplit(rates=Rates.SEPARATE)
    found = audit_samples(x, y, confidence=confidence, deltas=(1e-2,), seed=seed, thresholds=plan)
    return np.asarray(found.epsilon_lower(DELTAS))


def band(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """All thresholds at once, all samples certify."""
    found = audit_samples(x, y, confidence=confidence, thresholds=SimultaneousBand())
    return np.asarray(found.epsilon_lower(DELTAS))


def band_declared(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """The same with one side a law: high scores are declared to favour the first law."""
    choice = SimultaneousBand(favours=(Order.FORWARD,))
    found = audit_samples(x, y, confidence=confidence, thresholds=choice)
    return np.asarray(found.epsilon_lower(DELTAS))


def fixed(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Up to eight thresholds chosen beforehand, Clopper and Pearson's limit on each rate."""
    choice = FixedThresholds(mechanism.fixed)
    found = audit_samples(x, y, confidence=confidence, thresholds=choice)
    return np.asarray(found.epsilon_lower(DELTAS))


def fixed_joint(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Three thresholds chosen beforehand, a joint test for each."""
    choice = FixedThresholds(mechanism.fixed[-3:], rates=Rates.JOINT)
    found = audit_samples(x, y, confidence=confidence, thresholds=choice)
    return np.asarray(found.epsilon_lower(DELTAS))


def merged(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Three blocks, each counted by itself, stored as JSON and added up."""
    blocks = [
        json.dumps(Summary.of(a, b, mechanism.fixed, source=f"block {k}").to_dict())
        for k, (a, b) in enumerate(zip(np.array_split(x, 3), np.array_split(y, 3), strict=True))
    ]
    first, *rest = (Summary.from_dict(json.loads(block)) for block in blocks)
    found = audit_counts(sum(rest, first), confidence=confidence)
    return np.asarray(found.epsilon_lower(DELTAS))


def reused_thresholds(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """The best of all thresholds in the samples, each at full confidence: nothing is paid."""
    error, t = 1 - confidence, np.unique(np.concatenate([x, y]))
    p, q = (count_event(np.sort(s), Tail.AT_LEAST, t) for s in (x, y))
    forward = _largest(rate_lower(p, x.size, error / 2), rate_upper(q, y.size, error / 2))
    reverse = _largest(rate_lower(q, y.size, error / 2), rate_upper(p, x.size, error / 2))
    return np.maximum(forward, reverse)


def unpaid_ranks(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """The best of all ranks with the full error each: nothing is paid."""
    found = audit_samples(x, y, confidence=confidence, seed=seed)
    unpaid = tuple(replace(test, error=1 - confidence) for test in found.tests)
    return np.asarray(replace(found, tests=unpaid).epsilon_lower(DELTAS))


def unpaid_direction(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """One threshold fixed beforehand for each order of the pair, and full error for both."""
    # More draws than the others get: counts are then nearly continuous, and each of the two tests
    # errs nearly as often as it says. The angles suit the expected counts.
    generator, error = np.random.default_rng([seed, 3]), 1 - confidence
    x, y = mechanism.draw_first(generator, _MANY), mechanism.draw_second(generator, _MANY)
    sides = (
        Counts(int(np.sum(x >= 1)), _MANY, int(np.sum(y >= 1)), _MANY),
        Counts(int(np.sum(y <= 0)), _MANY, int(np.sum(x <= 0)), _MANY),
    )
    regions = joint(sides, error, JointShape(1.127, 0.01))
    bounds = [np.min(region.epsilons(DELTAS), axis=-1) for region in regions]
    return np.asarray(np.maximum(np.max(bounds, axis=0), 0.0))


def epsilon_from_mu(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """A certified mu turned into an epsilon, as if every mechanism were Gaussian."""
    mu = audit_samples(x, y, confidence=confidence, thresholds=SimultaneousBand()).mu_lower()
    named = DELTAS > 0
    return np.where(named, GaussianCurve(mu).epsilon(np.where(named, DELTAS, 0.5)), 0.0)


def _largest(low: Array, high: Array) -> Array:
    gap = np.maximum(low - DELTAS[:, None], 1e-300)
    loss = np.log(gap) - np.log(np.maximum(high, 1e-300))
    return np.asarray(np.maximum(np.max(loss, axis=1), 0.0))


# Of the repeats, for what takes 10 ms an audit and more.
_SLOW = 0.2
_FEW = ("identical normal", "randomised response")
_PURE = ("identical normal", "identical coin", "Laplace", "randomised response", "discrete Laplace")
OURS = (
    Estimator("order statistics", ranks),
    Estimator("order statistics, direction declared", ranks_declared),
    Estimator("pilot split, delta 1e-2 named", pilot_named, share=_SLOW),
    Estimator("pilot split, delta 0 named", pilot_zero, only=_PURE, share=_SLOW),
    Estimator("simultaneous band", band),
    Estimator("simultaneous band, direction declared", band_declared, only=_PURE),
    Estimator("fixed thresholds", fixed),
    Estimator("merged counts", merged),
    Estimator(
        "pilot split, separate rates",
        pilot_separate,
        only=_FEW,
        share=_SLOW,
    ),
    Estimator("fixed thresholds, joint test", fixed_joint, only=_FEW, share=_SLOW),
)
PLANTED = (
    Estimator(
        "planted: thresholds reused",
        reused_thresholds,
        planted=True,
        only=("identical normal", "Gaussian mu=1", "Laplace"),
        share=0.2,
    ),
    Estimator(
        "planted: ranks unpaid",
        unpaid_ranks,
        planted=True,
        only=("identical normal", "Laplace"),
        share=0.2,
    ),
    Estimator("planted: one direction unpaid", unpaid_direction, planted=True, only=("Laplace",)),
    Estimator(
        "planted: epsilon made from mu", epsilon_from_mu, planted=True, only=("Laplace",), share=0.2
    ),
)


def sequential(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Bets on pairs as they come; the largest claim is barely true, and the others false."""
    return _bets(x, y, confidence, mechanism, 1e-2)


def sequential_zero(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """Bets against claims at delta = 0."""
    return _bets(x, y, confidence, mechanism, 0.0)


def _bets(x: Array, y: Array, confidence: float, mechanism: Mechanism, delta: float) -> Array:
    size = min(x.size, y.size)
    top = min(_true_epsilon(mechanism, delta), 20.0) + 2e-6
    claims = [(top * share, delta) for share in (0.0, 0.5, 1.0)]
    bets = SequentialAudit(claims, confidence=confidence, betting=_BETTING)
    bets.update(x[:size], y[:size])
    return _only(delta, bets.epsilon_lower(delta))


def one_run(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Each pair is a canary: a coin says which of its two scores the adversary sees."""
    size = min(x.size, y.size)
    coins = np.random.default_rng([seed, 1]).random(size) < 0.5
    seen = np.where(coins, x[:size], y[:size])
    low, high = _ends(mechanism)
    guessed = (seen >= high) | (seen < low)
    correct = int(np.sum(guessed & ((seen >= high) == coins)))
    return _only(1e-5, _one_run(correct, int(np.sum(guessed)), size, confidence))


def independent_canaries(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """The same pairs as canaries that are independent of each other, which they are."""
    size = min(x.size, y.size)
    coins = np.random.default_rng([seed, 1]).random(size) < 0.5
    found = audit_one_run(
        np.where(coins, x[:size], y[:size]),
        coins,
        delta=1e-2,
        confidence=confidence,
        seed=seed,
        canaries=Canaries.INDEPENDENT,
    )
    values = [
        _independent(one.counts.correct, one.counts.guesses, found.canaries, 1 - one.error)
        for one in found.counted
    ]
    return np.asarray(np.max(values, axis=0))


def unpaid_guesses(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """The best of eight numbers of guesses, each at full confidence: nothing is paid."""
    size = min(x.size, y.size)
    coins = np.random.default_rng([seed, 1]).random(size) < 0.5
    seen = np.where(coins, x[:size], y[:size])
    by_score = coins[np.argsort(seen, kind="stable")]
    values = []
    for k in (5, 10, 20, 35, 50, 75, 100, size // 2):
        correct = int(np.sum(by_score[-k:]) + np.sum(~by_score[:k]))
        values.append(_independent(correct, 2 * k, size, confidence))
    return np.asarray(np.max(values, axis=0))


def columns_learned(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """Three numbers a run, two of them noise alone: a part of the runs learns how to weigh them."""
    found = audit_samples(*_wide(x, y, seed, 2), confidence=confidence, deltas=(1e-2,), seed=seed)
    return np.asarray(found.epsilon_lower(DELTAS))


def best_column(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Five numbers a run, four of them noise alone: a part of the runs finds the one."""
    found = audit_samples(
        *_wide(x, y, seed, 4),
        confidence=confidence,
        deltas=(1e-2,),
        seed=seed,
        columns=BestColumn(),
    )
    return np.asarray(found.epsilon_lower(DELTAS))


def unpaid_columns(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Forty columns are weighed on the very runs that certify: nothing is paid."""
    a, b = _wide(x, y, seed, 39)
    weights = np.mean(a, axis=0) - np.mean(b, axis=0)
    found = audit_samples(a @ weights, b @ weights, confidence=confidence, seed=seed)
    return np.asarray(found.epsilon_lower(DELTAS))


def _wide(x: Array, y: Array, seed: int, noise: int) -> tuple[Array, Array]:
    generator = np.random.default_rng([seed, 2])
    first, second = (
        np.column_stack([sample, generator.normal(size=(sample.size, noise))]) for sample in (x, y)
    )
    return first, second


@cache
def _independent(correct: int, guesses: int, canaries: int, confidence: float) -> Array:
    return np.array(
        [
            one_run_bound(
                GuessCounts(correct, guesses, canaries),
                canaries=Canaries.INDEPENDENT,
                delta=float(delta),
                confidence=confidence,
            ).value
            for delta in DELTAS
        ]
    )


@cache
def _one_run(correct: int, guesses: int, canaries: int, confidence: float) -> float:
    bound = one_run_bound(
        GuessCounts(correct, guesses, canaries),
        canaries=Canaries.ARBITRARY,
        delta=1e-5,
        confidence=confidence,
    )
    return bound.value


@cache
def _true_epsilon(mechanism: Mechanism, delta: float) -> float:
    return float(mechanism.epsilon_of_thresholds()[delta == DELTAS][0])


def credible(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """A lower quantile of the posterior, read as if it were a bound, which it does not claim."""
    threshold = mechanism.fixed[len(mechanism.fixed) // 2]
    hits, false = int(np.sum(x >= threshold)), int(np.sum(y >= threshold))
    found = credible_epsilon(hits, false, y.size - false, x.size - hits, delta=1e-2)
    return _only(1e-2, float(found.quantile(1 - confidence)))


def _ends(mechanism: Mechanism) -> tuple[float, float]:
    """Guess "out" below the one and "in" from the other on."""
    middle = len(mechanism.fixed) // 2
    return mechanism.fixed[max(0, middle - 1)], mechanism.fixed[middle]


def _only(delta: float, value: float) -> Array:
    return np.where(delta == DELTAS, value, 0.0)


_BESIDE = ("identical normal", "Laplace", "Gaussian mu=1", "randomised response")
PAIRED = (
    Estimator("sequential, delta 1e-2", sequential, share=_SLOW),
    Estimator("sequential, delta 0", sequential_zero, only=_PURE, share=_SLOW),
    Estimator("one run, delta 1e-5", one_run),
    Estimator("one run, independent canaries", independent_canaries),
    Estimator("three columns, learned weights", columns_learned, only=_BESIDE, share=0.1),
    Estimator("best of five columns", best_column, only=_BESIDE, share=0.1),
    Estimator(
        "planted: columns unpaid",
        unpaid_columns,
        planted=True,
        only=("identical normal",),
        share=0.05,
    ),
    Estimator("planted: guesses unpaid", unpaid_guesses, planted=True, only=("identical normal",)),
    Estimator(
        "credible quantile (claims no coverage)", credible, beside=True, only=_BESIDE, share=0.1
    ),
)
