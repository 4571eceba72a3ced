"""Dask and Ray clusters, which somebody has started.

They are asked directly. Through joblib's Dask backend a run waits for ever once a worker or the
scheduler is lost, and Ray's joblib backend cannot return results as they come, nor go on without
a worker that is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from audit.simulation.parallel_answers import Done, Pool, Work, answer, first_line

PATIENCE = 5.0  # seconds until a cluster that does not answer is taken as not there
_AHEAD = 2  # tasks under way for each core: one that runs and one that waits


@contextlib.contextmanager
def dask(address: str) -> Iterator[Pool]:
    """Yield the workers of a Dask cluster.

    Raises
    ------
    ValueError
        If the package ``distributed`` is not installed.
    ConnectionError
        If no scheduler answers at the address, or it has no workers.
    """
    distributed = _optional("distributed", extra="dask")
    _knock("Dask", address)
    try:
        _check_scheduler(distributed, address)
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except TimeoutError as error:
        raise _not_there("Dask", address, "no Dask scheduler answers") from error
    except (OSError, ValueError) as error:
        raise _not_there("Dask", address, error) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise _not_there("Dask", address, "the scheduler has no workers") from error
        yield _Dask(distributed, client, address)


def _check_scheduler(distributed: Any, address: str) -> None:
    """Ask for an answer: a client waits for ever where something else listens."""

    async def ask() -> str:
        security = distributed.Security().get_connection_args("client")
        async with distributed.rpc(address, connection_args=security) as there:
            return str((await there.identity())["type"])

    with ThreadPoolExecutor(1) as thread:  # this one may have an event loop of its own
        kind = thread.submit(asyncio.run, asyncio.wait_for(ask(), PATIENCE)).result()
    if kind != "Scheduler":
        raise ValueError(f"a Dask {kind.lower()} answers, not the scheduler")


@dataclass(frozen=True)
class _Dask:
    distributed: Any
    client: Any
    address: str

    @property
    def workers(self) -> int:
        cores: dict[str, int] = self.client.ncores()
        return max(1, sum(cores.values()))

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        # the last two: a worker or the scheduler lacks what the job is made of
        lost = (self.distributed.KilledWorker, CancelledError, OSError, RuntimeError, ImportError)
        waiting = iter(tasks)
        futures = self.distributed.as_completed(loop=self.client.loop)

        def submit() -> None:
            room = _AHEAD * self.workers - futures.count()  # workers come and go
            for blocks in islice(waiting, max(0, room)):
                futures.add(self.client.submit(answer, work, blocks, pure=False))

        with _lost("Dask", self.address, lost):
            submit()
        for future in futures:
            with _lost("Dask", self.address, lost):
                result = future.result()
                submit()
            done(result)


@contextlib.contextmanager
def ray(address: str) -> Iterator[Pool]:
    """Yield the workers of a Ray cluster; a task whose worker is lost is tried again.

    Raises
    ------
    ValueError
        If the package ``ray`` is not installed.
    ConnectionError
        If the cluster cannot be reached.
    """
    package = _optional("ray", extra="ray")
    _knock("Ray", address)
    try:
        package.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise _not_there("Ray", address, error) from error
    try:
        yield _Ray(package, address)
    finally:
        package.shutdown()


@dataclass(frozen=True)
class _Ray:
    ray: Any
    address: str

    @property
    def workers(self) -> int:
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        errors = self.ray.exceptions
        remote = self.ray.remote(answer)
        shared = self.ray.put(work)
        waiting = iter(tasks)
        pending: list[Any] = []
        while True:
            with _lost("Ray", self.address, (errors.RayError, OSError)):
                for blocks in islice(waiting, max(0, _AHEAD * self.workers - len(pending))):
                    pending.append(remote.remote(shared, blocks))
                if not pending:
                    return
                ready, pending = self.ray.wait(pending)
                result = self._result(ready[0])
            done(result)

    def _result(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:  # the job's own error
            raise error.cause from error


def _knock(name: str, address: str) -> None:
    """Check that something listens, if the address says where.

    Without this, Dask tries again until its patience ends, and Ray for two minutes, after which
    it ends the process.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _not_there(name, address, error) from error


def _optional(name: str, *, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"parallel={extra} needs {name}, which is not installed: "
            f"pip install 'noisy-sgd-audit[{extra}]'"
        ) from None


def _not_there(name: str, address: str, reason: object) -> ConnectionError:
    return ConnectionError(f"no {name} cluster at {address}: {first_line(reason)}")


@contextlib.contextmanager
def _lost(name: str, address: str, errors: tuple[type[BaseException], ...]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise ConnectionError(
            f"the {name} cluster at {address} did not finish the work: {first_line(error)}"
        ) from error
