"""The auxiliary process of Altschuler and Talwar 2022, section 4 and appendix A.4.

The process omega'' starts at the end of the domain that the bias of the biased walk points away
from, ``burn_in`` steps before the last one, jumps like the biased walk, and is clamped only at the
other end. The biased walk dominates it, which is how the proof bounds the biased walk. No dataset
produces omega'', so it is no construction and certifies nothing about the mechanism.

The proof needs events of whole paths (the number of jumps, and whether the wall was met), which
`audit.simulation` does not count. So the walk has compiled loops of its own here. They draw as
`audit.simulation.kernels` does.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from audit.constructions import Affine, BiasedWalk, Process, Step
from audit.mechanism import Batching, NoisySGD
from audit.simulation import Block, cut_into_blocks, run_in_threads

SPREAD = 0.15  # Delta of item (i)
SAMPLED = (Batching.FULL, Batching.WITHOUT_REPLACEMENT, Batching.POISSON)

_STREAM = 2  # of a seed's random numbers: 0 and 1 are the samples of X and X'
_CHUNK = 16  # steps whose normals are drawn together
_MAX_BLOCK = 2**16  # trials


def burn_in(mechanism: NoisySGD) -> int:
    """Return T-bar = 0.75 D n / (L eta), rounded up."""
    travel = mechanism.constant_step_size * mechanism.steepest_gradient / mechanism.dataset_size
    return math.ceil(0.75 * float(mechanism.diameter or math.inf) / travel * (1 - 1e-12))


def check(mechanism: NoisySGD) -> None:
    """Raise the ``ValueError`` that says why a mechanism has no auxiliary process."""
    if mechanism.diameter is None:
        raise ValueError("mechanism must have a bounded domain, got diameter=None")
    if isinstance(mechanism.step_size, tuple):
        raise ValueError("mechanism must have one constant step_size, got a schedule")
    if mechanism.batching not in SAMPLED:
        raise ValueError(
            "mechanism must have full batches or batches that are drawn in every step, "
            f"got batching={mechanism.batching.value!r}"
        )
    if mechanism.steps < burn_in(mechanism):
        raise ValueError(
            f"mechanism must have steps of at least 0.75 D n/(L eta) = {burn_in(mechanism)}, "
            f"got steps={mechanism.steps}"
        )


def auxiliary_process(walk: BiasedWalk) -> Process:
    """Return omega'' of a biased walk whose mechanism passes `check`."""
    biased = walk.processes()[1]
    right = walk.direction > 0
    return dataclasses.replace(
        biased.truncated(burn_in(walk.mechanism)),  # all steps are alike
        start=biased.lower if right else biased.upper,
        lower=-math.inf if right else biased.lower,
        upper=biased.upper if right else math.inf,
    )


@dataclass(frozen=True, kw_only=True)
class AuxiliaryEvents:
    """Counts of ``trials`` walks of omega'' in each event of the proof.

    Parameters
    ----------
    trials
        The number of independent walks.
    concentrated
        Item (i): the total bias Y lies in [1 - 0.15, 1 + 0.15] E[Y].
    unprojected
        Item (ii): the walk stayed below D/2 at every time (above -D/2 for the mirrored walk).
    both
        The event E: (i) and (ii). The proof claims P[E] >= 0.9 (Observation A.1).
    positive
        omega''_T >= 0 (<= 0 for the mirrored walk).
    both_and_positive
        E and omega''_T >= 0, with which the proof's last display begins.
    """

    trials: int
    concentrated: int
    unprojected: int
    both: int
    positive: int
    both_and_positive: int


def auxiliary_events(
    walk: BiasedWalk,
    *,
    trials: int,
    seed: int,
    threads: int,
    progress: Callable[[int, int], object] | None = None,
) -> AuxiliaryEvents:
    """Count the events of the proof over independent walks of omega''.

    The counts depend on ``seed``, and not on ``threads``. They are independent of the samples that
    `audit.simulation.final_iterates` draws with the same seed.
    """
    process = auxiliary_process(walk)
    steps = len(process)
    fewest, most = _usual_jumps(process)
    run_block = _block_walker(process)
    counts = np.zeros(5, dtype=np.int64)
    finished = 0

    def work(block: Block) -> list[int]:
        x, jumps, met = run_block(block, seed)
        usual = (fewest <= jumps) & (jumps <= most)
        free = ~met
        beyond = walk.direction * x >= 0
        events = (usual, free, usual & free, beyond, usual & free & beyond)
        return [int(np.count_nonzero(event)) for event in events]

    def done(block: Block, result: list[int]) -> None:
        nonlocal finished
        counts[:] += result
        finished += len(block) * steps
        if progress is not None:
            progress(finished, trials * steps)

    run_in_threads(cut_into_blocks(trials, steps, _MAX_BLOCK), work, done, threads=threads)
    concentrated, unprojected, both, positive, both_and_positive = counts.tolist()
    return AuxiliaryEvents(
        trials=trials,
        concentrated=concentrated,
        unprojected=unprojected,
        both=both,
        positive=positive,
        both_and_positive=both_and_positive,
    )


def _only_step(process: Process) -> Step:
    (step,) = process.distinct_steps()
    return step


def _shifts(process: Process) -> list[tuple[float, float]]:
    """Return the displacements of a step that have a chance, each with its probability."""
    step = _only_step(process)
    maps = [(m, w) for m, w in zip(step.maps, step.weights, strict=True) if w > 0]
    return [(float(m.shift), float(w)) for m, w in maps if isinstance(m, Affine)]


def _usual_jumps(process: Process) -> tuple[int, int]:
    """Return the fewest and most jumps of item (i).

    All jumps of omega'' have one size, so Y is that size times their number.
    """
    expected = math.fsum(len(process) * weight for shift, weight in _shifts(process) if shift)
    slack = 1e-9 * expected  # a limit that is a whole number counts, however it was rounded
    low, high = (1 - SPREAD) * expected, (1 + SPREAD) * expected
    return math.ceil(low - slack), math.floor(high + slack)


def _block_walker(process: Process) -> Callable[[Block, int], tuple[Any, Any, Any]]:
    """Return the function ``(block, seed) -> (final iterates, jumps, whether the wall was met)``.

    The map of smaller weight is drawn where the step's random bits are below ``limit``.
    """
    from audit.simulation import LANES, aligned, seeded  # imports Numba

    shifts = sorted(_shifts(process), key=lambda pair: pair[1])
    (rare, first), (usual, second) = shifts if len(shifts) == 2 else [(0.0, 0.0), *shifts]
    share = Fraction(first) / (Fraction(first) + Fraction(second))
    limit = np.uint64(min(round(share * 2**64), 2**64 - 1))
    loop = _compiled_loop()
    walls, start = (float(process.lower), float(process.upper)), float(process.start)
    steps, std, drawn = len(process), float(_only_step(process).noise_std), len(shifts) == 2

    def run(block: Block, seed: int) -> tuple[Any, Any, Any]:
        sequence = np.random.SeedSequence(seed, spawn_key=(_STREAM, block.number))
        x, jumps = np.empty(len(block)), np.zeros(len(block), dtype=np.int64)
        met = np.zeros(len(block), dtype=np.bool_)
        normals = aligned(_CHUNK * LANES)
        words = seeded(sequence)
        loop(
            words,
            normals,
            x,
            jumps,
            met,
            start,
            steps,
            rare,
            usual,
            limit,
            drawn,
            std,
            walls,
        )
        return x, jumps, met

    return run


@functools.cache
def _compiled_loop() -> Any:
    """Return the loop over all steps of all walks, compiled at the first call."""
    from audit.simulation import LANES, compiled_loop, draw, fill_normals

    @compiled_loop
    def loop(
        words: Any,
        normals: Any,
        x: Any,
        jumps: Any,
        met: Any,
        start: float,
        steps: int,
        rare: float,
        usual: float,
        limit: Any,
        drawn: bool,
        std: float,
        walls: tuple[float, float],
    ) -> None:
        lower, upper = walls
        pairs = normals.reshape(-1, 2 * LANES)
        for first in range(0, x.size, LANES):
            count = min(LANES, x.size - first)
            state, jumped, ended = x[first:], jumps[first:], met[first:]
            state[:count] = start
            for done in range(steps):
                row = done % _CHUNK
                if row == 0:
                    fill_normals(words, (min(_CHUNK, steps - done) + 1) // 2, pairs)
                noise = normals[row * LANES :]
                for lane in range(count):
                    shift = usual
                    if drawn and draw(words, lane) < limit:
                        shift = rare
                    y = state[lane] + shift + std * noise[lane]
                    state[lane] = min(max(y, lower), upper)
                    jumped[lane] += 1 if shift != 0.0 else 0
                    ended[lane] |= (y <= lower) | (y >= upper)

    return loop
