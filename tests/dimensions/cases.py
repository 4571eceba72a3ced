"""Pairs of every loss, domain and batching that the tests run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import audit
from audit import Batching, Relation
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Dataset,
    Domain,
    Huber,
    Linear,
    Logistic,
    Loss,
    NoisySGDPair,
    Quadratic,
    WholeSpace,
)

D = 6  # not a multiple of 4: kernels sum in fours
N = 9
BATCH = {Batching.FULL: N, Batching.POISSON: 4}  # others: 3

LOSSES: dict[str, Loss] = {
    "linear": Linear(),
    "quadratic": Quadratic(0.8),
    "quadratic, by coordinate": Quadratic((0.0, 0.3, 0.6, 0.9, 1.2, 1.5)),
    "Huber": Huber(1.5, 0.7),
    "logistic": Logistic(),
    "logistic, regularised": Logistic(0.4),
    "clipped quadratic": Clipped(Quadratic(0.8), 0.9),
    "clipped Huber": Clipped(Huber(1.5, 0.7), 0.5),
    "clipped logistic": Clipped(Logistic(0.4), 0.6),
}
DOMAINS: dict[str, Domain] = {"whole space": WholeSpace(), "ball": Ball(1.6), "box": Box(0.9)}


def rows(loss: Loss, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    found = rng.normal(size=(n, d))
    if isinstance(loss.unclipped, Logistic):
        return Logistic.rows(found, rng.choice([-1.0, 1.0], size=n))
    return found


def mechanism(**changes: Any) -> audit.NoisySGD:
    given: dict[str, Any] = {
        "steps": 14,
        "dataset_size": N,
        "batch_size": 3,
        "step_size": 0.4,
        "noise_std": 0.6,
        "gradient_sensitivity": 80.0,
        "batching": Batching.CYCLIC,
    }
    return audit.NoisySGD(**{**given, **changes})


def pair(
    loss: Loss,
    domain: Domain,
    batching: Batching = Batching.CYCLIC,
    *,
    relation: Relation = Relation.REPLACE_ONE,
    seed: int = 0,
    **changes: Any,
) -> NoisySGDPair:
    """Records at random, of which some are equal; record 4 differs."""
    rng = np.random.default_rng(seed)
    records = rows(loss, N, D, rng)
    records[6:8] = records[1]
    dataset = Dataset(records)
    other = dataset.zeroing(4)
    if relation is Relation.REPLACE_ONE:
        other = dataset.replacing(4, rows(loss, 1, D, rng)[0])
    diameter = domain.diameter_in(D)
    m = mechanism(
        batching=batching,
        batch_size=BATCH.get(batching, 3),
        relation=relation,
        diameter=None if math.isinf(diameter) else diameter,
        clip_norm=loss.clip,
        gradient_sensitivity=None if loss.clip else 80.0,
        **changes,
    )
    start = np.full(D, 0.2)
    return NoisySGDPair(
        mechanism=m, loss=loss, dataset=dataset, dataset_prime=other, domain=domain, start=start
    )
