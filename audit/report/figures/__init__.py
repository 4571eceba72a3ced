"""Figures drawn from stored numbers; the one place of the report that needs Matplotlib.

Each module holds a drawing and the caption that says what to conclude from it.
"""

from audit.report.figures import (
    charts,
    domination,
    laws,
    positions,
    renyi,
    sandwich,
    scores,
    steps,
    sweep,
    tradeoff,
)

__all__ = [
    "charts",
    "domination",
    "laws",
    "positions",
    "renyi",
    "sandwich",
    "scores",
    "steps",
    "sweep",
    "tradeoff",
]
