"""Monte Carlo: the independent witness for every exact law."""

from audit.simulation.counts import WalkCounts, count_thresholds
from audit.simulation.events import AuxiliaryEvents, auxiliary_events
from audit.simulation.iterates import final_iterates, simulate
from audit.simulation.parallel import Kind, Parallel, pool
from audit.simulation.runs import run_job

__all__ = [
    "AuxiliaryEvents",
    "Kind",
    "Parallel",
    "WalkCounts",
    "auxiliary_events",
    "count_thresholds",
    "final_iterates",
    "pool",
    "run_job",
    "simulate",
]
