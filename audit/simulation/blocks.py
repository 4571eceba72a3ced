"""Numbered blocks of trials: their sizes and random streams.

A block is a pure function of (process, seed, stream, block number). It follows that a run gives the
same bits for any number of threads, that a longer run starts with the blocks of a shorter one, and
that an interrupted run resumes at the next block.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Ranges = tuple[range, ...]  # ranges of block numbers, ascending and never adjacent
Progress = Callable[[int, int], object]

_MIN_TRIALS, _MAX_TRIALS = 256, 4096  # trials
MAX_WALKS = 2**16  # walks in one dimension are so fast that small blocks would cost time
_BLOCK_STEPS = 2**25  # walk steps in a block, some 0.2 s: how long an interrupt has to wait


class Stream(enum.IntEnum):
    """Purpose of a block's random numbers; each purpose has its own stream."""

    X = 0
    X_PRIME = 1


@dataclass(frozen=True)
class Block:
    """Trials ``start`` up to ``stop`` of a run, as block ``number`` of its stream."""

    number: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def sequence(self, seed: int, stream: Stream) -> np.random.SeedSequence:
        """Return the seed sequence of the block's generators.

        It is ``SeedSequence(seed).spawn(2)[stream].spawn(number + 1)[number]``, reached directly
        by its spawn key.
        """
        return np.random.SeedSequence(seed, spawn_key=(int(stream), self.number))

    def generator(self, seed: int, stream: Stream) -> np.random.Generator:
        """Return the block's own generator."""
        return np.random.Generator(np.random.SFC64(self.sequence(seed, stream)))


def block_size(steps: int, largest: int = _MAX_TRIALS) -> int:
    """Return the number of trials in a full block; it depends on the walk's length alone."""
    fitting = _BLOCK_STEPS // max(steps, 1)
    return min(max(1 << fitting.bit_length() - 1 if fitting else 0, _MIN_TRIALS), largest)


def cut_into_blocks(trials: int, steps: int, largest: int = _MAX_TRIALS) -> Iterator[Block]:
    """Yield the blocks of ``trials`` walks of ``steps`` steps; the last one may be shorter."""
    size = block_size(steps, largest)
    for number, start in enumerate(range(0, trials, size)):
        yield Block(number, start, min(start + size, trials))


def available_threads() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def union(finished: Ranges, blocks: range) -> Ranges:
    """Return the ranges with the given blocks added."""
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
