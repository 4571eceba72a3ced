"""The samples of a long run on the disk, until the run is complete.

The folder holds ``job.json``, which says whose samples these are, ``lock``, and files
``blocks-K.bin`` with the samples of finished blocks, K the lowest. Each is written once and never
changed; a kill leaves it whole or not there. A run that is over within seconds writes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from audit.simulation import records_files as files
from audit.simulation.jobs import Floats, Samples
from audit.simulation.records_identity import claimed, identity_of, plain_errors
from audit.simulation.records_ranges import Ranges, joined, size

_WRITING_SHARE = 0.05  # of the time, at most, goes into files
_GROWTH = 0.02  # of the finished blocks, at least, go into a file: few files, however long the run


class SampleRecords:
    """The finished blocks of a job, some of them in files; made by `recorded_samples`.

    A file is written when blocks finish, ``seconds`` have passed since the last one (since the
    first result, if there is none), and the blocks that are not in a file are at least a fiftieth
    of the others. What is in no file is lost by a kill, and drawn again.
    """

    def __init__(self, folder: Path, job: Samples, *, seconds: float) -> None:
        self.finished: Ranges = ()
        self._folder, self._seconds = folder, seconds
        self._samples = job
        self._size = job.size
        self._lock: contextlib.ExitStack | None = None
        self._pending: list[tuple[range, Floats]] = []
        self._next: float | None = None

    @cached_property
    def _identity(self) -> dict[str, Any]:
        # of a long schedule it takes seconds, and a short run never asks for it
        return identity_of(self._samples)

    @cached_property
    def _job(self) -> str:
        return files.digest(self._identity)

    def add(self, blocks: range, values: Floats) -> None:
        """Take in the samples of finished blocks, and write a file if it is time.

        Raises
        ------
        OSError
            If the file could not be written; those before stay.
        """
        self.finished = joined(self.finished, blocks)
        self._pending.append((blocks, values))
        if self._next is None:  # with the first result, as loops are compiled before it
            self._next = time.monotonic() + self._seconds
        if time.monotonic() < self._next:
            return
        waiting = size(blocks for blocks, _ in self._pending)
        if waiting >= _GROWTH * (size(self.finished) - waiting):
            self.write()

    def write(self) -> None:
        """Write what is not written yet.

        Raises
        ------
        ValueError
            If the folder is in use, or belongs to another job or other versions of the software.
        OSError
            As `add` does.
        """
        if not self._pending:
            return
        begun = time.monotonic()
        if self._lock is None:
            self.open()
            if any(self._folder.glob("blocks-*.bin")):
                raise ValueError(
                    f"{self._folder} holds samples that another run has drawn meanwhile; "
                    "a new start goes on from them"
                )
        pending = sorted(self._pending, key=lambda each: each[0].start)
        data = b"".join(np.asarray(values, dtype="<f8").tobytes() for _, values in pending)
        body = {
            "job": self._job,
            "finished": [[blocks.start, blocks.stop] for blocks, _ in pending],
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        path = self._folder / f"blocks-{pending[0][0].start}.bin"
        kept = size(self.finished) - size(blocks for blocks, _ in pending)
        with plain_errors(self._folder, kept):
            files.write_whole(path, files.sealed(body) + data)
        self._pending = []
        now = time.monotonic()
        self._next = now + max(self._seconds, (now - begun) / _WRITING_SHARE)

    def open(self) -> None:
        """Hold the folder for this run; made if it is not there."""
        with contextlib.ExitStack() as stack:
            with plain_errors(self._folder, None):
                self._folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(files.locked(self._folder))
            with _removable(self._folder):
                known = claimed(self._folder, self._identity)
            if not known:
                with plain_errors(self._folder, None):
                    files.write_sealed(self._folder / "job.json", self._identity)
            self._lock = stack.pop_all()

    def found(self) -> Iterator[tuple[range, Floats]]:
        """Yield what earlier runs left in the folder; the blocks are finished from then on."""
        for path in self._folder.glob("*.new"):  # a kill came before the file had its name
            path.unlink()
        for path in sorted(self._folder.glob("blocks-*.bin")):
            for blocks, values in self._read(path):
                self.finished = joined(self.finished, blocks)
                yield blocks, values

    def _read(self, path: Path) -> list[tuple[range, Floats]]:
        first, second, data = [*path.read_bytes().split(b"\n", 2), b"", b""][:3]
        damaged = ValueError(f"{path} is damaged; remove that file to draw its samples again")
        try:
            body: dict[str, Any] = files.unsealed(first + second)
        except files.DamagedFile:
            raise damaged from None
        if body["job"] != self._job:
            raise ValueError(f"{path} holds samples of another configuration; remove that file")
        if body["sha256"] != hashlib.sha256(data).hexdigest():
            raise damaged
        result, values, at = [], np.frombuffer(data, dtype="<f8"), 0
        for start, stop in body["finished"]:
            count = sum(self._size(number) for number in range(start, stop))
            result.append((range(start, stop), values[at : at + count]))
            at += count
        return result

    def close(self) -> None:
        """Write what is left if it took a while to draw, and let go of the folder."""
        try:
            if self._lock is not None or (self._next and time.monotonic() >= self._next):
                self.write()
        finally:
            if self._lock is not None:
                self._lock.close()


@contextlib.contextmanager
def recorded_samples(folder: Path, job: Samples, *, seconds: float) -> Iterator[SampleRecords]:
    """Open the samples of a job on the disk; those that are there already are `found`.

    Parameters
    ----------
    folder
        Made when there is something to write. One process at a time may have it open.
    job
        Whose samples these are.
    seconds
        How long to wait from one file to the next, and until the first, at least.

    Raises
    ------
    ValueError
        If the folder is in use, or belongs to another job or other versions of the software; or if
        the job's description is no plain data.
    OSError
        If the folder cannot be written to.
    """
    records = SampleRecords(folder, job, seconds=seconds)
    if folder.exists():
        records.open()
    try:
        yield records
    finally:
        records.close()


@contextlib.contextmanager
def _removable(folder: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}; remove {folder} to draw all samples again") from error
