"""Candidates evaluated quickly: coarse laws, and divergences by sums over their nodes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.constructions.base import Construction
from audit.exact.compute import TAIL, laws_after
from audit.exact.gaussian import gaussian_pair, normal_law
from audit.exact.law import Law
from audit.exact.reach import LARGEST_REACH, push_apart
from audit.exact.transfer import Resolution, domain_panels, laws_on
from audit.search.objectives import Objective

Array = NDArray[np.float64]

# Three to four nodes a standard deviation: some 1e-3 off, in milliseconds. Certificates are
# computed anew.
COARSE = Resolution(order=14, width=4.0, reach=9.0)
_MOST_STEPS = 10_000  # that are taken one by one, for a candidate


def quick_value(pair: Construction, objective: Objective) -> float:
    """Return about what the objective is for a pair.

    Raises
    ------
    ValueError
        If the laws cannot be computed; the message says why.
    """
    processes = pair.processes()
    first, second = (normal_law(process) for process in processes)
    if first is not None and second is not None:
        closed = gaussian_pair(first, second)
        if closed is not None:
            return objective.bracket(closed)[0]
    panels = domain_panels(processes, COARSE, TAIL)
    reach = min(COARSE.reach + push_apart(processes, panels), LARGEST_REACH)
    resolution = Resolution(COARSE.order, COARSE.width, reach)
    laws = [laws_on(process, panels, resolution)[0] for process in processes]
    value = objective.quick(*(_log_masses(law) for law in laws))
    if not math.isfinite(value) and len(processes[0]) <= _MOST_STEPS:
        # plain doubles underflowed where it matters
        laws = [laws_after(process, panels, resolution, [len(process)])[0] for process in processes]
        value = objective.quick(*(_log_masses(law) for law in laws))
    return value


def _log_masses(law: Law) -> Array:
    inner = (law.state.log_values + np.log(law.panels.weights)).ravel()
    return np.concatenate([law.state.log_atoms[:1], inner, law.state.log_atoms[1:]])
