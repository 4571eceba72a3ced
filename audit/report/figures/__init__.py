"""Figures drawn from stored numbers; the one place of the report that needs Matplotlib.

Each module holds a drawing and the caption that says what to conclude from it.
"""

from audit.report.figures import domination, laws, sandwich, steps, tradeoff

__all__ = ["domination", "laws", "sandwich", "steps", "tradeoff"]
