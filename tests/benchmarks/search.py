"""How many pairs a search can try."""

from __future__ import annotations

import numpy as np

import audit
from audit.search import Epsilon
from audit.search.evaluation import quick_value
from audit.search.families import Family
from tests.benchmarks.timing import Measured, median_seconds


def rows() -> list[Measured]:
    """One row for each of three mechanisms: exact laws of pairs a second, drift and start alone."""
    found = []
    for name, step_std, steps in (
        ("D/step_std 20, T 10^2", 0.05, 100),
        ("D/step_std 20, T 10^6", 0.05, 10**6),
        ("D/step_std 100, T 10^3", 0.01, 1000),
    ):
        mechanism = audit.NoisySGD(
            steps=steps,
            dataset_size=1000,
            batch_size=1000,
            step_size=1.0,
            noise_std=step_std,
            lipschitz=500 * step_std**2,
            smoothness=1.0,
            diameter=1.0,
        )
        family = Family(mechanism)
        points = np.random.default_rng(1).random((20, len(family.names(0))))
        pairs = [family.pair(point, 0) for point in points]

        def tried(pairs: list[audit.constructions.GradientPair] = pairs) -> None:
            for pair in pairs:
                quick_value(pair, Epsilon(1e-5))

        rate = len(pairs) / median_seconds(tried)
        found.append(Measured(f"pairs tried by a search, {name}", rate, "/s"))
    return found
