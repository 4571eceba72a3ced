"""Independent samples of released points, of scores of them, and counts beyond thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.numerics.arrays import Array
from audit.simulation.backends import Parallel, Pool, in_threads
from audit.simulation.blocks import Block, Progress, Stream, block_size
from audit.simulation.fingerprint import described
from audit.simulation.runner import run_job
from audit.simulation.samplers import check_rounding
from audit.simulation.samples import Draw, Samples, Score
from audit_dimensions.pair import NoisySGDPair
from audit_dimensions.program import Program

_DIVERGED = (
    "step_size must be small enough for iterates to stay finite, "
    "got runs that grow beyond all doubles"
)


@dataclass(frozen=True)
class Runs:
    """Noisy-SGD on both datasets of a pair, as a program of `audit.simulation.Samples`.

    Parameters
    ----------
    pair
        The neighbouring datasets.
    common_random_numbers
        Whether both take the random numbers of X.
    """

    pair: NoisySGDPair
    common_random_numbers: bool = False

    def __post_init__(self) -> None:
        validate.instance(NoisySGDPair, pair=self.pair)
        validate.instance(bool, common_random_numbers=self.common_random_numbers)

    @property
    def streams(self) -> tuple[Stream, Stream]:
        """Random stream of each dataset."""
        return Stream.X, Stream.X if self.common_random_numbers else Stream.X_PRIME

    @property
    def steps(self) -> tuple[int, int]:
        """Number of steps of a run on each dataset."""
        return (self.pair.mechanism.steps,) * 2

    @property
    def point(self) -> tuple[int]:
        """Shape of a point."""
        return (self.pair.dimension,)

    @property
    def block_size(self) -> int:
        """Number of runs in a full block."""
        return block_size(self.pair.mechanism.steps * self.pair.dimension)

    @property
    def description(self) -> Mapping[str, object]:
        """Plain data that fix every run but for its seed; datasets by a digest of their bytes."""
        return {
            "pair": described(self.pair),
            "common_random_numbers": self.common_random_numbers,
        }

    def values(self, side: int, block: Block, seed: int) -> Array:
        """Return the points of a block of runs, shape (trials, d)."""
        return block_points(self.pair.programs[side], block, seed, self.streams[side])


@dataclass(frozen=True, eq=False)
class Along:
    """The inner product of points with a direction, shape (d,), as a score."""

    direction: Array

    def __call__(self, points: Array) -> Array:
        """Return the inner products."""
        from audit_dimensions import kernels  # imports Numba

        found = np.empty(len(points))
        kernels.linear_scores(self.direction[None, :], points, found)
        return found


def final_points(
    pair: NoisySGDPair,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
    common_random_numbers: bool = False,
    backend: Parallel | Pool | None = None,
) -> tuple[Array, Array]:
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
        Called as ``progress(done, total)``, in steps of runs, in the calling thread, at the
        beginning and after blocks.
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
    return _drawn(
        Runs(pair, common_random_numbers), Draw(), trials, seed, threads, progress, backend
    )


def scores(
    pair: NoisySGDPair,
    score: ArrayLike | Score,
    *,
    trials: int,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
    common_random_numbers: bool = False,
    backend: Parallel | Pool | None = None,
) -> tuple[Array, Array]:
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
    backend : Parallel, Pool, optional
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
    runs = Runs(pair, common_random_numbers)
    draw = Draw(score if callable(score) else Along(checked_direction(pair, score)))
    return _drawn(runs, draw, trials, seed, threads, progress, backend)


def linear_score_counts(
    pair: NoisySGDPair, direction: ArrayLike, *, thresholds: ArrayLike, trials: int, seed: int
) -> Samples:
    """Return the job that counts runs with <direction, point> at or above each threshold.

    Thresholds and direction are fixed beforehand, so its counts are those that
    `audit.estimation.Summary` holds, of ``trials`` runs on each dataset. They are the counts of
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

    Returns
    -------
    audit.simulation.Samples
        The job, for `audit.simulation.run_job`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> job = audit_dimensions.linear_score_counts(  # doctest: +SKIP
    ...     pair, [1.0, 0.0], thresholds=(0.0, 0.5), trials=10_000, seed=7
    ... )
    """
    runs = Runs(pair)
    draw = Draw(Along(checked_direction(pair, direction)), thresholds)
    return Samples(runs, draw, trials, seed)


def _drawn(
    runs: Runs,
    draw: Draw,
    trials: int,
    seed: int,
    threads: int | None,
    progress: Progress | None,
    backend: Parallel | Pool | None,
) -> tuple[Array, Array]:
    job, here = Samples(runs, draw, trials, seed), in_threads(threads)
    x, x_prime = run_job(job, backend=here if backend is None else backend, progress=progress)
    return x, x_prime


def checked_direction(pair: NoisySGDPair, direction: ArrayLike) -> Array:
    """Return a copy of a direction in the pair's space: finite, and not zero."""
    found = validate.sample(direction=direction).copy()
    if found.size != pair.dimension:
        raise ValueError(f"direction must have {pair.dimension} numbers, got {found.size} numbers")
    if not np.any(found):
        raise ValueError("direction must not be zero, got zeros")
    return found


def block_points(program: Program, block: Block, seed: int, stream: Stream) -> Array:
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
    farthest = max(np.abs(points).max(), np.abs(program.start).max())
    check_rounding(farthest, program.scales.size, float(program.noise_stds.min()))
    return points
