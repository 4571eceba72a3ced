"""What is handed to workers, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.simulation.jobs import Counts, Floats, Job, Samples
from audit.simulation.records import added
from audit.simulation.records_identity import software

Work = Callable[[range], NDArray[Any]]  # picklable


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


def summed(job: Job, blocks: range) -> Counts:
    """Return the sum of the counts of some blocks."""
    total = added(None, job.counts(blocks[0]))
    for number in blocks[1:]:
        total = added(total, job.counts(number))
    return total


def drawn(job: Samples, blocks: range) -> Floats:
    """Return the samples of some blocks, one after the other."""
    return np.concatenate([job.values(number) for number in blocks])


Done = Callable[[Answer], object]


class Pool(Protocol):
    """Workers that are ready."""

    @property
    def workers(self) -> int:
        """How many blocks run at the same time."""

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        """Call ``done`` in the calling thread with the answer to each task, in any order.

        Few tasks are under way at a time, so their number costs no memory.

        Raises
        ------
        ConnectionError
            If workers are lost. Errors of the work come out as they are.
        """


def first_line(error: object) -> str:
    """Return the first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
