"""Small jobs for tests of runs, and where they run: free ports and Dask clusters."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.numerics.arrays import Array
from audit.simulation import Block, Samples, Stream
from audit.simulation.blocks import Counts
from audit.simulation.journal import FILE
from audit.simulation.samples import Draw

ROOT = Path(__file__).resolve().parents[3]
EDGES = (-1.5, -0.5, 0.5, 1.5)


@dataclass(frozen=True)
class Normals:
    """Normal numbers; those of the second process take twice the steps."""

    draws: int = 100  # in a block

    streams = (Stream.X, Stream.X_PRIME)
    steps = (1, 2)
    point = ()

    @property
    def block_size(self) -> int:
        return self.draws

    @property
    def description(self) -> dict[str, Any]:
        return {"walk": {"draws": self.draws, "edges": EDGES}}

    def values(self, side: int, block: Block, seed: int) -> Array:
        return block.generator(seed, self.streams[side]).standard_normal(len(block))


@dataclass(frozen=True)
class Stopping(Normals):
    """The same, with an error in one block."""

    at: int = 31  # the first of a task, if one worker runs them
    error: type[BaseException] = KeyboardInterrupt

    def values(self, side: int, block: Block, seed: int) -> Array:
        if 2 * block.number + side == self.at:
            raise self.error("planted")
        return super().values(side, block, seed)


@dataclass(frozen=True)
class Slow(Normals):
    """The same, with blocks that take a while."""

    seconds: float = 0.004

    def values(self, side: int, block: Block, seed: int) -> Array:
        time.sleep(self.seconds)
        return super().values(side, block, seed)


@dataclass(frozen=True)
class Murderous(Slow):
    """The same; one block kills the process that runs it, once or so many times."""

    marks: str = ""
    times: int = 1

    def values(self, side: int, block: Block, seed: int) -> Array:
        if (side, block.number) == (0, 10):
            for time_ in range(self.times):
                mark = Path(self.marks) / str(time_)
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().values(side, block, seed)


def counted(program: Normals | None = None, blocks: int = 60, seed: int = 1) -> Samples:
    """The job that counts above `EDGES`; half of the blocks are of each process."""
    made = Normals() if program is None else program
    return Samples(made, Draw(thresholds=EDGES), made.draws * blocks // 2, seed)


def kept(program: Normals | None = None, blocks: int = 60, seed: int = 1) -> Samples:
    """The job that keeps the numbers."""
    made = Normals() if program is None else program
    return Samples(made, Draw(), made.draws * blocks // 2, seed)


def expected(blocks: int = 60, seed: int = 1, draws: int = 100) -> Counts:
    """The counts over all blocks, one after the other."""
    plain, counts = Normals(draws), np.zeros((2, len(EDGES)), dtype=np.int64)
    for number in range(blocks // 2):
        for side in (0, 1):
            x = plain.values(side, Block(number, 0, draws), seed)
            counts[side] += [np.count_nonzero(x >= edge) for edge in EDGES]
    return counts


def recorded(folder: Path) -> dict[int, bytes]:
    """What the journal of a run that has ended holds."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as database:
        return dict(database.execute("SELECT number, data FROM results"))


def blocks_in(folder: Path) -> int:
    """How many blocks the counts in a journal are of."""
    row = np.frombuffer(recorded(folder)[0], dtype="<i8")
    ends = row[1 : 1 + 2 * row[0]].reshape(-1, 2)
    return int(np.sum(ends[:, 1] - ends[:, 0]))


def steps_of(blocks: int) -> int:
    """The steps of the first so many blocks."""
    return counted(blocks=2 * blocks).work(range(blocks))


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def cluster(**given: Any) -> Any:
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    return distributed.LocalCluster(**{**options, **given}, silence_logs="CRITICAL")
