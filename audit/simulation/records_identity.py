"""Which job a folder of records belongs to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import audit
from audit.simulation import records_files as files
from audit.simulation.jobs import Blocks

_FORMAT = 3


def software() -> dict[str, str]:
    """Return the versions of what random numbers and counts depend on."""
    return {
        "noisy-sgd-audit": audit.__version__,
        "numpy": np.__version__,
        "numba": metadata.version("numba"),  # without the second that its import takes
    }


def identity_of(job: Blocks) -> dict[str, Any]:
    """Return what a folder of records belongs to: a job, and the versions of the software.

    Raises
    ------
    ValueError
        If the job's description is no plain data.
    """
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


def claimed(folder: Path, identity: Mapping[str, Any]) -> bool:
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


@contextlib.contextmanager
def plain_errors(folder: Path, kept: int | None) -> Iterator[None]:
    """Turn an `OSError` into one line; ``kept`` blocks stay recorded, None where none could."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        stays = "" if kept is None else f"; {kept} blocks stay recorded, and a new start goes on"
        raise OSError(f"{os.fspath(folder)} cannot be written to: {reason}{stays}") from error
