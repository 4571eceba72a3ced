"""Stored runs: found in folders, each with its result or with the error that ended it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.codec import decode, encode
from audit.results import Result, from_json

RESULT = "result.json"
STATUS = "status.json"
DONE, ERROR = "done", "error"


@dataclass(frozen=True)
class Run:
    """One run: its folder, its command, and either a result or an error."""

    folder: Path  #: Folder of the run.
    command: str  #: Command that started the run.
    result: Result | None  #: Result; None if the run failed.
    error: str | None  #: Error in one line; None if the run succeeded.
    depth: int = 1  #: Number of folders, from the run's own upwards, that its name consists of.

    @property
    def name(self) -> str:
        """Name of the folder, with those above it that tell it apart."""
        return "/".join(self.folder.resolve().parts[-self.depth :])

    @property
    def is_stored(self) -> bool:
        """Whether the folder holds the file of a result or of a status, readable or not."""
        return (self.folder / RESULT).is_file() or (self.folder / STATUS).is_file()


@dataclass(frozen=True)
class RunStatus:
    """The contents of a run's status file: "done", or "error" and the error in one line."""

    status: str
    error: str | None
    command: str


def load(folder: Path) -> Result:
    """Return the result stored in ``folder``.

    Parameters
    ----------
    folder : Path
        Folder of a run.

    Returns
    -------
    Result
        The result.

    Raises
    ------
    ValueError
        In one line, if the folder has no readable ``result.json``, or if that is no result of the
        version that this package writes.

    Examples
    --------
    >>> audit.report.load(Path("results/runs/drifted_walk"))  # doctest: +SKIP
    """
    path = Path(folder) / RESULT
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ValueError(
            f"folder must hold a readable {RESULT}, got {str(folder)!r} ({reason})"
        ) from None
    try:
        return from_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def status(error: str | None, command: str) -> str:
    """Return the text of a run's status file: done, or the error in one line."""
    word = DONE if error is None else ERROR
    return json.dumps(encode(RunStatus(word, error, command)), indent=1) + "\n"


def gather(places: Sequence[Path]) -> tuple[Run, ...]:
    """Return the runs in the given folders, in order, each once.

    A place without a run, a failed run and an unreadable result are runs with an error. Folders of
    the same name are named with those above them.
    """
    found: dict[Path, Run] = {}
    for place in places:
        for folder in list(_folders(place)) or [place]:
            key = folder.resolve()
            if key not in found:
                found[key] = _run(folder)
    runs = list(found.values())
    while len(alike := Counter(run.name for run in runs)) < len(runs):
        runs = [replace(run, depth=run.depth + (alike[run.name] > 1)) for run in runs]
    return tuple(runs)


def _folders(place: Path) -> Iterator[Path]:
    if (place / RESULT).is_file() or (place / STATUS).is_file():
        yield place
        return
    if not place.is_dir():
        return
    for inner in sorted(place.iterdir()):
        if inner.is_dir() and not inner.name.startswith("."):
            yield from _folders(inner)


def _run(folder: Path) -> Run:
    stored = _status(folder)
    if stored is not None and stored.status == ERROR:
        return Run(folder, stored.command, None, stored.error or "no reason was stored")
    command = stored.command if stored else ""
    try:
        result = load(folder)
    except ValueError as error:
        return Run(folder, command, None, " ".join(str(error).split()))
    return Run(folder, command or result.provenance.command, result, None)


def _status(folder: Path) -> RunStatus | None:
    """Return the stored status; None if it is missing or cannot be read."""
    try:
        stored: RunStatus = decode(
            RunStatus, json.loads((folder / STATUS).read_text(encoding="utf-8"))
        )
    except (OSError, ValueError):
        return None
    return stored
