"""Processes of this machine, through joblib."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

from audit.simulation.backends.base import (
    Done,
    Kind,
    Parallel,
    Pool,
    Work,
    answer,
    backend,
    first_line,
)
from audit.simulation.blocks import available_threads


@backend(Kind.LOKY)
@contextlib.contextmanager
def loky(where: Parallel) -> Iterator[Pool]:
    """Yield as many processes as asked for, or one for each core."""
    yield _Loky(where.workers or available_threads())


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
