"""Exact laws, simulation and estimation share no code and agree."""

from __future__ import annotations

import dataclasses

import pytest
from scipy import stats

import audit
from audit import estimation, exact, simulation
from audit.constructions import BiasedWalk, Construction, DriftedWalk, TwoSidedWalk
from tests.mechanisms import noisy_sgd

SEEDS, TRIALS, CONFIDENCE = 40, 4000, 0.9
DELTAS = (1e-2, 1e-3)
# An estimator that errs at exactly its allowed rate crosses this with probability below 1e-4.
MAX_FAILURES = int(stats.binom.isf(1e-4, SEEDS, 1 - CONFIDENCE))

FULL = noisy_sgd(steps=20, dataset_size=20, step_size=0.1, lipschitz=4.0)
SAMPLED = dataclasses.replace(
    FULL, batch_size=4, lipschitz=2.0, batching=audit.Batching.WITHOUT_REPLACEMENT
)
OTHERS = [TwoSidedWalk(SAMPLED), DriftedWalk(SAMPLED, drift=-0.03, start=0.2)]
PAIRS = [BiasedWalk(FULL), *(pytest.param(pair, marks=pytest.mark.slow) for pair in OTHERS)]


def failures(sampled: Construction, computed: Construction) -> int:
    """Count the seeds at which a certified epsilon lies above the exact one."""
    curve = exact.curve(computed)
    limits = {delta: curve.epsilon_bracket(delta)[1] for delta in DELTAS}
    count = 0
    for seed in range(SEEDS):
        x, x_prime = simulation.final_iterates(sampled, trials=TRIALS, seed=seed)
        audited = estimation.audit_samples(
            x, x_prime, confidence=CONFIDENCE, deltas=DELTAS, seed=seed
        )
        count += any(audited.epsilon_lower(d) > limit for d, limit in limits.items())
    return count


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_certified_bounds_stay_below_exact_values(pair: Construction) -> None:
    assert failures(pair, pair) <= MAX_FAILURES


def test_a_wrong_law_is_noticed() -> None:
    """Samples of a walk whose jumps are half again as long as the exact law believes."""
    longer = dataclasses.replace(FULL, lipschitz=6.0)
    assert failures(BiasedWalk(longer), BiasedWalk(FULL)) > MAX_FAILURES
