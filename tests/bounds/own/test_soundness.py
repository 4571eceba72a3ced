"""Our own bounds against exact laws: none is below one, and somewhat smaller ones are.

A few of the mechanisms that the program `tests.bounds.own.soundness` compares by the thousand.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.bounds.own.soundness import (
    CHANGING,
    Draw,
    Make,
    Scaled,
    changing_run,
    compare,
    couplings,
    evaluated,
    fixed_run,
    poisson_run,
    rough_run,
    sampled_run,
    searched_run,
    short_run,
)


def with_couplings(*ids: str) -> Make:
    return lambda m, random: couplings(m, random) | evaluated(*ids)(m, random)


FIXED = ("own.parallel_moves", "own.relative_entropy")
SHIFTS = evaluated("own.adaptive_shifts")
# what is drawn, the bounds on it, how often, from which seed; and at which draws all bounds, times
# which factor, are found below the law
CASES: dict[str, tuple[Draw, Make, int, int, dict[int, float]]] = {
    "short": (short_run, evaluated("own.forgetting", "own.coupling"), 8, 78, {7: 0.8}),
    "sampled": (sampled_run, SHIFTS, 4, 5, {3: 0.8}),
    "poisson": (poisson_run, evaluated("own.adaptive_shifts", "own.forgetting"), 4, 4, {3: 0.8}),
    "fixed": (fixed_run, evaluated(*FIXED), 11, 3, {10: 0.75}),
    "changing": (changing_run, evaluated(*CHANGING), 10, 20, {4: 0.5, 9: 0.6}),
    "rough": (rough_run, evaluated("own.modulus"), 8, 4, {4: 0.9}),
}
CASES |= {
    f"searched, {kind}": (functools.partial(searched_run, id, kind), make, count, 1, factors)
    for id, kind, make, count, factors in (
        ("own.coupling", "fixed", with_couplings(*FIXED), 3, {0: 0.6, 1: 0.97}),
        ("own.coupling", "sampled", with_couplings("own.adaptive_shifts"), 2, {1: 0.93}),
        ("own.adaptive_shifts", "poisson", SHIFTS, 3, {2: 0.8}),
    )
}


@pytest.mark.parametrize("case", CASES)
def test_bounds_are_not_below_laws_and_smaller_ones_are(case: str) -> None:
    draw, make, count, seed, factors = CASES[case]
    for place in range(count):
        random = np.random.default_rng((seed, place))
        pair, law = draw(random)
        curves = make(pair.mechanism, random)
        assert compare(curves, pair, law).wrong == []
        if place in factors:
            smaller = {id: Scaled(curve, factors[place]) for id, curve in curves.items()}
            wrong = compare(smaller, pair, law).wrong
            assert {line.partition(":")[0] for line in wrong} == set(curves)
