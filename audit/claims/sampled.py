"""Lower bounds from samples, where a pair's exact law would take too long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from audit.claims.points import Point, Quantity
from audit.constructions.base import Construction
from audit.exact.gaussian import normal_law
from audit.exact.transfer import LARGEST_DENSE, STANDARD, domain_panels
from audit.mechanism import Order

if TYPE_CHECKING:
    from audit.estimation import Audit

# Fewer trials than this are spent on an anytime-valid test of the claimed numbers themselves.
FEWEST_FOR_INTERVALS = 20_000

# Of a number on a line between two vertices of the tradeoff function.
_ROUNDING = 2.0**-50

# Seconds for a multiply-add of a banded operator, and blocks of nodes that one node reaches.
_BAND_COST, _BAND_WIDTH = 4e-10, 260

# Steps of processes on a line, beyond which no exact law is tried.
_MOST_STEPS = 100_000

# The sequential test's ladder of claims, as multiples of the claimed epsilon.
_LADDER = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0)


def exact_seconds(pair: Construction) -> float:
    """Estimate how long the exact laws of a pair take, in seconds; infinite where none is at hand.

    The four laws of a bracket, by the band structure where the domain is long.
    """
    processes = pair.processes()
    if all(normal_law(process) is not None for process in processes):
        return 0.0
    endless = any(math.isinf(end) for p in processes for end in (p.lower, p.upper))
    if endless and sum(len(path) for p in processes for path in p.paths) > _MOST_STEPS:
        return math.inf  # even how far the line is needed would take long
    try:
        nodes = domain_panels(processes, STANDARD[0], 38.0).nodes.size
    except (ValueError, MemoryError):
        return math.inf
    paths = sum(len(process.paths) for process in processes)
    steps = max(len(path) for process in processes for path in process.paths)
    if nodes <= LARGEST_DENSE:
        return 2 * paths * min(steps * nodes**2 * 4e-10, 40 * nodes**3 * 6e-11)
    return 2 * paths * steps * nodes * _BAND_WIDTH * _BAND_COST


def sampled_bounds(
    pair: Construction, points: Sequence[Point], *, trials: int, error: float, seed: int
) -> list[tuple[float, Order]]:
    """Return a lower confidence bound at each point, and the order of the pair that gives it.

    With probability at least 1 - ``error`` none of them is above the pair's true number. Scores
    are the final iterates themselves.
    """
    # import Numba, so not before samples are needed
    from audit.estimation import audit_samples
    from audit.simulation import final_iterates

    x, x_prime = final_iterates(pair, trials=trials, seed=seed)
    if trials < FEWEST_FOR_INTERVALS:
        return _sequential(points, x, x_prime, error)
    deltas = tuple(
        dict.fromkeys(p.at for p in points if p.quantity is Quantity.EPSILON and p.at is not None)
    )
    audit = audit_samples(x, x_prime, confidence=1 - error, seed=seed + 1, deltas=deltas)
    found = []
    for point in points:
        if point.quantity is Quantity.MU:
            found.append((audit.mu_lower(), Order.FORWARD))
            continue
        assert point.at is not None
        bounds = [(_asked(audit, point, point.at, order), order) for order in Order]
        found.append(max(bounds, key=lambda bound: bound[0]))
    return found


def _sequential(
    points: Sequence[Point], x: np.ndarray, x_prime: np.ndarray, error: float
) -> list[tuple[float, Order]]:
    """Test each claimed epsilon, and multiples of it, by betting; the points share the error.

    Each order of the pair has a test of its own, at half of the point's share.
    """
    from audit.estimation import SequentialAudit

    tested = [point for point in points if point.quantity is Quantity.EPSILON]
    found = []
    for point in points:
        best = 0.0, Order.FORWARD
        if point.quantity is Quantity.EPSILON:
            assert point.at is not None
            top = point.claimed + point.slack
            ladder = [multiple * top for multiple in _LADDER] if top > 0 else [0.0, *_LADDER]
            share = error / len(tested) / 2
            for order in Order:
                test = SequentialAudit(
                    [(epsilon, point.at) for epsilon in ladder], confidence=1 - share, order=order
                )
                test.update(x, x_prime)
                bound = test.epsilon_lower(point.at)
                if bound >= top and test.evidence[0].refuted_after is not None:
                    # "at most the claimed epsilon" is what was refuted, so epsilon is above it
                    bound = math.nextafter(bound, math.inf)
                best = max(best, (bound, order), key=lambda pair: pair[0])
        found.append(best)
    return found


def _asked(audit: Audit, point: Point, at: float, order: Order) -> float:
    if point.quantity is Quantity.EPSILON:
        return audit.epsilon_lower(at, order)
    if point.quantity is Quantity.RENYI:
        return audit.renyi_lower(at, order)
    return max(1 - audit.beta_upper(at, order) - _ROUNDING, 0.0)
