"""Small jobs for tests of runs."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.simulation.blocks import Counts


@dataclass(frozen=True)
class Normals:
    """Draws normal numbers and counts them by sign and size, shape (2, 3)."""

    seed: int = 1
    blocks: int = 60
    draws: int = 100

    @property
    def description(self) -> dict[str, Any]:
        return {"seed": self.seed, "walk": {"draws": self.draws, "edges": (0.5, 1.5)}}

    def __len__(self) -> int:
        return self.blocks

    def work(self, number: int) -> int:
        return self.draws * (1 + number % 3)

    def counts(self, number: int) -> Counts:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(number,))
        x = np.random.Generator(np.random.SFC64(sequence)).standard_normal(self.work(number))
        size = np.searchsorted([0.5, 1.5], np.abs(x))
        result = np.zeros((2, 3), dtype=np.int64)
        np.add.at(result, ((x > 0).astype(np.int64), size), 1)
        return result


@dataclass(frozen=True)
class Stopping(Normals):
    """The same job, whose process meets an error in one block."""

    at: int = 31  # the first of a task, if one worker runs them
    error: type[BaseException] = KeyboardInterrupt

    def counts(self, number: int) -> Counts:
        if number == self.at:
            raise self.error("planted")
        return super().counts(number)


@dataclass(frozen=True)
class Slow(Normals):
    """The same job, with blocks that take a while."""

    seconds: float = 0.004

    def counts(self, number: int) -> Counts:
        time.sleep(self.seconds)
        return super().counts(number)


@dataclass(frozen=True)
class Murderous(Slow):
    """The same job, one block of which kills the process that runs it, once or every time."""

    marks: str = ""
    times: int = 1

    def counts(self, number: int) -> Counts:
        if number == 20:
            for time_ in range(self.times):
                mark = Path(self.marks) / str(time_)
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().counts(number)


def expected(job: Normals) -> Counts:
    """The sum over all blocks, one after the other."""
    plain = Normals(job.seed, job.blocks, job.draws)
    return np.sum([plain.counts(number) for number in range(len(plain))], axis=0)


def changed(job: Normals, **changes: Any) -> Normals:
    return replace(job, **changes)
