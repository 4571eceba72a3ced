"""Independent samples of final iterates."""

from __future__ import annotations

import numpy as np

from audit import validate
from audit.constructions import Construction, Process
from audit.simulation.blocks import (
    LARGEST_OF_WALKS,
    Block,
    Progress,
    Stream,
    blocks,
    checked_run,
    run,
)
from audit.simulation.program import Floats
from audit.simulation.walks import walks


def final_iterates(
    pair: Construction,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Floats]:
    """Return independent samples of the final iterates of both processes of a pair.

    Parameters
    ----------
    pair
        The neighbouring pair (X, X').
    trials
        How many walks of each process.
    seed
        A whole number from 0. The same seed gives the same bits for any number of threads, and
        more trials leave the bits of full blocks of fewer trials as they are. The samples of X
        and of X' have random streams of their own, so they are independent of each other.
    threads
        How many threads; by default as many as the process may use cores.
    progress
        Called as ``progress(done, total)`` in the calling thread, after each block, in walk steps
        (as if every walk took the longest path).

    Returns
    -------
    tuple
        ``(x, x_prime)``, each float64 of shape ``(trials,)``, in the unit of the state.

    Raises
    ------
    ValueError
        If ``pair`` is no construction, ``trials`` or ``threads`` is no whole number of at least 1,
        ``seed`` is none of at least 0, or an update map returns what is not a finite number.
    """
    validate.instance(Construction, pair=pair)
    first, second = pair.processes()
    x, x_prime = _sampled(
        ((first, Stream.X), (second, Stream.X_PRIME)), trials, seed, threads, progress
    )
    return x, x_prime


def simulate(
    process: Process,
    *,
    trials: int,
    seed: int,
    stream: Stream = Stream.X,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Floats:
    """Return independent samples of the final iterate of one process, shape ``(trials,)``.

    As `final_iterates`, which gives the samples of X from ``Stream.X`` and those of X' from
    ``Stream.X_PRIME`` (bit by bit where its two walks have one length, as blocks are cut by the
    longer one).
    """
    validate.instance(Process, process=process)
    validate.instance(Stream, stream=stream)
    (x,) = _sampled(((process, stream),), trials, seed, threads, progress)
    return x


def _sampled(
    parts: tuple[tuple[Process, Stream], ...],
    trials: int,
    seed: int,
    threads: int | None,
    progress: Progress | None,
) -> list[Floats]:
    trials, seed, threads = checked_run(trials, seed, threads)
    made = [walks(process) for process, _ in parts]
    outputs = [np.empty(trials) for _ in parts]
    lengths = [len(process) for process, _ in parts]
    finished = 0

    def work(task: tuple[int, Block]) -> None:
        part, block = task
        outputs[part][block.start : block.stop] = made[part](block, seed, parts[part][1])

    def done(task: tuple[int, Block], _: None) -> None:
        nonlocal finished
        part, block = task
        finished += len(block) * lengths[part]
        if progress is not None:
            progress(finished, trials * sum(lengths))

    cut = blocks(trials, max(lengths), LARGEST_OF_WALKS)
    run(((part, block) for block in cut for part in range(len(parts))), work, done, threads=threads)
    return outputs
