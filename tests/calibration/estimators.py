"""What is repeated: each estimator turns two samples into lower bounds at every delta."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import GaussianCurve
from audit.estimation import (
    FixedThresholds,
    PilotSplit,
    Rates,
    SimultaneousBand,
    Summary,
    audit_counts,
    audit_samples,
    rate_lower,
    rate_upper,
)
from audit.estimation.events import Tail, count_event
from audit.estimation.regions import Counts, JointShape, joint

from .mechanisms import DELTAS, Mechanism

Array = NDArray[np.float64]
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


def pilot_named(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """A tenth of the samples chooses, one delta is named, the joint test bounds its rates."""
    found = audit_samples(x, y, confidence=confidence, deltas=(1e-2,), seed=seed)
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
    bounds = [joint(c, error, JointShape(1.127, 0.01)).epsilon(DELTAS)[0] for c in sides]
    return np.maximum(np.max(bounds, axis=0), 0.0)


def epsilon_from_mu(
    x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism
) -> Array:
    """A certified mu turned into an epsilon, as if every mechanism were Gaussian."""
    mu = audit_samples(x, y, confidence=confidence, thresholds=SimultaneousBand()).mu_lower()
    return np.asarray(GaussianCurve(mu).epsilon(DELTAS))


def _largest(low: Array, high: Array) -> Array:
    gap = np.maximum(low - DELTAS[:, None], 1e-300)
    return np.maximum(np.max(np.log(gap) - np.log(np.maximum(high, 1e-300)), axis=1), 0.0)


_FEW = ("identical normal", "randomised response")
OURS = (
    Estimator("pilot split, delta 1e-2 named", pilot_named),
    Estimator("simultaneous band", band),
    Estimator("fixed thresholds", fixed),
    Estimator("merged counts", merged),
    Estimator(
        "pilot split, separate rates",
        pilot_separate,
        only=_FEW,
    ),
    Estimator("fixed thresholds, joint test", fixed_joint, only=_FEW),
)
PLANTED = (
    Estimator(
        "planted: thresholds reused",
        reused_thresholds,
        planted=True,
        only=("identical normal", "Gaussian mu=1", "Laplace"),
        share=0.2,
    ),
    Estimator("planted: one direction unpaid", unpaid_direction, planted=True, only=("Laplace",)),
    Estimator(
        "planted: epsilon made from mu", epsilon_from_mu, planted=True, only=("Laplace",), share=0.2
    ),
)
