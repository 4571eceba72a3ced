"""Speeds of the bounds of this package."""

from __future__ import annotations

import time

from audit import bounds
from tests.benchmarks.timing import Measured, median_seconds
from tests.bounds.own.soundness import mechanism


def rows() -> list[Measured]:
    """One row for each measurement; `own.coupling` once its loops are compiled."""
    forgetting = mechanism(0.1, 0.05, 10**9)
    coupling = mechanism(1.0, 0.2, 100)

    def forget() -> object:
        return bounds.evaluate("own.forgetting", forgetting).epsilon(1e-5)

    def couple(steps: int) -> float:
        m = mechanism(1.0, 0.2, steps) if steps != coupling.steps else coupling
        clock = time.perf_counter()
        bounds.evaluate("own.coupling", m).epsilon(1e-5)
        return time.perf_counter() - clock

    compiling = couple(2)
    return [
        Measured("own.forgetting, s/D = .05", median_seconds(forget, 9) * 1e3, "ms", 50),
        Measured("own.coupling, its loops compiled at the first call", compiling, "s"),
        Measured("own.coupling, A = 1, s/D = .2, T = 100", couple(100), "s", 60),
    ]
