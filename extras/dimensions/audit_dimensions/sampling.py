"""Independent samples of released points, of scores of them, and counts beyond thresholds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.simulation.backends import Parallel, Pool
from audit.simulation.blocks import (
    Block,
    Counts,
    Floats,
    Progress,
    Stream,
    block_size,
    checked_run,
    cut_into_blocks,
    run_in_threads,
)
from audit.simulation.fingerprint import described
from audit.simulation.scheduler import Drawn, spread
from audit_dimensions.dataset import Dataset
from audit_dimensions.pair import NoisySGDPair
from audit_dimensions.program import Program

_DIVERGED = (
    "step_size must be small enough for iterates to stay finite, "
    "got runs that grow beyond all doubles"
)

Score = Callable[[Floats], ArrayLike]
STREAMS = (Stream.X, Stream.X_PRIME)


def final_points(
    pair: NoisySGDPair,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
    common_random_numbers: bool = False,
    backend: Parallel | Pool | None = None,
) -> tuple[Floats, Floats]:
    """Return samples of the release of Noisy-SGD on both datasets of a pair.

    Parameters
    ----------
    pair : NoisySGDPair
        The neighbouring datasets.
    trials : int
        Number of runs on each dataset.
    seed : int
        Integer of at least 0. The same seed gives the same bits for any number of threads, and more
        trials keep the bits of full blocks of fewer trials. X and X' have separate random streams,
        so their samples are independent.
    threads : int, optional
        Number of threads; defaults to the number of cores that the process may use.
    progress : Progress, optional
        Called as ``progress(done, total)``, in steps of runs, in the calling thread, after each
        block.
    common_random_numbers : bool, default: False
        Whether run i on X and run i on X' share noise, batches and number of steps, to study how
        far a record moves a run. Such samples depend on each other and must not be passed to
        `audit.estimation.audit_samples`, which assumes independence.
    backend : Parallel, Pool, optional
        Where blocks run, in place of threads; the points do not depend on it.

    Returns
    -------
    tuple of (ndarray, ndarray)
        ``(x, x_prime)``, each float64 of shape ``(trials, d)``.

    Raises
    ------
    ValueError
        If an argument has the wrong type or is out of range, or iterates overflow.
    ConnectionError
        If the cluster of the backend is not there, or is lost.

    Examples
    --------
    >>> x, x_prime = audit_dimensions.final_points(  # doctest: +SKIP
    ...     pair, trials=10_000, seed=7
    ... )
    """
    if backend is not None:
        validate.instance(NoisySGDPair, pair=pair)
        validate.instance(bool, common_random_numbers=common_random_numbers)
        trials, seed, _ = checked_run(trials, seed, threads)
        return _spread(FinalPoints(pair, trials, seed, common_random_numbers), backend, progress)

    def keep(points: Floats) -> Floats:
        return points

    x, x_prime = _reduced(
        pair, keep, trials, seed, threads, progress, common_random_numbers, by_coordinate=True
    )
    return x, x_prime


def scores(
    pair: NoisySGDPair,
    score: ArrayLike | Score,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
    common_random_numbers: bool = False,
) -> tuple[Floats, Floats]:
    """Return scores of the points that `final_points` gives with the same seed.

    Parameters
    ----------
    pair : NoisySGDPair
        The neighbouring datasets.
    score : array_like or Score
        A direction, shape ``(d,)``, for the inner product with it; or a function of points, shape
        ``(m, d)``, that returns m finite numbers, one per point. It is called block by block, in
        several threads.
    trials : int
        Number of runs on each dataset.
    seed : int
        As in `final_points`.
    threads : int, optional
        Number of threads; defaults to the number of cores that the process may use.
    progress : Progress, optional
        As in `final_points`.
    common_random_numbers : bool, default: False
        As in `final_points`.

    Returns
    -------
    tuple of (ndarray, ndarray)
        ``(s, s_prime)``, each float64 of shape ``(trials,)``. They may be passed to
        `audit.estimation.audit_samples` if ``common_random_numbers`` is False and the score was
        chosen without looking at them.

    Raises
    ------
    ValueError
        As `final_points`, and if the direction or the output of the function is invalid.

    Examples
    --------
    >>> s, s_prime = audit_dimensions.scores(  # doctest: +SKIP
    ...     pair, [1.0, 0.0], trials=10_000, seed=7
    ... )
    """
    validate.instance(NoisySGDPair, pair=pair)
    reduce = score if callable(score) else linear_score(checked_direction(pair, score))

    def checked(points: Floats) -> Floats:
        found = np.asarray(reduce(points), dtype=np.float64)
        if found.shape != (len(points),):
            raise ValueError(
                f"score must return one number for each of {len(points)} points, "
                f"got shape {found.shape}"
            )
        if not np.all(np.isfinite(found)):
            raise ValueError(
                f"score must return finite numbers, got {found[~np.isfinite(found)][0]}"
            )
        return found

    s, s_prime = _reduced(
        pair, checked, trials, seed, threads, progress, common_random_numbers, by_coordinate=False
    )
    return s, s_prime


def checked_direction(pair: NoisySGDPair, direction: ArrayLike) -> Floats:
    """Return a copy of a direction in the pair's space: finite, and not zero."""
    found = validate.sample(direction=direction).copy()
    if found.size != pair.dimension:
        raise ValueError(f"direction must have {pair.dimension} numbers, got {found.size} numbers")
    if not np.any(found):
        raise ValueError("direction must not be zero, got zeros")
    return found


