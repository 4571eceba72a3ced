"""The stream of random numbers: what a seed means, on every processor."""

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

from audit import Batching, simulation
from audit.numerics.compiled import compiled_loop, fma
from audit.simulation import fingerprint, kernels, rng
from audit.simulation.rng import LANES
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Huber,
    Linear,
    Logistic,
    Quadratic,
    WholeSpace,
    final_points,
)
from tests.dimensions.cases import pair

from . import twin
from .cases import COMPILED

# Whoever changes one of them changes `audit.simulation.fingerprint.STREAM` and all.
STREAM, DIGEST = 2, "24c3c2ebff4e35250ecfb0ceac5e328a611e2ac0ad9264f1434e996667cfadb3"
POINTS_DIGEST = "aa09bd05ef4926f629b3edc98531472bd8ec8fd4e455db527f5ec38c20e637aa"
WALKS = ("biased", "slopes", "resets, Poisson", "Hölder", "random stop")


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


def test_a_seed_means_the_numbers_of_its_version() -> None:
    digest = hashlib.sha256(bits())
    for name in WALKS:
        digest.update(simulation.simulate(COMPILED[name](), trials=300, seed=1).tobytes())
    assert (fingerprint.STREAM, digest.hexdigest()) == (STREAM, DIGEST)


def points() -> bytes:
    """Return what runs in d dimensions release, of every family of losses, as bytes."""
    pairs = (
        pair(Quadratic(0.8), Ball(1.6)),
        pair(Huber(1.5, 0.7), Box(0.9), Batching.SHUFFLED),
        pair(Clipped(Logistic(0.4), 0.6), WholeSpace(), Batching.POISSON),
        pair(Linear(), Ball(1.6), Batching.WITHOUT_REPLACEMENT),
    )
    return b"".join(x.tobytes() for p in pairs for x in final_points(p, trials=130, seed=1))


def test_a_seed_means_the_points_of_its_version() -> None:
    assert hashlib.sha256(points()).hexdigest() == POINTS_DIGEST


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
