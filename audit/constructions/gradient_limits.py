"""Limits on the gradients of the records of a neighbouring pair."""

from __future__ import annotations

import math

import numpy as np

from audit.constructions.base import Inadmissible
from audit.constructions.updates import PiecewiseLinear
from audit.mechanism import NoisySGD, Relation

SLACK = 1 + 1e-12  # tolerates rounding of parameters computed from a limit


def both_hold_record(mechanism: NoisySGD) -> bool:
    """Return whether X' holds the differing record as well, possibly with zero loss."""
    return mechanism.relation is not Relation.ADD_REMOVE


def record_pushes(mechanism: NoisySGD) -> tuple[float, float]:
    """Return the negative gradients of the record's linear losses in X and X', farthest apart.

    The second is 0 if X' does not hold the record.
    """
    if mechanism.relation is Relation.REPLACE_ONE:
        return mechanism.sensitivity / 2, -mechanism.sensitivity / 2
    return mechanism.steepest_gradient, 0.0


def others_range(mechanism: NoisySGD) -> tuple[float, float]:
    """Return the range of other records' negative gradients admissible with `record_pushes`.

    A gradient sensitivity bounds the difference of any two records of the family (Bok, Su and
    Altschuler 2024, Definition 2.10), including that of another record and the differing one.
    """
    low, high = -math.inf, math.inf
    if mechanism.gradient_bound is not None:
        low, high = -mechanism.gradient_bound, mechanism.gradient_bound
    if mechanism.gradient_sensitivity is not None:
        pushes = record_pushes(mechanism)
        low = max(low, max(pushes) - mechanism.gradient_sensitivity)
        high = min(high, min(pushes) + mechanism.gradient_sensitivity)
    return low, high


def suggested_curvatures(mechanism: NoisySGD) -> tuple[float, ...]:
    """Return the strong convexity, the smoothness, and the curvature that resets in one step."""
    resetting = 1 / float(mechanism.step_sizes[-1])
    most = math.inf if mechanism.smoothness is None else mechanism.smoothness
    wanted = [mechanism.strong_convexity, min(resetting, most), most]
    return tuple(dict.fromkeys(c for c in wanted if math.isfinite(c)))


def random_others(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    """Return a random negative gradient of the other records, often an extreme one."""
    if mechanism.dataset_size == 1:
        return 0.0
    low, high = others_range(mechanism)
    if math.isinf(high):
        low, high = -2 * mechanism.sensitivity, 2 * mechanism.sensitivity
    return float(rng.choice([low, high, 0.0, rng.uniform(low, high)]))


def random_curvature(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    """Return a random curvature, often an extreme one or one that resets in one step."""
    resetting = 1 / float(mechanism.step_sizes[-1])
    most = 2 * resetting if mechanism.smoothness is None else mechanism.smoothness
    least = mechanism.strong_convexity if mechanism.convex else -most
    return float(rng.choice([least, most, min(resetting, most), rng.uniform(least, most)]))


def check_others(name: str, mechanism: NoisySGD, lowest: float, highest: float) -> None:
    """Raise `Inadmissible` unless the other records' negative gradients may lie in a range."""
    low, high = others_range(mechanism)
    if not (low * SLACK <= lowest and highest * SLACK**-1 <= high):
        raise Inadmissible(
            f"{name} needs the other records' gradients in [{-high:.6g}, {-low:.6g}], which the "
            "Lipschitz constant and the gradient sensitivity allow, "
            f"got [{-highest:.6g}, {-lowest:.6g}]"
        )
    if mechanism.dataset_size == 1 and (lowest or highest):
        raise Inadmissible(f"{name} needs other records to push, got dataset_size=1")


def check_holder(name: str, mechanism: NoisySGD, *gradients: PiecewiseLinear) -> None:
    """Raise `Inadmissible` unless gradients have the mechanism's Hoelder constant and order.

    Between two breakpoints a difference of values is linear and a power of the distance concave, so
    that their ratio is largest at breakpoints and ends of the domain.
    """
    if mechanism.holder is None:
        return
    constant, order = mechanism.holder
    half = math.inf if mechanism.diameter is None else mechanism.diameter / 2
    for line in gradients:
        ends = [] if math.isinf(half) else [-half, half]
        x = np.unique([*(point for point in line.points if abs(point) < half), *ends])
        values = line(x)
        distance = np.abs(x[:, None] - x)
        # what a value may be off by rounding
        change = np.abs(values[:, None] - values) - 2.0**-50 * np.max(np.abs(values), initial=0.0)
        apart = distance > 0
        needed = np.max(change[apart] / distance[apart] ** order, initial=0.0)
        steepest = max(map(abs, line.slopes)) if math.isinf(half) else 0.0
        if steepest > 0:
            needed = max(needed, steepest) if order == 1 else math.inf
        if needed > constant * SLACK:
            raise Inadmissible(
                f"{name} needs gradients with a Hoelder constant of order {order:g} of at most "
                f"{constant:g}, got {needed:.6g}"
            )


def check_whole_gradients(name: str, mechanism: NoisySGD, curvature: float) -> None:
    """Raise `Inadmissible` unless whole gradients of quadratics are within the Lipschitz constant.

    Without strong convexity no regulariser is assumed, so that the curvature counts. The record
    pushes farthest: `others_range` leaves the other records nothing beyond.
    """
    m = mechanism
    if not curvature or m.gradient_bound is None or m.strong_convexity > 0:
        return
    half = math.inf if m.diameter is None else m.diameter / 2
    steepest = abs(curvature) * half + max(map(abs, record_pushes(m)))
    if steepest > m.gradient_bound * SLACK:
        raise Inadmissible(
            f"{name} needs gradients of at most {m.gradient_bound:g} on the domain if a "
            f"Lipschitz constant without strong convexity is assumed, got {steepest:.6g}"
        )


def check_removable(name: str, mechanism: NoisySGD, regularised: bool) -> None:
    """Raise `Inadmissible` if removing the record would remove its regulariser as well."""
    if regularised and not both_hold_record(mechanism):
        raise Inadmissible(
            f"{name} needs no regulariser if X' does not hold the record, because the "
            "regulariser's gradients are unbounded, got relation='add remove'"
        )


def check_unclipped(name: str, mechanism: NoisySGD, curvature: float) -> None:
    """Raise `Inadmissible` if gradients are clipped that a curvature makes unbounded."""
    if mechanism.clip_norm is not None and curvature:
        raise Inadmissible(
            f"{name} needs clip_norm=None because its gradients are not bounded, "
            f"got clip_norm={mechanism.clip_norm!r}"
        )


def check_curvature(name: str, mechanism: NoisySGD, curvature: float) -> None:
    """Raise `Inadmissible` unless losses of constant curvature are allowed."""
    most = math.inf if mechanism.smoothness is None else mechanism.smoothness
    least = mechanism.strong_convexity if mechanism.convex else -most
    if not least - (SLACK - 1) * abs(least) <= curvature <= most * SLACK:
        raise Inadmissible(
            f"{name} needs curvature in [{least:g}, {most:g}], which convexity and smoothness "
            f"allow, got curvature={curvature!r}"
        )
