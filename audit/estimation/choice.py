"""The ways to choose thresholds, and the account of what the error was spent on."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

from audit.estimation.fixed import FixedThresholds
from audit.estimation.pilot import PilotSplit
from audit.estimation.simultaneous import SimultaneousBand

Thresholds = PilotSplit | FixedThresholds | SimultaneousBand


@dataclass(frozen=True)
class Spent:
    """A part of the error 1 - confidence, and what it was spent on."""

    purpose: str
    error: float


def described(thresholds: Thresholds) -> dict[str, Any]:
    """Return a choice of thresholds as plain Python values."""
    fields = {f.name: _plain(getattr(thresholds, f.name)) for f in dataclasses.fields(thresholds)}
    return {"choice": type(thresholds).__name__, **fields}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, enum.Enum) else value
