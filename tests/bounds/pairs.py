"""Random mechanisms, and neighbouring pairs that are admissible for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit import Batching, NoisySGD, Relation
from audit.constructions import Affine, Construction, Process, UpdateMap
from audit.constructions.batches import batched_process
from tests.bounds.grid import random_members
from tests.choices import RELATIONS


@dataclass(frozen=True)
class Forgetting(Construction):
    """Every other record is a quadratic, so that old noise is forgotten; the record is linear.

    Gradients are ``curvature * x`` on the domain, at most ``curvature * D/2``.
    """

    curvature: float = 0.0
    start: float = 0.0
    position: int | None = None

    citation: ClassVar[str] = "a test"

    def processes(self) -> tuple[Process, Process]:
        m = self.mechanism

        def process(push: float) -> Process:
            def update(eta: float, holds: bool, others: int) -> UpdateMap:
                slope = 1 - eta * self.curvature * others / m.batch_size
                return Affine(shift=eta * push * holds / m.batch_size, slope=slope)

            return batched_process(m, self.start, update, self.position)

        first, second = m.sensitivity / 2, -m.sensitivity / 2
        if m.relation is Relation.ZERO_OUT:
            first, second = m.sensitivity, 0.0
        return process(first), process(second)


def random_mechanism(rng: np.random.Generator, **fixed: object) -> NoisySGD:
    """Return a small mechanism with linear-friendly parameters: fast and coarse in its law."""
    n = int(rng.integers(1, 7))
    batching = rng.choice([Batching.FULL, Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT])
    divisors = [b for b in range(1, n + 1) if n % b == 0]
    batch = n if batching is Batching.FULL else int(rng.choice(divisors))
    values = {
        "steps": int(rng.integers(1, 13)),
        "dataset_size": n,
        "batch_size": batch,
        "step_size": float(rng.uniform(0.05, 0.3)),
        "noise_std": float(10 ** rng.uniform(-0.3, 0.8)),
        "lipschitz": 1.0,
        "smoothness": float(rng.uniform(0.5, 6)),
        "diameter": float(10 ** rng.uniform(-0.7, 0.3)),
        "batching": batching,
        "relation": rng.choice(RELATIONS),
    }
    return NoisySGD(**{**values, **fixed})


def admissible_pairs(m: NoisySGD, rng: np.random.Generator) -> list[Construction]:
    """Return a random member of every construction that has one, and a pair that forgets."""
    assert m.diameter is not None
    curvature = float(min(m.smoothness or 0.0, 2 / m.diameter, 1 / float(np.max(m.step_sizes))))
    return [Forgetting(m, curvature), *random_members(m, rng)]
