"""Monte Carlo: the independent witness for every exact law."""

from audit.simulation.counts import WalkCounts, count_thresholds
from audit.simulation.events import AuxiliaryEvents, auxiliary_events
from audit.simulation.iterates import final_iterates, simulate

__all__ = [
    "AuxiliaryEvents",
    "WalkCounts",
    "auxiliary_events",
    "count_thresholds",
    "final_iterates",
    "simulate",
]
