"""Chien and Li (2025), "Convergent Privacy Loss of Noisy-SGD ..."."""

# The order of these imports is the order of the catalogue.
# isort: off
from audit.bounds.cl25.distance_tracking import Losses, lemma_3_5, lemma_3_10, lemma_a_2
from audit.bounds.cl25 import full_batches
from audit.bounds.cl25 import sampled_batches
from audit.bounds.cl25.cyclic_batches import corollary_a_3_reshuffled, theorem_a_1_sequence
from audit.bounds.cl25 import output_perturbation
# isort: on

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
