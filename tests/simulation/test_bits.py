"""The bits of samples and counts: stored digests, for every backend and processor.

A seed means these bits until `audit.simulation.fingerprint.STREAM` rises. Then, and only then,
``python -m tests.simulation.test_bits`` writes ``bits.json`` anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audit import Batching, NoisySGD
from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    HolderForm,
    HolderPair,
    ResetWalk,
)
from audit.simulation import Parallel, Pool, final_iterates, run_job, simulate, walk_counts
from audit.simulation.fingerprint import software
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Dataset,
    Huber,
    Linear,
    Logistic,
    NoisySGDPair,
    Quadratic,
    WholeSpace,
    final_points,
    linear_score_counts,
)  # fmt: skip
from tests.dimensions import cases as dimensions

from .cases import COMPILED

STORED = Path(__file__).with_name("bits.json")
SEEDS = 0, 7, 2**40 + 1
SIZES = 1_000, 150_000  # a part of a block of walks, and three blocks
FEWER = 1_000, 10_000  # in many dimensions
THRESHOLDS = -0.4, 0.0, 0.25
_WALK: dict[str, Any] = {
    "steps": 12,
    "dataset_size": 6,
    "batch_size": 2,
    "step_size": 0.2,
    "noise_std": 1.0,
    "lipschitz": 2.0,
    "smoothness": 1.0,
    "diameter": 1.0,
}


def walks() -> dict[str, Construction]:
    """Pairs with shifts, slopes, powers and batches that depend on each other."""
    sampled = NoisySGD(**_WALK, batching=Batching.WITHOUT_REPLACEMENT)
    fresh = NoisySGD(**_WALK, batching=Batching.RESHUFFLED)
    cyclic = NoisySGD(**_WALK, batching=Batching.CYCLIC)
    rough = NoisySGD(**{**_WALK, "batch_size": 6, "smoothness": None}, holder=(1.0, 0.5))
    return {
        "biased walk, without replacement": BiasedWalk(sampled),
        "drifted walk, reshuffled": DriftedWalk(fresh, drift=-0.05, start=0.5),
        "reset walk, cyclic": ResetWalk(cyclic, curvature=1.0, cap=1.0),
        "Holder pair, full batches": HolderPair(rough, scale=0.5, form=HolderForm.SIGNED),
    }


def many_dimensions() -> NoisySGDPair:
    """Huber losses on a ball, six dimensions: kernels sum in fours."""
    records = np.random.default_rng(0).normal(size=(6, 6))
    return NoisySGDPair(
        mechanism=NoisySGD(
            steps=5,
            dataset_size=6,
            batch_size=2,
            step_size=0.4,
            noise_std=0.6,
            gradient_sensitivity=20.0,
            smoothness=1.5,
            diameter=1.6,
            batching=Batching.POISSON,
        ),
        loss=Huber(1.5, 0.7),
        dataset=Dataset(records),
        dataset_prime=Dataset(records).replacing(4, [1.0, -1.0, 0.5, 0.0, 0.25, -0.5]),
        domain=Ball(1.6),
    )


def digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of the numbers' bytes, the lowest first."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


def digests(where: Parallel | Pool, seeds: Sequence[int] = SEEDS) -> dict[str, str]:
    """Digests of all samples and counts that a backend draws."""
    found = {}
    for seed in seeds:
        for name, pair in walks().items():
            for trials in SIZES:
                place = f"{name}, seed {seed}, {trials} trials"
                samples = final_iterates(pair, trials=trials, seed=seed, backend=where)
                job = walk_counts(pair, thresholds=THRESHOLDS, trials=trials, seed=seed)
                found[f"iterates: {place}"] = digest(*samples)
                found[f"counts: {place}"] = digest(*run_job(job, backend=where))
        pair, direction = many_dimensions(), np.arange(1.0, 7.0)
        for trials in FEWER:
            place = f"many dimensions, seed {seed}, {trials} trials"
            points = final_points(pair, trials=trials, seed=seed, backend=where)
            run = {"thresholds": THRESHOLDS, "trials": trials, "seed": seed}
            scores = linear_score_counts(pair, direction, **run)
            found[f"points: {place}"] = digest(*points)
            found[f"counts: {place}"] = digest(*run_job(scores, backend=where))
    return found


def other_digests() -> dict[str, str]:
    """Digests of further walks and families of losses, and what random numbers they are of."""
    found = {"random numbers": software()["random numbers"]}
    for name in ("biased", "slopes", "resets, Poisson", "Hölder", "random stop"):
        found[f"walk: {name}"] = digest(simulate(COMPILED[name](), trials=300, seed=1))
    for made in (
        dimensions.pair(Quadratic(0.8), Ball(1.6)),
        dimensions.pair(Huber(1.5, 0.7), Box(0.9), Batching.SHUFFLED),
        dimensions.pair(Clipped(Logistic(0.4), 0.6), WholeSpace(), Batching.POISSON),
        dimensions.pair(Linear(), Ball(1.6), Batching.WITHOUT_REPLACEMENT),
    ):
        points = final_points(made, trials=130, seed=1)
        found[f"points: {type(made.loss).__name__}"] = digest(*points)
    return found


def stored() -> dict[str, str]:
    return dict(json.loads(STORED.read_text(encoding="utf-8")))


# those of processes and clusters: test_processes
@pytest.mark.parametrize("seeds", [SEEDS[:1], pytest.param(SEEDS, marks=pytest.mark.slow)])
def test_bits_are_the_stored_ones(seeds: Sequence[int]) -> None:
    found = digests(Parallel(workers=2), seeds) | other_digests()
    assert found.items() <= stored().items()


if __name__ == "__main__":
    text = json.dumps(digests(Parallel()) | other_digests(), indent=1, ensure_ascii=False) + "\n"
    STORED.write_text(text, encoding="utf-8")
