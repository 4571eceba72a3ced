"""Compiled kernels that the processes of one run of the tests share.

Numba's cache has one index for each function. Two processes that compile different signatures of
it at once may give both the same file, and then one runs the code of the other. So each worker of
pytest-xdist has a folder of its own, and between tests it takes over what other workers have
published: whole functions, each published once and never changed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_WHOLE = ".function"  # ends the name of a folder with a function's index and all its code


def publish(own: Path, shared: Path) -> None:
    """Copy the functions of a worker's folder to the shared one, but those that are there."""
    for index in own.rglob("*.nbi"):
        place = (shared / index.relative_to(own)).with_suffix(_WHOLE)
        if place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        # under a name that is this worker's, as another one may publish the same function
        draft = place.with_suffix(f".{os.getpid()}.draft")
        draft.mkdir()
        for file in index.parent.glob(f"{index.stem}.*"):
            shutil.copy2(file, draft)
        try:
            draft.rename(place)  # atomic: the function is there as a whole, or not
        except OSError:
            shutil.rmtree(draft)  # another worker was first


def take_over(shared: Path, own: Path) -> None:
    """Copy the published functions to a worker's folder, but those that it has compiled itself."""
    for published in shared.rglob(f"*{_WHOLE}"):
        index = (own / published.relative_to(shared)).with_suffix(".nbi")
        if index.exists():
            continue
        index.parent.mkdir(parents=True, exist_ok=True)
        code = [file for file in published.iterdir() if file.name != index.name]
        for file in [*code, published / index.name]:  # the index last
            shutil.copy2(file, index.parent)
