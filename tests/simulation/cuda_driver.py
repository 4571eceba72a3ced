"""Compare a CUDA device with the processor, and print what was found as JSON.

``python -m tests.simulation.cuda_driver``, in a process of its own: Numba's simulator of a device
(``NUMBA_ENABLE_CUDASIM=1``) must be asked for before Numba is imported.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from typing import Any
from unittest import mock

import numpy as np

from audit import Batching
from audit.constructions import BiasedWalk
from audit.simulation import WalkCounts, iterates
from audit.simulation.backends import Kind, Parallel
from audit.simulation.backends.cuda import kernels
from audit.simulation.backends.cuda.launches import Device
from audit.simulation.blocks import Stream
from audit.simulation.dimensions import (
    Ball,
    Box,
    Clipped,
    Huber,
    LinearScoreCounts,
    Logistic,
    NoisySGDPair,
    Quadratic,
    WholeSpace,
    final_points,
)
from audit.simulation.iterates import Iterates
from audit.simulation.scheduler import HERE, Drawn, run_job, spread
from tests.simulation import cases
from tests.simulation.dimensions import cases as points
from tests.simulation.dimensions.test_kernels import VARIANTS

CUDA = Parallel(Kind.CUDA)
ROUNDS = kernels.LANES + 3  # of all lanes, and of some
POINTS = {
    "shuffled, box": points.pair(Huber(1.5, 0.7), Box(0.9), Batching.SHUFFLED),
    "without replacement": points.pair(Logistic(0.4), Ball(1.6), Batching.WITHOUT_REPLACEMENT),
    "Poisson, clipped": points.pair(
        Clipped(Logistic(0.4), 0.6), WholeSpace(), Batching.POISSON, steps=6
    ),
    "full, summed": points.pair(Quadratic(0.8), Ball(1.6), Batching.FULL),
    "cyclic": points.pair(Huber(1.5, 0.7), Ball(1.6)),
    **{
        name: NoisySGDPair(
            mechanism=points.mechanism(diameter=1.6, **VARIANTS[name]),
            loss=Quadratic(0.8),
            dataset=points.pair(Quadratic(0.8), Ball(1.6)).dataset,
            dataset_prime=points.pair(Quadratic(0.8), Ball(1.6)).dataset_prime,
            domain=Ball(1.6),
        )
        for name in ("stop, reshuffled", "allocated twice", "truncated Poisson", "skip")
    },
}


def drawn(job: Any, where: Parallel) -> np.ndarray:
    """All samples of a job, block by block."""
    found: list[np.ndarray] = []
    spread(
        job,
        Drawn(job),
        lambda _, values: found.append(values),
        finished=(),
        backend=where,
        progress=None,
    )
    return np.concatenate(found)


def walks_of(name: str, trials: int) -> Iterates:
    """A job that returns final iterates of a process."""
    return Iterates(((cases.COMPILED[name](), Stream.X),), trials, seed=5)


def compared(job: Any) -> str:
    """What a device says of its first runs, which it compares bit by bit; nothing if all is well.

    A few runs are enough where lanes are all alike, as a simulated thread takes a millisecond.
    """
    return message(lambda: Device(job.device_work()))


def walked(name: str, trials: int) -> bool:
    """Whether all final iterates of a job have the bits of the processor's."""
    job = walks_of(name, trials)
    here, there = drawn(job, HERE), drawn(job, CUDA)
    return here.tobytes() == there.tobytes() and np.unique(there).size > trials / 4


def counted(thresholds: int, trials: int) -> bool:
    """Whether counts at thresholds are those of the processor, in blocks of an odd size."""
    pair = BiasedWalk(cases.mechanism(batching=Batching.SHUFFLED, steps=8))
    grid = tuple(np.linspace(-0.45, 0.45, thresholds).tolist())
    job = WalkCounts(pair=pair, thresholds=grid, trials=trials, seed=2)
    with mock.patch.object(iterates, "block_size", return_value=150):
        here = run_job(job)
        return bool(np.array_equal(here, run_job(job, backend=CUDA)) and here.max() > 0)


