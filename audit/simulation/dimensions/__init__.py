"""Noisy-SGD in d dimensions, simulated: losses, datasets, domains, and samples of the release."""

from audit.simulation.dimensions.dataset import Dataset
from audit.simulation.dimensions.domains import Ball, Box, Domain, WholeSpace
from audit.simulation.dimensions.losses import Clipped, Huber, Linear, Logistic, Loss, Quadratic
from audit.simulation.dimensions.pair import NoisySGDPair
from audit.simulation.dimensions.sampling import LinearScoreCounts, final_points, scores

__all__ = [
    "Ball",
    "Box",
    "Clipped",
    "Dataset",
    "Domain",
    "Huber",
    "Linear",
    "LinearScoreCounts",
    "Logistic",
    "Loss",
    "NoisySGDPair",
    "Quadratic",
    "WholeSpace",
    "final_points",
    "scores",
]
