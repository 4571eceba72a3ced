"""The mechanism: Noisy-SGD with public parameters, its choices, and its codec."""

from audit.mechanism.choices import COVERED_BY_DEFAULT, Batching, Choice, Divisor, Relation, Release
from audit.mechanism.noisy_sgd import NoisySGD, decode_mechanism, encode_mechanism

__all__ = [
    "COVERED_BY_DEFAULT",
    "Batching",
    "Choice",
    "Divisor",
    "NoisySGD",
    "Relation",
    "Release",
    "decode_mechanism",
    "encode_mechanism",
]
