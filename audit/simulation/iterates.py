"""Independent samples of final iterates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from audit import validate
from audit.constructions import Construction, Process
from audit.simulation.blocks import (
    LARGEST_OF_WALKS,
    Block,
    Progress,
    Stream,
    block_size,
    checked_run,
)
from audit.simulation.describing import described, digest_of
from audit.simulation.jobs import Floats
from audit.simulation.parallel import Kind, Parallel
from audit.simulation.parallel_answers import Pool, drawn
from audit.simulation.records_samples import recorded_samples
from audit.simulation.runs import spread
from audit.simulation.walks import DRAWS, Walks, walks


def final_iterates(
    pair: Construction,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
    backend: Parallel | Pool | None = None,
    folder: str | Path | None = None,
    record_every: float = 5.0,
) -> tuple[Floats, Floats]:
    """Return independent samples of the final iterates of both processes of a pair.

    Parameters
    ----------
    pair
        The neighbouring pair (X, X').
    trials
        How many walks of each process.
    seed
        A whole number from 0. The same seed gives the same bits for any number of threads and on
        any backend, and more trials leave the bits of full blocks of fewer trials as they are. The
        samples of X and of X' have random streams of their own, so they are independent of each
        other.
    threads
        How many threads; by default as many as the process may use cores.
    progress
        Called as ``progress(done, total)`` in the calling thread, at the beginning and after
        blocks, in walk steps (as if every walk took the longest path).
    backend
        Where blocks run, in place of threads.
    folder
        Where a long run keeps its finished blocks, 16 bytes a trial; the same call goes on from
        them. It is not removed at the end. None keeps nothing, nor does a run of less than
        ``record_every`` seconds.
    record_every
        Seconds from one file in the folder to the next, at least.

    Returns
    -------
    tuple
        ``(x, x_prime)``, each float64 of shape ``(trials,)``, in the unit of the state.

    Raises
    ------
    ValueError
        If ``pair`` is no construction, ``trials`` or ``threads`` is no whole number of at least 1,
        ``seed`` is none of at least 0, the samples do not fit into memory, or an update map returns
        what is not a finite number; if the folder belongs to another configuration, is damaged or
        in use, or workers run other versions of the software.
    ConnectionError
        If the cluster is not there, or is lost.
    OSError
        If the folder cannot be written to.
    """
    validate.instance(Construction, pair=pair)
    trials, seed, threads = checked_run(trials, seed, threads)
    first, second = pair.processes()
    parts = ((first, Stream.X), (second, Stream.X_PRIME))
    where = Parallel(Kind.THREADS, threads) if backend is None else backend
    job = Iterates(parts, trials, seed, pair)
    outputs = _empty(job)
    if folder is None:
        _fill(job, outputs, where, progress)
    else:
        validate.nonnegative(record_every=record_every)
        _fill_recorded(job, outputs, where, progress, Path(folder), record_every)
    return outputs[0], outputs[1]


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
    trials, seed, threads = checked_run(trials, seed, threads)
    job = Iterates(((process, stream),), trials, seed)
    outputs = _empty(job)
    _fill(job, outputs, Parallel(Kind.THREADS, threads), progress)
    return outputs[0]


@dataclass(frozen=True)
class Iterates:
    """Final iterates in numbered blocks, an `audit.simulation.jobs.Samples`.

    The blocks of the parts take turns: of two parts, block 2k is block k of the first.
    """

    parts: tuple[tuple[Process, Stream], ...]
    trials: int
    seed: int
    pair: Construction | None = None  # what the parts are made of, for the description

    @property
    def description(self) -> Mapping[str, Any]:
        """Plain data that fix every sample, seed and source of random numbers included."""
        return {
            "job": type(self).__name__,
            "pair": described(self.pair),
            "walks": self._walks_digest,
            "trials": self.trials,
            "block": self._size,
            "seed": self.seed,
            "draws": DRAWS,
        }

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size) * len(self.parts)

    def work(self, number: int) -> int:
        """How many walk steps block ``number`` takes, as if every walk took the longest path."""
        part, block = self.place(number)
        return len(block) * self._lengths[part]

    def size(self, number: int) -> int:
        """How many samples block ``number`` returns."""
        return len(self.place(number)[1])

    def values(self, number: int) -> Floats:
        """Run block ``number``; shape (trials of the block,)."""
        part, block = self.place(number)
        return self._walks[part](block, self.seed, self.parts[part][1])

    def place(self, number: int) -> tuple[int, Block]:
        """Return the part that block ``number`` is of, and its place there."""
        inner, part = divmod(number, len(self.parts))
        start = inner * self._size
        return part, Block(inner, start, min(start + self._size, self.trials))

    @cached_property
    def _walks_digest(self) -> str:
        # a pair's fields say nothing of the code that makes its walks
        return digest_of(self.parts)

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(len(process) for process, _ in self.parts)

    @cached_property
    def _size(self) -> int:
        return block_size(max(self._lengths), LARGEST_OF_WALKS)

    @cached_property
    def _walks(self) -> tuple[Walks, ...]:
        return tuple(walks(process) for process, _ in self.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields alone: what they are made ready into may hold functions."""
        return Iterates, (self.parts, self.trials, self.seed, self.pair)


def _empty(job: Iterates) -> list[Floats]:
    try:
        return [np.empty(job.trials) for _ in job.parts]
    except (MemoryError, ValueError) as error:
        raise validate.fail(
            "trials", "so few that their samples fit into memory", job.trials
        ) from error


def _fill(
    job: Iterates, outputs: list[Floats], where: Parallel | Pool, progress: Progress | None
) -> None:
    spread(
        job,
        partial(drawn, job),
        lambda blocks, values: _put(job, outputs, blocks, values),
        finished=(),
        backend=where,
        progress=progress,
    )


def _fill_recorded(
    job: Iterates,
    outputs: list[Floats],
    where: Parallel | Pool,
    progress: Progress | None,
    folder: Path,
    seconds: float,
) -> None:
    with recorded_samples(folder, job, seconds=seconds) as records:
        for blocks, values in records.found():
            _put(job, outputs, blocks, values)

        def take(blocks: range, values: Floats) -> None:
            _put(job, outputs, blocks, values)
            records.add(blocks, values)

        spread(
            job,
            partial(drawn, job),
            take,
            finished=records.finished,
            backend=where,
            progress=progress,
        )


def _put(job: Iterates, outputs: list[Floats], blocks: range, values: Floats) -> None:
    at = 0
    for number in blocks:
        part, block = job.place(number)
        outputs[part][block.start : block.stop] = values[at : at + len(block)]
        at += len(block)
    if at != values.size:
        raise RuntimeError(f"{at} samples must come from {blocks}, got {values.size}")
