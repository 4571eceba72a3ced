"""The mechanism: Noisy-SGD with public parameters, its choices, and its codec."""

from audit.mechanism.codec import decode_mechanism, encode_mechanism
from audit.mechanism.noisy_sgd import Batching, NoisySGD, Order, Relation, Release

__all__ = [
    "Batching",
    "NoisySGD",
    "Order",
    "Relation",
    "Release",
    "decode_mechanism",
    "encode_mechanism",
]
