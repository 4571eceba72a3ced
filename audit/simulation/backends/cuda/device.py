"""The CUDA device, or Numba's simulator of one, and how tables come to it.

Importing this module imports Numba.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import config
from numba import cuda as _cuda
from numpy.typing import NDArray

from audit.simulation.rng import LANES

T = TypeVar("T", bound=tuple[Any, ...])
F = TypeVar("F", bound=Callable[..., object])

cuda: Any = _cuda  # its members are made at run time
SIMULATED = bool(vars(config)["ENABLE_CUDASIM"])
_BLOCKS_PER_MULTIPROCESSOR = 16  # of 128 threads: all that one has threads for
_SHARE_OF_MEMORY = 0.25  # that a launch may take; two are under way at a time


def on_device(function: F) -> F:
    """Compile a function that kernels call."""
    return cast(F, cuda.jit(device=True)(function))


def kernel(registers: int) -> Callable[[Callable[..., None]], Any]:
    """Compile a kernel whose threads have so many registers at most, for more blocks at a time."""
    options = {} if SIMULATED else {"max_registers": registers}
    return cast(Callable[[Callable[..., None]], Any], cuda.jit(**options))


def check() -> None:
    """Raise an error if there is nothing to run on.

    Raises
    ------
    ValueError
        If the package is not installed.
    ConnectionError
        If there is no device.
    """
    if SIMULATED:
        return
    if importlib.util.find_spec("numba_cuda") is None:
        raise ValueError(
            "parallel=cuda needs numba-cuda, which is not installed: "
            "pip install 'noisy-sgd-audit[cuda]'"
        )
    if not cuda.is_available():
        raise ConnectionError(
            "no CUDA device or driver on this machine: use parallel=threads, which draws the same "
            "numbers"
        )


def resident_blocks(bytes_per_block: int) -> int:
    """Return how many CUDA blocks a launch should have: as many as run at a time."""
    if SIMULATED:
        return 2
    device = cuda.get_current_device()
    free, _ = cuda.current_context().get_memory_info()
    most = int(free * _SHARE_OF_MEMORY) // max(bytes_per_block, 1)
    return max(1, min(most, int(device.MULTIPROCESSOR_COUNT) * _BLOCKS_PER_MULTIPROCESSOR))


def name() -> str:
    """Return the device's name."""
    if SIMULATED:
        return "CUDA simulator"
    found = cuda.get_current_device().name
    return found.decode() if isinstance(found, bytes) else str(found)


def to_device(table: T, stream: Any) -> T:
    """Return a named tuple of arrays, numbers and tuples with its arrays on the device.

    The simulator takes NumPy's arrays, which compiled functions can be called with.
    """
    if SIMULATED:
        return table
    moved = (
        cuda.to_device(np.ascontiguousarray(each), stream=stream)
        if isinstance(each, np.ndarray)
        else each
        for each in table
    )
    return type(table)(*moved)


def empty(shape: tuple[int, ...], kind: type[Any]) -> Any:
    """Return an array on the device whose entries are not set."""
    return np.empty(shape, kind) if SIMULATED else cuda.device_array(shape, kind)


def lane_table(blocks: int, width: int, kind: type[Any]) -> Any:
    """Return a table whose last axis is that of the lanes, shape (blocks, width, LANES).

    In the simulator a lane's entries lie side by side, as in the processor's loops: its tables have
    the types for which these are compiled.
    """
    if SIMULATED:
        return np.empty((blocks, LANES, width), kind).transpose(0, 2, 1)
    return cuda.device_array((blocks, width, LANES), kind)


def to_host(array: Any, stream: Any) -> NDArray[Any]:
    """Return a device's array as one of NumPy, when the stream has come to it."""
    if SIMULATED:
        return np.asarray(array)
    host: NDArray[Any] = array.copy_to_host(stream=stream)
    stream.synchronize()
    return host
