"""A scenario that runs in seconds and has every part of a large one."""

from __future__ import annotations

import math
from typing import Any

import audit
from audit.constructions import BiasedWalk, TwoSidedWalk
from audit.scenario import PairSetting, Scenario


def mechanism(**changes: Any) -> audit.NoisySGD:
    """Like the paper's constants, with a twentieth of the steps and the domain."""
    values: dict[str, Any] = {
        "steps": 375,
        "dataset_size": 10,
        "batch_size": 1,
        "step_size": 0.02,
        "noise_std": math.sqrt(1e-3 / 375) / 0.02,
        "lipschitz": 1.0,
        "gradient_sensitivity": 1.0,
        "smoothness": 1.0,
        "diameter": 1.0,
        "batching": audit.Batching.WITHOUT_REPLACEMENT,
    }
    return audit.NoisySGD(**{**values, **changes})


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
        bounds=(
            "at22.b_1",
            "bsa24.theorem_4_1",
            "bsa24.theorem_4_3",
            "bsa24.theorem_4_8",
            "bsa24.theorem_4_10",
        ),
        confidence=0.95,
        seed=3,
        threads=2,
    )
