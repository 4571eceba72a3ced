"""Launches of the CUDA kernels for the blocks of a job. Importing this module imports Numba."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.simulation import rng
from audit.simulation.backends.cuda import device, kernels
from audit.simulation.blocks import Block
from audit.simulation.device_work import DeviceWork, Side
from audit.simulation.dimensions.program import ALLOCATED
from audit.simulation.dimensions.program import Program as PointProgram
from audit.simulation.program import Program as WalkProgram

_FEW = rng.LANES  # runs that are compared with the processor's before a job begins


@dataclass(frozen=True)
class _Part:
    """The blocks of one side of a launch."""

    blocks: Sequence[Block]
    task: kernels.Task
    room: kernels.PathRoom | kernels.PointRoom  # held until the kernel has ended
    stream: Any


class Device:
    """The programs of a job on the device.

    Before it is used, a few runs of each side are compared with the processor's, bit by bit.

    Raises
    ------
    RuntimeError
        If they differ.
    """

    def __init__(self, work: DeviceWork) -> None:
        self._work = work
        stream = device.cuda.stream()
        self._programs = tuple(_moved(side.program, stream) for side in work.sides)
        stream.synchronize()
        rooms = max(_room_per_block(side) for side in work.sides)
        self._resident = device.resident_blocks(rooms)
        for side in range(len(work.sides)):
            self._compare(side)

    @property
    def blocks_at_once(self) -> int:
        """How many blocks of the job fill the device."""
        return max(1, self._resident // len(self._work.parts(0)))

    def launch(self, blocks: range) -> Launch:
        """Start the kernels for some blocks, without waiting for them."""
        begun = time.perf_counter()
        parts = [part for number in blocks for part in self._work.parts(number)]
        started = {
            side: self._start(side, [block for own, block in parts if own == side])
            for side in sorted({own for own, _ in parts})
        }
        return Launch(blocks, begun, self._work, [own for own, _ in parts], started)

    def _start(self, side: int, blocks: Sequence[Block], *, returned: bool = False) -> _Part:
        """Launch a kernel; ``returned`` asks for the iterates themselves, in any case."""
        work, own = self._work, self._work.sides[side]
        thresholds = np.empty(0)
        if work.thresholds is not None and not returned:
            thresholds = work.thresholds
        trials = np.array([len(block) for block in blocks], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(trials)])
        program = own.program
        stream = device.cuda.stream()
        states = [rng.seeded(block.sequence(work.seed, own.stream)) for block in blocks]
        task = device.to_device(
            kernels.Task(
                np.array(states),
                trials,
                first[:-1].astype(np.int64),
                thresholds,
                np.zeros(thresholds.size + 1, dtype=np.int64),
                np.empty((0, 0) if isinstance(program, PointProgram) else 0),
                np.zeros(1, dtype=np.int32),
            ),
            stream,
        )
        if not thresholds.size:
            rows = int(first[-1])
            shape: tuple[int, ...] = (rows,)
            if isinstance(program, PointProgram):
                whole = work.direction is None or returned
                shape = (rows, program.start.size if whole else 1)
            task = task._replace(out=device.empty(shape, np.float64))
        direction = None if returned else work.direction
        if isinstance(program, PointProgram):
            room: Any = _point_room(program, len(blocks), direction, stream)
            kernel = kernels.run
        else:
            room = _path_room(program, len(blocks), int(trials.max()), stream)
            kernel = kernels.walk
        with warnings.catch_warnings():  # that few blocks leave a device idle, as they must
            warnings.filterwarnings("ignore", message="Grid size")
            kernel[len(blocks), rng.LANES, stream](self._programs[side], task, room)
        return _Part(blocks, task, room, stream)

    def _compare(self, side: int) -> None:
        whole = self._work.sides[side].first
        few = Block(whole.number, whole.start, whole.start + min(len(whole), _FEW))
        here = self._work.sides[side].reference(few)
        part = self._start(side, [few], returned=True)
        there = _finite(part, self._work).reshape(here.shape)
        if not np.array_equal(here.view(np.uint64), there.view(np.uint64)):
            raise RuntimeError(
                f"{device.name()} must return the bits of the processor, got others in "
                f"{np.count_nonzero(here != there)} of {here.size} numbers: use parallel=threads"
            )


@dataclass(frozen=True)
class Launch:
    """Kernels that were started.

    Attributes
    ----------
    blocks : range
        Blocks of the job that they run.
    begun : float
        When, by ``time.perf_counter``.
    work : DeviceWork
        Job.
    sides : list of int
        Side of each part of the blocks, in order.
    started : dict
        Parts by their side.
    """

    blocks: range
    begun: float
    work: DeviceWork
    sides: list[int]
    started: dict[int, _Part]

    def result(self) -> NDArray[Any]:
        """Wait, and return the sum of the blocks' counts, or their iterates one by one.

        Raises
        ------
        ValueError
            If an iterate is not finite.
        """
        found = {side: _finite(part, self.work) for side, part in self.started.items()}
        if self.work.thresholds is not None:
            return np.stack([np.cumsum(exactly[:0:-1])[::-1] for exactly in found.values()])
        pieces = {side: iter(self._cut(side, values)) for side, values in found.items()}
        return np.concatenate([next(pieces[side]) for side in self.sides])

    def _cut(self, side: int, values: NDArray[Any]) -> list[NDArray[Any]]:
        ends = np.cumsum([len(block) for block in self.started[side].blocks])
        return np.split(values, ends[:-1])


def _finite(part: _Part, work: DeviceWork) -> NDArray[Any]:
    """Return what a kernel counted, or else its iterates, when it has ended."""
    if device.to_host(part.task.astray, part.stream)[0]:
        raise ValueError(work.diverged)
    counted = part.task.thresholds.size > 0
    return device.to_host(part.task.exactly if counted else part.task.out, part.stream)


def _moved(program: WalkProgram | PointProgram, stream: Any) -> Any:
    return device.to_device(program, stream)


def _path_room(program: WalkProgram, blocks: int, trials: int, stream: Any) -> kernels.PathRoom:
    paths = program.first_segment.size - 1
    several = paths > 1
    rows, width = (blocks, trials) if several else (1, 1)
    return kernels.PathRoom(
        device.to_device((_path_lengths(program),), stream)[0],
        device.empty((rows, width), np.int32),
        device.empty((rows, width), np.int32),
        device.empty((rows, paths + 1 if several else 1), np.int32),
    )


def _path_lengths(program: WalkProgram) -> NDArray[np.int64]:
    steps = np.concatenate([[0], np.cumsum(program.times * np.diff(program.first_place))])
    return np.asarray(np.diff(steps[program.first_segment]), dtype=np.int64)


def _point_widths(program: PointProgram) -> tuple[int, ...]:
    """Return how many entries a lane has in each table of a `kernels.PointRoom`."""
    rules, d, kinds = program.rules, program.start.size, program.vectors.shape[0]
    allocated = program.kind.size * rules.participations if rules.batches == ALLOCATED else 0
    epoch = rules.epoch
    return d, d, program.kind.size, epoch, allocated, epoch + 1, allocated, kinds, kinds


def _point_room(
    program: PointProgram, blocks: int, direction: NDArray[np.float64] | None, stream: Any
) -> kernels.PointRoom:
    kinds = [np.float64] * 2 + [np.int32] * 7
    tables = [
        device.lane_table(blocks, max(width, 1), kind)
        for width, kind in zip(_point_widths(program), kinds, strict=True)
    ]
    row = np.empty((1, 0)) if direction is None else direction[None, :]
    return kernels.PointRoom._make([*tables, device.to_device((row,), stream)[0]])


def _room_per_block(side: Side) -> int:
    """Return how many bytes of the device's memory a block of a side takes."""
    if isinstance(side.program, PointProgram):
        x, g, *others = _point_widths(side.program)
        return rng.LANES * (8 * (x + g) + 4 * sum(others) + 32) + 8 * x * len(side.first)
    return 32 * rng.LANES + 16 * len(side.first) + 4 * side.program.first_segment.size
