"""Boninsegna (2023), "The Privacy Analysis of the Differential Private SGD": a survey."""

from audit.bounds.survey import iteration_and_langevin
from audit.bounds.survey.accountants import AdvancedComposition, tail_bound
from audit.bounds.survey.tables import TABLE_I, TABLE_II, Technique

__all__ = [
    "TABLE_I",
    "TABLE_II",
    "AdvancedComposition",
    "Technique",
    "iteration_and_langevin",
    "tail_bound",
]
