"""What is handed to workers, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from audit import validate
from audit.simulation.jobs import Counts, Job
from audit.simulation.records import added, software


class Answer(NamedTuple):
    """The sum of the counts of some blocks, how long it took, and the software that made it."""

    blocks: range
    counts: Counts
    seconds: float
    software: dict[str, str]


def answer(job: Job, blocks: range) -> Answer:
    """Run a range of blocks, at least one, and return the sum of their counts."""
    begun = time.perf_counter()
    total: Counts | None = None
    for number in blocks:
        total = added(total, job.counts(number))
    if total is None:
        raise validate.fail("blocks", "a range of at least one block", blocks)
    return Answer(blocks, total, time.perf_counter() - begun, software())


Done = Callable[[Answer], object]


class Pool(Protocol):
    """Workers that are ready."""

    @property
    def workers(self) -> int:
        """How many blocks run at the same time."""

    def run(self, job: Job, tasks: Iterable[range], done: Done) -> None:
        """Call ``done`` in the calling thread with the answer to each task, in any order.

        Few tasks are under way at a time, so their number costs no memory.

        Raises
        ------
        ConnectionError
            If workers are lost. Errors of the job come out as they are.
        """


def first_line(error: object) -> str:
    """Return the first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
