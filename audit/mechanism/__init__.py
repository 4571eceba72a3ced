"""The mechanism: Noisy-SGD with public parameters, its choices, its codec, and compositions."""

from audit.mechanism.choices import (
    COVERED_BY_DEFAULT,
    Batching,
    Choice,
    Divisor,
    Losses,
    Relation,
    Release,
)
from audit.mechanism.composition import Composition
from audit.mechanism.noisy_sgd import NoisySGD, decode_mechanism, encode_mechanism

__all__ = [
    "COVERED_BY_DEFAULT",
    "Batching",
    "Choice",
    "Composition",
    "Divisor",
    "Losses",
    "NoisySGD",
    "Relation",
    "Release",
    "decode_mechanism",
    "encode_mechanism",
]
