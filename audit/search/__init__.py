"""Worst-case search: the admissible pair that is easiest to distinguish."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.search.admissible import check_admissible
    from audit.search.found_pairs import StoredPair, read_found, to_yaml, write_found
    from audit.search.objectives import (
        ClaimedEpsilon,
        Epsilon,
        Objective,
        RenyiDivergence,
        tightest_bound,
    )
    from audit.search.optimizer import Found, worst_case

_MODULES = {
    "ClaimedEpsilon": "objectives",
    "Epsilon": "objectives",
    "Found": "optimizer",
    "Objective": "objectives",
    "RenyiDivergence": "objectives",
    "StoredPair": "found_pairs",
    "check_admissible": "admissible",
    "read_found": "found_pairs",
    "tightest_bound": "objectives",
    "to_yaml": "found_pairs",
    "worst_case": "optimizer",
    "write_found": "found_pairs",
}

__all__ = [
    "ClaimedEpsilon",
    "Epsilon",
    "Found",
    "Objective",
    "RenyiDivergence",
    "StoredPair",
    "check_admissible",
    "read_found",
    "tightest_bound",
    "to_yaml",
    "worst_case",
    "write_found",
]


def __getattr__(name: str) -> Any:
    """Load a module when one of its names is first used: reading a scenario needs none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
