"""Noisy-SGD Audit: lower bounds on the privacy loss of Noisy-SGD's last iterate."""

from audit.mechanism import Batching, NoisySGD, Order, Relation, Release

__version__ = "0.1.0"

__all__ = ["Batching", "NoisySGD", "Order", "Relation", "Release", "__version__"]
