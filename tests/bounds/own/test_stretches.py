"""Stretches: landing, reflection through several steps, sampled batches merged."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfc, ndtr
from scipy.stats import norm

from audit import Batching
from audit.bounds.own.coupling import coupling_curves
from audit.bounds.own.recursion import MergedReflection, SampledLayer
from audit.bounds.own.run import WorstRun, meetings
from audit.bounds.own.stretches import (
    DistanceGrid,
    bin_masses,
    landed,
    landing,
    layouts,
    lower,
    reflected_steps,
    rising,
)
from audit.constructions import DriftedWalk
from audit.numerics.normal import gaussian_delta
from tests.bounds.own.soundness import check, mechanism
from tests.slow import slow

GRID = DistanceGrid(top=1.0, distances=32, spacing=0.05, count=160, open_end=False)
FULL = WorstRun(steps=400, noise=0.05, shift=0.006, gap=0.0, diameter=1.0, period=1, rate=1.0)
RUNS = {
    "full": FULL,
    "contracting": replace(FULL, gap=0.02),
    "cyclic": replace(FULL, shift=0.02, period=3),
    "sampled": replace(FULL, shift=0.03, rate=0.2),
    "still": replace(FULL, shift=0.0),
}


# --- landing ---


def reaches_lower_row(x, variance):
    """Chance of a Brownian motion from x of reaching 0 before 1 and in time, by images."""
    k = 2 * np.arange(60)
    return float(
        np.sum(erfc((k + x) / np.sqrt(2 * variance)))
        - np.sum(erfc((k + 2 - x) / np.sqrt(2 * variance)))
    )


@pytest.mark.parametrize("noise", [0.4, 0.5, 1.0, 3.0])
def test_the_lower_row_is_reached_as_often_as_claimed(noise):
    width = 0.7
    divided = landing(width, noise * width)
    assert 0 < divided.reached < 1
    variance = 4 * ((noise * width) ** 2 - divided.first**2) / width**2  # of the distance
    for x in (1e-3, 0.1, 0.5, 0.9, 0.999):
        chance = reaches_lower_row(x, variance)
        assert (1 - x) * divided.reached <= chance * (1 + 1e-12)
        if noise >= 0.5:
            assert chance <= (1 - x) * divided.reached * 1.35
    # with a quarter of the variance the claim is too large
    assert reaches_lower_row(0.999, variance / 4) < 0.001 * divided.reached


def test_little_noise_is_not_divided():
    divided = landing(1.0, 0.2)
    assert (divided.first, divided.reached) == (0.2, 0.0)


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.1), (-0.4, 0.1), (0.5, 3.0), (-2.0, 0.3)])
def test_masses_of_bins_and_their_first_moments(mean, std):
    edges = np.linspace(0.0, 1.0, 9)
    mass, least, most = bin_masses(edges, mean, std)
    law = norm(mean, std)
    for b in range(8):
        low, high = edges[b], edges[b + 1]
        assert mass[b] == pytest.approx(quad(law.pdf, low, high, epsabs=0)[0], rel=1e-9)
        moment = quad(lambda u, high=high: law.pdf(u) * (high - u) * 8, low, high, epsabs=0)[0]
        assert least[b] <= moment * (1 + 1e-12)
        assert moment * (1 - 1e-12) <= most[b]
        assert most[b] - least[b] <= 1e-7 * mass[b]


def test_rows_after_landing():
    rows = np.linspace(0.0, 1.0, 5)
    found = landed(np.array([0.0, 0.25, 0.3, 0.9, 1.7]), rows, 4, 0.99)
    assert np.sum(found, axis=1) == pytest.approx(1.0)
    assert found[0, 0] == found[4, 4] == 1.0
    assert found[1, 1] == pytest.approx(1.0)  # at a row
    assert found[2, 1:3] == pytest.approx([0.8 * 0.99, 1 - 0.8 * 0.99])
    beyond = landed(np.array([0.9, 1.7]), rows, 5, 0.99)
    assert beyond[0, 3] == pytest.approx(0.4 * 0.99)
    assert beyond[1, 5] == 1.0  # the row of all larger distances
    assert rising(np.array([[0.3], [0.1], [0.2]])).ravel().tolist() == [0.1, 0.1, 0.2]


# --- reflection ---


def cost(distance):
    """An increasing function, steepest at 0."""
    return np.sin(math.pi / 2 * np.minimum(distance, 1.0)) + 0.01


def by_quadrature(run, count, end, near=0.0):
    """Mean of ``end`` after ``count`` steps from nodes, by the midpoint rule; nodes and means.

    The excess over the local distance is what is killed.
    """
    size = 700
    nodes = (np.arange(size) + 0.5) / size
    nodes = np.concatenate([[0.0], nodes, [1.0]])
    sd = 2 * run.noise
    values = end(np.minimum(nodes + near, 1.0))
    for k in reversed(range(count)):
        found = []
        pushed = run.period == 1 or k % run.period == run.period - 1
        for push in (0.0, run.shift):
            rho = run.contraction * nodes[:, None] + push
            inner = nodes[None, 1:-1]
            density = np.exp(-(((inner - rho) / sd) ** 2) / 2)
            density -= np.exp(-(((inner + rho) / sd) ** 2) / 2)
            density /= sd * math.sqrt(2 * math.pi) * size
            met, beyond = 2 * ndtr(-rho / sd), ndtr((rho - 1) / sd) - ndtr(-(rho + 1) / sd)
            found.append(density @ values[1:-1] + met[:, 0] * values[0] + beyond[:, 0] * values[-1])
        chance = run.rate * pushed
        values = (1 - chance) * found[0] + chance * found[1]
    return nodes, values


@pytest.mark.parametrize("name", RUNS)
def test_means_are_above_those_of_quadrature_and_close(name):
    run = RUNS[name]
    [stretch] = layouts(run, 6, 10.0)[-1 if run.period > 1 else 0]
    masses = reflected_steps(GRID, stretch)
    assert np.sum(masses, axis=1) == pytest.approx(1.0, abs=1e-9)
    nodes, values = by_quadrature(run, stretch.count, cost)
    exact = np.interp(GRID.rows, nodes, values)
    found = masses @ cost(GRID.rows)
    assert np.all(found >= exact * (1 - 1e-5))
    assert np.all(found <= exact * 1.01)
    if name != "still":  # a quarter of the pushes is found to be too few
        planted = reflected_steps(GRID, replace(stretch, shift=stretch.shift / 4))
        assert np.any(planted @ cost(GRID.rows) < exact * (1 - 1e-3))


def test_local_distances_and_tables_that_do_not_increase():
    [[stretch]] = layouts(FULL, 6, 10.0)
    masses = reflected_steps(GRID, stretch)
    values = np.outer(cost(GRID.rows), [1.0, 0.5])
    values[3] = values[8]  # a bound may be looser than one from farther away
    result = np.ones_like(values)
    lower(rising(values), result, masses, [0, 4], open_end=False)
    for row in (4, 10, 32):
        least = min(
            float(np.interp(GRID.rows[row] - z, *by_quadrature(FULL, 6, cost, z)))
            for z in (0.0, GRID.rows[4])
        )
        assert least * (1 - 1e-5) <= result[row, 0] <= least * 1.01
    assert np.allclose(result[:, 1], result[:, 0] / 2)


def test_an_open_end_is_not_left():
    grid = replace(GRID, open_end=True)
    [[stretch]] = layouts(RUNS["contracting"], 6, 10.0)
    masses = reflected_steps(grid, stretch)
    assert masses.shape == (34, 34)
    assert masses[-1] == pytest.approx(np.eye(34)[-1])
    closed = reflected_steps(GRID, stretch)
    # what has been beyond the last distance stays there
    assert np.all(masses[:-1, -1] >= -1e-12)
    assert np.all(masses[:-1, 0] <= closed[:, 0] + 1e-12)


def test_the_row_of_all_larger_distances_stays_one():
    """Without a wall the last row stands for every distance beyond the grid."""
    grid = replace(GRID, open_end=True)
    run = replace(FULL, gap=0.02, diameter=math.inf)
    [[stretch]] = layouts(run, 4, 10.0)
    masses = reflected_steps(grid, stretch)
    values = np.linspace(0.0, 1.0, grid.distances + 2)[:, None] ** 2
    result = np.ones_like(values)
    lower(values, result, masses, (0, 1, 4), open_end=True)
    assert result[-1, 0] == 1.0
    lower(values, planted := np.ones_like(values), masses, (0, 1, 4), open_end=False)
    assert planted[-1, 0] < 1.0


SAMPLED = WorstRun(steps=40, noise=0.01, shift=0.004, gap=0.0, diameter=0.3, period=1, rate=0.2)


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
    p = Fraction(rate)
    exact = [(1 - p) ** 2, 2 * p * (1 - p), p**2]
    assert numbers.tolist() == [0, 1, 2]
    assert all(a <= b <= c for a, b, c in zip(least.tolist(), exact, chances.tolist(), strict=True))
    assert chances == pytest.approx(least, rel=2e-12)


def test_a_stretch_is_not_below_its_parts():
    """Bounds of a table that knows normal laws after the stretch; composition is never beaten."""
    grid = DistanceGrid(top=0.3, distances=24, spacing=0.05, count=160, open_end=False)
    [stretch] = layouts(SAMPLED, 20, 0.0)[0]
    step = SampledLayer(grid, stretch)
    mus = np.maximum(grid.rows, 1e-9) / 0.02
    values = np.stack([gaussian_delta(grid.log_weights, np.array(mu)) for mu in mus])
    values[0] = 0.0
    found = step.before(values)
    assert np.all(np.diff(found, axis=0) >= -1e-9)  # more distance costs no less
    assert np.all(np.diff(found, axis=1) <= 1e-15)
    # without the record the two runs are two normal laws, here the best case
    spread = np.hypot(0.02, 0.01 * np.sqrt(20))
    apart = np.maximum(grid.rows, 1e-9) / spread
    least = np.stack([gaussian_delta(grid.log_weights, np.array(mu)) for mu in apart])
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


@pytest.mark.slow
def test_small_noise_gains_from_couplings():
    """At s = .01 D single steps gain nothing: distances are rounded up by more than the noise."""
    run = WorstRun(steps=30_000, noise=0.01, shift=1e-3, gap=0.0, diameter=1.0, period=1, rate=0.1)
    (curve,) = coupling_curves(run, (run.steps,), 32, 240)
    values = dict(zip(curve.labels, (c.epsilon(1e-5) for c in curve.curves), strict=True))
    assert values["couplings"] < 0.9 * min(values["forgetting"], values["adaptive shifts"])


MERGED = {
    "full": mechanism(0.5, 0.15, 24),
    "cyclic": mechanism(0.5, 0.15, 24, batching=Batching.CYCLIC, batch_size=5),
    "sampled": mechanism(
        1.0, 0.1, 12, batch_size=2, batching=Batching.WITHOUT_REPLACEMENT, gradient_sensitivity=0.6
    ),
}


@pytest.mark.parametrize("share", [1.0, 0.2])
@pytest.mark.parametrize("name", ["full", "cyclic", slow("sampled")])
def test_merged_steps_are_not_below_exact_laws(name, share):
    """With a fifth of the pushes the bound is found to be too small."""
    m = MERGED[name]
    run = WorstRun.of(m)
    run = replace(run, shift=run.shift * share)
    curve = coupling_curves(run, (run.steps,), 24, 240)[0].curves[0]
    merged = replace(curve, table=replace(curve.table, merged=4))
    pair = DriftedWalk(m, drift=0.0, start=0.0)
    assert bool(check({"merged": merged}, [pair], (0.05, 0.2, 0.5, 0.8, 2.0)).wrong) == (share < 1)
