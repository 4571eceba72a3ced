"""Bounds that allow losses to change over time, against pairs whose losses do.

``python -m tests.bounds.test_changing_losses COUNT SEED`` checks more mechanisms.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from audit import Batching, Losses, NoisySGD, Relation, bounds, exact
from audit.constructions import ChangingPair, Phase, PiecewiseLinear
from audit.curves import PrivacyCurve
from tests.bounds.grid import random_mechanism
from tests.mechanisms import noisy_sgd

# They optimise over compositions or a recursion, which takes a second or more a mechanism.
SLOW = ("own.coupling", "own.forgetting", *(f"bsa24.theorem_4_{k}" for k in (8, 9, 10)))
LISTED = [id for id, entry in bounds.CATALOGUE.items() if Losses.CHANGING in entry.covers]


def random_pair(m: NoisySGD, random: np.random.Generator) -> ChangingPair:
    """Linear and clipped losses in up to four phases; the record's push may change its sign."""
    assert m.lipschitz is not None
    half = 1.0 if m.diameter is None else m.diameter / 2
    count = int(random.integers(1, min(4, m.steps) + 1))
    ends = np.sort(random.choice(np.arange(1, m.steps), count - 1, replace=False))
    lengths = np.diff([0, *ends, m.steps])
    slope = 0.0 if m.smoothness is None else m.smoothness

    def push(size: float) -> PiecewiseLinear:
        return PiecewiseLinear.constant(float(size))

    phases = []
    for length in lengths:
        others = push(m.lipschitz * random.uniform(-1, 1))
        if slope and random.random() < 0.5:
            cap = float(m.lipschitz * random.uniform(0.1, 1))
            others = PiecewiseLinear.clipped(slope, float(random.uniform(-half, half)), cap)
        side = float(random.choice([-1, 1])) * m.lipschitz
        other = -side if m.relation is Relation.REPLACE_ONE else 0.0
        phases.append(Phase(int(length), others, push(side), push(other)))
    if m.dataset_size == 1:
        phases = [Phase(p.steps, push(0.0), p.record, p.record_prime) for p in phases]
    return ChangingPair(m, tuple(phases), start=float(random.uniform(-half, half)))


def mechanism(random: np.random.Generator) -> NoisySGD:
    kinds = (Batching.FULL, Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT)
    while True:
        m = dataclasses.replace(random_mechanism(random), losses=Losses.CHANGING)
        whole = m.lipschitz is not None and m.gradient_sensitivity is None
        if m.batching in kinds and whole and m.strong_convexity == 0:
            return m


def violations(
    m: NoisySGD, random: np.random.Generator, factor: float = 1.0, *, slow: bool = False
) -> Iterator[str]:
    """Yield what contradicts a bound whose epsilons are multiplied by ``factor``."""
    pair = random_pair(m, random)
    law = exact.curve(pair)
    delta = float(10 ** random.uniform(-7, -1))
    low = law.epsilon_bracket(delta)[0]
    for id in LISTED:
        entry = bounds.CATALOGUE[id]
        if entry.failures(m) or (id in SLOW and not slow):
            continue
        curve: PrivacyCurve = entry.evaluate(m)
        claimed = factor * curve.epsilon(delta)
        if low > claimed * (1 + 1e-9):
            yield f"{id} at delta={delta:.3g}: {claimed:.6g} < {low:.6g} for {pair}"


def test_none_is_below_a_pair() -> None:
    random = np.random.default_rng(20)
    assert not [bad for _ in range(16) for bad in violations(mechanism(random), random)]


def test_bounds_that_are_too_small_are_found() -> None:
    random = np.random.default_rng(20)
    bad = [bad for _ in range(16) for bad in violations(mechanism(random), random, 0.6)]
    assert len(bad) > 5


def test_what_holds_for_a_fixed_loss_only_is_refused() -> None:
    """The stationary law of a fixed loss leaks at most 2 v D/s^2; changing losses leak more."""
    a, s = 0.1, 0.1
    m = noisy_sgd(
        steps=600, dataset_size=1000, noise_std=s, lipschitz=500 * a * s**2, losses=Losses.CHANGING
    )
    push = PiecewiseLinear.constant
    unit = s**2 * 1000 / 999  # the drift of a step in units of s^2/D
    drifts = ((472, 0.0), (64, 0.4), (32, 1.3), (16, 3.2), (8, 5.4), (4, 7.8), (4, 5.0))
    record = push(-m.lipschitz), push(m.lipschitz)
    phases = tuple(Phase(steps, push(drift * unit), *record) for steps, drift in drifts)
    law = exact.curve(ChangingPair(m, phases, start=0.5), threads=1)
    assert law.epsilon_bracket(1e-5)[0] > 2 * a
    with pytest.raises(bounds.NotApplicable, match="needs another losses, got losses='changing'"):
        bounds.evaluate("bsa24.corollary_5_2", m)


if __name__ == "__main__":
    generator = np.random.default_rng(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        for violation in violations(mechanism(generator), generator, slow=True):
            print(violation, flush=True)
