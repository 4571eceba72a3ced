"""Run trainings in parallel processes: start in order, save as they finish, yield in order."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from audit import validate
from audit.isolation import Limits, UserCodeError, Workers
from audit.simulation.fingerprint import software
from audit.training.design import Design, Scored, Trial, trials_of
from audit.training.journal import Finished, Trials, trials_in

Report = Callable[[int, int], None]

_TASK = f"{__package__}.worker:answer"
_IMPORT_SECONDS = 300.0  # seconds; PyTorch and JAX import slowly in several processes at once
_INSIDE = "AUDIT_TRAINING"  # an environment variable that marks worker processes
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Processes:
    """Worker processes for trainings, reused between trainings; a context manager.

    Audits of the same module that share them import the module once per process.

    Parameters
    ----------
    number : int, optional
        Number of trainings that run at the same time.
    threads : int, optional
        Number of threads of the numerical libraries in each process.
    folders : sequence of pathlib.Path, optional
        Folders to search for the modules of trainings, after ``sys.path``.

    Raises
    ------
    ValueError
        If a number is not a positive integer.
    """

    def __init__(self, number: int = 1, *, threads: int = 1, folders: Sequence[Path] = ()) -> None:
        validate.integer(1, processes=number, threads=threads)
        self.number, self.threads = number, threads
        self._folders = tuple(folders)
        self._lock = threading.Lock()
        self._free = [self._new() for _ in range(number)]
        self._busy: list[Workers] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Terminate all processes, including those that are training."""
        self.end_trainings()
        for workers in self._free:
            workers.close()

    def end_trainings(self) -> None:
        """Terminate the processes that are training; new ones replace them."""
        with self._lock:
            ending, self._busy = self._busy, []
        for workers in ending:
            workers.close()

    @contextmanager
    def one(self) -> Iterator[Workers]:
        """Reserve one worker; a context manager.

        Yields
        ------
        audit.isolation.Workers
            Workers that no other caller uses at the same time.
        """
        with self._lock:
            workers = self._free.pop() if self._free else self._new()
            self._busy.append(workers)
        try:
            yield workers
        finally:
            with self._lock:
                if workers in self._busy:  # else they were ended
                    self._busy.remove(workers)
                    self._free.append(workers)

    def _new(self) -> Workers:
        environment = {_INSIDE: "1", **dict.fromkeys(_THREADS, str(self.threads))}
        return Workers(self._folders, environment)


@dataclass(frozen=True)
class _Training:
    """The training function of a design, run in worker processes."""

    design: Design
    processes: Processes

    def source(self) -> str:
        """Return a digest of the source file of the training's module."""
        return str(self._asked("source"))

    def scores(self, trial: Trial) -> tuple[float, ...]:
        """Train once and return the scores."""
        arguments = dict(self.design.arguments)
        try:
            return tuple(self._asked("trial", list(trial.included), trial.seed, arguments))
        except UserCodeError as error:
            raise UserCodeError(f"{trial.described}: {error}") from None

    def _asked(self, question: str, *arguments: Any) -> Any:
        design = self.design
        limits = Limits(
            seconds=design.seconds, gigabytes=design.gigabytes, import_seconds=_IMPORT_SECONDS
        )
        with (
            self.processes.one() as workers,
            workers.function(
                design.train, task=_TASK, limits=limits, name="train", keep=True
            ) as function,
        ):
            return function(question, design.train, *arguments)


@contextmanager
def opened(
    design: Design,
    *,
    confidence: float,
    seed: int,
    folder: Path | None,
    processes: Processes,
    progress: Report,
) -> Iterator[Iterator[Scored]]:
    """Yield an iterator over the trials of an audit with their scores, in order.

    Trials that finished in an earlier start of the same audit are read from the folder. On exit,
    trainings that still run are terminated.
    """
    if os.environ.get(_INSIDE):
        raise ValueError(
            "an audit must not be started while its training module is imported: put the call "
            'under if __name__ == "__main__"'
        )
    training = _Training(design, processes)
    identity = {
        "format": 1,
        "software": software(),
        "digest of the training's file": training.source(),
        "seed": seed,
        "confidence": confidence,
        "threads": processes.threads,
        **design.identity(),
    }
    with (
        trials_in(folder, identity) as kept,
        closing(_in_order(training, seed, kept, progress)) as trials,
    ):
        yield trials


def _in_order(
    training: _Training, seed: int, kept: Trials, progress: Report
) -> Generator[Scored, None, None]:
    design, processes = training.design, training.processes
    began = time.monotonic() - kept.elapsed
    until = math.inf if design.minutes is None else 60 * design.minutes
    last_known = max(kept.finished, default=0)  # earlier trials were started, so they count
    pool = ThreadPoolExecutor(processes.number)
    running: dict[Future[tuple[float, ...]], Trial] = {}
    source = trials_of(design, seed)
    begun: dict[int, Trial] = {}  # trials not yielded yet
    following = 1

    def report() -> None:
        if design.trials is None:
            progress(min(round(time.monotonic() - began), round(until)), round(until))
        else:
            progress(len(kept.finished), design.trials)

    try:
        while True:
            while following in begun and following in kept.finished:
                report()
                yield begun.pop(following), kept.finished[following].scores
                following += 1
            if len(running) < processes.number:
                late = time.monotonic() - began > until and following + len(begun) > last_known
                trial = None if late else next(source, None)
                if trial is not None:
                    begun[trial.number] = trial
                    if trial.number not in kept.finished:
                        running[pool.submit(training.scores, trial)] = trial
                    continue
            if not running:
                return
            ended = [(running.pop(one), one) for one in wait(running, None, FIRST_COMPLETED).done]
            for trial, one in sorted(ended, key=lambda pair: pair[1].exception() is not None):
                kept.add(Finished(trial.number, one.result(), time.monotonic() - began))
            report()
    finally:
        processes.end_trainings()  # ends the threads that wait for them
        pool.shutdown(cancel_futures=True)
