"""Quantities of one update: sensitivity, contraction and noise; and ranges of options.

Papers measure an update in different units. Bok, Su and Altschuler (2024, Definition 2.10) bound
the difference of gradients, which for full and cyclic batches is that of the differing record
(`NoisySGD.sensitivity`: 2L for L-Lipschitz losses, L for zero-out), and for sampled batches that of
the whole family (`family_sensitivity`).
"""

from __future__ import annotations

from audit import validate
from audit.mechanism import NoisySGD, Relation


def family_sensitivity(mechanism: NoisySGD) -> float:
    """Return a bound on the difference of any two records' gradients, for every relation.

    In a batch drawn without replacement the differing record replaces another record, so bounds for
    such batches need the distance of any two gradients of the family. For replace-one this is the
    sensitivity. For zero-out the sensitivity S bounds only the distance of a gradient from the
    zeroed one, so two gradients can differ by 2S.
    """
    if mechanism.relation is Relation.REPLACE_ONE:
        return mechanism.sensitivity
    return 2 * mechanism.sensitivity


def contraction_gap(mechanism: NoisySGD) -> float:
    """Return 1 - c with c = max(|1 - eta m|, |1 - eta M|), without cancellation near c = 1.

    Negative for losses that are not convex, where c = 1 + eta M.
    """
    assert mechanism.smoothness is not None  # an assumption of the entries that use it
    eta = mechanism.constant_step_size
    if not mechanism.convex:
        return -eta * mechanism.smoothness
    pulls = (eta * mechanism.strong_convexity, eta * mechanism.smoothness)
    return min(min(pull, 2 - pull) for pull in pulls)


def checked_index(mechanism: NoisySGD, index: int) -> int:
    """Return the index of a record, counted from 1, after checking its range."""
    validate.integer(1, index=index)
    if index > mechanism.dataset_size:
        raise ValueError(
            f"index must be at most dataset_size ({mechanism.dataset_size}), got {index!r}"
        )
    return index


def checked_tau(steps: int, tau: int, *, least: int = 0) -> int:
    """Return an intermediate time tau after checking its range.

    The range is ``least`` to ``steps - 1``.
    """
    validate.integer(least, tau=tau)
    if tau >= steps:
        raise ValueError(f"tau must be at most steps - 1 ({steps - 1}), got {tau!r}")
    return int(tau)
