"""The events of paper 000, appendix A.4, counted."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import audit
from audit.constructions import AuxiliaryWalk
from audit.simulation import auxiliary_events, simulate
from audit.simulation.blocks import Block, Stream

from . import twin
from .cases import mechanism, small_auxiliary


@pytest.mark.parametrize("start", [0.0, 0.25])  # biased to the right, and mirrored
def test_counts_are_those_of_the_twin(start: float) -> None:
    walk = small_auxiliary(start)
    process = walk.processes()[1]
    sequence = Block(0, 0, 500).sequence(2, Stream.EVENTS)
    expected: Counter[str] = Counter()
    for x, jumps, met in twin.walk(process, sequence, 500):
        i, ii, positive = 0.85 * 15 <= jumps <= 1.15 * 15, not met, x * walk.direction >= 0
        expected["concentrated"] += i
        expected["unprojected"] += ii
        expected["both"] += i and ii
        expected["positive"] += positive
        expected["both_and_positive"] += i and ii and positive
    found = auxiliary_events(walk, trials=500, seed=2)
    assert {name: getattr(found, name) for name in expected} == expected
    assert 0 < found.both_and_positive < found.both < found.concentrated < 500
    assert found.unprojected < 500
    assert (found.trials, found.seed) == (500, 2)


def test_concentration_is_binomial() -> None:
    walk = small_auxiliary()
    found = auxiliary_events(walk, trials=100_000, seed=3)
    p = float(stats.binom.cdf(17, walk.burn_in, 0.1) - stats.binom.cdf(12, walk.burn_in, 0.1))
    assert walk.burn_in == 150
    assert stats.binomtest(found.concentrated, 100_000, p).pvalue > twin.LEVEL
    wrong = float(stats.binom.cdf(18, walk.burn_in, 0.1) - stats.binom.cdf(12, walk.burn_in, 0.1))
    assert stats.binomtest(found.concentrated, 100_000, wrong).pvalue < twin.LEVEL


def test_positive_agrees_with_the_iterates() -> None:
    walk = small_auxiliary()
    found = auxiliary_events(walk, trials=50_000, seed=4)
    x = simulate(walk.processes()[1], trials=50_000, seed=5)
    table = [
        [found.positive, found.trials - found.positive],
        [np.sum(x >= 0), np.sum(x < 0)],
    ]
    assert stats.fisher_exact(table).pvalue > twin.LEVEL


def test_both_lies_in_its_bracket() -> None:
    found = auxiliary_events(small_auxiliary(), trials=20_000, seed=6)
    assert found.concentrated + found.unprojected - found.trials <= found.both
    assert found.both <= min(found.concentrated, found.unprojected)


def test_full_batches_jump_at_every_step() -> None:
    m = mechanism(batching=audit.Batching.FULL, batch_size=4, steps=60, noise_std=0.01)
    found = auxiliary_events(AuxiliaryWalk(m), trials=100, seed=0)
    assert found.concentrated == found.both == found.both_and_positive == 100


def test_counts_do_not_depend_on_threads() -> None:
    runs = {auxiliary_events(small_auxiliary(), trials=9000, seed=1, threads=t) for t in (1, 2, 8)}
    assert len(runs) == 1


def test_the_papers_constants() -> None:
    """Footnote 9: P[E] is about 1 - 1.57e-5, and omega''_T is positive but for e^-30 or so."""
    m = mechanism(
        steps=7500,
        dataset_size=10,
        step_size=1.0,
        lipschitz=1.0,
        diameter=1000.0,
        noise_std=math.sqrt(1000.0**2 / 1000 / 7500),
    )
    seen: list[tuple[int, int]] = []
    found = auxiliary_events(
        AuxiliaryWalk(m), trials=1000, seed=0, progress=lambda *a: seen.append(a)
    )
    assert found.both >= 998
    assert found.positive == 1000
    assert seen[-1] == (7_500_000, 7_500_000)
