"""Finished trials, stored on disk as they finish."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.simulation.journal import Journal


@dataclass(frozen=True)
class Finished:
    """A finished trial: its number, its scores, and the age of the audit in seconds."""

    trial: int
    scores: tuple[float, ...]
    elapsed: float


class Trials:
    """The trials that have finished so far; kept in memory only if there is no journal.

    Scores are read back bit for bit.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        rows = () if journal is None else journal.read()
        self.finished = {
            trial: Finished(trial, tuple(scores), elapsed)
            for trial, (elapsed, *scores) in ((trial, row.tolist()) for trial, row in rows)
        }

    @property
    def elapsed(self) -> float:
        """Seconds that earlier starts took, up to the last finished trial."""
        return max((one.elapsed for one in self.finished.values()), default=0.0)

    def add(self, one: Finished) -> None:
        """Add a trial and write it to the journal."""
        self.finished[one.trial] = one
        if self._journal is not None:
            self._journal.write({one.trial: np.array([one.elapsed, *one.scores], dtype=np.float64)})


@contextlib.contextmanager
def trials_in(folder: Path | None, identity: Mapping[str, Any]) -> Iterator[Trials]:
    """Open the journal of an audit, with the trials of earlier starts."""
    if folder is None:
        yield Trials()
        return
    with contextlib.closing(Journal(folder, identity)) as journal:
        yield Trials(journal)
