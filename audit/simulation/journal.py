"""Journals: arrays under whole numbers, in one SQLite file that is written as a run goes on.

Each write is one transaction: a kill or a full disk leaves all of it or nothing, a power cut costs
at most the last second. The file says which job it belongs to, and one process at a time has it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.simulation.fingerprint import canonical

FILE = "journal.sqlite"
_FORMER_FILES = "job.json", "trials.jsonl"  # files of former versions
_SYNC_SECONDS = 1.0  # seconds
_TABLES = (
    "CREATE TABLE IF NOT EXISTS job (identity TEXT, sha256 TEXT)",
    "CREATE TABLE IF NOT EXISTS results "
    "(number INTEGER PRIMARY KEY, type TEXT, data BLOB, sha256 TEXT)",
)


class UnusableFolderError(ValueError):
    """Error for a folder from which no run can go on; the message says to remove it."""


class Journal:
    """The journal in a folder, which it makes if need be, open until `close`.

    ``identity`` is all that the results depend on, as plain data.
    """

    def __init__(self, folder: Path, identity: Mapping[str, object]) -> None:
        self._folder, self._synced = folder, 0.0
        try:
            text = canonical(identity)
        except (TypeError, ValueError) as error:
            raise ValueError(f"description of a job must be plain data, got {error}") from None
        with contextlib.ExitStack() as stack:
            self._database = stack.enter_context(held(folder))
            with _one_line(folder), self._database as database:
                database.execute("BEGIN IMMEDIATE")
                for table in _TABLES:
                    database.execute(table)
                row = database.execute("SELECT * FROM job").fetchone()
                if row is None:
                    database.execute("INSERT INTO job VALUES (?, ?)", (text, _seal(text)))
                elif row[1] != _seal(row[0]):
                    raise sqlite3.DatabaseError("the identity is not what was written")
                elif row[0] != text:
                    raise _other_job(folder, row[0], text)
            self._stack = stack.pop_all()

    def read(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield each number with its array, in order.

        An array that is not what was written is left out, with a warning: it is computed again.
        """
        with _one_line(self._folder):
            query = "SELECT number, type, data, sha256 FROM results ORDER BY number"
            for number, kind, data, seal in self._database.execute(query):
                if seal == _seal(number, kind, data):
                    yield number, np.frombuffer(data, dtype=kind)
                else:
                    warnings.warn(
                        f"{self._folder / FILE} is damaged at number {number}, which is computed "
                        "again",
                        RuntimeWarning,
                        stacklevel=2,
                    )

    def write(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        """Write arrays under their numbers, all or none of them, in the place of former ones."""
        rows = []
        for number, array in arrays.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            kind, data = little.dtype.str, little.tobytes()
            rows.append((number, kind, data, _seal(number, kind, data)))
        is_due = time.monotonic() - self._synced > _SYNC_SECONDS
        with _one_line(self._folder, "; what is recorded stays, and a new start goes on from it"):
            self._database.execute(f"PRAGMA synchronous = {'FULL' if is_due else 'NORMAL'}")
            with self._database as database:
                database.execute("BEGIN")
                database.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", rows)
        if is_due:
            self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        self._stack.close()


@contextlib.contextmanager
def held(folder: Path) -> Iterator[sqlite3.Connection]:
    """Hold the journal of a folder for this process alone, until the process ends at the latest."""
    with _one_line(folder):
        folder.mkdir(parents=True, exist_ok=True)
        former = [name for name in _FORMER_FILES if (folder / name).exists()]
        if former:
            raise UnusableFolderError(
                "folder must be new or that of the same version of noisy-sgd-audit, "
                f"got {str(folder)!r} with {former[0]} of a former one; remove it to begin again"
            )
        # one connection, used by one thread after the other
        database = sqlite3.connect(
            folder / FILE, timeout=0, isolation_level=None, check_same_thread=False
        )
    with contextlib.closing(database):
        with _one_line(folder):
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")  # the lock is taken by the first transaction
            database.execute("ROLLBACK")
        yield database


def _seal(name: object, kind: object = "", data: bytes | None = None) -> str:
    return hashlib.sha256(f"{name} {kind} ".encode() + (data or b"")).hexdigest()


@contextlib.contextmanager
def _one_line(folder: Path, addition: str = "") -> Iterator[None]:
    """Turn errors of the database and the file system into one line."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            message = f"folder must not be in use by another run, got {str(folder)!r}"
            raise ValueError(message) from None
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
                    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):  # fmt: skip
            raise OSError(f"{folder} cannot be written to: {error}{addition}") from error
        message = f"{folder / FILE} is damaged; remove {folder} to begin again"
        raise UnusableFolderError(message) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"{folder} cannot be written to: {reason}{addition}") from error


def _other_job(folder: Path, there: str, here: str) -> ValueError:
    """Return the error that names what two jobs differ in: ``seed is 3 (here 4)``."""
    old, new = dict(_leaves(json.loads(there))), dict(_leaves(json.loads(here)))
    differences = [
        f"{name.removeprefix('description.')} is {_shown(old.get(name))} "
        f"(here {_shown(new.get(name))})"
        for name in {**new, **old}
        if old.get(name) != new.get(name)
    ]
    more, kind = f"; and {len(differences) - 3} more" if len(differences) > 3 else "", ValueError
    if any(one.startswith("software.") for one in differences):
        more, kind = f"{more}; remove it to begin again", UnusableFolderError
    return kind(
        "folder must be new or that of the same configuration, "
        f"got {str(folder)!r}, where {'; '.join(differences[:3])}{more}"
    )


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of everything in plain data that holds nothing else."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from _leaves(item, f"{name}[{place}]")
    else:
        yield name, canonical(value)


def _shown(text: str | None) -> str:
    if text is None:
        return "absent"
    return text if len(text) <= 60 else text[:57] + "..."
