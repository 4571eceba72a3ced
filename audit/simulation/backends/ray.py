"""A Ray cluster that is running."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from audit.simulation.backends.base import Done, Kind, Parallel, Pool, Work, answer, backend
from audit.simulation.backends.clusters import (
    AHEAD,
    check_listening,
    import_optional,
    lost_as_connection_error,
    not_there,
)


@backend(Kind.RAY)
@contextlib.contextmanager
def ray(where: Parallel) -> Iterator[Pool]:
    """Yield the workers of a Ray cluster; a task whose worker is lost is tried again.

    Raises
    ------
    ValueError
        If the package ``ray`` is not installed.
    ConnectionError
        If the cluster cannot be reached.
    """
    address = str(where.address)
    package = import_optional("ray", extra="ray")
    check_listening("Ray", address)
    try:
        package.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise not_there("Ray", address, error) from error
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
            with lost_as_connection_error("Ray", self.address, (errors.RayError, OSError)):
                for blocks in islice(waiting, max(0, AHEAD * self.workers - len(pending))):
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
