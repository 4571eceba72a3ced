"""Limits on the gradients of the records of a neighbouring pair."""

from __future__ import annotations

import math

from audit.constructions.base import Inadmissible
from audit.mechanism import NoisySGD, Relation

SLACK = 1 + 1e-12  # parameters at a limit may have been computed from it


def both_hold_record(mechanism: NoisySGD) -> bool:
    """Whether X' holds the differing record too, be its loss zero."""
    return mechanism.relation is not Relation.ADD_REMOVE


def record_pushes(mechanism: NoisySGD) -> tuple[float, float]:
    """Negative gradients of the differing record's linear loss in X and in X', farthest apart.

    The second is 0 where X' does not hold the record.
    """
    if mechanism.relation is Relation.REPLACE_ONE:
        return mechanism.sensitivity / 2, -mechanism.sensitivity / 2
    return mechanism.steepest_gradient, 0.0


def others_range(mechanism: NoisySGD) -> tuple[float, float]:
    """Negative gradients that another record may have beside those of `record_pushes`.

    A gradient sensitivity bounds the difference of any two records of the family (Bok, Su and
    Altschuler 2024, Definition 2.10), so of the others to the differing one too.
    """
    low, high = -math.inf, math.inf
    if mechanism.gradient_bound is not None:
        low, high = -mechanism.gradient_bound, mechanism.gradient_bound
    if mechanism.gradient_sensitivity is not None:
        pushes = record_pushes(mechanism)
        low = max(low, max(pushes) - mechanism.gradient_sensitivity)
        high = min(high, min(pushes) + mechanism.gradient_sensitivity)
    return low, high


def check_others(name: str, mechanism: NoisySGD, lowest: float, highest: float) -> None:
    """Raise `Inadmissible` unless the other records' negative gradients may lie in a range."""
    low, high = others_range(mechanism)
    if not (low * SLACK <= lowest and highest * SLACK**-1 <= high):
        raise Inadmissible(
            f"{name} needs the other records' gradients in [{-high:.6g}, {-low:.6g}], where every "
            "record keeps the Lipschitz constant and the gradient sensitivity, "
            f"got [{-highest:.6g}, {-lowest:.6g}]"
        )
    if mechanism.dataset_size == 1 and (lowest or highest):
        raise Inadmissible(f"{name} needs other records to push, got dataset_size=1")


def check_removable(name: str, mechanism: NoisySGD, regularised: bool) -> None:
    """Raise `Inadmissible` where a record that is left out would take its regulariser with it."""
    if regularised and not both_hold_record(mechanism):
        raise Inadmissible(
            f"{name} needs no regulariser where X' does not hold the record, because the "
            "regularisers' gradients are not bounded, got relation='add remove'"
        )


def check_curvature(name: str, mechanism: NoisySGD, curvature: float) -> None:
    """Raise `Inadmissible` unless losses of constant curvature are allowed."""
    most = math.inf if mechanism.smoothness is None else mechanism.smoothness
    least = mechanism.strong_convexity if mechanism.convex else -most
    if not least - (SLACK - 1) * abs(least) <= curvature <= most * SLACK:
        raise Inadmissible(
            f"{name} needs curvature in [{least:g}, {most:g}], where the losses keep their "
            f"convexity and smoothness, got curvature={curvature!r}"
        )
