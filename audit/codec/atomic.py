"""Atomic replacement of files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_atomic(path: Path, text: bytes) -> None:
    """Replace a file atomically; it survives a kill and a power cut.

    The new file is on the disk before it takes the place of the old one, and its name is before
    this function returns.
    """
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
