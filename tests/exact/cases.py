"""Mechanisms and processes for the tests of exact laws."""

from __future__ import annotations

from collections.abc import Callable

from audit import Batching, NoisySGD
from audit.constructions import (
    Affine,
    BiasedWalk,
    Construction,
    DriftedWalk,
    Mapped,
    PiecewiseLinear,
    PolynomialUpdate,
    Process,
    Segment,
    Step,
    TwoSidedWalk,
    UpdateMap,
    Wall,
)
from audit.constructions.process import Path
from tests.mechanisms import noisy_sgd


def mechanism(**changes: object) -> NoisySGD:
    """Steps of deviation 1 and pushes of L on [-5, 5]."""
    given = {"steps": 10, "lipschitz": 0.2, "diameter": 10.0, "smoothness": None}
    return noisy_sgd(**{**given, **changes})


def process(*steps: Step, times: int = 1, start: float = 0.0, **ends: object) -> Process:
    """One path."""
    return Process(start, (Path(1.0, (Segment(steps, times),)),), **ends)  # type: ignore[arg-type]


def noisy(*maps: UpdateMap, weights: tuple[float, ...] | None = None, std: float = 1.0) -> Step:
    """A step; equally likely maps unless told."""
    return Step(maps, weights or (1 / len(maps),) * len(maps), std)


class Pair(Construction):
    """Any two processes."""

    citation = "a test"

    def __init__(self, first: Process, second: Process) -> None:
        object.__setattr__(self, "mechanism", mechanism())
        object.__setattr__(self, "_pair", (first, second))

    def processes(self) -> tuple[Process, Process]:
        return self._pair  # type: ignore[attr-defined, no-any-return]


def huber(push: float) -> PiecewiseLinear:
    """x - 0.6 clip(x - 0.3, -1, 1) + push: contracts between its kinks."""
    return PiecewiseLinear((-0.7, 1.3), (-0.1 + push, 0.7 + push), (1.0, 1.0))


def expanding(push: float) -> Affine:
    """Slope 1.2: errors and differences grow."""
    return Affine(push, 1.2)


def contracting(push: float) -> Affine:
    """Slope 0.5."""
    return Affine(push, 0.5)


def flipping(push: float) -> Affine:
    """Slope -0.8: a step size above 1/M."""
    return Affine(push, -0.8)


def clipped(push: float) -> PiecewiseLinear:
    """x - 0.4 clip(2 x, -1, 1) + push: a gradient clipped to [-1, 1], as in DP-SGD."""
    return PiecewiseLinear((-0.5, 0.5), (-0.1 + push, 0.1 + push), (1.0, 1.0))


def mapped_pair(make: Callable[[float], UpdateMap], **ends: object) -> Pair:
    """Push +0.3 against -0.3 under the same map."""
    return Pair(
        *(
            process(noisy(make(s)), times=6, start=0.25, **{"lower": -3.0, "upper": 3.0, **ends})
            for s in (0.3, -0.3)
        )
    )


def huber_pair(position: int) -> Pair:
    """Huber maps, the record in the batch at one place of a cycle of three."""

    def path(push: float) -> Process:
        cycle = [noisy(huber(push if k == position else 0.0)) for k in range(3)]
        return process(*cycle, times=2, start=-0.5, lower=-2.7, upper=3.3)

    return Pair(path(0.5), path(-0.5))


_SAMPLED = {"dataset_size": 4, "batch_size": 2, "lipschitz": 1.2, "diameter": 6.0, "steps": 8}
_WOR = {**_SAMPLED, "batching": Batching.WITHOUT_REPLACEMENT}
_POISSON = {**_SAMPLED, "batching": Batching.POISSON}
_CYCLIC = {**_SAMPLED, "batching": Batching.CYCLIC, "steps": 7}
_SHUFFLED = {**_SAMPLED, "batching": Batching.SHUFFLED, "steps": 5, "batch_size": 1}
_SCHEDULE = tuple(1.0 / (1 + k % 3) for k in range(8))

CASES: dict[str, Callable[[], Construction]] = {
    "full, two-sided": lambda: TwoSidedWalk(mechanism()),
    "full, off the middle": lambda: TwoSidedWalk(mechanism(diameter=5.0), start=1.3),
    "full, at the end": lambda: BiasedWalk(mechanism(lipschitz=0.6, diameter=4.0), start=2.0),
    "one step": lambda: TwoSidedWalk(mechanism(steps=1, diameter=4.0)),
    "two steps": lambda: TwoSidedWalk(mechanism(steps=2, diameter=4.0), start=-1.0),
    "tiny domain": lambda: TwoSidedWalk(mechanism(diameter=0.01, lipschitz=1.0)),
    "without replacement": lambda: BiasedWalk(mechanism(**_WOR)),
    "without replacement, drifted": lambda: DriftedWalk(mechanism(**_WOR), drift=-0.7, start=2.5),
    "Poisson": lambda: TwoSidedWalk(mechanism(**_POISSON)),
    "Poisson, drifted": lambda: DriftedWalk(mechanism(**_POISSON), drift=0.8, start=-3.0),
    "cyclic": lambda: TwoSidedWalk(mechanism(**_CYCLIC)),
    "cyclic, first batch": lambda: DriftedWalk(mechanism(**_CYCLIC), drift=0.4, position=0),
    "cyclic, second batch": lambda: DriftedWalk(mechanism(**_CYCLIC), drift=0.4, position=1),
    "shuffled": lambda: TwoSidedWalk(mechanism(**_SHUFFLED)),
    "shuffled, drifted": lambda: DriftedWalk(mechanism(**_SHUFFLED), drift=-0.5, start=1.0),
    "schedule": lambda: TwoSidedWalk(mechanism(steps=8, step_size=_SCHEDULE, diameter=4.0)),
    "schedule, sampled": lambda: DriftedWalk(
        mechanism(**{**_WOR, "step_size": _SCHEDULE}), drift=0.5
    ),
    "Huber": lambda: mapped_pair(huber, lower=-2.7, upper=3.3),
    "Huber, cyclic": lambda: huber_pair(0),
    "Huber, cyclic, last": lambda: huber_pair(2),
    "clipped": lambda: mapped_pair(clipped),
    # pushed away from the middle and held further out: x + 0.15 (x - x^3 / 4) + push
    "double well": lambda: mapped_pair(
        lambda push: Mapped(PolynomialUpdate((push, 1.15, 0.0, -0.0375)))
    ),
    "expanding": lambda: mapped_pair(expanding),
    "contracting": lambda: mapped_pair(contracting),
    "flipping": lambda: mapped_pair(flipping),
    "absorbing": lambda: mapped_pair(lambda s: Affine(s), lower_wall=Wall.ABSORB),
    "absorbing both": lambda: mapped_pair(
        expanding, lower_wall=Wall.ABSORB, upper_wall=Wall.ABSORB
    ),
}
