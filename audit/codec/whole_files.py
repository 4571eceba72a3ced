"""Write files that are whole at any time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: bytes) -> None:
    """Write a file so that ``path`` is the old one or the new one, whatever happens.

    The new file is on the disk before it takes the place of the old one, and its name is before
    this function returns: neither a kill nor a power cut leaves half a file under ``path``.
    """
    draft = path.with_name(path.name + ".new")
    try:
        with open(draft, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:  # of the disk, or an interrupt
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