def linear_score(direction: Floats) -> Callable[[Floats], Floats]:
    """Return the inner product with a direction, as a function of points, shape (m, d)."""

    def score(points: Floats) -> Floats:
        from audit_dimensions import kernels  # imports Numba

        found = np.empty(len(points))
        kernels.linear_scores(direction[None, :], points, found)
        return found

    return score


def block_points(program: Program, block: Block, seed: int, stream: Stream) -> Floats:
    """Return the released points of one block of runs, shape (trials of the block, d).

    Raises
    ------
    ValueError
        If a point is not finite.
    """
    from audit.simulation import rng  # imports Numba, so not before it is needed
    from audit_dimensions import kernels

    points = np.empty((len(block), program.start.size))
    words = rng.seeded(block.sequence(seed, stream))
    normals = rng.aligned(kernels.CHUNK * rng.LANES).reshape(-1, 2 * rng.LANES)
    kernels.fill(words, program, normals, points)
    if not np.all(np.isfinite(points)):
        raise ValueError(_DIVERGED)
    return points


def _reduced(
    pair: NoisySGDPair,
    reduce: Callable[[Floats], Floats],
    trials: int,
    seed: int,
    threads: int | None,
    progress: Progress | None,
    common: bool,
    *,
    by_coordinate: bool,
) -> tuple[Floats, Floats]:
    validate.instance(NoisySGDPair, pair=pair)
    validate.instance(bool, common_random_numbers=common)
    trials, seed, threads = checked_run(trials, seed, threads)
    steps, programs = pair.mechanism.steps, pair.programs
    streams = (Stream.X, Stream.X) if common else STREAMS
    shape = (trials, pair.dimension) if by_coordinate else (trials,)
    outputs = (np.empty(shape), np.empty(shape))
    finished = 0

    def work(task: tuple[int, Block]) -> None:
        side, block = task
        points = block_points(programs[side], block, seed, streams[side])
        outputs[side][block.start : block.stop] = reduce(points)

    def done(task: tuple[int, Block], _: None) -> None:
        nonlocal finished
        finished += len(task[1]) * steps
        if progress is not None:
            progress(finished, 2 * trials * steps)

    cut = cut_into_blocks(trials, steps * pair.dimension)
    run_in_threads(((side, block) for block in cut for side in (0, 1)), work, done, threads=threads)
    return outputs


@dataclass(frozen=True, eq=False)
class FinalPoints:
    """Released points in numbered blocks, an `audit.simulation.blocks.Samples`.

    The blocks of the datasets take turns. A block returns its points, shape (trials, d).
    """

    pair: NoisySGDPair
    trials: int
    seed: int
    common: bool

    @property
    def description(self) -> Mapping[str, object]:
        """Nothing: points are not recorded."""
        raise ValueError("points in d dimensions are not recorded: count their scores")

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size) * 2

    def work(self, number: int) -> int:
        """How many steps of runs block ``number`` takes."""
        return len(self.place(number)[1]) * self.pair.mechanism.steps

    def size(self, number: int) -> int:
        """How many points block ``number`` returns."""
        return len(self.place(number)[1])

    def values(self, number: int) -> Floats:
        """Run block ``number``."""
        side, block = self.place(number)
        return block_points(self.pair.programs[side], block, self.seed, self._streams[side])

    def place(self, number: int) -> tuple[int, Block]:
        """Return the dataset that block ``number`` is of, and its place there."""
        inner, side = divmod(number, 2)
        start = inner * self._size
        return side, Block(inner, start, min(start + self._size, self.trials))

    @property
    def _streams(self) -> tuple[Stream, Stream]:
        return (Stream.X, Stream.X) if self.common else STREAMS

    @property
    def _size(self) -> int:
        return block_size(self.pair.mechanism.steps * self.pair.dimension)


