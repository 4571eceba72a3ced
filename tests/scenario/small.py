"""A scenario that runs in seconds and has every part of a large one."""

from __future__ import annotations

import math
from typing import Any

import audit
from audit.constructions import BiasedWalk, TwoSidedWalk
from audit.scenario import PairSetting, Scenario
from tests.mechanisms import noisy_sgd


def mechanism(**changes: Any) -> audit.NoisySGD:
    """Like the paper's constants, with a twentieth of the steps and the domain."""
    values: dict[str, Any] = {
        "steps": 375,
        "dataset_size": 10,
        "step_size": 0.02,
        "noise_std": math.sqrt(1e-3 / 375) / 0.02,
        "gradient_sensitivity": 1.0,
        "batching": audit.Batching.WITHOUT_REPLACEMENT,
    }
    return noisy_sgd(**{**values, **changes})


def scenario(**changes: Any) -> Scenario:
    """One setting with a second pair."""
    m = mechanism(steps=40, noise_std=0.33)
    values: dict[str, Any] = {
        "name": "small",
        "title": "A small setting",
        "summary": "",
        "pair": BiasedWalk(m),
        "other_pairs": (TwoSidedWalk(m),),
        "deltas": (1e-2, 1e-5),
        "renyi_orders": (2.0, 100.0),
        "trials": 5000,
        "steps_shown": (10, 80),
    }
    return Scenario(
        name="small",
        title="Small",
        summary="For tests.",
        reference="",
        settings=(PairSetting(**{**values, **changes}),),
        bounds=("at22.b_1", *(f"bsa24.theorem_4_{i}" for i in (1, 3, 8, 10))),
        confidence=0.95,
        seed=3,
        threads=2,
    )
