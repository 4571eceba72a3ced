"""Hand-made pairs of processes and random mechanisms, to compare bounds with exact laws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import Batching, NoisySGD, Relation, bounds, exact
from audit.constructions.base import Construction
from audit.constructions.process import Path, Process, Segment, Step
from tests.bounds.grid import random_pair

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


def random_pairs(batching, count, seed, **changes):
    """Yield (mechanism, pair)."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n, b = {
            Batching.FULL: (6, 6),
            Batching.CYCLIC: (6, 2),
            Batching.SHUFFLED: (6, 2),
            Batching.RESHUFFLED: (6, 2),
            Batching.WITHOUT_REPLACEMENT: (6, 2),
            Batching.POISSON: (6, 2),
        }[batching]
        relation = Relation.ZERO_OUT if rng.random() < 0.5 else Relation.REPLACE_ONE
        shift = float(rng.uniform(0.05, 0.6))  # eta L/b
        eta = 0.5
        m = NoisySGD(
            **{
                "steps": int(rng.integers(1, 16)),
                "dataset_size": n,
                "batch_size": b,
                "step_size": eta,
                "noise_std": float(rng.uniform(0.2, 1.5)) / eta,
                "lipschitz": shift * b / eta,
                "smoothness": 1.0,
                "diameter": float(rng.uniform(0.5, 3.0)),
                "batching": batching,
                "relation": relation,
                **changes,
            }
        )
        yield m, random_pair(m, rng)


def assert_sound(ids, mechanism, law, *, delta=1e-4, **options):
    """The law is nowhere above the bounds, at three Renyi orders and at delta, in both orders."""
    divergences = [law.renyi_bracket(alpha)[0] for alpha in ORDERS]
    epsilon = law.epsilon_bracket(delta)[0]
    for id in ids:
        curve = bounds.evaluate(id, mechanism, **options)
        for alpha, low in zip(ORDERS, divergences, strict=True):
            assert low <= curve.renyi(alpha) * (1 + 1e-9) + 1e-12, (id, alpha, mechanism)
        assert epsilon <= curve.epsilon(delta) * (1 + 1e-9) + 1e-9, (id, mechanism)
