"""Several steps on sampled batches as one stretch: against single steps and exact laws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from audit import Batching
from audit.bounds.own.coupling import coupling_curves
from audit.bounds.own.recursion import MergedReflection, SampledLayer
from audit.bounds.own.run import WorstRun, meetings
from audit.bounds.own.stretches import DistanceGrid, layouts
from audit.constructions import DriftedWalk
from audit.numerics.normal import gaussian_delta
from tests.bounds.own.soundness import check, mechanism

RUN = WorstRun(steps=40, noise=0.01, shift=0.004, gap=0.0, diameter=0.3, period=1, rate=0.2)


def test_meetings_are_rounded_up():
    for count, rate, most in ((5, 0.1, 99), (300, 0.3, 99), (10**5, 1e-3, 10**6), (2, 0.999, 1)):
        numbers, least, chances = meetings(count, rate, most)
        assert np.sum(least) <= 1 <= np.sum(chances) < 1 + 1e-10
        assert np.dot(np.minimum(numbers, most), chances) >= min(count * rate, most) * (1 - 1e-9)
        assert np.all(np.diff(numbers) > 0)


@pytest.mark.parametrize("rate", [1e-14, 1e-10, 1e-5])
def test_unlikely_meetings_are_not_rounded_down(rate):
    """Of two steps; at p = 1e-14 the difference of P(K <= 1) and P(K <= 0) is .1% too small."""
    numbers, least, chances = meetings(2, rate, 2)
    exact = [
        (1 - Fraction(rate)) ** 2,
        2 * Fraction(rate) * (1 - Fraction(rate)),
        Fraction(rate) ** 2,
    ]
    assert numbers.tolist() == [0, 1, 2]
    assert all(a <= b <= c for a, b, c in zip(least.tolist(), exact, chances.tolist(), strict=True))
    assert chances == pytest.approx(least, rel=2e-12)


def test_a_stretch_is_not_below_its_parts():
    """Bounds of a table that knows normal laws after the stretch; composition is never beaten."""
    grid = DistanceGrid(top=0.3, distances=24, spacing=0.05, count=160, open_end=False)
    [stretch] = layouts(RUN, 20, 0.0)[0]
    step = SampledLayer(grid, stretch)
    mus = np.maximum(grid.rows, 1e-9) / 0.02
    values = np.stack([gaussian_delta(grid.log_weights, np.array(mu)) for mu in mus])
    values[0] = 0.0
    found = step.before(values)
    assert np.all(np.diff(found, axis=0) >= -1e-9)  # more distance costs no less
    assert np.all(np.diff(found, axis=1) <= 1e-15)
    # without the record the two runs are two normal laws, here the best case
    spread = np.hypot(0.02, 0.01 * np.sqrt(20))
    least = np.stack(
        [
            gaussian_delta(grid.log_weights, np.array(r / spread))
            for r in np.maximum(grid.rows, 1e-9)
        ]
    )
    assert np.all(found[1:] >= least[1:] * (1 - 1e-9))
    composed = step.composition.delta(grid.log_weights)
    assert found[0] == pytest.approx(composed, rel=0.1, abs=1e-9)


@pytest.mark.parametrize("near", [0, 4])
def test_what_stays_apart_is_charged_no_less_than_what_meets(near):
    """Else a charge would fall with the distance, and landing on rows would not bound it."""
    grid = DistanceGrid(top=0.3, distances=24, spacing=0.05, count=4, open_end=False)
    pushes, chances = np.array([0.0, 0.01]), np.array([0.7, 0.3])
    reflection = MergedReflection.of(grid, near, pushes, chances, 1.0, 0.05, 0.9)
    result = np.ones((25, 5))
    reflection.lower(np.zeros((25, 5)), np.full(5, 0.4), result)
    assert result[near:] == pytest.approx(0.4, rel=1e-12)


def test_small_noise_gains_from_couplings():
    """At s = .01 D single steps gain nothing: distances are rounded up by more than the noise."""
    run = WorstRun(steps=30_000, noise=0.01, shift=1e-3, gap=0.0, diameter=1.0, period=1, rate=0.1)
    (curve,) = coupling_curves(run, (run.steps,), 32, 240)
    values = dict(zip(curve.labels, (c.epsilon(1e-5) for c in curve.curves), strict=True))
    assert values["couplings"] < 0.9 * min(values["forgetting"], values["adaptive shifts"])


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_merged_batches_are_not_below_exact_laws(share):
    """With a fifth of the pushes the bound is found to be too small."""
    m = mechanism(
        1.0, 0.1, 12, batch_size=2, batching=Batching.WITHOUT_REPLACEMENT, gradient_sensitivity=0.6
    )
    run = replace(WorstRun.of(m), shift=0.3 * share)
    curve = coupling_curves(run, (run.steps,), 24, 240)[0].curves[0]
    merged = replace(curve, table=replace(curve.table, merged=4))
    pair = DriftedWalk(m, drift=0.0, start=0.0)
    wrong = check({"merged": merged}, [pair], (0.5, 2.0)).wrong
    assert bool(wrong) == (share < 1)
