"""Our own bounds against exact laws: none is below one, and somewhat smaller ones are.

A few of the mechanisms that the program `tests.bounds.own.soundness` compares by the thousand;
those with smaller bounds are in every run.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.bounds.own.soundness import (
    PARTS,
    Draw,
    Make,
    Scaled,
    compare,
    couplings,
    evaluated,
    poisson_run,
    sampled_run,
    searched_run,
)


def with_couplings(*ids: str) -> Make:
    return lambda m, random: couplings(m, random) | evaluated(*ids)(m, random)


FIXED = ("own.parallel_moves", "own.relative_entropy")
SHIFTS = evaluated("own.adaptive_shifts")
# what is drawn, the bounds on it, from which seed, and which of the draws: those, of some tens,
# whose laws come closest to the bounds; and where all bounds, times a factor, are below the law
CASES: dict[str, tuple[Draw, Make, int, tuple[int, ...], dict[int, float]]] = {
    "short": (*PARTS["random"], 78, (3, 5, 7, 8), {7: 0.8}),
    "sampled": (sampled_run, SHIFTS, 5, (0, 3), {3: 0.8}),
    "poisson": (
        poisson_run, evaluated("own.adaptive_shifts", "own.forgetting"), 4, (0, 1, 3), {1: 0.9}
    ),
    "fixed": (*PARTS["moves"], 3, (1, 3, 6, 10, 14), {10: 0.75}),
    "changing": (*PARTS["changing"], 20, (2, 4, 8, 9), {4: 0.5, 9: 0.6}),
    "rough": (*PARTS["rough"], 4, (1, 4, 11, 19), {4: 0.9}),
}  # fmt: skip
CASES |= {
    f"searched, {kind}": (functools.partial(searched_run, id, kind), make, 1, places, factors)
    for id, kind, make, places, factors in (
        ("own.coupling", "fixed", with_couplings(*FIXED), (0, 1), {1: 0.97}),
        ("own.coupling", "sampled", with_couplings("own.adaptive_shifts"), (0, 1), {1: 0.93}),
        ("own.adaptive_shifts", "poisson", SHIFTS, (2, 3), {2: 0.8}),
    )
}


@pytest.mark.parametrize(
    ("case", "place"),
    [
        pytest.param(case, place, marks=() if place in factors else pytest.mark.slow)
        for case, (_, _, _, places, factors) in CASES.items()
        for place in places
    ],
)
def test_bounds_are_not_below_laws_and_smaller_ones_are(case: str, place: int) -> None:
    draw, make, seed, _, factors = CASES[case]
    random = np.random.default_rng((seed, place))
    pair, law = draw(random)
    curves = make(pair.mechanism, random)
    assert compare(curves, pair, law).wrong == []
    if place in factors:
        smaller = {id: Scaled(curve, factors[place]) for id, curve in curves.items()}
        wrong = compare(smaller, pair, law).wrong
        assert {line.partition(":")[0] for line in wrong} == set(curves)
