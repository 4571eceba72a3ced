"""Random bits in lanes, and normals made from them. Importing this module imports Numba.

``LANES`` generators run side by side, so that the processor draws for several of them in one
instruction. Each is an SFC64 generator (Doty-Humphrey's, which NumPy has, too): its state is three
random words of 64 bits, and a counter that begins at 1, so that its period is at least 2^64.

A pair of normals is made of two draws k and m of 64 bits each, by Box and Muller's transform: a
radius ``r = sqrt(-2 log u)`` with ``u = (k + 1/2) / 2^64``, and an angle in the first quadrant,
``pi/4 + a`` with ``a = pi/2 (j + 1/2) / 2^51 - pi/4``, where bits 1 to 51 of m are the number j.
The pair is ``r cos(pi/4 + a)`` and ``r sin(pi/4 + a)``, the first negative if the highest bit of m
is set, the second if the next one is. Numbers u near 0 keep 53 bits, down to 2^-65: tails are right
to beyond 9 standard deviations, and no normal is larger than 9.5.

Logarithm, sine and cosine are polynomials with errors of the size of rounding errors. Products are
added by `fma`, which rounds once, and all other operations are exact or rounded as IEEE 754 says,
in the order in which they are written. The compiler contracts nothing on its own, so the bits
depend neither on the processor nor on its vector length. The functions of one lane have no
branches, conversions are those that vectors of any processor have, and each stage has a loop of
its own: the processor works on many lanes at a time, whatever its instructions.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from audit.numerics.arrays import Array
from audit.numerics.compiled import compiled_inline, fma
from audit.numerics.compiled import compiled_loop as compiled_loop

Words = NDArray[np.uint64]

LANES = 128
_SECOND, _THIRD, _COUNTER = (np.uint64(k * LANES) for k in (1, 2, 3))

# Chebyshev interpolants, found with 40 digits; coefficients of z^0, z^1, ...
LOGARITHM = (  # -4 atanh(s)/s, z = s^2, at m between 1/sqrt 2 and sqrt 2: error 5e-18
    -4.0, -1.333333333333334, -0.7999999999979901, -0.5714285725195097, -0.4444442226959016,
    -0.3636577825052345, -0.3066344320111186, -0.29232899370089527,
)  # fmt: skip
SINE = (  # sin(pi t/2)/(t sqrt 2), z = t^2, for |t| <= 1/2: error 4e-17
    1.1107207345395915, -0.45676559374971354, 0.05635119642914205, -0.0033105000948264454,
    0.00011344902567117628, -2.544625117965686e-06, 3.983792781681386e-08,
)  # fmt: skip
COSINE = (  # cos(pi t/2)/sqrt 2, z = t^2, for |t| <= 1/2: error 7e-17
    0.7071067811865475, -0.8723580249548468, 0.17937142921624885, -0.014752708706835612,
    0.0006500149443476654, -1.7819186532194025e-05, 3.291791502603771e-07,
)  # fmt: skip
EXPONENTIAL = (  # e^h for |h| <= log(2)/2: error 2e-18
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
TWO_LOG_2 = 1.3862943611198906

# Bits of doubles: a mantissa's mask; 2^52, whose last bits count in ones; 1, with a half added
MANTISSA = np.uint64((1 << 52) - 1)
WHOLE, WHOLE_OFFSET = np.uint64(0x4330 << 48), 2.0**52
ONE_AND_HALF_A_UNIT = np.uint64((0x3FF0 << 48) + 1)
BELOW_ROOT_2 = np.uint64(0x3FF6A09E667F3BCC)  # the double before sqrt 2
MAX_POWER = np.uint64(0x7FF6A09E667F3BCC)  # the same with 1024 added to its exponent
SIGN = np.uint64(1 << 63)
NO_FRACTION = 1.5 * 2.0**52  # what is added to it is rounded to a whole number
ONE, THREE, ELEVEN, TWENTY_FOUR, FORTY, FIFTY_TWO = map(np.uint64, (1, 3, 11, 24, 40, 52))


def seeded(sequence: np.random.SeedSequence) -> Words:
    """Return the states of all lanes, shape (4 LANES,): words 0 of all lanes, words 1, ...

    The random words are raw draws of ``numpy.random.SFC64(sequence)``.
    """
    words = aligned(4 * LANES, np.uint64)
    words[: 3 * LANES] = np.random.SFC64(sequence).random_raw(3 * LANES)
    words[3 * LANES :] = 1
    return cast(Words, words)


def aligned(size: int, kind: type[Any] = np.float64) -> NDArray[Any]:
    """Return an empty array of 8-byte numbers that starts at a multiple of 64 bytes.

    Vectors that cross a cache line take twice the time.
    """
    room = np.empty(size + 7, dtype=kind)
    skipped = -(room.ctypes.data // 8) % 8
    return room[skipped : skipped + size]


@compiled_inline
def bits(x: float) -> np.uint64:
    """Return the bits of a double."""
    return np.float64(x).view(np.uint64)


@compiled_inline
def number(word: np.uint64) -> float:
    """Return the double that has these bits."""
    double: float = np.uint64(word).view(np.float64)
    return double


@compiled_inline
def advanced(
    a: np.uint64, b: np.uint64, c: np.uint64, counter: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the next 64 random bits of a generator, and its state after them."""
    word = a + b + counter
    rotated = (c << TWENTY_FOUR) | (c >> FORTY)
    return word, b ^ (b >> ELEVEN), c + (c << THREE), rotated + word, counter + ONE


