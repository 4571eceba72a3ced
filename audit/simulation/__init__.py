"""Monte Carlo: the independent witness for every exact law."""

from audit.simulation.events import AuxiliaryEvents, auxiliary_events
from audit.simulation.iterates import final_iterates, simulate

__all__ = ["AuxiliaryEvents", "auxiliary_events", "final_iterates", "simulate"]
