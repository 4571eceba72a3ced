"""The package's estimators that read the samples in another way: in pairs, or as one run."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from audit.estimation import Betting, SequentialAudit, credible_epsilon, one_run_epsilon

from .estimators import Estimator
from .mechanisms import DELTAS, Mechanism

Array = NDArray[np.float64]

_BETTING = Betting(renewal=1.5)  # validity does not depend on it, and it is quick


def sequential(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Bets on pairs as they come; the largest claim is barely true, and the others false."""
    size = min(x.size, y.size)
    top = min(float(_true_epsilon(mechanism)), 20.0) + 2e-6
    claims = [(top * share, 1e-2) for share in (0.0, 0.5, 1.0)]
    bets = SequentialAudit(claims, confidence=confidence, betting=_BETTING)
    bets.update(x[:size], y[:size])
    return _only(1e-2, bets.epsilon_lower(1e-2))


def one_run(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """Each pair is a canary: a coin says which of its two scores the adversary sees."""
    size = min(x.size, y.size)
    coins = np.random.default_rng([seed, 1]).random(size) < 0.5
    seen = np.where(coins, x[:size], y[:size])
    low, high = _ends(mechanism)
    guessed = (seen >= high) | (seen < low)
    correct = int(np.sum(guessed & ((seen >= high) == coins)))
    return _only(1e-5, _one_run(correct, int(np.sum(guessed)), size, confidence))


@cache
def _one_run(correct: int, guesses: int, canaries: int, confidence: float) -> float:
    bound = one_run_epsilon(correct, guesses, canaries=canaries, delta=1e-5, confidence=confidence)
    return bound.value


@cache
def _true_epsilon(mechanism: Mechanism) -> float:
    return float(mechanism.epsilon_of_thresholds()[DELTAS == 1e-2][0])


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


_FEW = ("identical normal", "Laplace", "Gaussian mu=1", "randomised response")
LISTED = (
    Estimator("sequential, delta 1e-2", sequential),
    Estimator("one run, delta 1e-5", one_run),
    Estimator(
        "credible quantile (claims no coverage)", credible, beside=True, only=_FEW, share=0.1
    ),
)