def resumed() -> bool:
    """Whether one half of the blocks here and the other half there are the whole."""
    job = WalkCounts(pair=BiasedWalk(cases.mechanism()), thresholds=(0.0,), trials=301, seed=2)

    def interrupt(done: int, _: int) -> None:
        if done:
            raise KeyboardInterrupt

    with (
        mock.patch.object(iterates, "block_size", return_value=150),
        tempfile.TemporaryDirectory() as folder,
    ):
        with contextlib.suppress(KeyboardInterrupt):
            run_job(job, folder=folder, progress=interrupt, record_every=0.0)
        return bool(np.array_equal(run_job(job, folder=folder, backend=CUDA), run_job(job)))


def scores_of(name: str, trials: int) -> LinearScoreCounts:
    """A job that counts scores of points in d dimensions."""
    pair = POINTS[name]
    return LinearScoreCounts(
        pair=pair,
        direction=np.arange(1.0, 1.0 + pair.dimension),
        thresholds=np.linspace(-2.0, 2.0, 9),
        trials=trials,
        seed=3,
    )


def scored(name: str, trials: int) -> bool:
    """Whether scores are counted as on the processor."""
    job = scores_of(name, trials)
    return bool(np.array_equal(run_job(job), run_job(job, backend=CUDA)))


def pointed(name: str, trials: int) -> bool:
    """Whether points themselves are those of the processor."""
    found = [
        final_points(POINTS[name], trials=trials, seed=4, backend=where)
        for where in (None, HERE, CUDA)
    ]
    return len({b"".join(x.tobytes() for x in each) for each in found}) == 1


def message(call: Any) -> str:
    """The message of the error that a call raises."""
    try:
        call()
    except (ValueError, RuntimeError, ConnectionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def separately_rounded(
    x: float, slope: float, shift: float, std: float, z: float, lower: float, upper: float
) -> float:
    """A step whose noise is a product that is rounded before it is added."""
    return float(min(max(slope * x + shift + std * z, lower), upper))


def far_away(x: float, g: float, z: float, scale: float, std: float, half_side: float) -> float:
    """A step in d dimensions that subtracts the gradient after it has added the noise."""
    y = (x + std * z) - scale * g
    return float(min(max(y, -half_side), half_side))


def planted() -> dict[str, str]:
    """What is said where the device rounds otherwise than the processor."""
    with mock.patch.object(kernels, "stepped", separately_rounded):
        walk = compared(walks_of("two-sided, full", 3))
    with mock.patch.object(kernels, "moved", far_away):
        point = compared(scores_of("full, summed", 3))
    return {"walk": walk, "points": point}


def refused() -> dict[str, str]:
    """What is said of what no device can run."""
    mapped = Iterates(((cases.MAPPED["double well"](), Stream.X),), 3, seed=5)
    grows = Iterates(
        ((cases.process(cases.Step((cases.Affine(0.0, 1e9),), (1.0,), 1.0), times=50),
          Stream.X),), 3, seed=5,
    )  # fmt: skip
    return {
        "Python maps": message(lambda: drawn(mapped, CUDA)),
        "diverged": message(lambda: drawn(grows, CUDA)),
    }


def main() -> None:
    """Print all comparisons."""
    found = {
        "walks": {name: compared(walks_of(name, 3)) for name in cases.COMPILED},
        "points": {name: compared(scores_of(name, 3)) for name in POINTS},
        "jobs": {
            "walks in rounds, of several paths": walked("paths of three lengths", ROUNDS),
            "counts in shared memory": counted(64, 170),
            "counts in the device's memory": counted(kernels.BINS + 1, 170),
            "points in rounds": scored("without replacement", ROUNDS),
            "points": pointed("Poisson, clipped", ROUNDS),
            "a checkpoint that continues": resumed(),
        },
        "planted": planted(),
        "refused": refused(),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
