"""Two upper bounds of this package, which are in none of the papers.

`own.forgetting` (proof in `audit.bounds.own_forgetting`): what happened before the last m steps is
lost in their noise. `own.coupling` (proof in `audit.bounds.own_coupling`): a recursion over the
distance of the two iterates and the likelihood ratio that is left. Both hold in any dimension, for
convex losses whose updates are contractions, on a bounded domain or with steps that contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit import validate
from audit.bounds.errors import NotApplicable
from audit.bounds.own_forgetting import forgetting_curve
from audit.bounds.own_shared import ASSUMPTIONS, Run, cite
from audit.bounds.registry import Entry, Status
from audit.curves.base import PrivacyCurve
from audit.mechanism import NoisySGD

__all__ = ["ENTRIES", "coupling", "coupling_at", "forgetting"]


def forgetting(mechanism: NoisySGD, *, m: int | None = None) -> PrivacyCurve:
    """Return delta(eps) <= delta_(f_m)(eps) + beta_m, at the best m.

    f_m is the composition of the last m steps: G(mu) with mu^2 = sum of v_k^2/s^2 for full and
    cyclic batches, C_p(G(v/s)) composed m times for batches drawn without replacement. beta_m is
    the chance that two chains with the same updates are still apart after m steps of maximal
    reflection coupling, 0 for m = T. s = eta sigma; v = eta S/b with S the sensitivity of the
    differing record, or of the whole family where batches are sampled.

    Parameters
    ----------
    mechanism
        The public parameters.
    m
        The length, 1 to T. By default the best for each question asked of the curve.

    Raises
    ------
    ValueError
        If ``m`` is out of its range.
    """
    return forgetting_curve(Run.of(mechanism), m)


def coupling(
    mechanism: NoisySGD, *, distances: int | None = None, weights: int | None = None
) -> PrivacyCurve:
    """Return the bound of the coupling recursion, or that of forgetting or of shifts if better.

    It takes seconds, and is computed when the curve is first asked. Where the other two allow an
    epsilon above 300 at delta = 1e-9 there is no recursion, nor for sampled batches where the noise
    of a step is below the spacing of the distances.

    Parameters
    ----------
    mechanism
        The public parameters.
    distances
        How many distances the grid has beside 0, at least 8; 64 by default.
    weights
        How many log-weights it has beside 0, at least 32; by default as many as steps of the
        privacy loss need, 240 to 1200. Every grid gives a bound, and finer ones tighter bounds.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """
    _check_grid(distances, weights)
    from audit.bounds.own_coupling import coupling_curve  # compiled loops are slow to import

    return coupling_curve(Run.of(mechanism), distances, weights)


def coupling_at(
    mechanism: NoisySGD,
    steps: Sequence[int],
    *,
    distances: int | None = None,
    weights: int | None = None,
) -> tuple[PrivacyCurve, ...]:
    """Return `coupling` of mechanisms that differ in the number of steps, from one recursion.

    Parameters
    ----------
    mechanism
        All other parameters.
    steps
        The numbers of steps.
    distances, weights
        As for `coupling`.

    Raises
    ------
    NotApplicable
        If a mechanism fails an assumption.
    ValueError
        If an argument is out of its range.
    """
    if not steps:
        raise validate.fail("steps", "one or more whole numbers", steps)
    validate.integer(1, **{f"steps[{i}]": count for i, count in enumerate(steps)})
    _check_grid(distances, weights)
    runs = [replace(mechanism, steps=count) for count in steps]
    for run in runs:
        for assumption in ASSUMPTIONS:
            failure = assumption.failure(run)
            if failure is not None:
                raise NotApplicable(f"own.coupling {failure}")
    from audit.bounds.own_coupling import coupling_curves  # compiled loops are slow to import

    return coupling_curves(Run.of(runs[0]), steps, distances, weights)


def _check_grid(distances: int | None, weights: int | None) -> None:
    if distances is not None:
        validate.integer(8, distances=distances)
    if weights is not None:
        validate.integer(32, weights=weights)


ENTRIES = (
    Entry(
        id="own.forgetting",
        cite=cite("forgetting"),
        statement=(
            "convex losses, bounded domain or contracting steps: delta(eps) <= "
            "delta_(f_m)(eps) + beta_m, f_m the composition of the last m steps and beta_m the "
            "chance that a walk from D, of steps 2 s Z, held at D, is not killed at 0 in m steps"
        ),
        assumptions=ASSUMPTIONS,
        status=Status.OWN,
        function=forgetting,
    ),
    Entry(
        id="own.coupling",
        cite=cite("couplings"),
        statement=(
            "convex losses, bounded domain or contracting steps: delta(eps) <= H_T(0, e^eps), "
            "H_(k+1) from H_k by the best of parallel moves and reflections of weighted pairs"
        ),
        assumptions=ASSUMPTIONS,
        status=Status.OWN,
        function=coupling,
        slow=True,
    ),
)
