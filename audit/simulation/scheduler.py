"""Run the blocks of a job on a backend, and resume them from a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.simulation.backends import Parallel, Pool, pool
from audit.simulation.backends.base import Answer, Work
from audit.simulation.blocks import (
    Blocks,
    Counts,
    Floats,
    Job,
    Progress,
    Ranges,
    Samples,
    missing,
)
from audit.simulation.checkpoint import CountSum, added, count_checkpoint
from audit.simulation.fingerprint import software

HERE = Parallel()  # the threads of this process

_SECONDS = 0.5  # that a task takes: the most that a kill costs each worker
_SOME = 16  # workers whose answers together come often enough; more of them get larger tasks
_TASKS = 16  # for each worker, at least: the last ones end at about the same time


def run_job(
    job: Job,
    *,
    backend: Parallel | Pool = HERE,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    record_every: float = 1.0,
) -> Counts:
    """Run all blocks of a job and return the sum of their counts.

    The counts are the same bits for every backend, number of workers and order of work, even if a
    run with a folder was killed and restarted.

    Parameters
    ----------
    job : Job
        Numbered blocks, at least one.
    backend : Parallel or Pool, optional
        Where they run: a `Parallel`, or workers prepared by `pool`.
    folder : str, Path, optional
        Folder that records finished blocks; a run resumes from its own records there. None: no
        records.
    progress : Progress, optional
        Called in the calling thread with (finished walk steps, total walk steps), once at the
        beginning and when blocks finish.
    record_every : float, default: 1.0
        Minimal time between two records, in seconds; 0 for a record whenever blocks finish.

    Returns
    -------
    ndarray of int
        Sum of the counts, shape of those of one block.

    Raises
    ------
    ValueError
        If the job has no blocks, its counts are no int64 arrays of one shape, the folder belongs
        to another configuration, is damaged or in use, or workers run other versions of the
        software.
    ConnectionError
        If the cluster is not there, or is lost; what finished is recorded.
    OSError
        If the folder cannot be written to (the disk is full); what was recorded stays.
    OverflowError
        If a sum of counts leaves the range of 64-bit integers.
    RuntimeError
        If blocks are missing at the end.

    Examples
    --------
    >>> audit.simulation.run_job(  # doctest: +SKIP
    ...     audit.simulation.WalkCounts(pair, (0.0, 1.0), trials=10_000, seed=7)
    ... ).shape
    (2, 2)
    """
    validate.integer(1, blocks=len(job))
    validate.nonnegative(record_every=record_every)
    with contextlib.ExitStack() as stack:
        sums = (
            CountSum()
            if folder is None
            else stack.enter_context(count_checkpoint(Path(folder), job, seconds=record_every))
        )
        spread(
            job,
            Summed(job),
            sums.add,
            finished=sums.tally.finished,
            backend=backend,
            progress=progress,
        )
        counts = sums.tally.counts
    if counts is None or len(sums.tally) != len(job):
        raise RuntimeError(f"{len(sums.tally)} of {len(job)} blocks came back")
    return counts


def spread(
    job: Blocks,
    work: Work,
    take: Callable[[range, NDArray[Any]], object],
    *,
    finished: Ranges,
    backend: Parallel | Pool,
    progress: Progress | None,
) -> None:
    """Run the blocks of a job that are not finished, and take each result as it comes.

    ``take`` is called in the calling thread. Raises what the work, the workers and ``take`` raise,
    and ``ValueError`` if workers run other versions of the software.
    """
    left = list(missing(finished, len(job)))
    here = software()
    done_steps, total, pace = 0, 0, Pace()
    if progress is not None:
        done_steps = sum(_steps(job, blocks) for blocks in finished)
        total = done_steps + sum(_steps(job, blocks) for blocks in left)
        progress(done_steps, total)

    def done(result: Answer) -> None:
        nonlocal done_steps
        _check_software(here, result.software)
        take(result.blocks, result.result)
        steps = _steps(job, result.blocks)
        pace.learn(steps, result.seconds)
        if progress is not None:
            done_steps += steps
            progress(done_steps, total)

    if left:
        with pool(backend) if isinstance(backend, Parallel) else nullcontext(backend) as workers:
            workers.run(work, tasks(job, left, workers.workers, pace), done)


def _steps(job: Blocks, blocks: range) -> int:
    return sum(job.work(number) for number in blocks)


def _check_software(here: dict[str, str], there: dict[str, str]) -> None:
    for name, version in here.items():
        # a worker of an older version may name less
        other = there.get(name, "none")
        if other != version:
            raise ValueError(
                f"{name} must be the same version on all workers, got {other} there and "
                f"{version} here"
            )


class Pace:
    """How fast a worker is, as the last answer told; 0 before the first, so tasks start small."""

    def __init__(self) -> None:
        self.steps_a_second = 0.0

    def learn(self, steps: int, seconds: float) -> None:
        """Take in what a task was and how long it took."""
        self.steps_a_second = steps / max(seconds, 1e-3)


def tasks(job: Blocks, left: Iterable[range], workers: int, pace: Pace) -> Iterator[range]:
    """Cut the blocks that are left into ranges that are handed out as one.

    A task is large enough that its handing out costs little, and small enough that all workers
    have some and little is lost by a kill. The counts do not depend on the cut.
    """
    left = list(left)
    most_blocks = max(1, sum(len(blocks) for blocks in left) // (_TASKS * workers))
    seconds = _SECONDS * max(1.0, workers / _SOME)
    for blocks in left:
        start, steps = blocks.start, 0
        for number in blocks:
            steps += job.work(number)
            end = number + 1
            enough = steps >= pace.steps_a_second * seconds
            if enough or end - start >= most_blocks or end == blocks.stop:
                yield range(start, end)
                start, steps = end, 0


@dataclass(frozen=True)
class Summed:
    """The sum of the counts of some blocks of a job."""

    job: Job

    def __call__(self, blocks: range) -> Counts:
        """Run the blocks."""
        total = added(None, self.job.counts(blocks[0]))
        for number in blocks[1:]:
            total = added(total, self.job.counts(number))
        return total


@dataclass(frozen=True)
class Drawn:
    """The samples of some blocks of a job, one after the other."""

    job: Samples

    def __call__(self, blocks: range) -> Floats:
        """Run the blocks."""
        return np.concatenate([self.job.values(number) for number in blocks])
