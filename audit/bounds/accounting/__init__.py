"""Accounting shared by the bounds of several papers.

Compositions, sampled steps, Renyi divergences of sampled Gaussians, amplification by iteration, and
its optimal shifts.
"""

from audit.bounds.accounting.composition import SubsampledGaussian, compose
from audit.bounds.accounting.iteration import allocation_cost, best_cost
from audit.bounds.accounting.shift_allocation import HolderModulus, LipschitzShifts, Meetings
from audit.bounds.accounting.update import contraction_gap, family_sensitivity
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi

__all__ = [
    "HolderModulus",
    "LipschitzShifts",
    "Meetings",
    "SubsampledGaussian",
    "allocation_cost",
    "best_cost",
    "compose",
    "contraction_gap",
    "family_sensitivity",
    "sampled_gaussian_renyi",
]
