"""Random bits in lanes, and normals made from them. Importing this module imports Numba.

``LANES`` generators run side by side, so that the processor draws for several of them in one
instruction. Each is a xoshiro256++ generator (Blackman and Vigna 2021, "Scrambled linear
pseudorandom number generators") with a state of its own of 256 random bits.

A pair of normals is made of two draws k and m of 64 bits each, by Box and Muller's transform:
``r = sqrt(-2 log u)`` with ``u = (k + 1/2) / 2^64``, times cosine and sine of an angle. The last 62
bits of m give an angle between -pi/4 and pi/4, its second bit swaps cosine and sine, and its first
bit changes both signs. The first normal of the pair has the cosine where nothing is swapped.
Numbers u near 0 keep 53 bits, down to 2^-65: tails are right to beyond 9 standard deviations,
and no normal is larger than 9.5.

Logarithm, sine and cosine are polynomials with errors of the size of rounding errors. All
operations are exact or rounded as IEEE 754 says, in the order in which they are written, and none
are contracted into fused ones: the bits depend neither on the processor nor on its vector length.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from audit.numerics.compiled import compiled_inline
from audit.numerics.compiled import compiled_loop as compiled_loop

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

LANES = 128
_SECOND, _THIRD, _FOURTH = (np.uint64(k * LANES) for k in (1, 2, 3))

# Chebyshev interpolants, found with 40 digits; coefficients of z^0, z^1, ...
LOGARITHM = (  # of -4 atanh(s)/s, z = s^2, at m between 1/sqrt 2 and sqrt 2: error 5e-18
    -4.0, -1.333333333333334, -0.7999999999979901, -0.5714285725195097, -0.4444442226959016,
    -0.3636577825052345, -0.3066344320111186, -0.29232899370089527,
)  # fmt: skip
SINE = (  # of sin(a)/a, z = a^2, for |a| <= pi/4: error 2e-17
    1.0, -0.16666666666666666, 0.008333333333330948, -0.00019841269836758574,
    2.755731610255244e-06, -2.505113184500362e-08, 1.5918129294866468e-10,
)  # fmt: skip
COSINE = (  # of cos(a), z = a^2, for |a| <= pi/4: error 3e-16
    1.0, -0.49999999999999967, 0.04166666666663093, -0.0013888888882127952,
    2.480158262335195e-05, -2.75558555119295e-07, 2.066550487012253e-09,
)  # fmt: skip
EXPONENTIAL = (  # of e^h for |h| <= log(2)/2: error 2e-18
    1.0, 1.0, 0.5, 0.1666666666666668, 0.04166666666666668, 0.008333333333319601,
    0.0013888888888879082, 0.00019841269890047113, 2.480158733642132e-05, 2.755724091857897e-06,
    2.755726330147475e-07, 2.5110037605963893e-08, 2.0918129454967147e-09,
)  # fmt: skip
L0, L1, L2, L3, L4, L5, L6, L7 = LOGARITHM
S0, S1, S2, S3, S4, S5, S6 = SINE
C0, C1, C2, C3, C4, C5, C6 = COSINE
E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12 = EXPONENTIAL
LOG2_E = 1.4426950408889634
LOG_2_HIGH, LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first ends in 32 zeros
MINUS_TWO_LOG_2 = -1.3862943611198906
HALF_ROOT_BITS = np.int64(0x3FE6A09E667F3BCD)  # of 1/sqrt 2 as a double
ANGLE = math.pi / 4 * 2.0**-63  # the unit of the angle
SIGN, SWAP = np.uint64(1 << 63), np.uint64(1 << 62)


def seeded(sequence: np.random.SeedSequence) -> Words:
    """Return the states of all lanes, shape (4 LANES,): words 0 of all lanes, words 1, ...

    They are raw draws of ``numpy.random.SFC64(sequence)``.
    """
    words = aligned(4 * LANES, np.uint64)
    words[:] = np.random.SFC64(sequence).random_raw(4 * LANES)
    return cast(Words, words)


def aligned(size: int, kind: type[Any] = np.float64) -> NDArray[Any]:
    """Return an empty array of 8-byte numbers that starts at a multiple of 64 bytes.

    A vector that lies across two lines of the cache takes twice the time.
    """
    room = np.empty(size + 7, dtype=kind)
    skipped = -(room.ctypes.data // 8) % 8
    return room[skipped : skipped + size]


@compiled_inline
def _rotated(word: np.uint64, left: int, right: int) -> np.uint64:
    return (word << np.uint64(left)) | (word >> np.uint64(right))


@compiled_inline
def draw(words: Words, lane: int) -> np.uint64:
    """Return the next 64 random bits of a lane."""
    i = np.uint64(lane)  # of an unsigned index the compiler knows that it does not count from back
    a, b, c, d = words[i], words[i + _SECOND], words[i + _THIRD], words[i + _FOURTH]
    result: np.uint64 = _rotated(a + d, 23, 41) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = _rotated(d, 45, 19)
    words[i], words[i + _SECOND], words[i + _THIRD], words[i + _FOURTH] = a, b, c, d
    return result


@compiled_inline
def minus_two_log(u: float) -> float:
    """Return ``-2 log u`` for a positive, normal u: of 2^e m, with m from 1/sqrt 2 to sqrt 2."""
    bits = np.float64(u).view(np.int64)
    exponent = (bits - HALF_ROOT_BITS) >> 52
    m = np.int64(bits - (exponent << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = ((((((L7 * z + L6) * z + L5) * z + L4) * z + L3) * z + L2) * z + L1) * z + L0
    return exponent * MINUS_TWO_LOG_2 + s * series


@compiled_inline
def _sine(a: float, z: float) -> float:
    return a * ((((((S6 * z + S5) * z + S4) * z + S3) * z + S2) * z + S1) * z + S0)


@compiled_inline
def _cosine(z: float) -> float:
    return (((((C6 * z + C5) * z + C4) * z + C3) * z + C2) * z + C1) * z + C0


@compiled_inline
def normal_pair(k: np.uint64, m: np.uint64) -> tuple[float, float]:
    """Return the two normals that the words k and m make."""
    r = math.sqrt(minus_two_log((np.float64(k) + 0.5) * 2.0**-64))
    r = np.uint64(np.float64(r).view(np.uint64) ^ (m & SIGN)).view(np.float64)
    a = np.float64(np.int64(m << np.uint64(2))) * ANGLE
    sine, cosine = _sine(a, a * a), _cosine(a * a)
    swapped = (m & SWAP) != np.uint64(0)
    return r * (sine if swapped else cosine), r * (cosine if swapped else sine)


@compiled_loop
def fill_normals(words: Words, pairs: int, out: Floats) -> None:
    """Draw ``pairs`` pairs of normals in every lane.

    ``out`` has the shape (pairs or more, 2 LANES): in row j, the first normals of the lanes' pair
    j, then the second ones.
    """
    for j in range(pairs):
        row = out[j]
        for lane in range(LANES):
            k = draw(words, lane)
            row[lane], row[LANES + lane] = normal_pair(k, draw(words, lane))


@compiled_inline
def _exponential(y: float) -> float:
    """Return e^y, for y from -708 to 709; beyond them as at these ends."""
    y = min(max(y, -708.0), 709.0)
    whole = math.floor(y * LOG2_E + 0.5)
    h = (y - whole * LOG_2_HIGH) - whole * LOG_2_LOW
    series = (((((E12 * h + E11) * h + E10) * h + E9) * h + E8) * h + E7) * h + E6
    series = (((((series * h + E5) * h + E4) * h + E3) * h + E2) * h + E1) * h + E0
    scale: float = np.int64((np.int64(whole) + 1023) << 52).view(np.float64)
    return series * scale


@compiled_inline
def signed_power(t: float, order: float) -> float:
    """Return ``sign(t) |t|^order`` for positive orders, as 0 where |t| is below 1e-300."""
    size = abs(t)
    power = _exponential(-0.5 * order * minus_two_log(size))
    power = power if size > 1e-300 else 0.0
    return power if t > 0.0 else -power
