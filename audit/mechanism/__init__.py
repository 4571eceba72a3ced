"""The mechanism: Noisy-SGD with public parameters, its choices, and its codec."""

from audit.mechanism.choices import Batching, Relation, Release
from audit.mechanism.noisy_sgd import NoisySGD, decode_mechanism, encode_mechanism

__all__ = [
    "Batching",
    "NoisySGD",
    "Relation",
    "Release",
    "decode_mechanism",
    "encode_mechanism",
]
