"""Atomic replacement of files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def check_place(name: str, path: Path) -> None:
    """Raise ``ValueError`` unless a file can be written, before there is anything to write."""
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir() or not target.parent.is_dir():
            raise OSError(0, "a folder" if target.is_dir() else "no such folder")
        if target.is_file() or not target.exists():
            with tempfile.TemporaryFile(dir=target.parent):
                pass
    except OSError as error:
        wanted = "a file that can be written"
        raise ValueError(f"{name} must be {wanted}, got {str(path)!r} ({error.strerror})") from None


def write_atomic(path: Path, text: bytes) -> None:
    """Replace a file atomically; it survives a kill and a power cut.

    The new file is on the disk before it takes the place of the old one, and its name is before
    this function returns. A device or a pipe is written to, and what a link leads to is replaced.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        path.write_bytes(text)
        return
    draft = path.with_name(path.name + ".new")
    try:
        with open(draft, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:  # a full disk, or an interrupt
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
