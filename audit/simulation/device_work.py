"""Jobs that a device can run: programs of the compiled loops in place of Python functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from audit.simulation.blocks import Block, Stream

if TYPE_CHECKING:
    from audit.simulation.dimensions.program import Program as PointProgram
    from audit.simulation.program import Program as WalkProgram

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One of the processes that a job samples.

    Attributes
    ----------
    program : WalkProgram or PointProgram
        Tables of the process.
    stream : Stream
        Purpose of its random numbers.
    first : Block
        The first block of the job's trials.
    reference : callable
        ``(block) -> final iterates`` on the processor, shape (trials,) or (trials, d).
    """

    program: WalkProgram | PointProgram
    stream: Stream
    first: Block
    reference: Callable[[Block], Floats]


@dataclass(frozen=True)
class DeviceWork:
    """What a device draws for a job.

    Attributes
    ----------
    sides : tuple of Side
        Processes, all with programs of one type.
    seed : int
        Seed of the job.
    parts : callable
        ``(block number) -> ((index of a side, block of trials), ...)``.
    thresholds : ndarray or None
        Ascending thresholds, shape (K,): row s of the result counts the iterates of side s at or
        above each. None returns the iterates themselves.
    direction : ndarray or None
        Shape (d,): iterates are replaced by their inner products with it. None in one dimension.
    diverged : str
        Message of the ``ValueError`` if iterates are not finite.
    """

    sides: tuple[Side, ...]
    seed: int
    parts: Callable[[int], tuple[tuple[int, Block], ...]]
    thresholds: Floats | None
    direction: Floats | None
    diverged: str


@runtime_checkable
class DeviceJob(Protocol):
    """A job that a device can run as well as the processor, with the same bits."""

    def device_work(self) -> DeviceWork:
        """Return what the device draws.

        Raises
        ------
        ValueError
            If the job calls Python functions, which no device can run.
        """
