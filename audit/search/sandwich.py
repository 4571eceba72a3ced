"""The upper side of a found pair: the tightest sound bound on the same objective."""

from __future__ import annotations

from audit import bounds
from audit.mechanism import NoisySGD
from audit.search.objectives import Epsilon, Objective


def tightest_bound(mechanism: NoisySGD, objective: Objective) -> tuple[float, str] | None:
    """Return the least value that a sound bound allows, and its id; None where none applies."""
    if isinstance(objective, Epsilon):
        try:
            best = bounds.best(mechanism, delta=objective.delta)
        except bounds.NotApplicable:
            return None
        return best.epsilon, best.id
    values = [
        (objective.claimed(bounds.evaluate(id, mechanism)), id)
        for id in bounds.applicable(mechanism)
        if bounds.entry(id).status.sound
    ]
    return min(values, default=None)
