"""Numbered blocks of trials: their sizes, random streams and threads.

A block is a pure function of (process, seed, stream, block number). It follows that a run gives the
same bits for any number of threads, that a longer run starts with the blocks of a shorter one, and
that an interrupted run resumes at the next block.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from audit import validate

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Ranges = tuple[range, ...]  # of block numbers: ascending, and never touching each other
Progress = Callable[[int, int], object]
Task = TypeVar("Task")
Result = TypeVar("Result")

_SMALLEST, _LARGEST = 256, 4096  # trials
LARGEST_OF_WALKS = 2**16  # walks in one dimension are so fast that small blocks would cost time
_STEPS = 2**25  # walk steps in a block, some 0.2 s: how long an interrupt has to wait


class Stream(enum.IntEnum):
    """Purpose of a block's random numbers; each purpose has its own stream."""

    X = 0
    X_PRIME = 1


@dataclass(frozen=True)
class Block:
    """Trials ``start`` to ``stop`` of a run, as block ``number`` of its stream.

    Parameters
    ----------
    number : int
        Number of the block, from 0.
    start, stop : int
        First trial, and the one after the last.
    """

    number: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def sequence(self, seed: int, stream: Stream) -> np.random.SeedSequence:
        """Return the seed sequence of the block's generators.

        It is ``SeedSequence(seed).spawn(2)[stream].spawn(number + 1)[number]``, reached directly
        by its spawn key.

        Parameters
        ----------
        seed : int
            Seed of the run.
        stream : Stream
            Purpose of the random numbers.

        Returns
        -------
        numpy.random.SeedSequence
            The seed sequence.
        """
        return np.random.SeedSequence(seed, spawn_key=(int(stream), self.number))

    def generator(self, seed: int, stream: Stream) -> np.random.Generator:
        """Return the block's own generator.

        Parameters
        ----------
        seed : int
            Seed of the run.
        stream : Stream
            Purpose of the random numbers.

        Returns
        -------
        numpy.random.Generator
            The generator.
        """
        return np.random.Generator(np.random.SFC64(self.sequence(seed, stream)))


def block_size(steps: int, largest: int = _LARGEST) -> int:
    """Return the number of trials in a full block; it depends on the walk's length alone."""
    fitting = _STEPS // max(steps, 1)
    return min(max(1 << fitting.bit_length() - 1 if fitting else 0, _SMALLEST), largest)


def cut_into_blocks(trials: int, steps: int, largest: int = _LARGEST) -> Iterator[Block]:
    """Yield the blocks of ``trials`` walks of ``steps`` steps; the last one may be shorter.

    Parameters
    ----------
    trials : int
        Number of walks.
    steps : int
        Number of steps of a walk.
    largest : int, optional
        Largest number of trials in a block.

    Yields
    ------
    Block
        The blocks in order.

    Examples
    --------
    >>> from audit.simulation import cut_into_blocks
    >>> [len(block) for block in cut_into_blocks(10_000, 100, largest=4096)]
    [4096, 4096, 1808]
    """
    size = block_size(steps, largest)
    for number, start in enumerate(range(0, trials, size)):
        yield Block(number, start, min(start + size, trials))


def available_threads() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_run(trials: int, seed: int, threads: int | None) -> tuple[int, int, int]:
    """Return the three as plain integers, or raise the ``ValueError`` that names the bad one."""
    validate.integer(1, trials=trials)
    validate.integer(0, seed=seed)
    if threads is None:
        return int(trials), int(seed), available_threads()
    validate.integer(1, threads=threads)
    return int(trials), int(seed), int(threads)


class Blocks(Protocol):
    """Work cut into numbered blocks, each a pure function of the job and its number."""

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data (numbers, strings, lists, mappings) that fix every block, seed included.

        Looked at where blocks are recorded; raises ``ValueError`` if there can be none.
        """

    def __len__(self) -> int:
        """How many blocks there are."""

    def work(self, number: int) -> int:
        """How many walk steps block ``number`` takes, for the rate and the time left."""


class Job(Blocks, Protocol):
    """Blocks whose results add up.

    Jobs are picklable. The sum over all blocks is the result, wherever and in whatever order the
    blocks ran.
    """

    def counts(self, number: int) -> Counts:
        """Run block ``number`` and return its counts, of one shape for all blocks."""


class Samples(Blocks, Protocol):
    """Blocks whose results are kept, each in its own place; picklable, too."""

    def values(self, number: int) -> Floats:
        """Run block ``number`` and return its samples, one-dimensional."""

    def size(self, number: int) -> int:
        """How many samples block ``number`` returns."""


def union(finished: Ranges, blocks: range) -> Ranges:
    """Return the ranges with the given blocks added.

    Raises
    ------
    ValueError
        If a block is there already.
    """
    kept: list[range] = []
    start, stop = blocks.start, blocks.stop
    for done in finished:
        if done.start < blocks.stop and blocks.start < done.stop:
            raise ValueError(f"blocks must be counted once, got {blocks} beside {done}")
        if done.stop == blocks.start:
            start = done.start
        elif done.start == blocks.stop:
            stop = done.stop
        else:
            kept.append(done)
    return tuple(sorted([*kept, range(start, stop)], key=lambda each: each.start))


def missing(finished: Ranges, blocks: int) -> Iterator[range]:
    """Yield the ranges of block numbers below ``blocks`` that are not there."""
    start = 0
    for done in finished:
        if start < done.start:
            yield range(start, done.start)
        start = done.stop
    if start < blocks:
        yield range(start, blocks)


def block_count(finished: Iterable[range]) -> int:
    """Return how many blocks there are."""
    return sum(len(blocks) for blocks in finished)


def run_in_threads(
    tasks: Iterable[Task],
    work: Callable[[Task], Result],
    done: Callable[[Task, Result], object],
    *,
    threads: int,
) -> None:
    """Call ``done(task, work(task))`` for every task, ``work`` in up to ``threads`` threads.

    ``done`` is called in the calling thread, in the order in which tasks end. Few tasks are
    pending at a time, so their number costs no memory. An exception, or an interrupt, lets the
    blocks that are running finish and drops the others.

    Parameters
    ----------
    tasks : iterable of Task
        Arguments of ``work``.
    work : callable
        Called in up to ``threads`` threads.
    done : callable
        Called with a task and its result, in the calling thread.
    threads : int
        Number of threads.

    Examples
    --------
    >>> from audit.simulation import run_in_threads
    >>> squares = {}
    >>> run_in_threads(range(3), lambda x: x * x, squares.__setitem__, threads=2)
    >>> sorted(squares.items())
    [(0, 0), (1, 1), (2, 4)]
    """
    if threads == 1:
        for task in tasks:
            done(task, work(task))
        return
    pool = ThreadPoolExecutor(threads)
    pending: dict[Future[Result], Task] = {}

    def collect() -> None:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            done(pending.pop(future), future.result())

    try:
        for task in tasks:
            pending[pool.submit(work, task)] = task
            if len(pending) >= 2 * threads:
                collect()
        while pending:
            collect()
    finally:
        pool.shutdown(cancel_futures=True)
