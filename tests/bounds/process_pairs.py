"""Hand-made pairs of processes, to compare bounds with exact laws."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit import bounds, exact
from audit.constructions.base import Construction
from audit.constructions.process import Path, Process, Segment, Step

ORDERS = (1.3, 2.0, 8.0)


@dataclass(frozen=True)
class HandMade(Construction):
    """Two processes that the test vouches for."""

    first: Process | None = None
    second: Process | None = None

    citation = "made by a test"

    def processes(self):
        return self.first, self.second


def process(steps, *, half=math.inf, start=0.0):
    """The process of ``steps``: tuples (maps, weights, noise_std, times)."""
    segments = tuple(
        Segment((Step(maps, weights, noise_std),), times)
        for maps, weights, noise_std, times in steps
    )
    return Process(start, (Path(1.0, segments),), lower=-half, upper=half)


def pair(mechanism, first, second):
    return exact.curve(HandMade(mechanism, first, second))


def assert_sound(ids, mechanism, law, *, delta=1e-4, **options):
    """The law is nowhere above the bounds, at three Renyi orders and at delta, in both orders."""
    divergences = [law.renyi_bracket(alpha)[0] for alpha in ORDERS]
    epsilon = law.epsilon_bracket(delta)[0]
    for id in ids:
        curve = bounds.evaluate(id, mechanism, **options)
        for alpha, low in zip(ORDERS, divergences, strict=True):
            assert low <= curve.renyi(alpha) * (1 + 1e-9) + 1e-12, (id, alpha, mechanism)
        assert epsilon <= curve.epsilon(delta) * (1 + 1e-9) + 1e-9, (id, mechanism)
