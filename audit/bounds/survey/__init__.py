"""Boninsegna (2023), "The Privacy Analysis of the Differential Private SGD": a survey."""

from audit.bounds.survey import accountants, iteration_and_langevin

__all__ = ["accountants", "iteration_and_langevin"]
