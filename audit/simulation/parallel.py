"""Where the blocks of a job run: threads, processes, or a cluster."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

from audit import validate
from audit.simulation import parallel_clusters
from audit.simulation.blocks import available_threads, run
from audit.simulation.parallel_answers import Done, Pool, Work, answer, first_line


class Kind(enum.Enum):
    """What runs the blocks."""

    THREADS = "threads"  # of this process: compiled loops let each other run
    LOKY = "loky"  # processes of this machine, through joblib
    DASK = "dask"  # a cluster that is running
    RAY = "ray"  # likewise


@dataclass(frozen=True)
class Parallel:
    """Where blocks run; the counts do not depend on it.

    Parameters
    ----------
    kind
        Threads, processes, or a cluster.
    workers
        How many threads or processes; None is one for each core that this process may use. A
        cluster has its own number, so None there.
    address
        Of the running cluster: ``tcp://host:8786`` (the Dask scheduler), ``host:6379`` or
        ``auto`` (Ray). None without a cluster.

    Raises
    ------
    ValueError
        If ``workers`` or ``address`` does not go with the kind.
    """

    kind: Kind = Kind.THREADS
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, Kind):
            raise validate.fail("kind", "a Kind", self.kind)
        if self.kind in (Kind.THREADS, Kind.LOKY):
            if self.address is not None:
                raise validate.fail("address", f"None with {self.kind.value}", self.address)
            if self.workers is not None:
                validate.integer(1, workers=self.workers)
        else:
            if self.workers is not None:
                raise validate.fail(
                    "workers", f"None with {self.kind.value}: the cluster decides", self.workers
                )
            if not (isinstance(self.address, str) and self.address):
                raise validate.fail("address", "that of a running cluster", self.address)


@contextlib.contextmanager
def pool(where: Parallel) -> Iterator[Pool]:
    """Yield the workers; a cluster that is not there is an error within some seconds.

    Raises
    ------
    ValueError
        If the package that reaches the cluster is not installed.
    ConnectionError
        If the cluster cannot be reached or has no workers; later, if it is lost.
    """
    if where.kind is Kind.THREADS:
        yield _Threads(where.workers or available_threads())
    elif where.kind is Kind.LOKY:
        yield _Loky(where.workers or available_threads())
    elif where.kind is Kind.DASK:
        with parallel_clusters.dask(str(where.address)) as workers:
            yield workers
    else:
        with parallel_clusters.ray(str(where.address)) as workers:
            yield workers


@dataclass(frozen=True)
class _Threads:
    workers: int

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        run(
            tasks,
            lambda blocks: answer(work, blocks),
            lambda _, result: done(result),
            threads=self.workers,
        )


@dataclass(frozen=True)
class _Loky:
    workers: int

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        import joblib

        spread = joblib.Parallel(
            n_jobs=self.workers,
            backend="loky",
            return_as="generator_unordered",
            batch_size=1,  # tasks are cut to a good size already
            max_nbytes=None,  # a job's arrays stay writable, as the compiled loops know them
        )
        try:
            with contextlib.closing(spread(joblib.delayed(answer)(work, t) for t in tasks)) as all_:
                for result in all_:
                    done(result)
        except BrokenExecutor as error:
            raise ConnectionError(f"a worker process was lost: {first_line(error)}") from error
