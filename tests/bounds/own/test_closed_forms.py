"""Closed forms in the recursion, against exact laws from two starts and hand calculations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from audit import Batching, Order, bounds, exact
from audit.bounds import own
from audit.bounds.own.coupling import ClosedForms
from audit.bounds.own.forgetting import walk_of
from audit.bounds.own.moves import least_mu
from audit.bounds.own.run import WorstRun
from audit.bounds.own.stretches import DistanceGrid
from audit.constructions import Construction, DriftedWalk, Process
from audit.curves import GaussianCurve
from audit.numerics.normal import gaussian_delta
from tests.bounds.own.soundness import mechanism, settings
from tests.slow import slow

GRID = DistanceGrid(top=1.0, distances=32, spacing=0.05, count=120, open_end=False)


@dataclass(frozen=True)
class Apart(Construction):
    """The two-sided walk from two starts, which H_k bounds and no pair of datasets is."""

    citation: ClassVar[str] = "a test"
    is_neighbouring: ClassVar[bool] = False

    distance: float
    drift: float

    def processes(self) -> tuple[Process, Process]:
        half = self.distance / 2
        starts = (-half, half) if self.drift < 0 else (half, -half)
        walks = [DriftedWalk(self.mechanism, self.drift, start).processes() for start in starts]
        return walks[0][0], walks[1][1]


def below_exact(known, m, steps):
    """Places where the bounds are below the exact E_g of walks from points that far apart."""
    values = known.before(steps)
    wrong = []
    m = replace(m, steps=steps)
    for row in (0, 3, 12, 32):
        for drift in (-0.004, 0.0, 0.004):
            law = exact.curve(Apart(m, float(GRID.rows[row]), drift))
            for j in (0, 10, 40, 80):
                for order in Order:
                    least = law.delta_bracket(float(GRID.log_weights[j]), order)[0]
                    if least > values[row, j] * (1 + 1e-9) + 1e-14:
                        wrong.append((steps, row, drift, j, least, values[row, j]))
    return wrong


@pytest.mark.parametrize("steps", [slow(1), 6, slow(40)])
def test_walks_from_two_starts_are_not_above_it(steps):
    m = mechanism(1.0, 0.2, 100)
    assert not below_exact(ClosedForms(WorstRun.of(m), GRID), m, steps)


def test_a_bound_for_smaller_shifts_is_found_below():
    m = mechanism(1.0, 0.2, 100)
    smaller = replace(WorstRun.of(m), shift=0.5 * WorstRun.of(m).shift)
    assert below_exact(ClosedForms(smaller, GRID), m, 6)


def test_it_is_the_formulas():
    run = WorstRun.of(mechanism(1.0, 0.2, 100))
    values = ClosedForms(run, GRID).before(50)
    # all together from the start: (r + 50 v)/(s sqrt(50)), and from any later step
    walk = walk_of(1.0, run.noise, 1.0, 1.0)
    for row in (0, 16, 32):
        forms = []
        for j in range(1, 51):
            start = min(GRID.rows[row] + (50 - j) * run.shift, 1.0)
            alive = walk.bounds(np.full(j, start))[-1] if start > 0 else 0.0
            mus = np.array([start + j * run.shift, j * run.shift]) / (run.noise * math.sqrt(j))
            forms += [*np.add(gaussian_delta(GRID.log_weights, mus[:, None]), [[0.0], [alive]])]
        best = np.min(forms, axis=0)
        # not every j is tried, and starts are rounded up to 1/512
        assert np.all(values[row] >= best * (1 - 1e-9))
        assert np.all(values[row] <= best * 1.05 + 1e-12)


def plain_loop(known, covered):
    """What `ClosedForms.before` says, one row and one length at a time."""
    run, grid = known.run, known.grid
    values = np.ones((grid.last + 1, grid.count + 1))
    lengths, alive, profiles = known._reflected
    for row in range(grid.distances + 1):
        if run.rate == 1:
            mu = np.array(known._parallel(covered)[row])
            values[row] = np.minimum(gaussian_delta(grid.log_weights, mu), 1)
        for j, length in enumerate(lengths[lengths <= covered].tolist()):
            place = int(np.searchsorted(known._distances, known._grown(covered - length)[row]))
            chances = np.append(alive[j], 1.0 if grid.open_end else alive[j][-1])
            values[row] = np.minimum(values[row], chances[place] + profiles[j])
    return values


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # from the largest distance after few steps
        slow({"diameter": 0.3}),
        {"strong_convexity": 0.2, "diameter": None},
    ],
)
def test_one_row_and_one_length_at_a_time(changes):
    m = mechanism(1.0, 0.2, 60, **changes)
    top = m.diameter or 0.1  # or distances beyond the grid
    known = ClosedForms(WorstRun.of(m), replace(GRID, top=top, open_end=m.diameter is None))
    for covered in (1, 17, 60):
        values, plain = known.before(covered), plain_loop(known, covered)
        rows = known.grid.distances + 1
        assert values[:rows] == pytest.approx(np.minimum(plain[:rows], 1), rel=1e-9, abs=0)
        assert np.all(values[:rows] >= plain[:rows] * (1 - 1e-15))


@pytest.mark.parametrize(
    "changes",
    [
        {"strong_convexity": 0.1},
        {"strong_convexity": 0.2, "diameter": None},
        {"batching": Batching.CYCLIC, "batch_size": 5, "gradient_sensitivity": 0.6},
        slow({"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 2}),
    ],
)
def test_bounds_fall_in_weight_rise_in_distance_and_are_no_better_than_forgetting(changes):
    m = mechanism(1.0, 0.2, 8, **changes)
    run = WorstRun.of(m)
    grid = replace(GRID, open_end=m.diameter is None)
    values = ClosedForms(run, grid).before(8)
    assert np.all(np.diff(values, axis=1) <= 1e-15)
    assert np.all(np.diff(values, axis=0) >= -1e-12)
    assert np.all((values >= 0) & (values <= 1))
    if m.diameter is None:
        assert np.all(values[-1] == 1)  # whatever is above the grid
    every = [bounds.evaluate("own.forgetting", m, m=j) for j in range(1, 9)]
    curves = [c.delta(grid.log_weights) for c in every]
    if run.rate == 1:
        curves += [GaussianCurve(least_mu(run)).delta(grid.log_weights)]
    # the same bounds, on fewer lengths, and compositions on coarser grids
    assert np.all(values[0] >= np.min(curves, axis=0) * (1 - 1e-7) - 1e-15)


@pytest.mark.slow
def test_the_recursion_alone_is_no_worse_than_what_is_known():
    """One of the 200 settings that `tests.bounds.own.soundness` checks."""
    m = settings()[127]
    curve = bounds.evaluate("own.coupling", m, distances=32, weights=240)
    recursion, *known = (float(c.epsilon(1e-5)) for c in curve.curves)
    papers = [
        float(bounds.evaluate(id, m).epsilon(1e-5))
        for id in ("bsa24.theorem_4_1", "bsa24.theorem_4_2", "bsa24.theorem_4_3")
        if id in bounds.applicable(m)
    ]
    assert recursion <= 1.01 * min(*known, *papers)


def test_one_recursion_serves_runs_of_many_lengths():
    m = mechanism(3.0, 0.2, 1)
    lengths = (2, 10)
    together = own.coupling.coupling_at(m, lengths, distances=24, weights=240)
    for steps, curve in zip(lengths, together, strict=True):
        alone = bounds.evaluate("own.coupling", replace(m, steps=steps), distances=24, weights=240)
        assert curve.labels == alone.labels
        # weights of the longest run are farther apart than those of shorter ones
        assert curve.epsilon(1e-5) == pytest.approx(alone.epsilon(1e-5), rel=0.02)
        assert curve.epsilon(1e-5) >= alone.epsilon(1e-5) * (1 - 1e-3)
        law = exact.curve(DriftedWalk(replace(m, steps=steps), drift=0.5, start=-0.5))
        assert curve.epsilon(1e-5) >= law.epsilon_bracket(1e-5)[0]
    assert together[-1].epsilon(1e-5) == alone.epsilon(1e-5)
