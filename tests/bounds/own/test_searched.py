"""Bounds against pairs that a search finds: a few of what `tests.bounds.own.soundness` compares."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

from audit import NoisySGD
from audit.curves import PrivacyCurve
from tests.bounds.own.soundness import Curves, check_runs, make_of, searched_run


@dataclass(frozen=True)
class Scaled:
    """A curve whose epsilons are multiplied by a factor."""

    curve: PrivacyCurve
    factor: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at ``delta``."""
        return self.factor * float(self.curve.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return the delta at ``epsilon``."""
        return float(self.curve.delta(epsilon / self.factor))


@pytest.mark.parametrize(
    ("id", "kind", "count", "factor"),
    [
        ("own.parallel_moves", "fixed", 3, 0.97),
        ("own.relative_entropy", "fixed", 3, 0.6),
        ("own.adaptive_shifts", "sampled", 3, 0.8),
        ("own.adaptive_shifts", "poisson", 4, 0.8),
        ("own.coupling", "fixed", 2, 0.95),
        ("own.coupling", "sampled", 2, 0.95),
    ],
)
def test_searched_pairs_are_below_the_bound_and_above_a_smaller_one(
    id: str, kind: str, count: int, factor: float
) -> None:
    def with_planted(m: NoisySGD, random: np.random.Generator) -> Curves:
        curves = make_of(id)(m, random)
        return {**curves, "planted": Scaled(curves[id], factor)}

    tally = check_runs(functools.partial(searched_run, id, kind), with_planted, count, 1)
    found = [line for line in tally.wrong if line.startswith("planted")]
    assert found
    assert found == tally.wrong
