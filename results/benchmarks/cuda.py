"""Speed of sampling on a CUDA device, beside its own speed of drawing random bits."""

from __future__ import annotations

import importlib.util
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

import audit
from audit import simulation
from audit.constructions import TwoSidedWalk
from audit.simulation.backends.cuda import device, kernels
from audit.simulation.backends.cuda.device import cuda
from audit.simulation.dimensions import Dataset, LinearScoreCounts, NoisySGDPair, Quadratic
from audit.simulation.rng import LANES
from results.benchmarks.timing import Measured
from results.benchmarks.walks import PAPER

DEVICE = simulation.Parallel(simulation.Kind.CUDA)
WALK_STEPS = 10**12  # of both processes
POINT_STEPS = 10**11  # of a coordinate, on both datasets
THRESHOLDS = tuple(np.linspace(-0.4, 0.4, 64).tolist())


def rows() -> list[Measured]:
    """Return seconds and shares on the device, or one row that says that there is none."""
    if importlib.util.find_spec("numba_cuda") is None or not cuda.is_available():
        return [Measured("sampling on a GPU: no CUDA device", math.nan, "")]
    walks = walk_seconds(WALK_STEPS)
    bits = bit_seconds(WALK_STEPS)
    points = point_seconds(POINT_STEPS)
    return [
        Measured("GPU: 10^12 steps, two-sided walk, 64 thresholds", walks, "s"),
        # 20 s on an H200; of the device alone, so no limit by the processor's yardstick
        Measured("  its speed", WALK_STEPS / walks / 1e9, "G/s", 50.0, at_least=True),
        Measured("  its share of the time for random bits alone", bits / walks, ""),
        Measured("GPU: quadratics, d = 100, coordinates moved", POINT_STEPS / points / 1e9, "G/s"),
    ]


def walk_seconds(steps: int, mechanism: audit.NoisySGD = PAPER) -> float:
    """Return the seconds that so many steps of the two-sided walk take, with their counts."""
    batch = mechanism.dataset_size
    full = replace(mechanism, batching=audit.Batching.FULL, batch_size=batch)
    job = simulation.WalkCounts(
        pair=TwoSidedWalk(full),
        thresholds=THRESHOLDS,
        trials=max(1, steps // (2 * full.steps)),
        seed=1,
    )
    return _seconds(job, replace(job, trials=min(job.trials, 1000)))


def point_seconds(coordinate_steps: int, dimension: int = 100, steps: int = 100) -> float:
    """Return the seconds that quadratics take to move so many coordinates."""
    mechanism = audit.NoisySGD(
        steps=steps,
        dataset_size=10,
        batch_size=10,
        step_size=0.1,
        noise_std=1.0,
        gradient_sensitivity=2.0,
        smoothness=1.0,
        batching=audit.Batching.FULL,
    )
    dataset = Dataset(np.zeros((10, dimension)))
    direction = np.eye(dimension)[0]
    pair = NoisySGDPair(
        mechanism=mechanism,
        loss=Quadratic(1.0),
        dataset=dataset,
        dataset_prime=dataset.replacing(0, direction),
    )
    job = LinearScoreCounts(
        pair=pair,
        direction=direction,
        thresholds=THRESHOLDS,
        trials=max(1, coordinate_steps // (2 * steps * dimension)),
        seed=1,
    )
    return _seconds(job, replace(job, trials=min(job.trials, 1000)))


def bit_seconds(words: int) -> float:
    """Return the seconds that the device takes to draw so many words of 64 bits, and no more."""
    blocks = 4 * device.resident_blocks(1)
    out = device.empty((blocks * LANES,), np.uint64)
    _draw_bits[blocks, LANES](1, out)
    cuda.synchronize()
    clock = time.perf_counter()
    _draw_bits[blocks, LANES](max(1, words // (blocks * LANES)), out)
    cuda.synchronize()
    return time.perf_counter() - clock


@device.kernel(registers=64)
def _draw_bits(rounds: int, out: Any) -> None:
    lane = cuda.blockIdx.x * LANES + cuda.threadIdx.x
    a = b = c = counter = np.uint64(lane + 1)
    sink = np.uint64(0)
    for _ in range(rounds):
        word, a, b, c, counter = kernels.advanced(a, b, c, counter)
        sink ^= word
    out[lane] = sink


def _seconds(job: Any, shorter: Any) -> float:
    """Return the wall seconds of a job, after a shorter one that compiles."""
    simulation.run_job(shorter, backend=DEVICE)
    clock = time.perf_counter()
    simulation.run_job(job, backend=DEVICE)
    return time.perf_counter() - clock
