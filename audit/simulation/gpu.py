"""Walks on a GPU of NVIDIA. Importing this module imports Numba's compiler for CUDA.

A block of threads walks through a block of trials, each thread as one lane of
`audit.simulation.kernels`: it draws from the same generator in the same order, and the functions of
one lane are the same code. They round nothing that CUDA's compiler could fuse, so the iterates have
the bits of those from the processor.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from audit.numerics.arrays import Array
from audit.simulation.blocks import Block, available_threads
from audit.simulation.kernels import CHUNK, stepped
from audit.simulation.program import GENERAL, Tables, compiled, is_compilable
from audit.simulation.rng import LANES, Words, advanced, normal_pair, seeded
from audit.simulation.samplers import Walks
from audit.simulation.samples import Samples

cuda: Any = importlib.import_module("numba.cuda")  # most of it has no types

_NORMALS = CHUNK * LANES
_MAX_WALKS = 2**26  # walks under way: their iterates fill half a gigabyte


@dataclass(frozen=True)
class OnGpu:
    """A job of walks whose steps the GPU knows: one path, at most two lines a step."""

    job: Samples
    programs: tuple[Tables, ...]

    def run(self, blocks: range) -> NDArray[Any]:
        """Return what the job draws in some blocks."""
        job = self.job
        batch = max(1, _MAX_WALKS // job.program.block_size)
        parts: list[NDArray[Any]] = []
        with ThreadPoolExecutor(available_threads()) as threads:
            for start in range(blocks.start, blocks.stop, batch):
                iterates = self._iterates(range(start, min(start + batch, blocks.stop)))
                share = -(-len(iterates) // available_threads())
                cut = [iterates[k : k + share] for k in range(0, len(iterates), share)]
                parts.extend(threads.map(job.drawn, cut))
        return np.sum(parts, axis=0) if job.draw.adds_up else np.concatenate(parts)

    def _iterates(self, numbers: range) -> list[tuple[int, Array]]:
        """Return process and final iterates of each block."""
        job = self.job
        places = [job.place(number) for number in numbers]
        found = []
        for side, (program, stream) in enumerate(
            zip(self.programs, job.program.streams, strict=True)
        ):
            blocks = [block for own, block in places if own == side]
            states = [seeded(block.sequence(job.seed, stream)) for block in blocks]
            found.append(_walked(program, job.program.steps[side], blocks, states))
        walks = cast(Walks, job.program)
        return [(side, walks.checked(side, next(found[side]))) for side, _ in places]


def is_there() -> bool:
    """Return whether there is a GPU, or Numba's simulator of one."""
    return bool(cuda.is_available())


def on_gpu(job: Samples) -> OnGpu | None:
    """Return the job as the GPU runs it, or None if it does not know all of its steps."""
    if not isinstance(job.program, Walks) or not all(map(is_compilable, job.program.processes)):
        return None
    programs = tuple(map(compiled, job.program.processes))
    known = (np.all(p.kind != GENERAL) and not p.paths_below.size for p in programs)
    return OnGpu(job, programs) if all(known) else None


def _walked(p: Tables, steps: int, blocks: list[Block], states: list[Words]) -> Iterator[Array]:
    """Return the final iterates of each block."""
    if not blocks:
        return iter(())
    ends = np.array([0, *itertools.accumulate(map(len, blocks))])
    out = cuda.device_array(int(ends[-1]))
    two = np.diff(p.first_piece) == 2
    own = p.first_piece[:-1]
    other = own + two  # a map of one line has itself as the other
    rare = np.zeros(two.size, dtype=np.uint64)
    rare[two] = p.below[p.first_entry[p.first_row[:-1][two]]]
    slopes, shifts = p.coefficients[1], p.coefficients[0]
    lines = np.array([slopes[own], shifts[own], slopes[other], shifts[other], p.noise_std])
    last = (steps, p.start, p.lower, p.upper, out)
    first = cuda.to_device(np.array(states)), cuda.to_device(ends)
    if two.size == 1 and not two[0]:
        line = map(float, lines[[0, 1, 4], 0])
        _kernel(_walk_one_line)[len(blocks), LANES](*first, *line, *last)
    else:
        tables = (p.first_place, p.times, p.sequence, two, rare, lines)
        on_device = map(cuda.to_device, tables)
        _kernel(_walk)[len(blocks), LANES](*first, *on_device, *last)
    return iter(np.split(out.copy_to_host(), ends[1:-1]))


def _walk_one_line(
    states: Any, ends: Any, slope: float, shift: float, std: float, steps: int, start: float,
    lower: float, upper: float, out: Any,
) -> None:  # fmt: skip
    """Do what `_walk` does where all steps are the same line: no normal has to wait."""
    block, lane = cuda.blockIdx.x, cuda.threadIdx.x
    a, b = states[block, lane], states[block, LANES + lane]
    c, counter = states[block, 2 * LANES + lane], states[block, 3 * LANES + lane]
    for i in range(ends[block] + lane, ends[block + 1], LANES):
        x = start
        for done in range(0, steps, 2):
            k, a, b, c, counter = advanced(a, b, c, counter)
            m, a, b, c, counter = advanced(a, b, c, counter)
            first, second = normal_pair(k, m)
            x = stepped(x, slope, shift, std, first, lower, upper)
            if done + 1 < steps:
                x = stepped(x, slope, shift, std, second, lower, upper)
        out[i] = x


def _walk(
    states: Any, ends: Any, first_place: Any, times: Any, sequence: Any, two: Any, rare: Any,
    lines: Any, steps: int, start: float, lower: float, upper: float, out: Any,
) -> None:  # fmt: skip
    """Set ``out[ends[k]:ends[k + 1]]`` to the final iterates of block k."""
    block, lane = cuda.blockIdx.x, cuda.threadIdx.x
    z = cuda.shared.array(_NORMALS, np.float64)  # each lane has a column of its own
    a, b = states[block, lane], states[block, LANES + lane]
    c, counter = states[block, 2 * LANES + lane], states[block, 3 * LANES + lane]
    for i in range(ends[block] + lane, ends[block + 1], LANES):
        x = start
        done = 0
        known = -1  # the step whose numbers are at hand
        slope = shift = usual_slope = usual_shift = std = 0.0
        chooses, below = False, np.uint64(0)
        for segment in range(times.size):
            for _ in range(times[segment]):
                for place in range(first_place[segment], first_place[segment + 1]):
                    row = done % CHUNK
                    if row == 0:
                        for j in range((min(CHUNK, steps - done) + 1) // 2):
                            k, a, b, c, counter = advanced(a, b, c, counter)
                            m, a, b, c, counter = advanced(a, b, c, counter)
                            at = 2 * j * LANES + lane
                            z[at], z[at + LANES] = normal_pair(k, m)
                    if sequence[place] != known:
                        known = sequence[place]
                        slope, shift, std = lines[0, known], lines[1, known], lines[4, known]
                        usual_slope, usual_shift = lines[2, known], lines[3, known]
                        chooses, below = two[known], rare[known]
                    own_slope, own_shift = slope, shift
                    if chooses:
                        k, a, b, c, counter = advanced(a, b, c, counter)
                        if k >= below:
                            own_slope, own_shift = usual_slope, usual_shift
                    noise = z[row * LANES + lane]
                    x = stepped(x, own_slope, own_shift, std, noise, lower, upper)
                    done += 1
        out[i] = x


@cache
def _kernel(function: Any) -> Any:
    """Return the compiled function, the same one each time."""
    return cuda.jit(function)
