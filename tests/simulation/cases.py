"""Processes of every kind that the tests walk through."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

import audit
from audit.constructions import (
    Affine,
    BiasedWalk,
    Construction,
    DriftedWalk,
    Mapped,
    Process,
    ResetWalk,
    Segment,
    Step,
    TwoSidedWalk,
    Wall,
)
from audit.constructions.process import Path
from audit.constructions.updates import PiecewiseLinear, PolynomialUpdate, PowerUpdate
from tests.exact.cases import process

mechanism = partial(
    audit.NoisySGD,
    steps=40,
    dataset_size=4,
    batch_size=1,
    step_size=0.1,
    noise_std=1.0,
    lipschitz=2.0,
    smoothness=1.0,
    diameter=1.0,
    batching=audit.Batching.WITHOUT_REPLACEMENT,
)


def noise(std: float, *maps: tuple[float, float]) -> Step:
    """A step; ``maps`` are pairs of a shift and a weight."""
    chosen = maps or ((0.0, 1.0),)
    return Step(tuple(Affine(shift) for shift, _ in chosen), tuple(w for _, w in chosen), std)


@dataclass(frozen=True)
class TwoLengths(Construction):
    """A walk of 160 steps against one of 150 that begins at an end and has the other wall only."""

    citation: ClassVar[str] = "a test"
    is_neighbouring: ClassVar[bool] = False

    def processes(self) -> tuple[Process, Process]:
        symmetric, biased = BiasedWalk(self.mechanism).processes()
        shorter = Path(1.0, (Segment(tuple(biased.distinct_steps()), 150),))
        return symmetric, Process(biased.lower, (shorter,), upper=biased.upper)


def two_lengths() -> TwoLengths:
    return TwoLengths(mechanism(steps=160, dataset_size=10, lipschitz=0.5, noise_std=0.1))


SIZES = tuple(0.1 / (1 + k % 5) for k in range(37))
AFFINE: dict[str, Callable[[], Process]] = {
    "symmetric": lambda: BiasedWalk(mechanism()).processes()[0],
    "biased": lambda: BiasedWalk(mechanism()).processes()[1],
    "often biased": lambda: BiasedWalk(mechanism(batch_size=3)).processes()[1],
    "two-sided, full": lambda: TwoSidedWalk(
        mechanism(batching=audit.Batching.FULL, batch_size=4)
    ).processes()[0],
    "drifted, Poisson": lambda: DriftedWalk(
        mechanism(batching=audit.Batching.POISSON, batch_size=2), drift=0.03
    ).processes()[0],
    "cyclic": lambda: BiasedWalk(
        mechanism(batching=audit.Batching.CYCLIC, steps=42), position=1
    ).processes()[1],
    "shuffled": lambda: BiasedWalk(
        mechanism(batching=audit.Batching.SHUFFLED, steps=6)
    ).processes()[1],
    "reshuffled": lambda: BiasedWalk(
        mechanism(batching=audit.Batching.RESHUFFLED, steps=39)
    ).processes()[1],
    "random allocation": lambda: BiasedWalk(
        mechanism(batching=audit.Batching.RANDOM_ALLOCATION, participations=3, batch_size=2)
    ).processes()[1],
    "random allocation, drifted": lambda: DriftedWalk(
        mechanism(batching=audit.Batching.RANDOM_ALLOCATION, steps=21, dataset_size=3), drift=0.03
    ).processes()[0],
    "truncated Poisson": lambda: DriftedWalk(
        mechanism(batching=audit.Batching.TRUNCATED_POISSON, batch_size=2, max_batch_size=3),
        drift=0.03,
    ).processes()[0],
    "schedule": lambda: BiasedWalk(mechanism(steps=37, step_size=SIZES)).processes()[1],
    "one wall": lambda: two_lengths().processes()[1],
    "unbounded": lambda: TwoSidedWalk(mechanism(diameter=None)).processes()[1],
    "absorbing": lambda: process(
        noise(0.1, (0.0, 0.7), (0.05, 0.3)),
        times=30,
        start=-0.3,
        lower=-0.5,
        upper=0.5,
        lower_wall=Wall.ABSORB,
    ),
    "slopes": lambda: process(
        Step((Affine(0.1, 0.5), Affine(0.0, -0.9), Affine(0.2, 1.1)), (0.2, 0.5, 0.3), 0.2),
        noise(0.1),
        times=15,
        lower=-0.6,
        upper=math.inf,
    ),
}

CURVED: dict[str, Callable[[], Process]] = {  # compiled, and more than straight lines
    "resets, full": lambda: ResetWalk(
        mechanism(batching=audit.Batching.FULL, batch_size=4), cap=1.5, centre=0.2
    ).processes()[0],
    "resets, Poisson": lambda: ResetWalk(
        mechanism(batching=audit.Batching.POISSON, dataset_size=30, batch_size=4), cap=1.5
    ).processes()[1],
    "kinked": lambda: process(
        Step(
            (
                PiecewiseLinear((-0.3, 0.1, 0.4), (0.2, -0.1, 0.3), (-0.7, 0.2)),
                Affine(0.1, 0.9),
                PiecewiseLinear((0.0,), (0.1,), (0.5, 1.0)),
            ),
            (0.5, 0.2, 0.3),
            0.15,
        ),
        times=20,
        upper=1.0,
        upper_wall=Wall.ABSORB,
    ),
    "double well, compiled": lambda: process(
        Step((Mapped(PolynomialUpdate((0.0, 1.2, 0.0, -0.2))), Affine(0.05, 0.9)), (0.8, 0.2), 0.2),
        times=20,
        start=0.1,
        lower=-1.2,
        upper=1.2,
    ),
    "Hölder": lambda: process(
        Step((Mapped(PowerUpdate(0.2, 0.5, 0.1, shift=0.02, slope=0.99), (0.1,)),), (1.0,), 0.1),
        times=20,
    ),
    "random stop": lambda: BiasedWalk(
        mechanism(release=audit.Release.RANDOM_STOP, steps=45)
    ).processes()[1],
    "paths of three lengths": lambda: Process(
        0.0,
        (
            Path(0.2, (Segment((noise(0.1, (0.1, 0.5), (0.0, 0.5)),), 7),)),
            Path(0.0, (Segment((noise(0.2),), 90),)),
            Path(0.7, (Segment((noise(0.2, (0.3, 0.1), (0.0, 0.9)), noise(0.1)), 11),)),
            Path(0.1, (Segment((noise(0.1, (-0.1, 1.0)),), 18),)),
        ),
        lower=-0.6,
        upper=0.6,
    ),
}

COMPILED = {**AFFINE, **CURVED}

MAPPED: dict[str, Callable[[], Process]] = {
    "double well": lambda: process(
        Step((Mapped(lambda x: x - 0.2 * (x**3 - x)), Mapped(np.tanh)), (0.8, 0.2), 0.2),
        times=20,
        start=0.1,
        lower=-1.2,
        upper=1.2,
    ),
    "absorbing, two paths": lambda: Process(
        0.0,
        (
            Path(0.3, (Segment((Step((Mapped(np.sin),), (1.0,), 0.3), noise(0.1)), 5),)),
            Path(0.7, (Segment((noise(0.1), noise(0.3, (0.1, 1.0))), 5),)),
        ),
        lower=-0.5,
        upper=0.6,
        upper_wall=Wall.ABSORB,
    ),
}
