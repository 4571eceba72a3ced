"""Code that a claims file names as ``package.module:name``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path


@contextlib.contextmanager
def importable(files: Iterable[Path]) -> Iterator[None]:
    """Let modules be found in the current folder and beside the claims files, after all else."""
    folders = dict.fromkeys([str(Path.cwd()), *(str(file.resolve().parent) for file in files)])
    added = [folder for folder in folders if folder not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for folder in added:
            if folder in sys.path:
                sys.path.remove(folder)


def imported(target: str) -> object:
    """Return what ``package.module:name`` names.

    Raises
    ------
    ValueError
        If it cannot be imported, in one line: importing runs a user's code, which may raise
        anything.
    """
    module, _, name = target.partition(":")
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{target} cannot be imported: {reason}") from None
    return found
