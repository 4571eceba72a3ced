"""Altschuler and Talwar (2022), "Privacy of Noisy Stochastic Gradient Descent"."""

# The order of these imports is the order of the catalogue.
# isort: off
from audit.bounds.at22 import fixed_batches
from audit.bounds.at22 import iteration
from audit.bounds.at22.small_batches import largest_order
from audit.bounds.at22.rates import RenyiLowerBound, theorem_4_1
from audit.bounds.at22.conversion import balle, bun_steinke, bun_steinke_delta, lemma_2_5
# isort: on

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
