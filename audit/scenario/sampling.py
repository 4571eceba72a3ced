"""Samples of a run, drawn ahead and with checkpoints of long runs, and the folder of a run.

Each setting's samples are drawn in a thread while the setting before is computed: kernels let other
threads run, and exact laws and bounds need one thread most of the time. No number depends on it,
as each setting draws from its own seed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from audit.constructions import Construction
from audit.progress import Report
from audit.simulation import Parallel, Pool, final_iterates
from audit.simulation.journal import held

SECONDS = 5.0  # between checkpoints; a shorter run keeps none
_UNFINISHED = ".unfinished"  # no run's name begins with a dot


@dataclass(frozen=True)
class Sampling:
    """The workers that draw blocks of samples, and the folder of checkpoints of long runs.

    Without a folder no checkpoint is written.
    """

    workers: Parallel | Pool
    folder: Path | None = None

    def final_iterates(
        self, pair: Construction, trials: int, seed: int, progress: Report
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the samples of one setting; see `audit.simulation.final_iterates`."""
        return final_iterates(
            pair,
            trials=trials,
            seed=seed,
            backend=self.workers,
            folder=None if self.folder is None else self.folder / str(seed),
            progress=progress,
            record_every=SECONDS,
        )


@dataclass(frozen=True)
class Unfinished:
    """The checkpoints of one configuration's run, below the folder of all runs."""

    output: Path  #: The folder of all runs.
    name: str  #: One for each configuration.
    command: str  #: What continues the run.

    @property
    def folder(self) -> Path:
        """The folder of checkpoints; it exists only for a long run."""
        return self.output / _UNFINISHED / self.name

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Remove the folder at the end; after an error keep it, and add a note to the error."""
        try:
            yield
        except BaseException as error:
            if self.folder.is_dir():
                error.add_note(
                    f"what is finished is kept in {self.folder}; to go on from it: {self.command}"
                )
            raise
        for samples in self.folder.glob("*"):
            # another run of the same configuration may be at work in there
            with contextlib.suppress(OSError, ValueError), held(samples):
                shutil.rmtree(samples)
        with contextlib.suppress(OSError):  # others are unfinished, or none ever was
            self.folder.rmdir()
            self.folder.parent.rmdir()


Samples = tuple[NDArray[np.float64], NDArray[np.float64]]

MOST_AHEAD = 1 << 25  # trials; more are drawn when they are asked for, or memory might not do


@dataclass(frozen=True)
class SampleRequest:
    """Request of a setting: the arguments of `Sampling.final_iterates`."""

    pair: Construction
    trials: int
    seed: int


class _Stopped(Exception):
    """The run has ended before its samples were drawn."""


@dataclass
class _Draw:
    """A draw in the background; its progress is shown once it is asked for."""

    draw: SampleRequest
    report: Report | None = None
    future: Future[Samples] = field(init=False)


class PrefetchedSamples:
    """The samples of a run, each setting's drawn while the setting before is computed."""

    def __init__(self, sampling: Sampling, draws: Sequence[SampleRequest]) -> None:
        self._sampling, self._draws = sampling, list(draws)
        self.folder = sampling.folder  # of checkpoints
        self._begun: _Draw | None = None
        self._stopped = threading.Event()
        self._thread = ThreadPoolExecutor(1, "samples")

    def __enter__(self) -> Self:
        self._begin_next()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()  # a draw that nobody waits for ends with its current block
        self._thread.shutdown(cancel_futures=True)

    def final_iterates(
        self, pair: Construction, trials: int, seed: int, progress: Report
    ) -> Samples:
        """Return the samples of one setting, and begin to draw the next ones."""
        begun, self._begun = self._begun, None
        if begun is None or begun.draw != SampleRequest(pair, trials, seed):
            samples = self._sampling.final_iterates(pair, trials, seed, progress)
        else:
            begun.report = progress
            samples = begun.future.result()
        self._begin_next()
        return samples

    def _begin_next(self) -> None:
        draw = self._draws.pop(0) if self._draws else None
        if draw is None or draw.trials > MOST_AHEAD:
            return
        begun = self._begun = _Draw(draw)

        def report(done: int, total: int) -> None:
            if self._stopped.is_set():
                raise _Stopped
            if begun.report is not None:
                begun.report(done, total)

        begun.future = self._thread.submit(
            self._sampling.final_iterates, draw.pair, draw.trials, draw.seed, report
        )


class RunFolder:
    """Folder of a run, which appears in ``parent`` either complete or not at all.

    A number is appended to the name if it is taken. Whether ``parent`` can be written to is checked
    at once, before hours of work.
    """

    def __init__(self, parent: Path, name: str) -> None:
        self.parent, self.name = Path(parent), name
        with _one_line_errors(self.parent):
            self.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.parent):
                pass

    @contextlib.contextmanager
    def write(self) -> Iterator[Path]:
        """Yield an empty folder to fill; without an error it gets its final name at the end.

        The final folder is `place` afterwards.
        """
        with _one_line_errors(self.parent):
            draft = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=self.parent))
            draft.chmod(0o755)
        try:
            yield draft
            with _one_line_errors(self.parent):
                names = (f"{self.name}-{number}" for number in itertools.count(2))
                places = (self.parent / name for name in itertools.chain([self.name], names))
                self.place = next(place for place in places if not place.exists())
                os.rename(draft, self.place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _one_line_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"output must be a folder that can be written to, got {str(folder)!r} ({reason})"
        ) from None
