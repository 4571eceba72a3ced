"""Bok, Su and Altschuler (2024), "Shifted Interpolation for Differential Privacy"."""

from audit.bounds.bsa24 import sampled_batches
from audit.bounds.bsa24.cyclic_batches import threshold_4_5, threshold_4_6
from audit.bounds.bsa24.full_batches import threshold_4_3
from audit.bounds.bsa24.langevin import inverse_temperature, threshold_5_4
from audit.bounds.bsa24.shifted_interpolation import lemma_3_1, lemma_3_2

__all__ = [
    "inverse_temperature",
    "lemma_3_1",
    "lemma_3_2",
    "sampled_batches",
    "threshold_4_3",
    "threshold_4_5",
    "threshold_4_6",
    "threshold_5_4",
]
