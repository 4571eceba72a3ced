"""Random numbers are the same on every processor."""

from __future__ import annotations

import hashlib
import os
import platform
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from audit.numerics.compiled import compiled_loop, fma
from audit.simulation import kernels, rng
from audit.simulation.rng import LANES

from . import twin


def bits() -> bytes:
    """Return normals, jumps and powers, as bytes."""
    words, room = kernels.scratch(rng.seeded(np.random.SeedSequence(1)))[:2]
    z = room.reshape(-1)
    numbers = rng.aligned(4 * LANES)
    numbers[:] = 0.1
    found = []
    for _ in range(8):
        _advance(words, room, z, numbers)
        found += [room.tobytes(), numbers.tobytes()]
    return b"".join(found)


@compiled_loop
def _advance(words: Any, room: Any, z: Any, numbers: Any) -> None:
    rng.fill_normals(words, 8, room)
    rare = np.uint64(2**62)
    kernels.step_lines(
        words, False, rare, numbers, z, 0, 8, 0.0, 0.0, 0.9, 0.01, 0.1, -0.5, 0.5, 0, LANES
    )
    kernels.step_lines(
        words, True, rare, numbers, z, 8, 16, 0.9, 0.1, 1.0, 0.0, 0.1, -0.5, 0.5, 0, LANES
    )
    for i in range(LANES):
        numbers[LANES + i] = rng.signed_power(numbers[i], 1.7)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the instructions are those of x86"
)
def test_bits_do_not_depend_on_the_instructions() -> None:
    """Vectors of two numbers and no fused instruction give the bits of this machine."""
    code = """if True:
        import hashlib
        from tests.simulation.test_stream import _advance, bits
        print(hashlib.sha256(bits()).hexdigest())
        assembly = "".join(_advance.inspect_asm().values())
        print("vfm" in assembly, "%ymm" in assembly)
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [hashlib.sha256(bits()).hexdigest(), "False", "False"]


@njit
def _fused(a: float, b: float, c: float) -> float:
    return float(fma(a, b, c))


def test_fused_operations_round_once() -> None:
    source = random.Random(1)
    for _ in range(1000):
        a, b = (source.uniform(-2, 2) * 2.0 ** source.randint(-30, 30) for _ in range(2))
        c = -a * b * (1 + source.choice((0, 2.0**-52, 2.0**-40, 1)) * source.uniform(-1, 1))
        right = float(Fraction(a) * Fraction(b) + Fraction(c))
        assert _fused(a, b, c) == twin.fma(a, b, c) == right
