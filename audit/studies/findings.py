"""The types of `audit.results` that studies use."""

from __future__ import annotations

from typing import Protocol

from audit.results.findings import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Series,
    Statement,
    Value,
)
from audit.results.verdicts import Verdict

__all__ = [
    "Chart",
    "Drawn",
    "Findings",
    "FoundTable",
    "Report",
    "Series",
    "Statement",
    "Study",
    "Value",
    "Verdict",
]


class Report(Protocol):
    """Takes (done, total) while a study runs."""

    def __call__(self, done: int, total: int, /) -> None:
        """Tell how far it is."""
        ...


class Study(Protocol):
    """A question that is no sandwich; a frozen dataclass whose fields are its settings."""

    def find(self, *, seed: int, threads: int, confidence: float, progress: Report) -> Findings:
        """Answer it; the same settings and seed give the same findings."""
        ...
