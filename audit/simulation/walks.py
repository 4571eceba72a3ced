"""The walks of one block: a process made ready once, for any of its blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from audit.constructions import Process
from audit.simulation import mapped
from audit.simulation.blocks import Block, Stream
from audit.simulation.program import Floats, Integers, Program, compiled, is_compilable

DRAWS = "xoshiro256++, 128 lanes"  # changes where a seed comes to mean other numbers

Walks = Callable[[Block, int, Stream], Floats]


class Counted(NamedTuple):
    """The walks of a block; every array has the shape (trials of the block,)."""

    x: Floats  # final iterates
    jumps: Integers
    met: Integers  # 1 where the walk met an end of the domain


def walks(process: Process) -> Walks:
    """Return the function ``(block, seed, stream) -> final iterates``.

    Compiled loops run the process if all its update maps are known to them; NumPy does otherwise.
    The function raises ``ValueError`` where an update map returns what is not a finite number.
    """
    if not is_compilable(process):

        def by_numpy(block: Block, seed: int, stream: Stream) -> Floats:
            x = np.empty(len(block))
            mapped.fill(block.generator(seed, stream), process, x)
            return x

        return by_numpy
    program = compiled(process)
    return lambda block, seed, stream: _walk(program, block, seed, stream, counted=False).x


def counted_walks(process: Process) -> Callable[[Block, int, Stream], Counted]:
    """Return the function ``(block, seed, stream) -> Counted``, for maps with known `pieces`."""
    program = compiled(process, general=True)
    return lambda block, seed, stream: _walk(program, block, seed, stream, counted=True)


def _walk(program: Program, block: Block, seed: int, stream: Stream, *, counted: bool) -> Counted:
    from audit.simulation import kernels, normals  # imports Numba, so not before it is needed

    words = normals.seeded(block.sequence(seed, stream))
    trials = len(block)
    paths = np.zeros(trials, dtype=np.int64)
    order = np.arange(trials)
    if program.paths_below.size:
        kernels.draw_paths(words, program.paths_below, paths)
        order = np.argsort(paths, kind="stable")
        paths = paths[order]
    x = np.empty(trials)
    jumps, met = (np.empty(trials if counted else 0, dtype=np.int64) for _ in range(2))
    if not kernels.walk(program, kernels.scratch(words), paths, order, x, jumps, met):
        raise ValueError(
            "update map must return finite numbers, got walks that grow beyond all doubles"
        )
    return Counted(x, jumps, met)
