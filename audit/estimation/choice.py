"""The ways to choose thresholds, and the account of what the error was spent on."""

from __future__ import annotations

from dataclasses import dataclass

from audit.estimation.fixed import FixedThresholds
from audit.estimation.pilot_split import PilotSplit
from audit.estimation.simultaneous_band import SimultaneousBand

Thresholds = PilotSplit | FixedThresholds | SimultaneousBand


@dataclass(frozen=True)
class Spent:
    """A part of the error 1 - confidence, and what it was spent on."""

    purpose: str
    error: float
