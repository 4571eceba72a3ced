"""Stored runs: found in folders, each with its result or with what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.report.files import RESULT, load

STATUS = "status.json"
DONE, ERROR = "done", "error"


@dataclass(frozen=True)
class Run:
    """One run: its folder, the command that made it, and a result or an error, never both."""

    folder: Path
    command: str
    result: dict[str, Any] | None
    error: str | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name


def status(error: str | None, command: str) -> str:
    """Return the text of a run's status file: done, or the error in one line."""
    word = DONE if error is None else ERROR
    return json.dumps({"status": word, "error": error, "command": command}, indent=1) + "\n"


def gather(places: Sequence[Path]) -> tuple[Run, ...]:
    """Return the runs in the given folders, in order, each once.

    A place is a run's folder, or a folder of runs such as a sweep's. A place without any run, a
    run that failed and a result that cannot be read are runs with an error.
    """
    found: dict[Path, Run] = {}
    for place in places:
        folders = list(_folders(place)) or [place]
        for folder in folders:
            key = folder.resolve()
            if key not in found:
                found[key] = _run(folder)
    return tuple(found.values())


def _folders(place: Path) -> Iterator[Path]:
    if _is_run(place):
        yield place
        return
    if not place.is_dir():
        return
    for inner in sorted(place.iterdir()):
        if inner.is_dir() and not inner.name.startswith("."):
            yield from _folders(inner)


def _is_run(folder: Path) -> bool:
    return (folder / RESULT).is_file() or (folder / STATUS).is_file()


def _run(folder: Path) -> Run:
    stored = _status(folder)
    command = str(stored.get("command") or "")
    if stored.get("status") == ERROR:
        return Run(folder, command, None, str(stored.get("error") or "no reason was stored"))
    try:
        result = load(folder)
    except ValueError as error:
        return Run(folder, command, None, str(error))
    told = (result.get("provenance") or {}).get("command")
    return Run(folder, command or str(told or ""), result, None)


def _status(folder: Path) -> dict[str, Any]:
    try:
        stored = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
