"""The bound `own.coupling`: a recursion over distance and likelihood ratio.

It holds in any dimension, for convex losses whose updates are contractions, on a bounded domain or
with steps that contract. The proof is in `audit.bounds.own.coupling_curve`, which is imported when
a curve is evaluated, because compiled loops are slow to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit import validate
from audit.bounds.assumptions import NotApplicable
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.mechanism import NoisySGD


@bound("own.coupling")
def coupling(
    mechanism: NoisySGD, *, distances: int | None = None, weights: int | None = None
) -> PrivacyCurve:
    """Return the bound of the coupling recursion, or that of forgetting or of shifts if better.

    It takes seconds and is computed on first use. There is no recursion if the other two allow an
    epsilon above 300 at delta = 1e-9, nor for sampled batches if the noise of a step is below the
    spacing of the distances.

    distances: Number of distances of the grid besides 0, at least 8; 64 by default.
    weights: Number of log-weights of the grid besides 0, at least 32; by default 240 to 1200,
        depending on the privacy loss of a step. Every grid gives a bound; finer grids give tighter
        ones.
    """
    _check_grid(distances, weights)
    from audit.bounds.own.coupling_curve import coupling_curves  # compiled loops are slow to import

    run = WorstRun.of(mechanism)
    return coupling_curves(run, (run.steps,), distances, weights)[0]


def coupling_at(
    mechanism: NoisySGD,
    steps: Sequence[int],
    *,
    distances: int | None = None,
    weights: int | None = None,
) -> tuple[PrivacyCurve, ...]:
    """Return `coupling` for several numbers of steps, from one recursion."""
    if not steps:
        raise validate.fail("steps", "one or more whole numbers", steps)
    validate.integer(1, **{f"steps[{i}]": count for i, count in enumerate(steps)})
    _check_grid(distances, weights)
    runs = [replace(mechanism, steps=count) for count in steps]
    from audit.bounds import CATALOGUE  # it is made after this module
    from audit.bounds.own.coupling_curve import coupling_curves  # compiled loops are slow to import

    for run in runs:
        for failure in CATALOGUE["own.coupling"].failures(run):
            raise NotApplicable(f"own.coupling {failure}")

    return coupling_curves(WorstRun.of(runs[0]), steps, distances, weights)


def _check_grid(distances: int | None, weights: int | None) -> None:
    if distances is not None:
        validate.integer(8, distances=distances)
    if weights is not None:
        validate.integer(32, weights=weights)
