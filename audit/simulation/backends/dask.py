"""A Dask cluster that is running."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from audit.simulation.backends import clusters
from audit.simulation.backends.base import Done, Kind, Parallel, Pool, Work, answer, backend
from audit.simulation.backends.clusters import (
    AHEAD,
    check_listening,
    import_optional,
    lost_as_connection_error,
    not_there,
)


@backend(Kind.DASK)
@contextlib.contextmanager
def dask(where: Parallel) -> Iterator[Pool]:
    """Yield the workers of a Dask cluster.

    Raises
    ------
    ValueError
        If the package ``distributed`` is not installed.
    ConnectionError
        If no scheduler answers at the address, or it has no workers.
    """
    address = str(where.address)
    distributed = import_optional("distributed", extra="dask")
    check_listening("Dask", address)
    try:
        _check_scheduler(distributed, address)
        client = distributed.Client(address, timeout=clusters.PATIENCE, set_as_default=False)
    except TimeoutError as error:
        raise not_there("Dask", address, "no Dask scheduler answers") from error
    except (OSError, ValueError) as error:
        raise not_there("Dask", address, error) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=clusters.PATIENCE)
        except TimeoutError as error:
            raise not_there("Dask", address, "the scheduler has no workers") from error
        yield _Dask(distributed, client, address)


def _check_scheduler(distributed: Any, address: str) -> None:
    """Ask for an answer: a client waits for ever where something else listens."""
    import asyncio

    async def ask() -> str:
        security = distributed.Security().get_connection_args("client")
        async with distributed.rpc(address, connection_args=security) as there:
            return str((await there.identity())["type"])

    with ThreadPoolExecutor(1) as thread:  # this one may have an event loop of its own
        kind = thread.submit(asyncio.run, asyncio.wait_for(ask(), clusters.PATIENCE)).result()
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
            room = AHEAD * self.workers - futures.count()  # workers come and go
            for blocks in islice(waiting, max(0, room)):
                futures.add(self.client.submit(answer, work, blocks, pure=False))

        with lost_as_connection_error("Dask", self.address, lost):
            submit()
        for future in futures:
            with lost_as_connection_error("Dask", self.address, lost):
                result = future.result()
                submit()
            done(result)
