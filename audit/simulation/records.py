"""What a long run has counted so far, in memory and on the disk.

A folder of records holds four small files, however long the run is: ``job.json`` says which job
it belongs to; ``counts-0.json`` and ``counts-1.json`` take turns as the latest record, so that
the one before it is still there; ``lock`` keeps other processes out. A record says which blocks
are finished and what the sum of their counts is. Both always change together, so no block is
ever counted twice or left out, whenever the run is cut off.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import audit
from audit.simulation import records_files as files
from audit.simulation.jobs import Counts, Job

_FORMAT = 1
_WRITING_SHARE = 0.05  # of the time, at most, goes into records


def software() -> dict[str, str]:
    """Return the versions of what random numbers and counts depend on."""
    return {
        "noisy-sgd-audit": audit.__version__,
        "numpy": np.__version__,
        "numba": metadata.version("numba"),  # without the second that its import takes
    }


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
        return sum(len(blocks) for blocks in self.finished)

    def plus(self, blocks: range, counts: Counts) -> Tally:
        """Return the tally with these blocks added.

        Raises
        ------
        ValueError
            If a block is finished already, or the counts are not those of the other blocks' kind.
        OverflowError
            If a sum leaves the range of 64-bit integers.
        """
        kept: list[range] = []
        start, stop = blocks.start, blocks.stop
        for done in self.finished:
            if done.start < blocks.stop and blocks.start < done.stop:
                raise ValueError(f"blocks must be counted once, got {blocks} beside {done}")
            if done.stop == blocks.start:
                start = done.start
            elif done.start == blocks.stop:
                stop = done.stop
            else:
                kept.append(done)
        finished = tuple(sorted([*kept, range(start, stop)], key=lambda each: each.start))
        return Tally(finished, added(self.counts, counts))

    def missing(self, blocks: int) -> Iterator[range]:
        """Yield the ranges of block numbers below ``blocks`` that are not finished."""
        start = 0
        for done in self.finished:
            if start < done.start:
                yield range(start, done.start)
            start = done.stop
        if start < blocks:
            yield range(start, blocks)


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
        with _plain_errors(self._folder, len(self._stored)):
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
    with _plain_errors(folder, None):
        folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder):
        identity = _identity(job)
        known = _claimed(folder, identity)
        tally, slot = _latest(folder, files.digest(identity), len(job))
        if not known:
            with _plain_errors(folder, None):
                files.write_sealed(folder / "job.json", identity)
        records = Records(folder, files.digest(identity), tally, slot, seconds)
        try:
            yield records
        finally:
            records.write()


def _identity(job: Job) -> dict[str, Any]:
    identity = {
        "format": _FORMAT,
        "blocks": len(job),
        "software": software(),
        "description": dict(job.description),
    }
    try:
        files.canonical(identity)
    except (TypeError, ValueError) as error:
        raise ValueError(f"description of a job must be plain data, got {error}") from None
    return identity


def _claimed(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Whether the folder belongs to this job; False if it belongs to none."""
    path = folder / "job.json"
    try:
        there = files.read_sealed(path)
    except files.DamagedFile:
        raise ValueError(
            f"{path} is damaged; if it is the right folder, remove that file to go on: "
            "each record knows which job it belongs to"
        ) from None
    if there is None:
        return False
    if files.digest(there) == files.digest(identity):
        return True
    differences = _differences(there, identity)
    named = "; ".join(differences[:3])
    more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
    raise ValueError(
        "folder must be new or that of the same configuration, "
        f"got {str(folder)!r}, where {named}{more}"
    )


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Name what two identities differ in: ``seed is 3 (here 4)``."""
    old, new = dict(_leaves(there)), dict(_leaves(here))
    return [
        f"{name.removeprefix('description.')} is {_shown(old.get(name))} "
        f"(here {_shown(new.get(name))})"
        for name in {**new, **old}
        if old.get(name) != new.get(name)
    ]


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of everything in plain data that holds nothing else."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)) and value:
        for place, item in enumerate(value):
            yield from _leaves(item, f"{name}[{place}]")
    else:
        yield name, files.canonical(value)


def _shown(text: str | None) -> str:
    if text is None:
        return "absent"
    return text if len(text) <= 60 else text[:57] + "..."


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


@contextlib.contextmanager
def _plain_errors(folder: Path, kept: int | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        stays = "" if kept is None else f"; {kept} blocks stay recorded, and a new start goes on"
        raise OSError(f"{os.fspath(folder)} cannot be written to: {reason}{stays}") from error
