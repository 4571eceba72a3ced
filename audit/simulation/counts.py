"""Counts of final iterates beyond thresholds, without keeping any iterate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.constructions import Construction
from audit.simulation.blocks import (
    LARGEST_OF_WALKS,
    Block,
    Progress,
    Stream,
    block_size,
    checked_run,
    run,
)
from audit.simulation.describing import described, digest_of
from audit.simulation.jobs import Counts
from audit.simulation.walks import DRAWS, Walks, walks

_MOST_THRESHOLDS = 10**6  # each takes 16 bytes in every result of a block


@dataclass(frozen=True, kw_only=True)
class WalkCounts:
    """How many final iterates of X and of X' are at or above each threshold.

    An `audit.simulation.jobs.Job`: its counts, added up over all blocks, are those that
    `audit.estimation.Summary` holds, of ``trials`` walks a side, and those of the samples
    ``final_iterates(pair, trials=trials, seed=seed)``. Block k counts the same trials of both.

    Parameters
    ----------
    pair
        The neighbouring pair (X, X').
    thresholds
        Distinct finite numbers, ascending, in the unit of the state; at most a million.
    trials
        How many walks of each process.
    seed
        A whole number from 0.

    Raises
    ------
    ValueError
        If a parameter is not as said.
    """

    pair: Construction
    thresholds: tuple[float, ...]
    trials: int
    seed: int

    def __post_init__(self) -> None:
        validate.instance(Construction, pair=self.pair)
        thresholds = _few(self.thresholds)
        if np.any(np.diff(thresholds) <= 0):
            raise validate.fail("thresholds", "distinct and ascending", thresholds.tolist())
        object.__setattr__(self, "thresholds", tuple(thresholds.tolist()))
        trials, seed, _ = checked_run(self.trials, self.seed, 1)
        object.__setattr__(self, "trials", trials)
        object.__setattr__(self, "seed", seed)

    @property
    def description(self) -> Mapping[str, Any]:
        """Plain data that fix every count, seed and source of random numbers included."""
        return {
            "job": type(self).__name__,
            "construction": self.pair.name,
            "pair": described(self.pair),
            "walks": self._walks_digest,
            "thresholds": list(self.thresholds),
            "trials": self.trials,
            "block": self._size,
            "seed": self.seed,
            "draws": DRAWS,
        }

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size)

    def work(self, number: int) -> int:
        """How many walk steps block ``number`` takes, as if every walk took the longest path."""
        return len(self._block(number)) * sum(self._lengths)

    def counts(self, number: int) -> Counts:
        """Run block ``number``; row 0 counts X and row 1 X', shape (2, thresholds)."""
        from audit.simulation import kernels  # imports Numba, so not before it is needed

        block = self._block(number)
        thresholds = np.array(self.thresholds)
        found = np.zeros((2, thresholds.size), dtype=np.int64)
        for walked, stream, row in zip(self._walks, (Stream.X, Stream.X_PRIME), found, strict=True):
            kernels.count_reached(walked(block, self.seed, stream), thresholds, row)
        return found

    @cached_property
    def _walks_digest(self) -> str:
        # a pair's fields say nothing of the code that makes its walks
        return digest_of(self.pair.processes())

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(len(process) for process in self.pair.processes())

    @cached_property
    def _walks(self) -> tuple[Walks, ...]:
        return tuple(walks(process) for process in self.pair.processes())

    @property
    def _size(self) -> int:
        return block_size(max(self._lengths), LARGEST_OF_WALKS)

    def _block(self, number: int) -> Block:
        validate.integer(0, number=number)
        if number >= len(self):
            raise ValueError(f"number must be below the {len(self)} blocks, got {number!r}")
        start = int(number) * self._size
        return Block(int(number), start, min(start + self._size, self.trials))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields alone: what they are made ready into may hold functions."""
        return _rebuilt, (self.pair, self.thresholds, self.trials, self.seed)


def _few(thresholds: ArrayLike) -> NDArray[np.float64]:
    if np.size(thresholds) > _MOST_THRESHOLDS:
        raise ValueError(
            f"thresholds must be at most {_MOST_THRESHOLDS:,}, got {np.size(thresholds):,}"
        )
    return validate.sample(thresholds=thresholds)


def _rebuilt(
    pair: Construction, thresholds: tuple[float, ...], trials: int, seed: int
) -> WalkCounts:
    return WalkCounts(pair=pair, thresholds=thresholds, trials=trials, seed=seed)


def count_thresholds(
    pair: Construction,
    *,
    thresholds: ArrayLike,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the final iterates of X, and of X', that are at or above each threshold.

    The samples are those of `final_iterates` with the same seed, but none is kept, so memory does
    not grow with ``trials``. Same counts for any number of threads.

    Parameters
    ----------
    pair, trials, seed, threads, progress
        As in `final_iterates`.
    thresholds
        Distinct finite numbers, ascending, in the unit of the state.

    Returns
    -------
    tuple
        ``(first, second)``, each int64 of the shape of ``thresholds``.

    Raises
    ------
    ValueError
        As `final_iterates` and `WalkCounts`.
    """
    validate.instance(Construction, pair=pair)
    trials, seed, threads = checked_run(trials, seed, threads)
    values = tuple(_few(thresholds).tolist())
    job = WalkCounts(pair=pair, thresholds=values, trials=trials, seed=seed)
    total = np.zeros((2, len(job.thresholds)), dtype=np.int64)
    steps = trials * sum(len(process) for process in pair.processes())
    finished = 0

    def done(number: int, found: Counts) -> None:
        nonlocal finished
        total[:] += found
        finished += job.work(number)
        if progress is not None:
            progress(finished, steps)

    run(range(len(job)), job.counts, done, threads=threads)
    return total[0], total[1]
