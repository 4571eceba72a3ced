"""Noisy-SGD Audit: lower bounds on the privacy loss of Noisy-SGD's last iterate."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit import (
        bounds,
        claims,
        constructions,
        curves,
        estimation,
        exact,
        report,
        scenario,
        search,
        simulation,
        testing,
    )
    from audit.bounds import NotApplicable
    from audit.curves import Order
    from audit.mechanism import Batching, NoisySGD, Relation, Release

__version__ = "0.1.0"

_ROOMS = (
    "bounds",
    "claims",
    "constructions",
    "curves",
    "estimation",
    "exact",
    "report",
    "scenario",
    "search",
    "simulation",
    "testing",
)
_MECHANISM = ("Batching", "NoisySGD", "Relation", "Release")

__all__ = [
    "Batching",
    "NoisySGD",
    "NotApplicable",
    "Order",
    "Relation",
    "Release",
    "__version__",
    "bounds",
    "claims",
    "constructions",
    "curves",
    "estimation",
    "exact",
    "report",
    "scenario",
    "search",
    "simulation",
    "testing",
]


def __getattr__(name: str) -> Any:
    """Load a room when it is first entered, so that ``import audit`` is quick.

    The pytest plugin is loaded by every test run of its users, with or without claims: not even
    NumPy is imported here.
    """
    if name in _MECHANISM:
        return getattr(importlib.import_module("audit.mechanism"), name)
    if name == "Order":
        return importlib.import_module("audit.curves").Order
    if name in _ROOMS:
        return importlib.import_module(f"audit.{name}")
    if name == "NotApplicable":
        return importlib.import_module("audit.bounds").NotApplicable
    raise AttributeError(f"module 'audit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