@compiled_inline
def draw(words: Words, lane: int) -> np.uint64:
    """Return the next 64 random bits of a lane."""
    i = np.uint64(lane)  # the compiler knows that an unsigned index does not count from the end
    a, b, c, counter = words[i], words[i + _SECOND], words[i + _THIRD], words[i + _COUNTER]
    word, a, b, c, counter = advanced(a, b, c, counter)
    words[i], words[i + _SECOND], words[i + _THIRD], words[i + _COUNTER] = a, b, c, counter
    return word


@compiled_inline
def minus_two_log(x: float, power: float) -> float:
    """Return ``-2 log(2^-power x)`` for a positive, normal x and a whole power.

    With x = 2^e m, and m from 1/sqrt 2 to sqrt 2, the logarithm of m is ``2 atanh(s)``.
    """
    down = MAX_POWER - bits(x)  # its exponent is 1024 - e, its mantissa what m lacks to sqrt 2
    minus_e = number((down >> FIFTY_TWO) | WHOLE) - (WHOLE_OFFSET + 1024.0 - power)
    m = number(BELOW_ROOT_2 - (down & MANTISSA))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = fma(z, fma(z, fma(z, fma(z, L7, L6), L5), L4), L3)
    series = fma(z, fma(z, fma(z, series, L2), L1), L0)
    return fma(s, series, minus_e * TWO_LOG_2)


@compiled_inline
def square_of_radius(k: np.uint64) -> float:
    """Return ``-2 log u`` of a word's number u in (0, 1]."""
    return minus_two_log(np.float64(k) + 0.5, 64.0)


@compiled_inline
def turned(r: float, m: np.uint64) -> tuple[float, float]:
    """Return the two normals of radius r whose signs and angle are those of the word m."""
    t = number((m & MANTISSA) | ONE_AND_HALF_A_UNIT) - 1.5
    z = t * t
    sine = fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, S6, S5), S4), S3), S2), S1), S0)
    cosine = fma(z, fma(z, fma(z, fma(z, fma(z, fma(z, C6, C5), C4), C3), C2), C1), C0)
    across, along = r * t, r * cosine
    first, second = fma(-across, sine, along), fma(across, sine, along)
    return number(bits(first) ^ (m & SIGN)), number(bits(second) ^ ((m << ONE) & SIGN))


@compiled_inline
def normal_pair(k: np.uint64, m: np.uint64) -> tuple[float, float]:
    """Return the two normals that the words k and m make."""
    return turned(math.sqrt(square_of_radius(k)), m)


@compiled_loop
def fill_normals(words: Words, pairs: int, out: Array) -> None:
    """Draw ``pairs`` pairs of normals in every lane: k, then m, for each.

    ``out`` has the shape (pairs or more, 2 LANES): in row j, the first normals of the lanes' pair
    j, then the second ones. They are those of `normal_pair`. Each stage leaves in their places what
    the next one needs.
    """
    for j in range(pairs):
        row = out[j]
        for lane in range(LANES):
            k = draw(words, lane)
            m = draw(words, lane)
            row[lane], row[LANES + lane] = np.float64(k) + 0.5, number(m)
    for j in range(pairs):
        row = out[j]
        for lane in range(LANES):
            row[lane] = minus_two_log(row[lane], 64.0)
    for j in range(pairs):
        row = out[j]
        for lane in range(LANES):
            m = bits(row[LANES + lane])
            row[lane], row[LANES + lane] = turned(math.sqrt(row[lane]), m)


@compiled_inline
def exponential(y: float) -> float:
    """Return e^y, for y from -708 to 709; beyond them as at these ends."""
    y = -708.0 if y < -708.0 else y
    y = 709.0 if y > 709.0 else y
    rounded = fma(y, LOG2_E, NO_FRACTION)  # its last bits are the exponent
    whole = rounded - NO_FRACTION
    h = fma(-whole, LOG_2_LOW, fma(-whole, LOG_2_HIGH, y))
    series = fma(h, fma(h, fma(h, fma(h, fma(h, fma(h, E12, E11), E10), E9), E8), E7), E6)
    series = fma(h, fma(h, fma(h, fma(h, fma(h, fma(h, series, E5), E4), E3), E2), E1), E0)
    # added to the exponent: a product here could be fused with a sum in the caller
    return number(bits(series) + (bits(rounded) << FIFTY_TWO))


@compiled_inline
def signed_power(t: float, order: float) -> float:
    """Return ``sign(t) |t|^order`` for positive orders, as 0 where |t| is below 1e-300."""
    size = abs(t)
    power = exponential(-0.5 * order * minus_two_log(size, 0.0))
    power = power if size > 1e-300 else 0.0
    return power if t > 0.0 else -power
