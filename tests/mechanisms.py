"""Mechanisms of tests, by what sets them apart."""

from __future__ import annotations

from typing import Any

from audit import Batching, NoisySGD, Relation, Release


def noisy_sgd(**changes: Any) -> NoisySGD:
    """Return one step of size 1 on one record, with sigma = L = M = D = 1, but for ``changes``.

    Batches have one record, or all of them where they are full.
    """
    full = changes.get("batching", Batching.FULL) is Batching.FULL
    values: dict[str, Any] = {
        "steps": 1,
        "dataset_size": 1,
        "batch_size": changes.get("dataset_size", 1) if full else 1,
        "step_size": 1.0,
        "noise_std": 1.0,
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "diameter": 1.0,
    }
    return NoisySGD(**{**values, **changes})


def dp_sgd(**changes: Any) -> NoisySGD:
    """Return 20 steps of DP-SGD with all iterates, but for ``changes``.

    Batches of 10 of 100 records are Poisson samples, and sigma is the clipping norm over 10.
    """
    values: dict[str, Any] = {
        "steps": 20,
        "dataset_size": 100,
        "batch_size": 10,
        "step_size": 1.0,
        "noise_std": 0.1,
        "clip_norm": 1.0,
        "convex": False,
        "batching": Batching.POISSON,
        "relation": Relation.ADD_REMOVE,
        "release": Release.ALL_ITERATES,
    }
    return NoisySGD(**{**values, **changes})
