"""The events in the proof of paper 000's lower bound, counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import validate
from audit.constructions import Affine, AuxiliaryWalk, Process
from audit.simulation.blocks import (
    LARGEST_OF_WALKS,
    Block,
    Progress,
    Stream,
    blocks,
    checked_run,
    run_in_threads,
)
from audit.simulation.samplers import counted_walks

_SPREAD = 0.15  # Delta of item (i)


@dataclass(frozen=True, kw_only=True)
class AuxiliaryEvents:
    """How many of ``trials`` walks of omega'' fell into each event of paper 000, appendix A.4.

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
    seed
        The seed of the run.
    """

    trials: int
    concentrated: int
    unprojected: int
    both: int
    positive: int
    both_and_positive: int
    seed: int


def auxiliary_events(
    walk: AuxiliaryWalk,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> AuxiliaryEvents:
    """Count the events of paper 000, appendix A.4, over independent walks of omega''.

    No iterate is kept. Random streams are those of ``Stream.EVENTS``: independent of the samples
    that `final_iterates` draws with the same seed. The other parameters are those of
    `final_iterates`.

    Raises
    ------
    ValueError
        If ``walk`` is no `AuxiliaryWalk`, ``trials`` or ``threads`` is no whole number of at
        least 1, or ``seed`` is none of at least 0.
    """
    validate.instance(AuxiliaryWalk, walk=walk)
    trials, seed, threads = checked_run(trials, seed, threads)
    process = walk.processes()[1]
    walked = counted_walks(process)
    fewest, most = _usual_jumps(process)
    counts = np.zeros(5, dtype=np.int64)
    finished = 0

    def work(block: Block) -> list[int]:
        x, jumps, met = walked(block, seed, Stream.EVENTS)
        usual = (fewest <= jumps) & (jumps <= most)
        free = met == 0
        beyond = walk.direction * x >= 0
        events = (usual, free, usual & free, beyond, usual & free & beyond)
        return [int(np.count_nonzero(event)) for event in events]

    def done(block: Block, result: list[int]) -> None:
        nonlocal finished
        counts[:] += result
        finished += len(block) * len(process)
        if progress is not None:
            progress(finished, trials * len(process))

    run_in_threads(blocks(trials, len(process), LARGEST_OF_WALKS), work, done, threads=threads)
    concentrated, unprojected, both, positive, both_and_positive = counts.tolist()
    return AuxiliaryEvents(
        trials=trials,
        concentrated=concentrated,
        unprojected=unprojected,
        both=both,
        positive=positive,
        both_and_positive=both_and_positive,
        seed=seed,
    )


def _usual_jumps(process: Process) -> tuple[int, int]:
    """Return the fewest and most jumps of item (i).

    All jumps of omega'' have one size, so Y is that size times their number.
    """
    expected = math.fsum(
        path.probability * segment.times * weight
        for path in process.paths
        for segment in path.segments
        for step in segment.steps
        for update, weight in zip(step.maps, step.weights, strict=True)
        if isinstance(update, Affine) and update.shift
    )
    slack = 1e-9 * expected  # a limit that is a whole number counts, however it was rounded
    low, high = (1 - _SPREAD) * expected, (1 + _SPREAD) * expected
    return math.ceil(low - slack), math.floor(high + slack)
