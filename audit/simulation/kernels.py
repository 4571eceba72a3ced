"""The compiled loops over walks with affine maps. Importing this module imports Numba.

Random numbers come from the generator that is passed in, in this order: a uniform that picks the
path (if there are several), an exponential for the clock of departures (if any step has several
maps); then for each step, where it departs, a new exponential and a uniform that picks the map
(if several others are there), and a normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from audit.simulation.program import Floats, Program

F = TypeVar("F", bound=Callable[..., object])


def _jit(function: F) -> F:
    result: F = cast(Any, njit)(nogil=True)(function)
    return result


def _inlined(function: F) -> F:
    result: F = cast(Any, njit)(nogil=True, forceinline=True)(function)
    return result


@_inlined
def _pick(rng: np.random.Generator, below: Floats, first: int, last: int) -> int:
    """Draw an index from ``first`` to ``last`` whose cumulative probabilities are ``below``."""
    if first == last:  # no choice, no random number
        return last
    u = rng.random()
    while first < last and u >= below[first]:
        first += 1
    return first


@_inlined
def _walk(rng: np.random.Generator, p: Program) -> tuple[float, int, bool]:
    """Return the final iterate, the number of jumps, and whether the walk met an end.

    A jump is a step whose map has a shift. What a caller does not use, the compiler leaves out.
    """
    x = p.start
    jumps = 0
    met = False
    if x <= p.absorb_lower or x >= p.absorb_upper:
        return x, jumps, True
    path = _pick(rng, p.paths_below, 0, p.paths_below.size - 1)
    clock = rng.standard_exponential() if p.departs else math.inf
    for g in range(p.first_segment[path], p.first_segment[path + 1]):
        for _ in range(p.times[g]):
            for place in range(p.first_place[g], p.first_place[g + 1]):
                s = p.sequence[place]
                m = p.first_map[s]
                clock -= p.hazard[s]
                if clock < 0.0:
                    clock = rng.standard_exponential()
                    m = _pick(rng, p.below, m + 1, p.first_map[s + 1] - 1)
                jumps += p.shift[m] != 0.0
                # the noise joins the shift first: that sum does not wait for the last step
                x = p.slope[m] * x + (p.shift[m] + p.noise_std[s] * rng.standard_normal())
                x = min(max(x, p.lower), p.upper)
                met |= (x <= p.lower) | (x >= p.upper)
                if x <= p.absorb_lower or x >= p.absorb_upper:
                    return x, jumps, True
    return x, jumps, met


@_jit
def fill(rng: np.random.Generator, p: Program, out: Floats) -> None:
    """Fill ``out``, shape (trials,), with final iterates."""
    for i in range(out.size):
        out[i] = _walk(rng, p)[0]


@_jit
def count_events(
    rng: np.random.Generator, p: Program, trials: int, fewest: int, most: int, side: float
) -> tuple[int, int, int, int, int]:
    """Count walks: (jumps from ``fewest`` to ``most``; no end met; both; beyond; both and beyond).

    Beyond means ``side * final iterate >= 0``.
    """
    usual = free = both = beyond = all_three = 0
    for _ in range(trials):
        x, jumps, met = _walk(rng, p)
        i = fewest <= jumps <= most
        ii = not met
        far = side * x >= 0.0
        usual += i
        free += ii
        both += i & ii
        beyond += far
        all_three += i & ii & far
    return usual, free, both, beyond, all_three
