"""Lemmas 3.5, 3.10 and A.2 and Theorem A.1 for one sequence, from the parts of their entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit import NoisySGD
from audit.bounds.cl25.cyclic_batches import sequence_square
from audit.bounds.cl25.distance_tracking import (
    Branch,
    Growth,
    excess,
    holder_growth,
    lipschitz_growth,
    others_share,
)
from audit.curves import RenyiCurve

Array = NDArray[np.float64]


def distances(growth: Growth, steps: int, period: int = 1, position: int = 0) -> Array:
    """Bounds on the distance before the first and after each step."""
    tracked = growth.track(t % period == position for t in range(steps))
    return np.array(tracked + [tracked[-1]] * (steps + 1 - len(tracked)))


def lemma_3_5(m: NoisySGD, losses: Branch | None = None) -> Array:
    """D_t = min(c D_(t-1) + 2 eta K/n, D_(t-1) + 2 eta K, D): full batches, smooth losses."""
    return distances(lipschitz_growth(m, m.dataset_size, excess(m, losses)), m.steps)


def lemma_3_10(m: NoisySGD) -> Array:
    """The same with g(x) = x + eta L x^lambda for c x: Hoelder continuous gradients."""
    return distances(holder_growth(m, m.dataset_size), m.steps)


def lemma_a_2(m: NoisySGD, position: int) -> Array:
    """Cyclic batches: 0 until the batch with the record, which has g(.; eta L (b-1)/b)."""
    growth = holder_growth(m, m.batch_size, others_share(m))
    return distances(growth, m.steps, m.dataset_size // m.batch_size, position)


def theorem_a_1_sequence(m: NoisySGD, places: Sequence[int]) -> RenyiCurve:
    """Theorem A.1 for one sequence of batches and smooth losses."""
    return RenyiCurve.linear(sequence_square(m, places, None) / 2)
