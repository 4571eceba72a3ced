"""Feldman, Mironov, Talwar and Thakurta (2018), "Privacy Amplification by Iteration"."""

from audit.bounds.fmtt18 import epsilon_delta
from audit.bounds.fmtt18.renyi import appendix_b_noise, harmonic, weak_convexity
from audit.bounds.fmtt18.utility import (
    TABLE_1,
    ExcessLoss,
    Smoothing,
    Utility,
    corollary_34_smoothing,
    theorem_28,
    theorem_29_utility,
    theorem_30_utility,
    theorem_33,
)

__all__ = [
    "TABLE_1",
    "ExcessLoss",
    "Smoothing",
    "Utility",
    "appendix_b_noise",
    "corollary_34_smoothing",
    "epsilon_delta",
    "harmonic",
    "theorem_28",
    "theorem_29_utility",
    "theorem_30_utility",
    "theorem_33",
    "weak_convexity",
]
