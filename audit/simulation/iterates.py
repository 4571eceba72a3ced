"""Independent samples of final iterates, and their counts beyond thresholds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.constructions import Construction, Process
from audit.simulation.backends import Kind, Parallel, Pool
from audit.simulation.blocks import (
    LARGEST_OF_WALKS,
    Block,
    Counts,
    Floats,
    Progress,
    Stream,
    block_size,
    checked_run,
    run_in_threads,
)
from audit.simulation.checkpoint import sample_checkpoint
from audit.simulation.fingerprint import described, digest_of
from audit.simulation.samplers import Walks, walks
from audit.simulation.scheduler import Drawn, spread

_SIDES = (Stream.X, Stream.X_PRIME)
_MOST_THRESHOLDS = 10**6  # each takes 16 bytes in every result of a block


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
    pair : Construction
        The neighbouring pair (X, X').
    trials : int
        Number of walks of each process.
    seed : int
        Integer of at least 0. The same seed gives the same bits for any number of threads, and more
        trials keep the bits of full blocks of fewer trials. The bits do not depend on the backend
        either. X and X' have separate random streams, so their samples are independent.
    threads : int, optional
        Number of threads; defaults to the number of cores that the process may use.
    progress : Progress, optional
        Called as ``progress(done, total)`` in the calling thread, at the beginning and after
        blocks, in walk steps (as if every walk took the longest path).
    backend : Parallel, Pool, optional
        Where blocks run, instead of threads.
    folder : str, Path, optional
        Folder where a long run records finished blocks, 16 bytes per trial; the same call resumes
        from them. It is not removed at the end. None, or a run shorter than ``record_every``
        seconds, records nothing.
    record_every : float, default: 5.0
        Minimal time between two files in the folder, in seconds.

    Returns
    -------
    tuple of (ndarray, ndarray)
        ``(x, x_prime)``, each float64 of shape ``(trials,)``, in the unit of the state.

    Raises
    ------
    ValueError
        If an argument has the wrong type or is out of range, the samples do not fit into memory, or
        an update map returns a number that is not finite; if the folder belongs to another
        configuration, is damaged or in use, or workers run other versions of the software.
    ConnectionError
        If the cluster is missing or lost.
    OSError
        If the folder cannot be written to.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=4, dataset_size=2, batch_size=2, step_size=1.0, noise_std=0.5,
    ...                    lipschitz=1.0)
    >>> x, x_prime = audit.simulation.final_iterates(  # doctest: +SKIP
    ...     audit.constructions.TwoSidedWalk(m), trials=10_000, seed=7
    ... )
    >>> x.shape  # doctest: +SKIP
    (10000,)
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
    """Return independent samples of the final iterate of one process.

    See `final_iterates`, which takes the samples of X from ``Stream.X`` and those of X' from
    ``Stream.X_PRIME`` (bit by bit if its two walks have equal length, since blocks are cut by the
    longer one).

    Parameters
    ----------
    process : Process
        A one-dimensional process.
    trials : int
        Number of walks.
    seed : int
        Integer of at least 0. The same seed gives the same bits for any number of threads, and more
        trials keep the bits of full blocks of fewer trials.
    stream : Stream, default: Stream.X
        Random stream of the samples.
    threads : int, optional
        Number of threads; defaults to the number of cores that the process may use.
    progress : Progress, optional
        Called as ``progress(done, total)`` in walk steps.

    Returns
    -------
    ndarray
        Samples in the unit of the state, shape ``(trials,)``.

    Raises
    ------
    ValueError
        If an argument is out of range, or an iterate is not finite.

    Examples
    --------
    >>> x = audit.simulation.simulate(process, trials=10_000, seed=7)  # doctest: +SKIP
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
    """Final iterates in numbered blocks, an `audit.simulation.blocks.Samples`.

    The blocks of the parts take turns: of two parts, block 2k is block k of the first.
    """

    parts: tuple[tuple[Process, Stream], ...]
    trials: int
    seed: int
    pair: Construction | None = None  # what the parts are made of, for the description

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data that fix every sample, seed included."""
        return {
            "job": type(self).__name__,
            "pair": described(self.pair),
            "walks": self._walks_digest,
            "trials": self.trials,
            "block": self._size,
            "seed": self.seed,
        }

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size) * len(self.parts)

    def work(self, number: int) -> int:
        """Return the number of walk steps of a block, as if every walk took the longest path.

        Parameters
        ----------
        number : int
            Number of the block, from 0.

        Returns
        -------
        int
            Number of steps.
        """
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
        Drawn(job),
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
    with sample_checkpoint(folder, job, seconds=seconds) as records:
        for blocks, values in records.found():
            _put(job, outputs, blocks, values)

        def take(blocks: range, values: Floats) -> None:
            _put(job, outputs, blocks, values)
            records.add(blocks, values)

        spread(
            job,
            Drawn(job),
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


@dataclass(frozen=True, kw_only=True)
class WalkCounts:
    """Counts of final iterates of X and of X' at or above each threshold.

    An `audit.simulation.blocks.Job`: its counts, added up over all blocks, are those that
    `audit.estimation.Summary` holds, of ``trials`` walks a side, and those of the samples
    ``final_iterates(pair, trials=trials, seed=seed)``. Block k counts the same trials of both.

    Parameters
    ----------
    pair : Construction
        The neighbouring pair (X, X').
    thresholds : tuple of float
        Distinct finite numbers, ascending, in the unit of the state; at most a million.
    trials : int
        Number of walks of each process.
    seed : int
        Integer of at least 0.

    Raises
    ------
    ValueError
        If a parameter is out of range.
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
    def description(self) -> Mapping[str, object]:
        """Return plain data that determine every count, including the seed."""
        return {
            "job": type(self).__name__,
            "construction": self.pair.name,
            "pair": described(self.pair),
            "walks": self._walks_digest,
            "thresholds": list(self.thresholds),
            "trials": self.trials,
            "block": self._size,
            "seed": self.seed,
        }

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size)

    def work(self, number: int) -> int:
        """Return the number of walk steps of a block, as if every walk took the longest path.

        Parameters
        ----------
        number : int
            Number of the block, from 0.

        Returns
        -------
        int
            Number of steps.
        """
        return sum(self.side_work(number, side) for side in _SIDES)

    def counts(self, number: int) -> Counts:
        """Run a block and return its counts.

        Parameters
        ----------
        number : int
            Number of the block, from 0.

        Returns
        -------
        ndarray of int
            Row 0 counts X and row 1 X', shape ``(2, thresholds)``.
        """
        return np.stack([self.side_counts(number, side) for side in _SIDES])

    def side_counts(self, number: int, side: Stream) -> Counts:
        """Return the row of `counts` of one process.

        Parameters
        ----------
        number : int
            Number of the block, from 0.
        side : Stream
            ``Stream.X`` or ``Stream.X_PRIME``.

        Returns
        -------
        ndarray of int
            Counts, shape ``(thresholds,)``.
        """
        from audit.simulation import kernels  # imports Numba, so not before it is needed

        thresholds = np.array(self.thresholds)
        found = np.zeros(thresholds.size, dtype=np.int64)
        x = self._walks[side](self._block(number), self.seed, side)
        kernels.count_reached(x, thresholds, found)
        return found

    def side_work(self, number: int, side: Stream) -> int:
        """Return the part of `work` of one process.

        Parameters
        ----------
        number : int
            Number of the block, from 0.
        side : Stream
            ``Stream.X`` or ``Stream.X_PRIME``.

        Returns
        -------
        int
            Number of steps.
        """
        return len(self._block(number)) * self._lengths[side]

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
    """Count the final iterates of X and of X' at or above each threshold.

    The samples are those of `final_iterates` with the same seed, but none is stored, so memory does
    not grow with ``trials``. The counts do not depend on the number of threads.

    Parameters
    ----------
    pair : Construction
        The neighbouring pair (X, X').
    thresholds : array_like
        Distinct finite numbers, ascending, in the unit of the state.
    trials : int
        Number of walks of each process.
    seed : int
        Integer of at least 0. The same seed gives the same bits for any number of threads, and more
        trials keep the bits of full blocks of fewer trials.
    threads : int, optional
        Number of threads; defaults to the number of cores that the process may use.
    progress : Progress, optional
        As in `final_iterates`.

    Returns
    -------
    tuple of (ndarray, ndarray)
        Counts of X and of X', each int64 of the shape of ``thresholds``.

    Raises
    ------
    ValueError
        As `final_iterates` and `WalkCounts`.

    Examples
    --------
    >>> first, second = audit.simulation.count_thresholds(  # doctest: +SKIP
    ...     pair, thresholds=(0.0, 1.0), trials=10_000, seed=7
    ... )
    """
    validate.instance(Construction, pair=pair)
    trials, seed, threads = checked_run(trials, seed, threads)
    values = tuple(_few(thresholds).tolist())
    job = WalkCounts(pair=pair, thresholds=values, trials=trials, seed=seed)
    total = np.zeros((2, len(job.thresholds)), dtype=np.int64)
    steps = trials * sum(len(process) for process in pair.processes())
    finished = 0

    def done(task: tuple[int, Stream], found: Counts) -> None:
        nonlocal finished
        total[task[1]] += found
        finished += job.side_work(*task)
        if progress is not None:
            progress(finished, steps)

    # the sides of a block apart, as few blocks would leave a thread without work at the end
    tasks = itertools.product(range(len(job)), _SIDES)
    run_in_threads(tasks, lambda task: job.side_counts(*task), done, threads=threads)
    return total[0], total[1]
