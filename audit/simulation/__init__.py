"""Monte Carlo: the independent witness for every exact law.

Names are imported when they are used, so that reading a configuration imports no Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.simulation import dimensions
    from audit.simulation.backends import Kind, Parallel, Pool, pool
    from audit.simulation.blocks import Block, Stream, cut_into_blocks, run_in_threads
    from audit.simulation.iterates import (
        WalkCounts,
        count_thresholds,
        final_iterates,
        simulate,
    )
    from audit.simulation.rng import LANES, aligned, compiled_loop, draw, fill_normals, seeded
    from audit.simulation.scheduler import run_job

_DEFINED_IN = {
    "LANES": "rng",
    "Block": "blocks",
    "Kind": "backends",
    "Parallel": "backends",
    "Pool": "backends",
    "Stream": "blocks",
    "WalkCounts": "iterates",
    "aligned": "rng",
    "compiled_loop": "rng",
    "count_thresholds": "iterates",
    "cut_into_blocks": "blocks",
    "draw": "rng",
    "fill_normals": "rng",
    "final_iterates": "iterates",
    "pool": "backends",
    "run_in_threads": "blocks",
    "run_job": "scheduler",
    "seeded": "rng",
    "simulate": "iterates",
}

__all__ = [
    "LANES",
    "Block",
    "Kind",
    "Parallel",
    "Pool",
    "Stream",
    "WalkCounts",
    "aligned",
    "compiled_loop",
    "count_thresholds",
    "cut_into_blocks",
    "dimensions",
    "draw",
    "fill_normals",
    "final_iterates",
    "pool",
    "run_in_threads",
    "run_job",
    "seeded",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "dimensions":
        return importlib.import_module("audit.simulation.dimensions")
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(f"audit.simulation.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
