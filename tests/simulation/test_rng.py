"""The normals: right bits, right law to the last tail, independent in every direction."""

from __future__ import annotations

import hashlib
import math
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
from numpy.typing import NDArray

from audit.numerics.compiled import compiled_loop, fma
from audit.simulation import kernels, rng
from audit.simulation.rng import LANES

from . import twin

Floats = NDArray[np.float64]
L = rng.LANES


@njit
def _pairs(k: NDArray[np.uint64], m: NDArray[np.uint64], out: Floats) -> None:
    for i in range(k.size):
        out[0, i], out[1, i] = rng.normal_pair(k[i], m[i])


@njit
def _logs(u: Floats, out: Floats) -> None:
    for i in range(u.size):
        out[i] = rng.minus_two_log(u[i], 0.0)


@njit
def _powers(t: Floats, order: float, out: Floats) -> None:
    for i in range(t.size):
        out[i] = rng.signed_power(t[i], order)


def sampled(count: int, seed: int = 0) -> Floats:
    """Shape (count/2, 2 lanes): row j has first normals of each lane's pair j, then second ones."""
    out = rng.aligned(count * L).reshape(count // 2, 2 * L)
    rng.fill_normals(rng.seeded(np.random.SeedSequence(seed)), count // 2, out)
    return out


def test_bits_are_those_of_the_twin() -> None:
    found = sampled(40)
    for k, lane in enumerate(twin.lanes(np.random.SeedSequence(0))):
        expected = np.array([lane.normals() for _ in range(20)])
        assert np.array_equal(found[:, k], expected[:, 0])
        assert np.array_equal(found[:, L + k], expected[:, 1])


def test_the_generator_is_sfc64() -> None:
    theirs = np.random.SFC64(0)
    lane = twin.Lane(theirs.state["state"]["state"].tolist())
    assert [lane.draw() for _ in range(100)] == theirs.random_raw(100).tolist()


def test_logarithm_is_right_to_rounding() -> None:
    u = np.concatenate([2.0 ** -np.arange(66.0), np.geomspace(2.0**-65, 1, 20_001)])
    u = np.concatenate([u, 1 - np.geomspace(2.0**-53, 0.5, 20_001), np.geomspace(1e-300, 1e300)])
    out = np.empty(u.size)
    _logs(u, out)
    right = -2 * np.log(u.astype(np.longdouble))
    # four roundings of half a unit each (2.2e-16 wide)
    assert np.all(np.abs(out - right) <= 4 * 2.3e-16 * np.abs(right))


def test_radius_and_angle_are_right_at_every_scale() -> None:
    """The tails need no samples: each pair of words has its place in the plane."""
    k = np.concatenate([np.arange(100), 2 ** np.arange(7, 63)]).astype(np.uint64)
    k = np.concatenate([k, np.uint64(2**64 - 1) - k])
    m = np.random.default_rng(1).integers(0, 2**64, k.size, dtype=np.uint64)
    out = np.empty((2, k.size))
    _pairs(k, m, out)
    exact = -2 * (np.log(k.astype(np.longdouble) + 0.5) - 64 * np.log(np.longdouble(2)))
    squares = (out.astype(np.longdouble) ** 2).sum(axis=0)
    # near u = 1 the word is rounded to 53 bits before the half is added: 2^-54 of u
    assert np.all(np.abs(squares - exact) <= 2e-15 * exact + 2.0**-52)
    assert out[:, 0] @ out[:, 0] == pytest.approx(2 * 65 * math.log(2), rel=1e-14)
    j = (m >> np.uint64(1)) % np.uint64(2**51)
    angle = np.pi / 2 * (j.astype(np.longdouble) + 0.5) / 2**51
    signs = [np.where(m >> np.uint64(bit) & np.uint64(1) == 1, -1.0, 1.0) for bit in (63, 62)]
    right = signs[0] * np.cos(angle) + 1j * signs[1] * np.sin(angle)
    keep = exact > 1e-6
    apart = (out[0] + 1j * out[1])[keep] / np.sqrt(squares[keep]) - right[keep]
    assert np.abs(apart).max() < 5e-16


@pytest.mark.parametrize("order", [0.1, 0.5, 1.0, 1.5, 3.0, 16.0])
def test_signed_powers(order: float) -> None:
    size = np.concatenate([np.geomspace(1e-18, 1e18, 2001), [1.0, 2.0, 0.5]])
    t = np.concatenate([-size, size])
    out = np.empty(t.size)
    _powers(t, order, out)
    right = np.sign(t) * np.abs(t) ** order
    # the exponent's rounding, 1.1e-16 of up to 41.5 times the order, is the result's relative error
    np.testing.assert_allclose(out, right, rtol=4e-16 * (1 + 42 * order))
    _powers(np.array([0.0, -0.0, 1e-310]), order, out[:3])
    assert np.all(out[:3] == 0)


# -------------------------------------------------- Random numbers are the same on every processor


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


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the instructions are those of x86"
)
def test_bits_do_not_depend_on_the_instructions() -> None:
    """Vectors of two numbers and no fused instruction give the bits of this machine."""
    code = """if True:
        import hashlib
        from tests.simulation.test_rng import _advance, bits
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
