"""How long exact laws take."""

from __future__ import annotations

import math

from audit.constructions.base import Construction
from audit.exact.gaussian import normal_law
from audit.exact.transfer import LARGEST_DENSE, STANDARD, domain_panels

# Seconds for a multiply-add of a banded operator, and blocks of nodes that one node reaches.
_BAND_COST, _BAND_WIDTH = 4e-10, 260

# Steps of processes on a line, beyond which no exact law is tried.
_MOST_STEPS = 100_000


def exact_seconds(pair: Construction) -> float:
    """Estimate how long the exact laws of a pair take, in seconds; infinite where none is at hand.

    The four laws of a bracket, by the band structure where the domain is long.
    """
    processes = pair.processes()
    if all(normal_law(process) is not None for process in processes):
        return 0.0
    endless = any(math.isinf(end) for p in processes for end in (p.lower, p.upper))
    if endless and sum(len(path) for p in processes for path in p.paths) > _MOST_STEPS:
        return math.inf  # even how far the line is needed would take long
    try:
        nodes = domain_panels(processes, STANDARD[0], 38.0).nodes.size
    except (ValueError, MemoryError):
        return math.inf
    paths = sum(len(process.paths) for process in processes)
    steps = max(len(path) for process in processes for path in process.paths)
    if nodes <= LARGEST_DENSE:
        return 2 * paths * min(steps * nodes**2 * 4e-10, 40 * nodes**3 * 6e-11)
    return 2 * paths * steps * nodes * _BAND_WIDTH * _BAND_COST
