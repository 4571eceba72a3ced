"""The normals: right bits, right law to the last tail, independent in every direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from audit.simulation import rng

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


@pytest.mark.parametrize("t", [6.0, 7.0, 8.0, 8.5, 9.0])
def test_tails_of_the_grid_of_words(t: float) -> None:
    """P[|normal| > t], summed over the 2^64 radii, is that of the normal law (Craig's formula)."""

    def share(angle: float) -> float:  # of the words k with r cos(angle) > t
        limit = 2.0**64 * math.exp(-0.5 * (t / math.cos(angle)) ** 2) - 0.5
        return max(math.ceil(limit), 0) / 2.0**64

    angles = (np.arange(200_000) + 0.5) / 200_000 * (math.pi / 2)
    found = np.mean([share(a) for a in angles])
    # a radius is rounded by half a word at most, 2^-65 of 2.3e-19 at t = 9, in either direction
    assert found == pytest.approx(2 * stats.norm.sf(t), rel=3e-3)


@pytest.mark.parametrize("lost", [0, 10])
def test_counts_beyond_six_sigma(lost: int) -> None:
    """Words below 2^40 are 2^-24 of all: every thirtieth of their normals is beyond 6 sigma.

    The companion loses the last bits of 34, as a generator of 24-bit numbers would.
    """
    random = np.random.default_rng(5)
    k = random.integers(0, 2**40, 10**6, dtype=np.uint64) >> np.uint64(4 * lost)
    m = random.integers(0, 2**64, k.size, dtype=np.uint64)
    out = np.empty((2, k.size))
    _pairs(k, m, out)
    p = 2 * float(stats.norm.sf(6)) * 2**24  # beyond 6 needs a radius beyond 6
    for row in out:
        right = stats.binomtest(int(np.sum(np.abs(row) > 6)), row.size, p).pvalue > twin.LEVEL
        assert right == (lost == 0)


def test_moments_and_law_of_ten_million() -> None:
    z = sampled(78_126).ravel()
    n = z.size
    assert n > 10**7
    power = np.ones(n)
    for mean, variance in ((0, 1), (1, 2), (0, 15), (3, 96), (0, 945), (15, 10170)):
        power *= z
        assert abs(power.mean() - mean) < 5.5 * math.sqrt(variance / n)  # chance 4e-8
    z.sort()
    assert _ks(z) > twin.LEVEL
    assert _ks(1.005 * z) < twin.LEVEL


def _ks(z: Floats) -> float:
    """Kolmogorov and Smirnov's p-value of sorted numbers against the normal law."""
    at, n = ndtr(z), z.size
    rank = np.arange(n + 1) / n
    largest = max((rank[1:] - at).max(), (at - rank[:-1]).max())
    return float(stats.kstwobign.sf(math.sqrt(n) * largest))


def test_lanes_steps_blocks_and_streams_are_independent() -> None:
    """Correlations of normals, of their squares, and of one with the other's square."""
    z = sampled(10_000)
    first, second = z[:, :L], z[:, L:]
    other = sampled(10_000, seed=1)
    spawned = (
        np.random.SeedSequence(0, spawn_key=(0, 1)),
        np.random.SeedSequence(0, spawn_key=(1, 0)),
    )
    blocks = [rng.aligned(5000 * 2 * L).reshape(5000, 2 * L) for _ in spawned]
    for sequence, out in zip(spawned, blocks, strict=True):
        rng.fill_normals(rng.seeded(sequence), 5000, out)
    pairs = {
        "of one pair": (first, second),
        "neighbouring lanes": (z[:, :-1], z[:, 1:]),
        "lanes far apart": (first[:, : L // 2], first[:, L // 2 :]),
        "steps in a row": (second[:-1], first[1:]),
        "steps of a chunk apart": (first[:-8], first[8:]),
        "seeds": (z, other),
        "a block and a stream": tuple(blocks),
        "planted": (first, first + 100 * second),
    }
    values = {name: _independent(a.ravel(), b.ravel()) for name, (a, b) in pairs.items()}
    assert values.pop("planted") < twin.LEVEL
    assert min(values.values()) > twin.LEVEL, values


def _independent(a: Floats, b: Floats) -> float:
    found = []
    for f, g in ((a, b), (a**2 - 1, b**2 - 1), (a, b**2 - 1), (a**2 - 1, b), (a**3, b**3)):
        r = float(f @ g / math.sqrt(float(f @ f) * float(g @ g)))
        found.append(2 * float(stats.norm.sf(abs(r) * math.sqrt(a.size))))
    return len(found) * min(found)


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
