"""One CUDA device of this machine.

Experimental: the kernels are tested in Numba's simulator and compile for a device, but have not run
on one. A launch runs some thousand blocks at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.simulation.backends.base import Answer, Done, Kind, Parallel, Pool, Work, backend
from audit.simulation.fingerprint import software

if TYPE_CHECKING:
    from audit.simulation.backends.cuda.launches import Launch

_AHEAD = 2  # launches under way: the next one's generators are seeded while one runs


@backend(Kind.CUDA)
@contextlib.contextmanager
def cuda(where: Parallel) -> Iterator[Pool]:
    """Yield the device.

    Raises
    ------
    ValueError
        If the package numba-cuda is not installed.
    ConnectionError
        If there is no CUDA device.
    """
    from audit.simulation.backends.cuda import device  # imports Numba

    device.check()
    yield _Cuda()


@dataclass(frozen=True)
class _Cuda:
    workers: int = 1

    def run(self, work: Work, tasks: Iterable[range], done: Done) -> None:
        from audit.simulation.backends.cuda.launches import Device
        from audit.simulation.device_work import DeviceJob

        job = getattr(work, "job", None)
        if not isinstance(job, DeviceJob):
            raise ValueError(
                "parallel=cuda runs walks and d-dimensional Noisy-SGD, got a job of type "
                f"{type(job).__name__}: use parallel=threads"
            )
        device = Device(job.device_work())
        under_way: deque[Launch] = deque()
        since = time.perf_counter()

        def collect() -> None:
            nonlocal since
            launch = under_way.popleft()
            result = launch.result()
            now = time.perf_counter()
            seconds, since = now - max(since, launch.begun), now
            done(Answer(launch.blocks, result, seconds, software()))

        for blocks in _joined(tasks, device.blocks_at_once):
            under_way.append(device.launch(blocks))
            if len(under_way) == _AHEAD:
                collect()
        while under_way:
            collect()


def _joined(tasks: Iterable[range], most: int) -> Iterator[range]:
    """Join tasks that follow each other, and cut those of more than ``most`` blocks."""
    held = range(0)
    for task in tasks:
        left = task
        while left:
            if held and held.stop != left.start:
                yield held
                held = range(0)
            room = most - len(held)
            held = range(held.start if held else left.start, left[:room].stop)
            left = left[room:]
            if len(held) == most:
                yield held
                held = range(0)
    if held:
        yield held
