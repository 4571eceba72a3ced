"""Bounds on Renyi divergences of processes by composition of their steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from audit.constructions.process import Process, Step
from audit.constructions.updates import Affine, PiecewiseLinear, UpdateMap
from audit.exact.tables import UNIT


def divergence_rates(first: Process, second: Process, wanted: Sequence[int]) -> list[float]:
    """Bound D_a / a of the laws after numbers of steps, for every order a, in both orders.

    A step whose updates differ by d at most, with noise of deviation s, has D_a <= a d^2 / 2 s^2,
    also if updates are drawn, by quasi-convexity; and divergences of steps add up (Mironov 2017,
    Propositions 1 and 7). It is infinite where steps do not correspond or no bound on d is known.
    """
    segments = [path.segments for process in (first, second) for path in process.paths]
    shapes = {tuple((len(s.steps), s.times) for s in part) for part in segments}
    if len(segments) == 2 and len(shapes) == 1:
        parts = zip(*segments, strict=True)
        pairs = {pair for one, other in parts for pair in zip(one.steps, other.steps, strict=True)}
    else:
        pairs = set(itertools.product(first.distinct_steps(), second.distinct_steps()))
    most = max(_rate(*pair, first) for pair in pairs)
    return [n * most for n in wanted]


def _rate(one: Step, other: Step, process: Process) -> float:
    if one.noise_std != other.noise_std:
        return math.inf
    ends = process.lower, process.upper
    distance = max(_distance(phi, psi, *ends) for phi in one.maps for psi in other.maps)
    return 0.5 * (distance / one.noise_std) ** 2 * (1 + 8 * UNIT)


def _distance(phi: UpdateMap, psi: UpdateMap, lower: float, upper: float) -> float:
    """Bound the distance of two maps on a domain; infinite unless they are piecewise linear."""
    if phi == psi:
        return 0.0
    slopes = []
    for update in (phi, psi):
        if isinstance(update, Affine):
            slopes.append((update.slope, update.slope))
        elif isinstance(update, PiecewiseLinear):
            slopes.append(update.slopes)
        else:
            return math.inf
    for end, one, other in zip((lower, upper), *slopes, strict=True):
        if math.isinf(end) and one != other:
            return math.inf
    places = np.array([p for p in (lower, upper, 0.0, *phi.kinks, *psi.kinks) if math.isfinite(p)])
    places = np.clip(places, lower, upper)
    one, other = phi(places), psi(places)
    # values of a piece are two products and two sums, of numbers as large as its ends
    size = float(np.max(np.abs(one) + np.abs(other))) + 2 * float(np.max(np.abs(places)))
    return float(np.max(np.abs(one - other))) + 8 * UNIT * size
