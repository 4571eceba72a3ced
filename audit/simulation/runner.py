"""Run the blocks of a job on a backend, and resume them from a journal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.simulation.backends import Answer, Parallel, Pool, pool
from audit.simulation.blocks import Progress, Ranges, missing, union
from audit.simulation.fingerprint import software
from audit.simulation.journal import Journal
from audit.simulation.samples import Samples

HERE = Parallel()  # the threads of this process

_TASK_SECONDS = 0.5  # duration of a task: the most that a kill costs each worker
_FEW_WORKERS = 16  # workers whose answers together come often enough; more of them get larger tasks
_TASKS_PER_WORKER = 16  # for each worker, at least: the last ones end at about the same time
_WRITING_SHARE = 0.05  # largest share of the time that goes into records
_FORMAT = 4


def run_job(
    job: Samples,
    *,
    backend: Parallel | Pool = HERE,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    record_every: float = 1.0,
) -> tuple[NDArray[Any], ...]:
    """Run all blocks of a job and return what it draws.

    The result is the same bits for every backend, number of workers and order of work, even if a
    run with a folder was killed and restarted.

    Parameters
    ----------
    job : Samples
        Numbered blocks.
    backend : Parallel or Pool, optional
        Where they run: a `Parallel`, or workers prepared by `pool`.
    folder : str, Path, optional
        Folder of the journal that records finished blocks: their counts, which take no more room
        in a long run, or 8 bytes for each number that is kept. A run resumes from its own journal.
        None: no records.
    progress : Progress, optional
        Called in the calling thread with (finished walk steps, total walk steps), once at the
        beginning and when blocks finish.
    record_every : float, default: 1.0
        Minimal time between two records, in seconds; 0 for a record whenever blocks finish. If
        numbers are kept, a run that ends sooner records nothing.

    Returns
    -------
    tuple of ndarray
        For each process its counts, shape ``(thresholds,)``, or its iterates or scores, shape
        ``(trials,)`` or ``(trials, d)``.

    Raises
    ------
    ValueError
        If the samples do not fit into memory, the folder belongs to another configuration, is
        damaged or in use, or workers run other versions of the software.
    ConnectionError
        If the cluster is not there, or is lost; what finished is recorded.
    OSError
        If the folder cannot be written to (the disk is full); what was recorded stays.
    RuntimeError
        If blocks are missing at the end.

    Examples
    --------
    >>> first, second = audit.simulation.run_job(  # doctest: +SKIP
    ...     audit.simulation.walk_counts(pair, thresholds=(0.0, 1.0), trials=10_000, seed=7)
    ... )
    """
    validate.instance(Samples, job=job)
    validate.nonnegative(record_every=record_every)
    if not (isinstance(backend, Parallel) or hasattr(backend, "run")):
        raise validate.fail("backend", "a Parallel or the workers of a pool", backend)
    results = Sums(job) if job.draw.adds_up else Kept(job)
    with contextlib.ExitStack() as stack:
        record = None
        if folder is not None:
            record = Record(Path(folder), job, results, record_every)
            stack.callback(record.close)
            record.resume()
        _run(job, results, record, backend, progress)
    done = sum(map(len, results.finished))
    if done != len(job):
        raise RuntimeError(f"{done} of {len(job)} blocks came back")
    return tuple(results.arrays)


class Kept:
    """Results of all trials, each in its place. A journal has a row for each block."""

    def __init__(self, job: Samples) -> None:
        self._job = job
        self.finished: Ranges = ()
        try:
            self.arrays = [np.empty(job.shape) for _ in job.program.streams]
        except (MemoryError, ValueError) as error:
            raise validate.fail(
                "trials", "so few that their samples fit into memory", job.trials
            ) from error

    def add(self, blocks: range, found: NDArray[Any]) -> None:
        """Take in finished blocks."""
        at = 0
        for number in blocks:
            place = self._place(number)
            place[:] = found[at : at + len(place)]
            at += len(place)
        if at != len(found):
            raise RuntimeError(f"{at} samples must come from {blocks}, got {len(found)}")
        self.finished = union(self.finished, blocks)

    def rows(self, blocks: Iterable[range]) -> Mapping[int, NDArray[Any]]:
        """Return the results of some blocks."""
        return {number: self._place(number) for each in blocks for number in each}

    def load(self, number: int, row: NDArray[Any]) -> None:
        """Take in one block."""
        place = self._place(number)
        place[:] = row.reshape(place.shape)
        self.finished = union(self.finished, range(number, number + 1))

    def _place(self, number: int) -> NDArray[Any]:
        side, block = self._job.place(number)
        return self.arrays[side][block.start : block.stop]


class Sums:
    """Sums over the finished blocks. A journal has one row: which blocks, and their sums."""

    def __init__(self, job: Samples) -> None:
        self._shape = (len(job.program.streams), *job.shape)
        self._state: tuple[Ranges, NDArray[Any]] = (), np.zeros(self._shape, dtype=np.int64)

    @property
    def finished(self) -> Ranges:
        """The blocks that are summed."""
        return self._state[0]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The sums of each process."""
        return tuple(self._state[1])

    def add(self, blocks: range, found: NDArray[Any]) -> None:
        """Take in finished blocks."""
        # one assignment: an interrupt finds the blocks and their counts together, or neither
        self._state = union(self.finished, blocks), self._state[1] + found

    def rows(self, blocks: Iterable[range]) -> Mapping[int, NDArray[Any]]:
        """Return all in one row: the number of ranges, their ends, the sums."""
        finished, sums = self._state
        ends = [end for each in finished for end in (each.start, each.stop)]
        return {0: np.concatenate([[len(finished)], ends, sums.ravel()]).astype(np.int64)}

    def load(self, number: int, row: NDArray[Any]) -> None:
        """Take in that row."""
        ends, sums = np.split(row[1:], [2 * row[0]])
        finished = tuple(range(*each) for each in ends.reshape(-1, 2).tolist())
        self._state = finished, sums.reshape(self._shape)