def _spread(
    job: FinalPoints, backend: Parallel | Pool, progress: Progress | None
) -> tuple[Floats, Floats]:
    shape = (job.trials, job.pair.dimension)
    outputs = (np.empty(shape), np.empty(shape))

    def put(blocks: range, values: Floats) -> None:
        at = 0
        for number in blocks:
            side, block = job.place(number)
            outputs[side][block.start : block.stop] = values[at : at + len(block)]
            at += len(block)

    spread(job, Drawn(job), put, finished=(), backend=backend, progress=progress)
    return outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearScoreCounts:
    """Counts of runs on each dataset with <direction, point> at or above each threshold.

    An `audit.simulation.blocks.Job`. Thresholds and direction are fixed beforehand, so the counts
    of all blocks, added up, are those that `audit.estimation.Summary` holds: ``first`` is row 0,
    and ``second`` row 1, of ``trials`` runs each. They are the counts of
    ``scores(pair, direction, trials=trials, seed=seed)``.

    Parameters
    ----------
    pair : NoisySGDPair
        The neighbouring datasets.
    direction : array_like
        Direction, shape ``(d,)``, not zero.
    thresholds : array_like
        Distinct finite numbers, ascending.
    trials : int
        Number of runs on each dataset.
    seed : int
        Integer of at least 0.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    pair: NoisySGDPair
    direction: ArrayLike
    thresholds: ArrayLike
    trials: int
    seed: int

    def __post_init__(self) -> None:
        validate.instance(NoisySGDPair, pair=self.pair)
        object.__setattr__(self, "direction", checked_direction(self.pair, self.direction))
        thresholds = validate.sample(thresholds=self.thresholds).copy()
        if np.any(np.diff(thresholds) <= 0):
            raise validate.fail("thresholds", "distinct and ascending", thresholds.tolist())
        object.__setattr__(self, "thresholds", thresholds)
        checked_run(self.trials, self.seed, None)

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data that fix every count, seed included; datasets by a digest of their bytes."""
        pair = self.pair
        return {
            "job": type(self).__name__,
            "mechanism": described(pair.mechanism),
            "loss": described(pair.loss),
            "domain": described(pair.domain),
            "dataset": _digest(pair.dataset),
            "dataset_prime": _digest(pair.dataset_prime),
            "start": np.asarray(pair.start).tolist(),
            "direction": np.asarray(self.direction).tolist(),
            "thresholds": np.asarray(self.thresholds).tolist(),
            "trials": int(self.trials),
            "block": self._size,
            "seed": int(self.seed),
        }

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size)

    def work(self, number: int) -> int:
        """Return how often a block moves a coordinate, over both datasets.

        Parameters
        ----------
        number : int
            Number of the block, from 0.

        Returns
        -------
        int
            Number of updates.
        """
        return 2 * len(self._block(number)) * self.pair.mechanism.steps * self.pair.dimension

    def counts(self, number: int) -> Counts:
        """Run a block on both datasets and return its counts.

        Parameters
        ----------
        number : int
            Number of the block, from 0.

        Returns
        -------
        ndarray of int
            Counts, shape ``(2, thresholds)``.
        """
        block = self._block(number)
        score = linear_score(np.asarray(self.direction))
        rows = [
            _reached(score(block_points(program, block, self.seed, stream)), self.thresholds)
            for program, stream in zip(self.pair.programs, STREAMS, strict=True)
        ]
        return np.stack(rows)

    @property
    def _size(self) -> int:
        return block_size(self.pair.mechanism.steps * self.pair.dimension)

    def _block(self, number: int) -> Block:
        validate.integer(0, number=number)
        if number >= len(self):
            raise ValueError(f"number must be below the {len(self)} blocks, got {number!r}")
        start = int(number) * self._size
        return Block(int(number), start, min(start + self._size, int(self.trials)))


def _reached(found: NDArray[np.float64], thresholds: ArrayLike) -> Counts:
    """Return how many numbers are at least each threshold."""
    below = np.searchsorted(np.sort(found), thresholds, side="left")
    return np.asarray(found.size - below, dtype=np.int64)


def _digest(dataset: Dataset) -> dict[str, object]:
    held = np.ascontiguousarray(dataset.records, dtype="<f8")
    return {
        "shape": list(held.shape),
        "sha256": hashlib.sha256(held.tobytes()).hexdigest(),
        "zeroed": dataset.zeroed,
    }
