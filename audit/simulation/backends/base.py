"""The interface and the registry of backends.

A backend is a context manager that takes a `Parallel` and yields a `Pool` of workers. It registers
itself with the decorator `backend` in the file that defines it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from numpy.typing import NDArray

from audit import validate
from audit.simulation.fingerprint import software

Work = Callable[[range], NDArray[Any]]  # picklable
Done = Callable[["Answer"], object]
Opener = Callable[["Parallel"], AbstractContextManager["Pool"]]
F = TypeVar("F", bound=Opener)


class Kind(enum.Enum):
    """Kind of a backend, which runs the blocks."""

    THREADS = "threads"  # of this process: compiled loops let each other run
    LOKY = "loky"  # processes of this machine, through joblib
    DASK = "dask"  # a cluster that is running
    RAY = "ray"  # likewise


@dataclass(frozen=True)
class Parallel:
    """Where blocks run; the counts do not depend on it.

    Parameters
    ----------
    kind : Kind, default: Kind.THREADS
        Threads, processes or a cluster.
    workers : int, optional
        Number of threads or processes; defaults to one per core that the process may use. None for
        clusters, which have their own number.
    address : str, optional
        Address of the running cluster: ``tcp://host:8786`` (the Dask scheduler), ``host:6379`` or
        ``auto`` (Ray). None without a cluster.

    Raises
    ------
    ValueError
        If ``workers`` or ``address`` is not allowed for the kind.
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


class Answer(NamedTuple):
    """The result of some blocks, how long it took, and the software that made it."""

    blocks: range
    result: NDArray[Any]
    seconds: float
    software: dict[str, str]


def answer(work: Work, blocks: range) -> Answer:
    """Run a range of blocks, at least one."""
    begun = time.perf_counter()
    if not blocks:
        raise validate.fail("blocks", "a range of at least one block", blocks)
    result = work(blocks)
    return Answer(blocks, result, time.perf_counter() - begun, software())


class Pool(Protocol):
    """Workers that are ready."""

    @property
    def workers(self) -> int:
        """Number of blocks that run at the same time."""

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        """Call ``done`` in the calling thread with the answer to each task, in any order.

        Few tasks are under way at a time, so their number costs no memory.

        Parameters
        ----------
        work : Work
            Runs a range of blocks.
        tasks : iterable of range
            Ranges of blocks.
        done : Done
            Called with each answer.

        Raises
        ------
        ConnectionError
            If workers are lost. Errors of the work come out as they are.
        """


BACKENDS: dict[Kind, Opener] = {}  # filled by `backend`


def backend(kind: Kind) -> Callable[[F], F]:
    """Register the context manager that yields the workers of a `Parallel` of a kind.

    Parameters
    ----------
    kind : Kind
        The kind.

    Returns
    -------
    callable
        Decorator that returns its function unchanged.

    Raises
    ------
    ValueError
        If the kind has a backend already.

    Examples
    --------
    >>> from audit.simulation.backends import BACKENDS, Kind
    >>> Kind.THREADS in BACKENDS
    True
    """

    def register(opener: F) -> F:
        if kind in BACKENDS:
            raise ValueError(f"kind must be new, got a second backend for {kind.value}")
        BACKENDS[kind] = opener
        return opener

    return register


def pool(where: Parallel) -> AbstractContextManager[Pool]:
    """Return the workers as a context manager.

    A missing cluster is an error within seconds.

    Parameters
    ----------
    where : Parallel
        The backend and its number of workers.

    Returns
    -------
    AbstractContextManager
        Context manager that yields the workers.

    Raises
    ------
    ValueError
        If the package that reaches the cluster is not installed.
    ConnectionError
        If the cluster cannot be reached or has no workers; later, if it is lost.

    Examples
    --------
    >>> from audit.simulation import Kind, Parallel, pool
    >>> with pool(Parallel(Kind.THREADS, workers=2)) as workers:
    ...     workers.workers
    2
    """
    return BACKENDS[where.kind](where)


def first_line(error: object) -> str:
    """Return the first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
