"""Independent samples of final iterates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from audit import validate
from audit.constructions import Construction, Process
from audit.simulation import mapped
from audit.simulation.blocks import Block, Progress, Stream, blocks, checked_run, run
from audit.simulation.program import Floats, compiled, is_affine

Fill = Callable[[np.random.Generator, Floats], None]


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
        Called as ``progress(done, total)``, in walk steps, in the calling thread, after each block.

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
    ``Stream.X_PRIME``.
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
    fills = [_fill(process) for process, _ in parts]
    outputs = [np.empty(trials) for _ in parts]
    total = trials * sum(len(process) for process, _ in parts)
    finished = 0

    def work(task: tuple[int, Block]) -> None:
        part, block = task
        rng = block.generator(seed, parts[part][1])
        fills[part](rng, outputs[part][block.start : block.stop])

    def done(task: tuple[int, Block], _: None) -> None:
        nonlocal finished
        part, block = task
        finished += len(block) * len(parts[part][0])
        if progress is not None:
            progress(finished, total)

    tasks = (
        (part, block)
        for part, (process, _) in enumerate(parts)
        for block in blocks(trials, len(process))
    )
    run(tasks, work, done, threads=threads)
    return outputs


def _fill(process: Process) -> Fill:
    """Return what fills an array with final iterates: the compiled loop if it can."""
    if not is_affine(process):
        return lambda rng, out: mapped.fill(rng, process, out)
    from audit.simulation import kernels  # imports Numba, so not before it is needed

    program = compiled(process)
    return lambda rng, out: kernels.fill(rng, program, out)
