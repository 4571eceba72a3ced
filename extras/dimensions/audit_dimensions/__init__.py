"""Noisy-SGD in d dimensions, simulated: losses, datasets, domains, and samples of the release."""

from audit_dimensions.dataset import Dataset
from audit_dimensions.domains import Ball, Box, Domain, WholeSpace
from audit_dimensions.losses import Clipped, Huber, Linear, Logistic, Loss, Quadratic
from audit_dimensions.pair import NoisySGDPair
from audit_dimensions.sampling import final_points, linear_score_counts, scores

__all__ = [
    "Ball",
    "Box",
    "Clipped",
    "Dataset",
    "Domain",
    "Huber",
    "Linear",
    "Logistic",
    "Loss",
    "NoisySGDPair",
    "Quadratic",
    "WholeSpace",
    "final_points",
    "linear_score_counts",
    "scores",
]
