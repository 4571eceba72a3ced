"""Trainings in parallel processes: started in order, kept as they finish, yielded in order."""

from __future__ import annotations

import math
import os
import queue
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from audit.isolation import Limits, UserCodeError, Workers
from audit.simulation.fingerprint import software
from audit.training.design import Design, Scored, Trial, trials_of
from audit.training.journal import Finished, Journal, journal

Report = Callable[[int, int], None]

_TASK = "audit.training.worker:answer"
_IMPORT_SECONDS = 300.0  # PyTorch and JAX take a while where several processes import them
_INSIDE = "AUDIT_TRAINING"  # a variable that worker processes have
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Processes:
    """As many worker processes as trainings run at a time, each used again and again."""

    def __init__(self, design: Design, folders: Sequence[Path]) -> None:
        self._design = design
        environment = {_INSIDE: "1", **dict.fromkeys(_THREADS, str(design.threads))}
        self._all = [Workers(folders, environment) for _ in range(design.processes)]
        self._free: queue.SimpleQueue[Workers] = queue.SimpleQueue()
        for each in self._all:
            self._free.put(each)
        self._limits = Limits(
            seconds=design.seconds, gigabytes=design.gigabytes, import_seconds=_IMPORT_SECONDS
        )

    def close(self) -> None:
        """End all processes, those too that train."""
        for each in self._all:
            each.close()

    def source(self) -> str:
        """Return a digest of the source file of the training's module."""
        return str(self._asked("source"))

    def scores(self, trial: Trial) -> tuple[float, ...]:
        """Train once.

        Raises
        ------
        UserCodeError
            If the training raises, hangs, ends or crashes its process, needs too much memory, or
            returns no finite numbers; the message names the trial and its seed.
        """
        arguments = dict(self._design.arguments)
        try:
            return tuple(self._asked("trial", list(trial.included), trial.seed, arguments))
        except UserCodeError as error:
            raise UserCodeError(f"{trial.described}: {error}") from None

    def _asked(self, question: str, *arguments: Any) -> Any:
        workers, reference = self._free.get(), self._design.train
        try:
            with workers.function(
                reference, task=_TASK, limits=self._limits, name="train"
            ) as function:
                return function(question, reference, *arguments)
        finally:
            self._free.put(workers)


@contextmanager
def opened(
    design: Design,
    *,
    confidence: float,
    seed: int,
    folder: Path | None,
    folders: Sequence[Path],
    progress: Report,
) -> Iterator[Iterator[Scored]]:
    """Yield an iterator over the trials of an audit with their scores, in order.

    Trials that finished in an earlier start of the same audit are read from the folder. On leaving,
    trainings that still run are ended.

    Parameters
    ----------
    design, confidence, seed
        The audit.
    folder
        Where finished trials are kept; None for nowhere.
    folders
        Where the module of the training is looked for, after ``sys.path``.
    progress
        Called with the trials that have finished, and all that there are (0 for unknown).

    Raises
    ------
    ValueError
        If the folder is in use or belongs to another audit, the training's module cannot be
        imported, or (from the iterator) a trial fails: a `UserCodeError`.
    """
    if os.environ.get(_INSIDE):
        raise ValueError(
            "an audit must not be started by the module of its own training: put the call below "
            'if __name__ == "__main__"'
        )
    with ExitStack() as stack:
        processes = stack.enter_context(closing(Processes(design, folders)))
        identity = {
            "format": 1,
            "software": software(),
            "digest of the training's file": processes.source(),
            "seed": seed,
            "confidence": confidence,
            **design.identity(),
        }
        kept = stack.enter_context(journal(folder, identity))
        run = _in_order(design, seed, processes, kept, progress)
        yield stack.enter_context(closing(run))


def _in_order(
    design: Design, seed: int, processes: Processes, kept: Journal, progress: Report
) -> Generator[Scored, None, None]:
    began = time.monotonic() - kept.elapsed
    until = math.inf if design.minutes is None else 60 * design.minutes
    last_known = max(kept.finished, default=0)  # those before it were started, so they count
    pool = ThreadPoolExecutor(design.processes)
    running: dict[Future[tuple[float, ...]], Trial] = {}
    source = trials_of(design, seed)
    begun: dict[int, Trial] = {}  # trials that were not yielded yet
    following = 1

    def tell() -> None:
        if design.trials is None:
            progress(min(round(time.monotonic() - began), round(until)), round(until))
        else:
            progress(len(kept.finished), design.trials)

    try:
        while True:
            while following in begun and following in kept.finished:
                tell()
                yield begun.pop(following), kept.finished[following].scores
                following += 1
            if len(running) < design.processes:
                late = time.monotonic() - began > until and following + len(begun) > last_known
                trial = None if late else next(source, None)
                if trial is not None:
                    begun[trial.number] = trial
                    if trial.number not in kept.finished:
                        running[pool.submit(processes.scores, trial)] = trial
                    continue
            if not running:
                return
            ended = [(running.pop(one), one) for one in wait(running, None, FIRST_COMPLETED).done]
            for trial, one in sorted(ended, key=lambda pair: pair[1].exception() is not None):
                kept.add(Finished(trial.number, one.result(), time.monotonic() - began))
            tell()
    finally:
        processes.close()  # a thread that waits for a training ends with it
        pool.shutdown(cancel_futures=True)
