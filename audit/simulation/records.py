"""What a long run has counted so far, in memory and on the disk.

A folder of records holds four small files, however long the run is: ``job.json`` says which job
it belongs to; ``counts-0.json`` and ``counts-1.json`` take turns as the latest record, so that
the one before it is still there; ``lock`` keeps other processes out. A record says which blocks
are finished and what the sum of their counts is. Both always change together, so no block is
ever counted twice or left out, whenever the run is cut off.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.simulation import records_files as files
from audit.simulation.jobs import Counts, Job
from audit.simulation.records_identity import claimed, identity_of, plain_errors
from audit.simulation.records_ranges import joined, missing, size

_WRITING_SHARE = 0.05  # of the time, at most, goes into records


@dataclass(frozen=True, eq=False)
class Tally:
    """The finished blocks, and the sum of their counts.

    Parameters
    ----------
    finished
        Ranges of block numbers: ascending, and never touching each other.
    counts
        The sum over these blocks; None while there are none.
    """

    finished: tuple[range, ...] = ()
    counts: Counts | None = None

    def __len__(self) -> int:
        return size(self.finished)

    def plus(self, blocks: range, counts: Counts) -> Tally:
        """Return the tally with these blocks added.

        Raises
        ------
        ValueError
            If a block is finished already, or the counts are not those of the other blocks' kind.
        OverflowError
            If a sum leaves the range of 64-bit integers.
        """
        finished = joined(self.finished, blocks)
        return Tally(finished, added(self.counts, counts))

    def missing(self, blocks: int) -> Iterator[range]:
        """Yield the ranges of block numbers below ``blocks`` that are not finished."""
        yield from missing(self.finished, blocks)


def added(total: Counts | None, counts: Any) -> Counts:
    """Return the sum of two arrays of counts; None is no counts yet.

    Raises
    ------
    ValueError
        If ``counts`` is no array of 64-bit integers, or its shape is another one.
    OverflowError
        If a sum leaves the range of 64-bit integers.
    """
    if not isinstance(counts, np.ndarray) or counts.dtype != np.int64:
        kind = getattr(counts, "dtype", type(counts).__name__)
        raise ValueError(f"counts of a block must be an array of int64, got {kind}")
    given: Counts = counts
    if total is None:
        return given
    if given.shape != total.shape:
        raise ValueError(
            f"counts must have one shape for all blocks, got {given.shape} and {total.shape}"
        )
    result = total + given
    if np.any((total ^ result) & (given ^ result) < 0):  # NumPy wraps around in silence
        raise OverflowError("a sum of counts left the range of 64-bit integers")
    return result


class Memory:
    """A tally that is kept nowhere else."""

    def __init__(self) -> None:
        self.tally = Tally()

    def add(self, blocks: range, counts: Counts) -> None:
        """Take in the counts of finished blocks."""
        self.tally = self.tally.plus(blocks, counts)


class Records(Memory):
    """A tally that is written to a folder from time to time; made by `recorded`.

    A record is written when blocks finish and ``seconds`` have passed since the last one, or
    longer where writing takes long; with 0 seconds, whenever blocks finish. What finished after
    the last record is lost by a kill, and counted again.
    """

    def __init__(self, folder: Path, job: str, tally: Tally, slot: int, seconds: float) -> None:
        self.tally = tally
        self._folder, self._job, self._slot, self._seconds = folder, job, slot, seconds
        self._stored = tally
        self._next = time.monotonic() + seconds

    def add(self, blocks: range, counts: Counts) -> None:
        """Take in the counts of finished blocks, and write a record if it is time.

        Raises
        ------
        OSError
            If the record could not be written; the one before stays.
        """
        # one assignment: an interrupt finds the blocks and their counts together, or neither
        self.tally = self.tally.plus(blocks, counts)
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write what is not written yet.

        Raises
        ------
        OSError
            As `add` does.
        """
        tally = self.tally
        if tally is self._stored or tally.counts is None:
            return
        begun = time.monotonic()
        body = {
            "job": self._job,
            "finished": [[blocks.start, blocks.stop] for blocks in tally.finished],
            "shape": list(tally.counts.shape),
            "counts": tally.counts.ravel().tolist(),
        }
        with plain_errors(self._folder, len(self._stored)):
            files.write_sealed(_slots(self._folder)[self._slot], body)
        self._stored, self._slot = tally, 1 - self._slot
        now = time.monotonic()
        if self._seconds:
            self._next = now + max(self._seconds, (now - begun) / _WRITING_SHARE)


@contextlib.contextmanager
def recorded(folder: Path, job: Job, *, seconds: float) -> Iterator[Records]:
    """Open the records of a job, with what earlier runs left there; write the rest on leaving.

    Parameters
    ----------
    folder
        Made if it is not there. One process at a time may have it open.
    job
        Whose counts these are.
    seconds
        How long to wait from one record to the next, at least; 0 for a record whenever blocks
        finish.

    Raises
    ------
    ValueError
        If the folder is in use, belongs to another job or other versions of the software, or
        holds no whole record where there was one; or if the job's description is no plain data.
    OSError
        If the folder cannot be written to.
    """
    with plain_errors(folder, None):
        folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder):
        identity = identity_of(job)
        known = claimed(folder, identity)
        tally, slot = _latest(folder, files.digest(identity), len(job))
        if not known:
            with plain_errors(folder, None):
                files.write_sealed(folder / "job.json", identity)
        records = Records(folder, files.digest(identity), tally, slot, seconds)
        try:
            yield records
        finally:
            records.write()


def _slots(folder: Path) -> tuple[Path, Path]:
    return folder / "counts-0.json", folder / "counts-1.json"


def _latest(folder: Path, job: str, blocks: int) -> tuple[Tally, int]:
    """Return the whole record with the most blocks, and the slot that the next one goes to."""
    found: list[tuple[Tally, int]] = []
    damaged: list[str] = []
    for slot, path in enumerate(_slots(folder)):
        try:
            body = files.read_sealed(path)
        except files.DamagedFile as error:
            damaged.append(str(error))
            continue
        if body is None:
            continue
        if body["job"] != job:
            raise ValueError(f"{path} holds counts of another configuration; folder must be new")
        finished = tuple(range(start, stop) for start, stop in body["finished"])
        counts = np.array(body["counts"], dtype=np.int64).reshape(body["shape"])
        found.append((Tally(finished, counts), slot))
    if damaged and not found:
        raise ValueError(
            f"{' and '.join(damaged)} is damaged and no other record is whole; "
            "remove it to count all blocks again"
        )
    if not found:
        return Tally(), 0
    tally, slot = max(found, key=lambda each: len(each[0]))
    if damaged:
        warnings.warn(
            f"{damaged[0]} is damaged; the run goes on from the record before it, "
            f"with {len(tally)} of {blocks} blocks",
            RuntimeWarning,
            stacklevel=2,
        )
    return tally, 1 - slot
