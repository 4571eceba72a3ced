"""Studies: questions of the papers that are not one sandwich at one delta."""

from audit.studies.findings import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Outcome,
    Series,
    Statement,
    Study,
)

__all__ = [
    "Chart",
    "Drawn",
    "Findings",
    "FoundTable",
    "Outcome",
    "Series",
    "Statement",
    "Study",
]
