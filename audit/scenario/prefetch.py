"""Samples of one setting, drawn in a thread while the setting before is computed.

Kernels let other threads run, and exact laws and bounds need one thread most of the time, so that
both go on at once. No number depends on it: each setting draws from its own seed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from audit.constructions import Construction
from audit.progress import Report
from audit.scenario.sampling import Sampling

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
