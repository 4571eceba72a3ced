"""Bok, Su and Altschuler (2024), "Shifted Interpolation for Differential Privacy"."""

from audit.bounds.bsa24 import (
    cyclic_batches,
    full_batches,
    langevin,
    sampled_batches,
    shifted_interpolation,
)

__all__ = ["cyclic_batches", "full_batches", "langevin", "sampled_batches", "shifted_interpolation"]
