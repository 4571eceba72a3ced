"""Our own bounds against exact laws: none is below one, and somewhat smaller ones are.

A few of the mechanisms that the program `tests.bounds.own.soundness` compares by the thousand.
"""

from __future__ import annotations

import functools

import pytest

from tests.bounds.own.soundness import (
    CHANGING,
    Draw,
    Make,
    changing_run,
    check_runs,
    evaluated,
    fixed_run,
    make_of,
    planted,
    poisson_run,
    rough_run,
    sampled_run,
    searched_run,
    short_run,
)

CASES: dict[str, tuple[Draw, Make, int, int, float]] = {
    "short": (short_run, evaluated("own.forgetting", "own.coupling"), 12, 78, 0.8),
    "sampled": (sampled_run, evaluated("own.adaptive_shifts"), 4, 5, 0.6),
    "poisson": (poisson_run, evaluated("own.adaptive_shifts", "own.forgetting"), 4, 4, 0.6),
    "fixed": (fixed_run, evaluated("own.parallel_moves", "own.relative_entropy"), 16, 3, 0.6),
    "changing": (changing_run, evaluated(*CHANGING), 10, 20, 0.6),
    "rough": (rough_run, evaluated("own.modulus"), 20, 4, 0.8),
    **{
        f"{id}, {kind}": (functools.partial(searched_run, id, kind), make_of(id), count, 1, factor)
        for id, kind, count, factor in (
            ("own.parallel_moves", "fixed", 3, 0.97),
            ("own.relative_entropy", "fixed", 3, 0.6),
            ("own.adaptive_shifts", "sampled", 3, 0.8),
            ("own.adaptive_shifts", "poisson", 4, 0.8),
            ("own.coupling", "fixed", 2, 0.95),
            ("own.coupling", "sampled", 2, 0.95),
        )
    },
}


@pytest.mark.parametrize("case", CASES)
def test_bounds_are_not_below_laws_and_smaller_ones_are(case: str) -> None:
    draw, make, count, seed, factor = CASES[case]
    wrong = check_runs(draw, planted(make, factor), count, seed).wrong
    assert wrong
    assert [line for line in wrong if not line.startswith("planted")] == []
