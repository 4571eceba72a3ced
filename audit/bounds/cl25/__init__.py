"""Chien and Li (2025), "Convergent Privacy Loss of Noisy-SGD ..."."""

from audit.bounds.cl25 import full_batches, output_perturbation, sampled_batches
from audit.bounds.cl25.cyclic_batches import corollary_a_3_reshuffled, theorem_a_1_sequence
from audit.bounds.cl25.distance_tracking import Losses, lemma_3_5, lemma_3_10, lemma_a_2

__all__ = [
    "Losses",
    "corollary_a_3_reshuffled",
    "full_batches",
    "lemma_3_5",
    "lemma_3_10",
    "lemma_a_2",
    "output_perturbation",
    "sampled_batches",
    "theorem_a_1_sequence",
]
