"""Altschuler and Talwar (2022), "Privacy of Noisy Stochastic Gradient Descent"."""

from audit.bounds.at22 import fixed_batches, iteration
from audit.bounds.at22.conversion import balle, bun_steinke, bun_steinke_delta, lemma_2_5
from audit.bounds.at22.rates import RenyiLowerBound, theorem_4_1
from audit.bounds.at22.small_batches import largest_order

__all__ = [
    "RenyiLowerBound",
    "balle",
    "bun_steinke",
    "bun_steinke_delta",
    "fixed_batches",
    "iteration",
    "largest_order",
    "lemma_2_5",
    "theorem_4_1",
]
