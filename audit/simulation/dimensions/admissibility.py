"""Whether losses on a domain keep what a mechanism assumes.

Everything is checked for every record of both datasets and all over the domain. Where the supremum
of a gradient has no closed form an upper bound is taken, so a pair that passes is admissible.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.constructions.base import Inadmissible
from audit.constructions.gradient_limits import SLACK, check_curvature
from audit.mechanism import NoisySGD
from audit.simulation.dimensions.dataset import Dataset
from audit.simulation.dimensions.domains import Domain
from audit.simulation.dimensions.losses import Loss

Floats = NDArray[np.float64]


def check_losses(
    mechanism: NoisySGD, loss: Loss, domain: Domain, dataset: Dataset, dataset_prime: Dataset
) -> None:
    """Raise `Inadmissible` where a loss breaks an assumption of the mechanism."""
    used = _used_records(dataset, dataset_prime)
    zeroed = dataset.zeroed is not None or dataset_prime.zeroed is not None
    _check_clipping(mechanism, loss, domain, used)
    _check_curvatures(mechanism, loss, domain, used, zeroed)
    _check_holder(mechanism, loss.unclipped, domain, used)
    if mechanism.lipschitz is not None:
        norms = loss.gradient_norms(used, domain)
        if loss.clip is not None or mechanism.strong_convexity == 0:
            # theorems read lipschitz <= clip_norm as "never clipped", regulariser and all; and a
            # regulariser is left out only where losses are strongly convex, as in QuadraticPair
            norms = loss.unclipped.whole_gradient_norms(used, domain)
        _check_at_most(
            loss,
            "gradients of norm at most lipschitz",
            float(np.max(norms)),
            mechanism.lipschitz,
        )
    _check_at_most(
        loss,
        "the differing record's gradients within the sensitivity",
        _differing(loss, domain, dataset, dataset_prime),
        mechanism.sensitivity,
    )
    if mechanism.gradient_sensitivity is not None:
        farthest = _farthest(loss, domain, used, mechanism.gradient_sensitivity)
        if zeroed:
            farthest = max(farthest, float(np.max(loss.gradient_norms(used, domain))))
        _check_at_most(
            loss,
            "any two records' gradients within gradient_sensitivity",
            farthest,
            mechanism.gradient_sensitivity,
        )


def differing_records(dataset: Dataset, dataset_prime: Dataset) -> NDArray[np.intp]:
    """Return the indices of the records that are not the same in both datasets."""
    different = np.any(dataset.records != dataset_prime.records, axis=1)
    for zeroed in {dataset.zeroed, dataset_prime.zeroed} - {None}:
        different[zeroed] = dataset.zeroed != dataset_prime.zeroed
    return np.flatnonzero(different)


def _used_records(dataset: Dataset, dataset_prime: Dataset) -> Floats:
    """Return the different rows of both datasets whose losses are not replaced by zero."""
    rows = [
        np.delete(d.records, [] if d.zeroed is None else [d.zeroed], axis=0)
        for d in (dataset, dataset_prime)
    ]
    return np.unique(np.concatenate(rows), axis=0)


def _differing(loss: Loss, domain: Domain, dataset: Dataset, dataset_prime: Dataset) -> float:
    (index,) = differing_records(dataset, dataset_prime)
    row, row_prime = dataset.records[[index]], dataset_prime.records[[index]]
    if dataset.zeroed is not None:
        return float(loss.gradient_norms(row_prime, domain)[0])
    if dataset_prime.zeroed is not None:
        return float(loss.gradient_norms(row, domain)[0])
    return float(loss.gradient_differences(row, row_prime, domain)[0])


def _farthest(loss: Loss, domain: Domain, records: Floats, enough: float) -> float:
    """Return a bound on the difference of any two records' gradients.

    The triangle inequality through the first record comes first: what it shows to be at most
    ``enough`` needs no look at every pair.
    """
    if len(records) == 1:
        return 0.0
    from_first = np.sort(loss.gradient_differences(records[:1], records, domain))
    bound = float(from_first[-1] + from_first[-2])
    if bound <= enough:
        return bound
    return max(
        float(np.max(loss.gradient_differences(records[[i]], records[i + 1 :], domain)))
        for i in range(len(records) - 1)
    )


def _check_clipping(mechanism: NoisySGD, loss: Loss, domain: Domain, used: Floats) -> None:
    given = mechanism.clip_norm
    if loss.clip is not None:
        if given is None or not math.isclose(given, loss.clip, rel_tol=SLACK - 1):
            raise Inadmissible(
                f"{loss.name} needs clip_norm={loss.clip!r}, the norm it clips to, "
                f"got clip_norm={given!r}"
            )
    elif given is not None:
        largest = float(np.max(loss.whole_gradient_norms(used, domain)))
        if not largest <= given * SLACK:
            raise Inadmissible(
                f"{loss.name} needs clip_norm=None, or gradients that are never clipped, because "
                f"they are not, got clip_norm={given!r} and gradients of norm up to {largest:.6g}"
            )


def _check_curvatures(
    mechanism: NoisySGD, loss: Loss, domain: Domain, used: Floats, zeroed: bool
) -> None:
    least, most = loss.curvatures(used, domain)
    if zeroed:  # that record keeps the regulariser alone
        ridge = loss.ridge(loss.dimension(used))
        least, most = min(least, float(np.min(ridge))), max(most, float(np.max(ridge)))
    for curvature in (least, most):
        check_curvature(loss.name, mechanism, curvature)


def _check_holder(mechanism: NoisySGD, loss: Loss, domain: Domain, used: Floats) -> None:
    """Check |grad f(x) - grad f(y)| <= constant |x - y|^order.

    Gradients that change by at most M r over a distance r, and by at most V over any, need
    M r^(1 - order) at the distance min(D, V/M).
    """
    if mechanism.holder is None:
        return
    constant, order = mechanism.holder
    steepest = max(abs(c) for c in loss.curvatures(used, domain))
    needed = 0.0
    if steepest > 0:
        diameter = domain.diameter_in(loss.dimension(used))
        needed = steepest * min(diameter, loss.variation(used, domain) / steepest) ** (1 - order)
    _check_at_most(loss, f"gradients with a Hoelder constant of order {order:g}", needed, constant)


def _check_at_most(loss: Loss, requirement: str, found: float, most: float) -> None:
    if not found <= most * SLACK:
        raise Inadmissible(f"{loss.name} needs {requirement} {most:.6g}, got up to {found:.6g}")
