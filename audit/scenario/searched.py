"""A search beside a setting's pairs: its best construction joins them, computed exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit import validate
from audit.mechanism import NoisySGD
from audit.scenario.progress import Report
from audit.search import Found, worst_case

_SECONDS = 1e9  # the number of evaluations ends a search, so that every machine finds the same


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """How long a scenario searches, and for what.

    Parameters
    ----------
    delta
        The search looks for the pair with the largest epsilon there.
    evaluations
        How many pairs it tries; it may end sooner, at a pair that reaches an upper bound.
    """

    delta: float
    evaluations: int

    def __post_init__(self) -> None:
        validate.open_unit(**{"search.delta": self.delta})
        validate.integer(1, **{"search.evaluations": self.evaluations})

    def find(self, mechanism: NoisySGD, seed: int, report: Report) -> Found:
        """Return the best pair found; it is admissible, and its law is exact.

        Raises
        ------
        ValueError
            If no admissible pair has laws that can be computed.
        """
        tried = 0

        def one_more(seconds: float, best: float) -> None:
            nonlocal tried
            tried += 1
            report(tried, self.evaluations)

        return worst_case(
            mechanism,
            delta=self.delta,
            budget=_SECONDS,
            seed=seed,
            evaluations=self.evaluations,
            progress=one_more,
        )


def found_by(plan: SearchPlan, found: Found) -> dict[str, Any]:
    """Return how a pair was found, as plain data."""
    return {"delta": plan.delta, "evaluations": found.evaluations, "seed": found.seed}
