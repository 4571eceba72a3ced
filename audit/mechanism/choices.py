"""The choices of a mechanism: batching, adjacency and release."""

from __future__ import annotations

import enum


class Batching(enum.Enum):
    """How the batch of a step is chosen."""

    FULL = "full"
    CYCLIC = "cyclic"  # fixed batches in fixed order
    SHUFFLED = "shuffled"  # fixed batches, the order of records shuffled once, unknown
    WITHOUT_REPLACEMENT = "without replacement"  # a fresh uniform batch of size b each step
    POISSON = "poisson"  # each record by itself with probability b/n; the divisor stays b


class Relation(enum.Enum):
    """What makes two datasets neighbours."""

    REPLACE_ONE = "replace one"
    ZERO_OUT = "zero out"  # one record's loss is replaced by zero


class Release(enum.Enum):
    """What the adversary sees."""

    LAST_ITERATE = "last iterate"
    # Feldman et al. 2018, Stop-PNSGD: the iterate after a random step
    RANDOM_STOP = "random stop"
    # Feldman et al. 2018, Skip-PNSGD: the first records are left out at random
    RANDOM_SKIP = "random skip"
    # one draw from exp(-2 F/(eta sigma^2)), F the mean loss: what the last iterate tends to as the
    # steps grow and eta falls at a fixed eta sigma^2 (Bok, Su and Altschuler 2024, section 5)
    EXPONENTIAL_MECHANISM = "exponential mechanism"
