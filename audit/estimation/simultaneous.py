"""The simultaneous band: every threshold at once, without a pilot and without a grid of scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.estimation.band import hull_vertices
from audit.estimation.events import Tail, ThresholdTest, count_event, opposite
from audit.estimation.evidence import CountedTest
from audit.estimation.levels import Limits, limits
from audit.estimation.regions import Counts, Region, kept_inside

Array = NDArray[np.float64]


_MOST_ERROR = 1 - 2.0**-53  # a confidence of 1e-300 leaves an error that rounds to 1


@dataclass(frozen=True)
class SimultaneousBand:
    """Bound both distribution functions everywhere; no score chooses, all certify.

    One band for each law, of equal local levels (sharp in the tails, where the band of
    Dvoretzky, Kiefer and Wolfowitz is far too wide), holds for all events {x >= t}, {x > t},
    {x <= t} and {x < t} together, atoms included. The two samples are independent, so each band
    errs with probability 1 - sqrt(confidence). The certified epsilons hold for all delta
    together; a delta named beforehand is served no better than another. See `levels.limits`.
    """

    kind: ClassVar[str] = "SimultaneousBand"

    def shares(self, error: float) -> tuple[float, float]:
        """Return what each law's band spends of ``error``: the two parts add up to it.

        Each errs with probability 1 - sqrt(1 - error), and both at once with that squared, which
        is counted for the second only.
        """
        each = _each(error)
        return each, error - each

    def tests(self, first: Array, second: Array, error: float) -> tuple[CountedTest, ...]:
        """Return the tests at the vertices of the tradeoff bounds of both orders.

        Every bound is largest at a vertex of the lower convex hull: {(p, q): log((p - delta)/q) >
        e}, {mu > m} and {Renyi divergence > d} each lie on one side of a convex curve of (1 - p,
        q). So the other thresholds need not be kept.

        Parameters
        ----------
        first, second
            All scores of the two laws, ascending.
        error
            Probability, at most, that any limit of the band is wrong.
        """
        laws = {Order.FORWARD: first, Order.REVERSE: second}
        bounds = {order: limits(scores.size, _each(error)) for order, scores in laws.items()}
        return tuple(test for order in Order for test in _vertices(order, laws, bounds, error))


def _each(error: float) -> float:
    return -math.expm1(0.5 * math.log1p(-min(error, _MOST_ERROR)))


def _vertices(
    order: Order, laws: dict[Order, Array], bounds: dict[Order, Limits], error: float
) -> list[CountedTest]:
    """Return the tests of one order, upper and lower tails together.

    The lower limit of the first rate changes at ranks only. At each rank the smallest event that
    reaches it has the smallest rate under the second law.
    """
    first, second = laws[order], laws[opposite(order)]
    least, greatest = bounds[order], bounds[opposite(order)]
    at_least = np.unique(first[first.size - least.ranks])
    at_most = np.unique(first[least.ranks - 1])
    thresholds = np.concatenate([at_least, at_most])
    counts = [
        np.concatenate(
            [count_event(law, Tail.AT_LEAST, at_least), count_event(law, Tail.AT_MOST, at_most)]
        )
        for law in (first, second)
    ]
    p, q = kept_inside(least.least_rate(counts[0]), greatest.greatest_rate(counts[1]))
    kept = hull_vertices(1 - p, q)
    if not kept.size:
        kept = np.asarray([np.argmax(p - q)])
    return [
        CountedTest(
            test=ThresholdTest(
                order, Tail.AT_LEAST if k < at_least.size else Tail.AT_MOST, float(thresholds[k])
            ),
            counts=Counts(int(counts[0][k]), first.size, int(counts[1][k]), second.size),
            error=error,
            region=Region(p[k : k + 1], q[k : k + 1]),
            planned_delta=None,
            local_levels=(least.level, greatest.level),
        )
        for k in kept.tolist()
    ]
