"""Sets of block numbers as ranges: ascending, and never touching each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Ranges = tuple[range, ...]


def joined(finished: Ranges, blocks: range) -> Ranges:
    """Return the ranges with some more blocks.

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


def size(finished: Iterable[range]) -> int:
    """Return how many blocks there are."""
    return sum(len(blocks) for blocks in finished)
