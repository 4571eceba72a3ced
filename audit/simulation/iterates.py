"""Walks in one dimension as jobs: their final iterates, and counts beyond thresholds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.constructions import Construction, Process
from audit.numerics.arrays import Array
from audit.simulation.backends import Parallel, Pool, in_threads
from audit.simulation.blocks import Progress, Stream
from audit.simulation.runner import run_job
from audit.simulation.samplers import Walks
from audit.simulation.samples import Draw, Samples


def walks_of(pair: Construction) -> Walks:
    """Return both processes of a pair as a program."""
    validate.instance(Construction, pair=pair)
    return Walks(pair.processes(), pair=pair)


def walk_counts(pair: Construction, *, thresholds: ArrayLike, trials: int, seed: int) -> Samples:
    """Return the job that counts the final iterates of X and of X' at or above each threshold.

    Its counts are those that `audit.estimation.Summary` holds, of ``trials`` walks a side, and of
    the samples ``final_iterates(pair, trials=trials, seed=seed)``.

    Parameters
    ----------
    pair : Construction
        The neighbouring pair (X, X').
    thresholds : array_like
        Distinct finite numbers, ascending, in the unit of the state; at most a million.
    trials, seed : int
        As in `final_iterates`.

    Returns
    -------
    Samples
        The job, for `run_job`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> job = audit.simulation.walk_counts(  # doctest: +SKIP
    ...     pair, thresholds=(0.0, 1.0), trials=10_000, seed=7
    ... )
    """
    return Samples(walks_of(pair), Draw(thresholds=thresholds), trials, seed)


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
) -> tuple[Array, Array]:
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
    job, here = Samples(walks_of(pair), Draw(), trials, seed), in_threads(threads)
    x, x_prime = run_job(
        job,
        backend=here if backend is None else backend,
        folder=folder,
        progress=progress,
        record_every=record_every,
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
) -> Array:
    """Return independent samples of the final iterate of one process.

    See `final_iterates`, which takes the samples of X from ``Stream.X`` and those of X' from
    ``Stream.X_PRIME`` (bit by bit if its two walks have equal length, since blocks are cut by the
    longer one).

    Parameters
    ----------
    process : Process
        A one-dimensional process.
    trials, seed : int
        As in `final_iterates`.
    stream : Stream, default: Stream.X
        Random stream of the samples.
    threads : int, optional
        As in `final_iterates`.
    progress : Progress, optional
        As in `final_iterates`.

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
    job = Samples(Walks((process,), (stream,)), Draw(), trials, seed)
    found: Array = run_job(job, backend=in_threads(threads), progress=progress)[0]
    return found


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
    trials, seed : int
        As in `final_iterates`.
    threads : int, optional
        As in `final_iterates`.
    progress : Progress, optional
        As in `final_iterates`.

    Returns
    -------
    tuple of (ndarray, ndarray)
        Counts of X and of X', each int64 of the shape of ``thresholds``.

    Raises
    ------
    ValueError
        As `final_iterates` and `walk_counts`.

    Examples
    --------
    >>> first, second = audit.simulation.count_thresholds(  # doctest: +SKIP
    ...     pair, thresholds=(0.0, 1.0), trials=10_000, seed=7
    ... )
    """
    job = walk_counts(pair, thresholds=thresholds, trials=trials, seed=seed)
    first, second = run_job(job, backend=in_threads(threads), progress=progress)
    return first, second
