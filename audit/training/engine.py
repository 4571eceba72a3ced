"""Run trainings in parallel processes: start in order, save as they finish, yield in order."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from audit import validate
from audit.isolation import Limits, UserCodeError, Workers
from audit.numerics.arrays import Array
from audit.simulation.fingerprint import software
from audit.simulation.journal import Journal
from audit.training.design import Design, Scored, Trial, trials_of

Report = Callable[[int, int], None]

_TASK = f"{__package__}.scores:answer"
_IMPORT_SECONDS = 300.0  # seconds; PyTorch and JAX import slowly in several processes at once
_POLL_SECONDS = 0.1  # seconds between two attempts to end the trainings
_INSIDE = "AUDIT_TRAINING"  # an environment variable that marks worker processes
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Processes(AbstractContextManager["Processes"]):
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
        environment = {_INSIDE: "1", **dict.fromkeys(_THREADS, str(threads))}
        self.workers = Workers(folders, environment, idle=number)

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Terminate all processes, including those that are training."""
        self.workers.close()


def _asked(processes: Processes, design: Design, question: str, *arguments: Any) -> Any:
    """Return the answer of `audit.training.scores.answer` about the training of a design."""
    limits = Limits(
        seconds=design.seconds, gigabytes=design.gigabytes, import_seconds=_IMPORT_SECONDS
    )
    with processes.workers.function(
        design.train, task=_TASK, limits=limits, name="train", keep=True
    ) as function:
        return function(question, design.train, *arguments)


def _scores(processes: Processes, design: Design, trial: Trial) -> tuple[float, ...]:
    """Train once and return the scores."""
    included, arguments = list(trial.included), dict(design.arguments)
    try:
        question = "first" if trial.number <= 2 else "trial"  # with and without the canary
        return tuple(_asked(processes, design, question, included, trial.seed, arguments))
    except UserCodeError as error:
        raise UserCodeError(f"{trial.described}: {error}") from None


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

    Finished trials are read from the folder. On exit, trainings that still run are terminated.
    """
    if os.environ.get(_INSIDE):
        raise ValueError(
            "an audit must not be started while its training module is imported: put the call "
            'under if __name__ == "__main__"'
        )
    identity = {
        "format": 1,
        "software": software(),
        "digest of the training's files": _asked(processes, design, "source"),
        "seed": seed,
        "confidence": confidence,
        "threads": processes.threads,
        **design.identity(),
    }
    with ExitStack() as stack:
        journal, finished = None, {}
        if folder is not None:
            journal = stack.enter_context(closing(Journal(folder, identity)))
            finished = dict(journal.read())
        trials = _in_order(processes, design, seed, journal, finished, progress)
        yield stack.enter_context(closing(trials))


def _in_order(
    processes: Processes,
    design: Design,
    seed: int,
    journal: Journal | None,
    finished: dict[int, Array],
    progress: Report,
) -> Generator[Scored, None, None]:
    """Yield trials with their scores, those in ``finished`` as the journal has them.

    It holds by number the age of the audit in seconds, over all of its starts, and the scores.
    """
    began = monotonic() - max((float(row[0]) for row in finished.values()), default=0.0)
    until = math.inf if design.minutes is None else 60 * design.minutes
    last_known = max(finished, default=0)  # earlier trials were started, so they count
    pool = ThreadPoolExecutor(processes.number)
    running: dict[Future[tuple[float, ...]], Trial] = {}
    source = trials_of(design, seed)
    begun: dict[int, Trial] = {}  # trials not yielded yet
    following = 1

    def report() -> None:
        if design.trials is None:
            progress(min(round(monotonic() - began), round(until)), round(until))
        else:
            progress(len(finished), design.trials)

    try:
        while True:
            while following in begun and following in finished:
                report()
                yield begun.pop(following), tuple(finished[following][1:].tolist())
                following += 1
            if len(running) < processes.number:
                late = monotonic() - began > until and following + len(begun) > last_known
                trial = None if late else next(source, None)
                if trial is not None:
                    begun[trial.number] = trial
                    if trial.number not in finished:
                        running[pool.submit(_scores, processes, design, trial)] = trial
                    continue
            if not running:
                return
            ended = [(running.pop(one), one) for one in wait(running, None, FIRST_COMPLETED).done]
            for trial, one in sorted(ended, key=lambda pair: pair[1].exception() is not None):
                scores = one.result()
                row = np.array([monotonic() - began, *scores], dtype=np.float64)
                finished[trial.number] = row
                if journal is not None:
                    journal.write({trial.number: row})
            report()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        left: Collection[object] = running
        while left:  # a thread may be about to start a training
            processes.workers.end_busy()
            left = wait(running, _POLL_SECONDS).not_done
