"""Threads of this process: compiled loops let each other run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from audit.simulation.backends.base import Done, Kind, Parallel, Pool, Work, answer, backend
from audit.simulation.blocks import available_threads, run_in_threads


@backend(Kind.THREADS)
@contextlib.contextmanager
def threads(where: Parallel) -> Iterator[Pool]:
    """Yield as many threads as asked for, or one for each core."""
    yield _Threads(where.workers or available_threads())


@dataclass(frozen=True)
class _Threads:
    workers: int

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        run_in_threads(
            tasks,
            lambda blocks: answer(work, blocks),
            lambda _, result: done(result),
            threads=self.workers,
        )
