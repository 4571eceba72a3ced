"""Backends that run blocks: threads, processes of this machine, or a cluster.

Every backend takes tasks and returns futures of `concurrent.futures`; one loop hands out the tasks.
Dask and Ray clusters are asked directly, not through joblib: through joblib's Dask backend a run
waits for ever once the scheduler is lost, and Ray's cannot return results as they come.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import itertools
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from numpy.typing import NDArray

from audit import validate
from audit.simulation.blocks import available_threads
from audit.simulation.fingerprint import software

CONNECT_SECONDS = 5.0  # seconds until a cluster that does not answer is taken as not there
_AHEAD = 2  # tasks under way for each core: one that runs and one that waits
_MAX_LOSSES = 3  # worker processes that a task may lose before it is given up
_IDLE_SECONDS = 300  # seconds that processes wait for another run, which need not compile again

Task = TypeVar("Task")
Result = TypeVar("Result")


class Backend(enum.Enum):
    """Backend that runs blocks."""

    THREADS = "threads"  # of this process; compiled loops release the lock
    LOKY = "loky"  # processes of this machine, through joblib
    CUDA = "cuda"  # a GPU of this machine for walks that it knows, threads for others
    DASK = "dask"  # a cluster that is running
    RAY = "ray"  # likewise


@dataclass(frozen=True)
class Parallel:
    """Backend and its workers; the counts do not depend on it.

    Raises
    ------
    ValueError
        If ``workers`` or ``address`` is not allowed for the kind.
    """

    kind: Backend = Backend.THREADS  #: Threads, processes or a cluster.
    #: Number of threads or processes; defaults to one per core that the process may use. None for
    #: clusters and GPUs, which have their own number.
    workers: int | None = None
    #: Address of the running cluster: ``tcp://host:8786`` (the Dask scheduler), ``host:6379`` or
    #: ``auto`` (Ray). None without a cluster.
    address: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, Backend):
            raise validate.fail("kind", "a Backend", self.kind)
        if self.kind in (Backend.DASK, Backend.RAY):
            if not (isinstance(self.address, str) and self.address):
                raise validate.fail("address", "that of a running cluster", self.address)
        elif self.address is not None:
            raise validate.fail("address", f"None with {self.kind.value}", self.address)
        if self.workers is not None:
            if self.kind not in (Backend.THREADS, Backend.LOKY):
                decides = "GPU" if self.kind is Backend.CUDA else "cluster"
                raise validate.fail(
                    "workers", f"None with {self.kind.value}: the {decides} decides", self.workers
                )
            validate.integer(1, workers=self.workers)


def in_threads(threads: int | None) -> Parallel:
    """Return so many threads of this process; None for one per core."""
    if threads is None:
        return Parallel()
    validate.integer(1, threads=threads)
    return Parallel(Backend.THREADS, int(threads))


class Answer(NamedTuple):
    """The result of some blocks, how long it took, and the software that made it."""

    blocks: range
    result: NDArray[Any]
    seconds: float
    software: dict[str, str]


Done = Callable[[Answer], object]


class BlockJob(Protocol):
    """Numbered blocks; picklable."""

    def run(self, blocks: range) -> NDArray[Any]:
        """Return the result of some blocks."""


def answer(job: BlockJob, blocks: range) -> Answer:
    """Run a range of blocks."""
    begun = time.perf_counter()
    result = job.run(blocks)
    return Answer(blocks, result, time.perf_counter() - begun, software())


class Pool(Protocol):
    """Workers that are ready."""

    @property
    def workers(self) -> int:
        """Number of blocks that run at the same time."""

    def run(self, job: BlockJob, tasks: Iterable[range], done: Done) -> None:
        """Call ``done`` in the calling thread with the answer to each task, in any order.

        Few tasks are under way at a time, so their number costs no memory.

        Parameters
        ----------
        job : Job
            Numbered blocks, such as `Samples`.
        tasks : iterable of range
            Ranges of blocks.
        done : callable
            Called with each answer.

        Raises
        ------
        ConnectionError
            If workers are lost for good. Errors of the work come out as they are.
        """


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
    >>> from audit.simulation import Backend, Parallel, pool
    >>> with pool(Parallel(Backend.THREADS, workers=2)) as workers:
    ...     workers.workers
    2
    """
    if where.kind in (Backend.DASK, Backend.RAY):
        return {Backend.DASK: _dask, Backend.RAY: _ray}[where.kind](str(where.address))
    if where.kind is Backend.CUDA:
        return nullcontext(_gpu())
    workers = where.workers or available_threads()
    return nullcontext(_Threads(workers) if where.kind is Backend.THREADS else _Processes(workers))


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
    """
    if threads == 1:
        for task in tasks:
            done(task, work(task))
        return
    with (
        ThreadPoolExecutor(threads) as executor,
        _ended(lambda task: executor.submit(work, task), tasks, lambda: _AHEAD * threads) as ended,
    ):
        for task, future in ended:
            done(task, future.result())


@contextlib.contextmanager
def _ended(
    submit: Callable[[Task], Future[Result]], tasks: Iterable[Task], room: Callable[[], int]
) -> Iterator[Iterator[tuple[Task, Future[Result]]]]:
    """Iterate over tasks and their futures as they end; up to ``room()`` are under way."""
    under_way: dict[Future[Result], Task] = {}

    def each() -> Iterator[tuple[Task, Future[Result]]]:
        waiting = iter(tasks)
        while True:
            for task in itertools.islice(waiting, max(0, room() - len(under_way))):
                under_way[submit(task)] = task
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(future), future

    try:
        yield each()
    finally:
        for future in under_way:
            future.cancel()


@dataclass(frozen=True)
class _Threads:
    workers: int

    def run(self, job: BlockJob, tasks: Iterable[range], done: Done) -> None:
        run_in_threads(
            tasks,
            lambda blocks: answer(job, blocks),
            lambda _, result: done(result),
            threads=self.workers,
        )


@dataclass(frozen=True)
class _Gpu:
    """The GPU of this machine; the task after one that it works on waits for it."""

    walked: Callable[[Any], BlockJob | None]  # the job as the GPU runs it, if it knows the job
    workers: int = 1

    def run(self, job: BlockJob, tasks: Iterable[range], done: Done) -> None:
        known = self.walked(job)
        if known is None:
            _Threads(available_threads()).run(job, tasks, done)
        else:
            _Threads(1).run(known, tasks, done)


@dataclass(frozen=True)
class _Processes:
    workers: int

    def run(self, job: BlockJob, tasks: Iterable[range], done: Done) -> None:
        from joblib.externals.loky import get_reusable_executor

        waiting, losses = iter(tasks), Counter[range]()
        while True:
            executor = get_reusable_executor(self.workers, timeout=_IDLE_SECONDS)
            lost = self._until_a_loss(executor, job, waiting, done)
            if not lost:
                return
            losses.update(lost)
            blocks, times = losses.most_common(1)[0]
            if times > _MAX_LOSSES:
                raise ConnectionError(
                    f"a worker process was lost {times} times with blocks {blocks.start} to "
                    f"{blocks.stop - 1} under way"
                )
            waiting = itertools.chain(lost, waiting)

    def _until_a_loss(
        self, executor: Any, job: BlockJob, tasks: Iterator[range], done: Done
    ) -> list[range]:
        """Return the tasks that were under way when a process was lost; none if all have ended."""
        lost: list[range] = []

        def submit(blocks: range) -> Future[Answer]:
            try:
                future: Future[Answer] = executor.submit(answer, job, blocks)
            except BrokenExecutor as error:
                future = Future()
                future.set_exception(error)
            return future

        with _ended(submit, tasks, lambda: 0 if lost else _AHEAD * self.workers) as ended:
            for blocks, future in ended:
                try:
                    result = future.result()
                except BrokenExecutor:
                    lost.append(blocks)
                else:
                    done(result)
        return lost


@dataclass(frozen=True)
class _Cluster:
    """A running cluster, which tries a task again by itself if its worker is lost."""

    name: str
    submit: Callable[[BlockJob, range], Future[Answer]]
    cores: Callable[[], int]  # workers come and go
    lost: tuple[type[BaseException], ...]  # errors that mean that the cluster is lost

    @property
    def workers(self) -> int:
        return max(1, self.cores())

    def run(self, job: BlockJob, tasks: Iterable[range], done: Done) -> None:
        def submit(blocks: range) -> Future[Answer]:
            return self.submit(job, blocks)

        with _ended(submit, tasks, lambda: _AHEAD * self.workers) as ended:
            while True:
                with self._one_line():
                    found = next(ended, None)
                    result = None if found is None else found[1].result()
                if result is None:
                    return
                done(result)

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except self.lost as error:
            own = getattr(error, "cause", None)  # Ray wraps an error of the work
            if isinstance(own, Exception):
                raise own from error
            raise ConnectionError(
                f"the {self.name} did not finish the work: {_first_line(error)}"
            ) from error


def _gpu() -> Pool:
    from audit.simulation import gpu  # imports Numba

    if not gpu.is_there():
        raise ValueError(
            "parallel=cuda needs a GPU of NVIDIA and the packages for it: "
            "pip install 'noisy-sgd-audit[cuda]'"
        )
    return _Gpu(gpu.on_gpu)


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Pool]:
    distributed = _import_optional("distributed", extra="dask")
    _check_listening("Dask", address)
    try:
        _check_scheduler(distributed, address)
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except TimeoutError as error:
        raise _not_there("Dask", address, "no Dask scheduler answers") from error
    except (OSError, ValueError) as error:
        raise _not_there("Dask", address, error) from error
    # the last two: a worker or the scheduler lacks what the job is made of
    lost = (distributed.KilledWorker, CancelledError, OSError, RuntimeError, ImportError)
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise _not_there("Dask", address, "the scheduler has no workers") from error
        executor = client.get_executor(pure=False)
        yield _Cluster(
            f"Dask cluster at {address}",
            lambda job, blocks: executor.submit(answer, job, blocks),
            lambda: sum(client.ncores().values()),
            lost,
        )


def _check_scheduler(distributed: Any, address: str) -> None:
    """Ask for an answer: a client waits for ever where something else listens."""
    import asyncio

    async def ask() -> str:
        security = distributed.Security().get_connection_args("client")
        async with distributed.rpc(address, connection_args=security) as there:
            return str((await there.identity())["type"])

    with ThreadPoolExecutor(1) as thread:  # this one may have an event loop of its own
        kind = thread.submit(asyncio.run, asyncio.wait_for(ask(), CONNECT_SECONDS)).result()
    if kind != "Scheduler":
        raise ValueError(f"a Dask {kind.lower()} answers, not the scheduler")


@contextlib.contextmanager
def _ray(address: str) -> Iterator[Pool]:
    ray = _import_optional("ray", extra="ray")
    _check_listening("Ray", address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise _not_there("Ray", address, error) from error
    remote = ray.remote(answer)
    try:
        yield _Cluster(
            f"Ray cluster at {address}",
            lambda job, blocks: remote.remote(job, blocks).future(),
            lambda: int(ray.cluster_resources().get("CPU", 1)),
            (ray.exceptions.RayError, OSError),
        )
    finally:
        ray.shutdown()


def _check_listening(name: str, address: str) -> None:
    """Check that something listens, if the address says where.

    Without this, Dask tries again until its patience ends, and Ray for two minutes, after which
    it ends the process.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _not_there(name, address, error) from error


def _import_optional(name: str, *, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"parallel={extra} needs {name}, which is not installed: "
            f"pip install 'noisy-sgd-audit[{extra}]'"
        ) from None


def _not_there(name: str, address: str, reason: object) -> ConnectionError:
    return ConnectionError(f"no {name} cluster at {address}: {_first_line(reason)}")


def _first_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
