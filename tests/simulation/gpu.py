"""Walks on a GPU against the same walks on the processor, bit by bit.

``python -m tests.simulation.gpu [TRIALS]`` runs on the machine's GPU, or in Numba's simulator with
``NUMBA_ENABLE_CUDASIM=1``. It prints a line for each case; the status is 1 if one differs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import audit
from audit import Batching
from audit.constructions import BiasedWalk, Construction, DriftedWalk, TwoSidedWalk
from audit.simulation import Parallel, gpu, rng, run_job
from audit.simulation.backends import Backend
from audit.simulation.iterates import walks_of
from audit.simulation.samples import Draw, Samples

WALK = audit.NoisySGD(
    steps=35, dataset_size=100, batch_size=100, step_size=1.0, noise_std=0.5, lipschitz=1.0,
    diameter=1.5, convex=True, smoothness=1.0,
)  # fmt: skip


def cases() -> Iterator[tuple[str, Construction]]:
    """Yield pairs whose steps a GPU knows."""
    yield "one line", TwoSidedWalk(WALK)
    yield "one step", TwoSidedWalk(replace(WALK, steps=1))
    sampled = replace(WALK, steps=18, batching=Batching.WITHOUT_REPLACEMENT, batch_size=10)
    yield "two lines", TwoSidedWalk(sampled)
    yield "unbounded", BiasedWalk(replace(WALK, steps=16, diameter=None))
    sizes = (1.0,) * 7 + (0.5, 2.0) * 6 + (1.0,)
    yield "schedule", TwoSidedWalk(replace(WALK, steps=20, step_size=sizes))
    cyclic = replace(WALK, steps=23, batching=Batching.CYCLIC, batch_size=20)
    yield "epochs", DriftedWalk(cyclic, drift=0.1)


def drawn(pair: Construction, draw: Draw, trials: int, *, block: int | None) -> bool:
    """Whether the GPU draws the processor's bits."""
    program = walks_of(pair)
    if block is not None:
        vars(program)["block_size"] = block
    job = Samples(program, draw, trials, seed=11)
    here, there = run_job(job), run_job(job, backend=Parallel(Backend.CUDA))
    same = all(a.tobytes() == b.tobytes() for a, b in zip(here, there, strict=True))
    # tasks may be of one block: here all are side by side
    known, blocks = gpu.on_gpu(job), range(len(job))
    assert known is not None
    return same and known.run(blocks).tobytes() == job.run(blocks).tobytes()


def simulated() -> None:
    """Let the simulator call compiled functions, which return plain integers to Python."""
    vars(gpu)["advanced"] = lambda *state: rng.advanced(*map(np.uint64, state))
    vars(gpu)["normal_pair"] = lambda k, m: rng.normal_pair(np.uint64(k), np.uint64(m))


def main() -> int:
    """Print each case and whether the bits are the same."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 10**6
    in_simulator = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
    if in_simulator:
        simulated()
    all_same = True
    for name, pair in cases():
        draws = [Draw(), *([Draw(thresholds=(-0.5, 0.0, 0.25))] if name == "two lines" else [])]
        for draw in draws:
            same = drawn(pair, draw, trials, block=35 if in_simulator else None)
            kept = "counts" if draw.adds_up else "iterates"
            print(f"{name}, {kept}: {'same' if same else 'differs'}")
            all_same &= same
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
