"""Studies: questions of the papers that are not one sandwich at one delta."""

from audit.studies.findings import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Series,
    Statement,
    Study,
    Verdict,
)

__all__ = [
    "Chart",
    "Drawn",
    "Findings",
    "FoundTable",
    "Series",
    "Statement",
    "Study",
    "Verdict",
]