class Record:
    """The journal of a run, with the blocks that finished since the last write.

    It is written when blocks finish and ``seconds`` have passed since the last write (since the
    first result, if there is none), or longer where writing takes long; with 0 seconds, whenever
    blocks finish. What finished after the last write is lost by a kill, and drawn again.
    """

    def __init__(self, folder: Path, job: Samples, results: Kept | Sums, seconds: float) -> None:
        self._folder, self._job, self._results, self._seconds = folder, job, results, seconds
        self._journal: Journal | None = None
        self._waiting: list[range] = []
        self._next: float | None = None

    def resume(self) -> None:
        """Take in what earlier runs left in the folder."""
        if self._folder.exists():
            for number, row in self._opened().read():
                self._results.load(number, row)

    def add(self, blocks: range) -> None:
        """Take in that blocks have finished, and write if it is time."""
        self._waiting.append(blocks)
        if self._next is None:  # with the first result, as loops are compiled before it
            self._next = time.monotonic() + self._seconds
        if time.monotonic() >= self._next:
            self._write()

    def close(self) -> None:
        """Write the rest, unless it is quickly drawn again, and close the journal."""
        is_due = self._next is not None and time.monotonic() >= self._next
        try:
            if self._waiting and (is_due or self._journal or self._job.draw.adds_up):
                self._write()
        finally:
            if self._journal is not None:
                self._journal.close()

    def _write(self) -> None:
        begun = time.monotonic()
        is_new = self._journal is None
        journal = self._opened()
        if is_new and any(True for _ in journal.read()):
            raise ValueError(
                f"{self._folder} holds results of another run that began meanwhile; "
                "a new start goes on from them"
            )
        journal.write(self._results.rows(self._waiting))
        self._waiting = []
        now = time.monotonic()
        if self._seconds:
            self._next = now + max(self._seconds, (now - begun) / _WRITING_SHARE)

    def _opened(self) -> Journal:
        if self._journal is None:
            # describing a long schedule takes seconds, and a short run never needs it
            identity = {
                "format": _FORMAT,
                "blocks": len(self._job),
                "software": software(),
                "description": dict(self._job.description),
            }
            self._journal = Journal(self._folder, identity)
        return self._journal


def _run(
    job: Samples,
    results: Kept | Sums,
    record: Record | None,
    backend: Parallel | Pool,
    progress: Progress | None,
) -> None:
    """Run the blocks that are missing, and take each result as it comes."""
    left = list(missing(results.finished, len(job)))
    here, pace = software(), Pace()
    steps = sum(job.work(blocks) for blocks in results.finished)
    total = job.trials * sum(job.program.steps)
    if progress is not None:
        progress(steps, total)

    def done(given: Answer) -> None:
        nonlocal steps
        _check_software(here, given.software)
        results.add(given.blocks, given.result)
        if record is not None:
            record.add(given.blocks)
        work = job.work(given.blocks)
        pace.learn(work, given.seconds)
        steps += work
        if progress is not None:
            progress(steps, total)

    if left:
        made = pool(backend) if isinstance(backend, Parallel) else contextlib.nullcontext(backend)
        with made as workers:
            workers.run(job, tasks(job, left, workers.workers, pace), done)


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
    """Measured speed of a worker; 0 before its first answer, so that tasks start small."""

    def __init__(self) -> None:
        self.steps_a_second = 0.0

    def learn(self, steps: int, seconds: float) -> None:
        """Take in the size of a task and the time that it took."""
        self.steps_a_second = steps / max(seconds, 1e-3)


def tasks(job: Samples, left: Iterable[range], workers: int, pace: Pace) -> Iterator[range]:
    """Cut the blocks that are left into ranges that are handed out as one.

    A task is large enough that its handing out costs little, and small enough that all workers
    have some and little is lost by a kill. The results do not depend on the cut.
    """
    left = list(left)
    most_blocks = max(1, sum(map(len, left)) // (_TASKS_PER_WORKER * workers))
    seconds = _TASK_SECONDS * max(1.0, workers / _FEW_WORKERS)
    for blocks in left:
        start, steps = blocks.start, 0
        for number in blocks:
            steps += job.work(range(number, number + 1))
            end = number + 1
            enough = steps >= pace.steps_a_second * seconds
            if enough or end - start >= most_blocks or end == blocks.stop:
                yield range(start, end)
                start, steps = end, 0
