"""Monte Carlo: the independent witness for every exact law."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.simulation.backends import Kind, Parallel, Pool, pool
    from audit.simulation.iterates import (
        WalkCounts,
        count_thresholds,
        final_iterates,
        simulate,
    )
    from audit.simulation.scheduler import run_job

_DEFINED_IN = {
    "Kind": "backends",
    "Parallel": "backends",
    "Pool": "backends",
    "WalkCounts": "iterates",
    "count_thresholds": "iterates",
    "final_iterates": "iterates",
    "pool": "backends",
    "run_job": "scheduler",
    "simulate": "iterates",
}
_MODULES = ("blocks", "dimensions", "rng")

__all__ = [
    "Kind",
    "Parallel",
    "Pool",
    "WalkCounts",
    "count_thresholds",
    "final_iterates",
    "pool",
    "run_job",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"audit.simulation.{name}")
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(f"audit.simulation.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
