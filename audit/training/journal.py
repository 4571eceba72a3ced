"""Store finished trials on disk, one line each, written as they finish."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from audit.simulation import sealed_files as files
from audit.simulation.checkpoint import belongs_to
from audit.simulation.fingerprint import canonical, digest

TRIALS = "trials.jsonl"
_SYNCED_EVERY = 1.0  # seconds


@dataclass(frozen=True)
class Finished:
    """A finished trial: its number, its scores, and the age of the audit in seconds."""

    trial: int
    scores: tuple[float, ...]
    elapsed: float


class Journal:
    """The trials that have finished so far; kept in memory only if there is no folder.

    Floats are written so that they are read back bit for bit. After a kill all complete lines
    remain; an incomplete last line is dropped.
    """

    def __init__(self, job: str = "", path: Path | None = None) -> None:
        self.finished: dict[int, Finished] = {}
        self._job, self._path = job, path
        self._file: BinaryIO | None = None
        self._synced = 0.0
        if path is not None and path.exists():
            self._read(path)

    @property
    def elapsed(self) -> float:
        """Seconds that earlier starts took, up to the last finished trial."""
        return max((one.elapsed for one in self.finished.values()), default=0.0)

    def add(self, one: Finished) -> None:
        """Add a trial and write it to the file.

        Raises
        ------
        OSError
            If it cannot be written; earlier trials stay.
        """
        self.finished[one.trial] = one
        if self._path is None:
            return
        if self._file is None:
            self._file = open(self._path, "ab")  # noqa: SIM115 closed by `close`
        self._file.write(self._line(one))
        self._file.flush()  # survives a kill of this process
        if time.monotonic() - self._synced > _SYNCED_EVERY:
            os.fsync(self._file.fileno())  # survives a power cut
            self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()

    def _line(self, one: Finished) -> bytes:
        body = {"job": self._job, "trial": one.trial, "scores": list(one.scores)}
        body["elapsed"] = one.elapsed
        return f"{digest(body)} {canonical(body)}\n".encode()

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        at = 0
        for number, line in enumerate(lines[:-1], start=1):
            found = _unsealed(line)
            if found is None and number == len(lines) - 1 and not lines[-1]:
                break  # the process was killed while writing it
            if found is None or found["job"] != self._job:
                what = "damaged" if found is None else "of another audit"
                raise ValueError(
                    f"{path}, line {number} is {what}; remove the line to run its trial again"
                )
            one = Finished(found["trial"], tuple(found["scores"]), found["elapsed"])
            self.finished[one.trial] = one
            at += len(line) + 1
        if at < path.stat().st_size:
            os.truncate(path, at)


def _unsealed(line: bytes) -> Any:
    """Return the data of a line, or None if its digest does not match."""
    seal, _, text = line.partition(b" ")
    try:
        body = json.loads(text)
        return body if digest(body).encode() == seal else None
    except (ValueError, TypeError, RecursionError):
        return None


@contextlib.contextmanager
def journal(folder: Path | None, identity: Mapping[str, Any]) -> Iterator[Journal]:
    """Open the journal of an audit, with the trials of earlier starts.

    Parameters
    ----------
    folder
        Created if it does not exist; one process at a time may have it open. None for no folder.
    identity
        All settings that the result depends on, as plain data.

    Raises
    ------
    ValueError
        If the folder is in use or belongs to another audit, or a line is damaged.
    OSError
        If the folder cannot be written to.
    """
    if folder is None:
        yield Journal()
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"{os.fspath(folder)} cannot be written to: {reason}") from error
    with files.locked(folder):
        if not belongs_to(folder, identity):
            files.write_sealed(folder / "job.json", identity)
        found = Journal(digest(identity), folder / TRIALS)
        try:
            yield found
        finally:
            found.close()
