"""The coupling recursion: its lemma, its loops, its rounding, known values and exact laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from audit import Batching, bounds, exact
from audit.bounds.own.coupling import coupling_at, coupling_curves
from audit.bounds.own.kernels import PADDING, mirror, reflect, split, weigh
from audit.bounds.own.recursion import SingleLayer, coupling_profiles, layer_of, reflection_of
from audit.bounds.own.run import WorstRun
from audit.bounds.own.stretches import DistanceGrid, Stretch, landing, layouts
from audit.constructions import DriftedWalk
from audit.curves.gaussian import GaussianCurve
from audit.numerics.normal import gaussian_delta
from audit.search import worst_case
from tests.bounds.own.soundness import mechanism
from tests.mechanisms import noisy_sgd
from tests.slow import slow

# --- the lemma, on spaces of a few points ---


def divergence(p, q, g):
    """E_g of two laws on a few points, by trying every event."""
    events = itertools.product([0.0, 1.0], repeat=p.size)
    return max(float(np.dot(event, p - g * q)) for event in events)


def lemma_gap(random, overspent):
    """Right side less left side of the lemma for a random coupling and random weights."""
    points, outcomes = 3, 4
    p, q = random.dirichlet(np.ones(points)), random.dirichlet(np.ones(points))
    first = random.dirichlet(np.full(outcomes, 0.3), size=points)
    second = random.dirichlet(np.full(outcomes, 0.3), size=points)
    g = float(np.exp(random.uniform(-0.5, 1.5)))
    pairs = p[:, None] * random.dirichlet(np.full(points, 0.5), size=points)
    spent = random.dirichlet(np.full(points, 0.5), size=points).T * g * q  # columns add up to g q
    weights = overspent * spent / pairs
    right = sum(
        pairs[a, b] * divergence(first[a], second[b], weights[a, b])
        for a in range(points)
        for b in range(points)
    )
    return right - divergence(p @ first, q @ second, g)


def test_the_lemma_by_brute_force_and_a_budget_that_is_overspent_breaks_it():
    for overspent, holds in ((1.0, True), (1.5, False)):
        random = np.random.default_rng(1)
        least = min(lemma_gap(random, overspent) for _ in range(300))
        assert least >= -1e-12 if holds else least < -0.01


# --- the loops and their rounding ---

GRID = DistanceGrid(top=1.0, distances=32, spacing=0.05, count=160, open_end=False)
ONE = Stretch(1, 1.0, 0.04, 0.2)


def two_steps(r, g):
    """H_1(r, g) of ONE in closed form, for any weight."""
    mu = np.array((r + 0.04) / 0.2)
    if g >= 1:
        return float(gaussian_delta(np.array(math.log(g)), mu))
    if g <= 0:
        return 1.0
    return 1 - g + g * float(gaussian_delta(np.array(-math.log(g)), mu))


def table_of(step):
    values = step.last()
    table = np.empty((GRID.last + 1, 2 * PADDING * GRID.count + 1))
    mirror(values, np.exp(GRID.log_weights), table)
    return table


def test_parallel_moves_are_above_their_integrals_and_close():
    step = SingleLayer(GRID, ONE)
    table = table_of(step)
    cost = np.empty(GRID.count + 1)
    for start, near in ((8, 4), (32, 31)):
        options = dict(step.options[start].moves)
        loss = options[near]
        weigh(table[near], loss.right, loss.left, loss.rest, loss.stride, 0, cost)
        mu = (GRID.rows[start] + 0.04 - GRID.rows[near]) / 0.2
        for j in (0, 20, 60):
            g = math.exp(j * GRID.spacing)

            def integrand(x, near=near, mu=mu, g=g):
                weight = g * math.exp(-mu * x - mu * mu / 2)
                return two_steps(GRID.rows[near], weight) * math.exp(-x * x / 2)

            exact_cost = quad(integrand, -12, 12, limit=400, epsabs=1e-13)[0] / math.sqrt(
                2 * math.pi
            )
            # on the grid a loss has 1% more variance, which tells in the tail
            assert exact_cost * (1 - 1e-9) <= cost[j] <= exact_cost * 1.05 + 1e-12


@pytest.mark.parametrize(("start", "near"), [slow(6, 0), slow(20, 0), (20, 3), slow(32, 6)])
def test_reflections_are_above_their_integrals_and_close(start, near):
    """At one weight (kappa = 1), where the integral is simple."""
    step = SingleLayer(GRID, ONE)
    table = table_of(step)
    gap, z = GRID.rows[start] + 0.04 - GRID.rows[near], GRID.rows[near]
    divided = landing(GRID.width, ONE.noise)
    size = GRID.count + 1

    def cost_of(reflection, longest=0):
        cost = np.empty(size)
        terms = (reflection.far, reflection.begins, reflection.shifts, reflection.masses)
        reflect(table, near, *terms, 0, size, longest, cost)
        return cost

    cost = cost_of(reflection_of(GRID, gap, near, divided, np.zeros(1, dtype=np.int64)))
    [best] = [r for r in step.options[start].reflections if r.near == near]
    assert np.all(cost_of(best) <= cost)
    assert np.all(cost_of(best, 8) >= cost_of(best) * (1 - 1e-12))
    assert cost_of(best, 8) == pytest.approx(cost_of(best), rel=0.02)
    for j in (0, 20, 60):
        g = math.exp(j * GRID.spacing)

        def after(distance, g=g):
            """Cost after landing at the rows around a distance."""
            row = min(int(distance / GRID.width), GRID.distances)
            if row == GRID.distances:
                return two_steps(1.0, g)
            low, high = two_steps(GRID.rows[row], g), two_steps(GRID.rows[row + 1], g)
            share = (row + 1 - distance / GRID.width) * divided.reached
            return high - share * (high - low)

        def integral(noise, charge, g=g):
            def apart(u):
                phi = math.exp(-((u - gap / 2 / noise) ** 2) / 2)
                phi -= math.exp(-((u + gap / 2 / noise) ** 2) / 2)
                return phi * charge(min(z + 2 * noise * u, 1.0)) / math.sqrt(2 * math.pi)

            ends = [(row - z) / 2 / noise for row in GRID.rows if row >= z] + [20.0]
            parts = [quad(apart, a, b, epsabs=1e-14)[0] for a, b in itertools.pairwise(ends)]
            return (1 - GaussianCurve(gap / noise).delta(0.0)) * two_steps(z, g) + sum(parts)

        assert cost[j] == pytest.approx(integral(divided.first, after), rel=1e-8, abs=1e-14)
        # maximal reflection with all of the noise, another coupling of the same means
        maximal = integral(ONE.noise, lambda distance, g=g: two_steps(distance, g))
        assert cost[j] == pytest.approx(maximal, rel=0.06, abs=1e-12)


def test_equal_stretches_are_made_once(monkeypatch):
    """The 199 idle steps of a cycle are alike, and took most of the time when each was made."""
    made = []
    name = "audit.bounds.own.recursion.layer_of"
    monkeypatch.setattr(name, lambda *both: made.append(both) or layer_of(*both))
    run = WorstRun(steps=1, noise=0.2, shift=0.1, gap=0.0, diameter=1.0, period=200, rate=1.0)
    assert coupling_curves(run, (1,), 8, 32)[0].delta(0.1) > 0
    assert 0 < len(made) <= 3


def test_options_that_are_left_out_cost_little():
    """Later rounds compute the options that won, near the weights at which they won."""
    run = WorstRun(steps=40, noise=0.15, shift=0.2, gap=0.0, diameter=1.0, period=1, rate=0.1)
    (curve,) = coupling_curves(run, (run.steps,), 16, 120)
    table = curve.curves[0].table

    def bound(every):
        made = {s: SingleLayer(table.grid, s) for [s] in layouts(run, 1, 1.0)}
        if every:
            for step in made.values():
                step.rounds.every = lambda: True
        known = lambda covered: np.ones((17, 121))  # noqa: E731
        return coupling_profiles(run, (40,), table.grid, [list(made.values())], 99, known)[0]

    fewer, all_of_them = bound(False), bound(True)
    relevant = all_of_them > 1e-9
    ratio = fewer[relevant] / all_of_them[relevant]
    assert 0.98 <= ratio.min() <= ratio.max() <= 1.1
    assert ratio.max() > 1.0


def test_a_split_budget_is_the_best_of_all_splits():
    random = np.random.default_rng(4)
    weights = np.exp(0.1 * np.arange(-30, 31))
    lines = [(1.0, 0.9), (0.8, 0.4), (0.6, 0.2), (0.3, 0.02), (0.1, 0.0)]
    shake = random.random(5)
    first = np.max(
        [a - b * (0.8 + 0.2 * u) * weights for (a, b), u in zip(lines, shake, strict=True)], axis=0
    )
    second = np.array([max(1 - 0.6 * g, 0.02) for g in weights])
    result = np.empty(61)
    split(first, second, 0.3, weights, result)

    def envelope(values, g):
        """Smallest chord value at g, the constant beyond the ends included."""
        best = 1.0 if g < weights[0] else values[-1] if g >= weights[-1] else math.inf
        for a, b in itertools.combinations(range(61), 2):
            if weights[a] <= g <= weights[b]:
                share = (g - weights[a]) / (weights[b] - weights[a])
                best = min(best, values[a] + share * (values[b] - values[a]))
        return best

    for j in (12, 30, 45):
        options = [0.7 * envelope(first, weights[j]) + 0.3 * envelope(second, weights[j])]
        for other in weights:  # the best split has a vertex of one of the two
            for which in (0, 1):
                rates = (0.7, 0.3) if which == 0 else (0.3, 0.7)
                left = (weights[j] - rates[0] * other) / rates[1]
                # no budget may move away from the record
                g_1 = other if which == 0 else left
                if left > weights[0] and g_1 <= weights[j] * (1 + 1e-12):
                    here, there = (first, second) if which == 0 else (second, first)
                    options.append(
                        rates[0] * envelope(here, other) + rates[1] * envelope(there, left)
                    )
        assert result[j] == pytest.approx(min(options), rel=1e-9)


def test_no_budget_moves_away_from_the_record():
    """From a small distance, with pushes that tell the datasets apart: a step keeps E_g = .5 more.

    A budget of g_1 > g for batches without the record would come from pairs that are far apart.
    """
    weights = np.exp(0.01 * np.arange(-300, 301))
    near = np.where(
        weights >= 1,
        gaussian_delta(np.maximum(np.log(weights), 0.0), np.array(0.5)),
        1 - weights + weights * gaussian_delta(np.maximum(-np.log(weights), 0.0), np.array(0.5)),
    )
    result = np.empty(weights.size)
    split(near, np.ones(weights.size), 0.5, weights, result)
    assert np.all(result >= 0.5 * near + 0.5 - 1e-12)


def test_splits_of_weights_of_many_orders():
    """Subtractions from the largest weight would lose the smallest ones."""
    weights = np.exp(0.4 * np.arange(-120, 121))
    first = np.array([max(1 - 0.3 * g, 0.5 * math.exp(-0.01 * g), 1e-9) for g in weights])
    result = np.empty(weights.size)
    split(first, first, 0.5, weights, result)
    assert np.all(result <= first * (1 + 1e-12))
    assert result[120] == pytest.approx(first[120], rel=0.2)
    assert result[100] > 0.99


# --- values ---


def recursion(m, **grid):
    """Epsilon at 1e-5 by the recursion alone."""
    curve = bounds.evaluate("own.coupling", m, **grid)
    assert curve.labels[0] == "couplings"
    return curve.curves[0].epsilon(1e-5)


def test_two_steps_are_not_below_the_exact_law():
    m = mechanism(3.0, 0.2, 2)
    truth = exact.curve(DriftedWalk(m, drift=0.5, start=-0.5)).epsilon_bracket(1e-5)[0]
    for grid in ({"distances": 16}, {"distances": 41, "weights": 100}, {}):
        assert max(truth, 3.6227) <= recursion(m, **grid) <= 3.66


@pytest.mark.slow
def test_finer_grids_lower_the_bound():
    m = mechanism(3.0, 0.2, 30)
    grids = [(16, 60), (32, 120)]
    values = [recursion(m, distances=n, weights=w) for n, w in grids]
    assert np.all(np.diff(values) <= 1e-12)
    assert values[-1] < 0.99 * values[0]


def test_one_step_and_composition_are_reproduced():
    m = mechanism(1.0, 0.2, 1)
    assert recursion(m) == pytest.approx(GaussianCurve(0.2).epsilon(1e-5), rel=5e-3)
    wide = mechanism(1.0, 0.2, 40, diameter=50.0)
    wide = replace(wide, noise_std=0.2, gradient_sensitivity=0.4)
    composed = bounds.evaluate("bsa24.theorem_4_1", wide).epsilon(1e-5)
    assert composed <= recursion(wide) <= 1.005 * composed


@pytest.mark.parametrize(("steps", "grid", "merged"), [(40, (16, 80), 1), slow(120, (24, 120), 2)])
def test_merged_steps_are_close_to_single_ones(steps, grid, merged):
    run = WorstRun(steps, 0.1, 0.01, 0.0, 1.0, 1, 1.0)
    curve = coupling_curves(run, (run.steps,), *grid)[0].curves[0]
    assert curve.table.merged == merged
    single, merged = (
        replace(curve, table=replace(curve.table, merged=count)).epsilon(1e-5) for count in (1, 3)
    )
    # fewer options, and fewer roundings of distances
    assert merged == pytest.approx(single, rel=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"batching": Batching.CYCLIC, "batch_size": 5, "gradient_sensitivity": 0.6},
        slow({"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 2}),
        {"diameter": None, "strong_convexity": 0.2},
        {"strong_convexity": 0.1},
    ],
)
def test_other_runs_are_never_above_what_they_start_from(changes):
    m = mechanism(1.0, 0.2, 20, **changes)
    curve = bounds.evaluate("own.coupling", m, distances=24, weights=240)
    others = [e for e in ("own.forgetting", "bsa24.theorem_4_2") if e in bounds.applicable(m)]
    for id in others:
        assert curve.epsilon(1e-5) <= bounds.evaluate(id, m).epsilon(1e-5) * (1 + 1e-9)
    # contraction without walls: Theorem 4.2 is exact there
    if m.diameter is None:
        exact_value = bounds.evaluate("bsa24.theorem_4_2", m).epsilon(1e-5)
        assert curve.epsilon(1e-5) == pytest.approx(exact_value, rel=1e-9)
        assert curve.curves[0].epsilon(1e-5) >= exact_value
    else:
        assert curve.curves[0].epsilon(1e-5) < 1.5 * curve.epsilon(1e-5)


# --- soundness ---


@pytest.mark.slow
def test_cycles_are_not_below_what_a_search_certifies():
    """Four cycles of ten batches; a cycle taken whole before all its steps are covered is 37.15."""
    sizes = {"steps": 40, "dataset_size": 1000, "batch_size": 100}
    m = noisy_sgd(noise_std=0.05, lipschitz=12.5, batching=Batching.CYCLIC, **sizes)
    found = worst_case(m, delta=1e-5, seed=0, evaluations=80)
    assert found.bracket[0] > 37.2
    assert found.bracket[0] <= bounds.evaluate("own.coupling", m).epsilon(1e-5)


def test_it_is_left_out_where_seconds_matter():
    m = mechanism(1.0, 0.2, 1)
    assert "own.coupling" in bounds.applicable(m)
    assert "own.coupling" not in bounds.best(m, delta=1e-5).compared
    assert "own.coupling" in bounds.best(m, delta=1e-5, slow=True).compared
    [row] = [row for row in bounds.table(m, 1e-5) if row.id == "own.coupling"]
    assert (row.value, row.reason) == (None, "takes seconds; use slow=True")
    [row] = [row for row in bounds.table(m, 1e-5, slow=True) if row.id == "own.coupling"]
    assert row.value == pytest.approx(bounds.evaluate("own.coupling", m).epsilon(1e-5))


def test_options_out_of_range():
    m = mechanism(1.0, 0.2, 3)
    for name, given, least in (("distances", 4, 8), ("weights", 3, 32)):
        message = f"{name} must be a whole number of at least {least}, got {given}"
        with pytest.raises(ValueError, match=message):
            bounds.evaluate("own.coupling", m, **{name: given})
        with pytest.raises(ValueError, match=message):
            coupling_at(m, (1,), **{name: given})
    with pytest.raises(ValueError, match="steps must be one or more whole numbers, got "):
        coupling_at(m, ())
    with pytest.raises(ValueError, match=r"steps\[1\] must be .* got 0"):
        coupling_at(m, (1, 0))
    with pytest.raises(bounds.NotApplicable, match=r"own\.coupling needs"):
        coupling_at(replace(m, convex=False), (1, 2))
