"""Boninsegna (2023), "The Privacy Analysis of the Differential Private SGD": a survey."""

# The order of these imports is the order of the catalogue.
# isort: off
from audit.bounds.survey.accountants import AdvancedComposition, tail_bound
from audit.bounds.survey import iteration_and_langevin
from audit.bounds.survey.tables import TABLE_I, TABLE_II, Technique
# isort: on

__all__ = [
    "TABLE_I",
    "TABLE_II",
    "AdvancedComposition",
    "Technique",
    "iteration_and_langevin",
    "tail_bound",
]
