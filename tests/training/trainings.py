"""Trainings that tests audit: DP-SGD on a small regression, correct, wrong and crashing.

Ten records, linear regression in two dimensions, gradients clipped to norm 1, two batches in turn.
The canary is an eleventh record in the first batch, far out, so that its clipped gradient has norm
1 wherever the iterate is. With noise multiplier sigma on the sum of gradients, and all iterates
released, k uses of it are sqrt(k)/sigma-GDP for the canary in or out (Dong, Roth and Su 2022).
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.training import gradient_score

Array = NDArray[np.float64]

STEPS, NOISE_MULTIPLIER, STEP_SIZE, CLIP_NORM = 4, math.sqrt(2), 0.5, 1.0
USES = STEPS // 2
MU = math.sqrt(USES) / NOISE_MULTIPLIER
RECORDS = np.random.default_rng(0).normal(size=(10, 2))
TARGETS = RECORDS @ np.array([1.0, -1.0])
CANARY, CANARY_TARGET = np.array([0.0, 30.0]), -1000.0
MISTAKES = ("no clipping", "noise of the average", "noise reused")


def gradients(weights: Array, batch: int, canary: bool) -> Array:
    """Gradients of the squared errors of a batch, a row a record; the canary's is the last."""
    records, targets = RECORDS[batch::2], TARGETS[batch::2]
    if canary and batch == 0:
        records, targets = np.vstack([records, CANARY]), np.append(targets, CANARY_TARGET)
    return np.asarray((records @ weights - targets)[:, None] * records)


def clipped(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, CLIP_NORM / np.maximum(norms, 1e-300)))


def steps(canary: bool, seed: int, mistake: str = "") -> Iterator[float]:
    """Yield the score of each step: the noisy gradient without the others' against the canary's."""
    draws = np.random.default_rng(seed)
    weights, noise = np.zeros(2), np.zeros(2)
    for step in range(STEPS):
        batch = step % 2
        rows = gradients(weights, batch, canary)
        rows = rows if mistake == "no clipping" else clipped(rows)
        if batch == 0 or mistake != "noise reused":
            noise = NOISE_MULTIPLIER * CLIP_NORM * draws.normal(size=2)
        scale = 1 / 5 if mistake == "noise of the average" else 1.0  # of a batch of five
        noisy = rows.sum(axis=0) + scale * noise
        known = clipped(gradients(weights, batch, canary=False)).sum(axis=0)
        own = clipped(gradients(weights, 0, canary=True))[-1]
        yield gradient_score(noisy - known, own)
        weights = weights - STEP_SIZE * noisy / len(RECORDS)


def score(canary: bool, seed: int, mistake: str = "") -> float:
    """Return the sum over the steps that use the canary."""
    return sum(list(steps(canary, seed, mistake))[::2])


def many(included: NDArray[np.bool_], seed: int, mistake: str = "") -> Iterator[Array]:
    """Yield scores of canaries that each have a coordinate of their own: mu = MU for each."""
    draws = np.random.default_rng(seed)
    std = NOISE_MULTIPLIER / (5 if mistake == "noise of the average" else 1)
    for _ in range(USES):
        yield included + std * draws.normal(size=included.size)


def slow(canary: bool, seed: int, pause: float = 0.05) -> float:
    """Take a while."""
    time.sleep(pause)
    return score(canary, seed)


def fails_at(canary: bool, seed: int, how: str = "raise", at: int = 0) -> Any:
    """Fail in some way for the one seed ``at``."""
    returned: dict[str, Any] = {
        "nan": math.nan,
        "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
        "text": "a score",
        "none": None,
        "midway": (int("one") for _ in range(2)),
        "nothing": iter(()),
    }
    if seed != at:
        return float(canary)
    if how == "raise":
        raise RuntimeError("loss diverged")
    if how == "exit":
        os._exit(3)
    if how == "hang":
        time.sleep(60)
    return returned[how]


def constant(canary: bool, seed: int) -> float:
    """Return what says nothing."""
    return 1.0


def wrong_sign(canary: bool, seed: int) -> float:
    """Return minus the score."""
    return -score(canary, seed)


def without_canary(canary: bool, seed: int) -> float:
    """Leave the canary out of the training."""
    return score(canary=False, seed=seed)


def many_without_canaries(included: NDArray[np.bool_], seed: int) -> Array:
    """Leave the canaries out of the training."""
    return np.asarray(sum(many(np.zeros_like(included), seed)))


def largest(canary: bool, seed: int) -> float:
    """Return the largest numbers that there are."""
    return math.copysign(1.7e308, score(canary, seed) - MU)


def of_the_process(canary: bool, seed: int) -> list[float]:
    """Draw from the generators of the process, without a seed."""
    return [canary + np.random.normal(), random.random()]  # noqa: NPY002


DRAWS = np.random.default_rng(5)


def of_draws(canary: bool, seed: int) -> float:
    """Draw from a generator of this module, which no seed reaches."""
    return canary + float(DRAWS.normal())


def of_the_module(canary: bool, seed: int) -> float:
    """Draw from a generator that another process has in the same state."""
    return canary + float(np.random.default_rng(seed % 40).normal())


def of_one_side(canary: bool, seed: int, side: bool) -> float:
    """Draw from a generator of the module with the canary, or without it."""
    return float((DRAWS if canary == side else np.random.default_rng(seed)).normal())


def many_again(included: NDArray[np.bool_], seed: int) -> Iterator[Array]:
    """Give every training the same noise."""
    return many(included, 1)


def in_one_array(canary: bool, seed: int) -> Iterator[Array]:
    """Yield the scores of `steps` in one array that is used again."""
    own = np.zeros(1)
    for score in steps(canary, seed):
        own[0] = score
        yield own


def many_of_wrong_sign(included: NDArray[np.bool_], seed: int) -> Array:
    """Return minus the scores."""
    return np.asarray(-sum(many(included, seed)))


def process(canary: bool, seed: int) -> float:
    """Return the number of the process that trains."""
    return float(os.getpid())


def inside(canary: bool, seed: int) -> float:
    """Return the variable that marks processes that train."""
    return float(os.environ["AUDIT_TRAINING"])
