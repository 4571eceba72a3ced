"""Shifts that follow the batches: the lemma, the recursion against twins, values, exact laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation, bounds
from audit.bounds.accounting.composition import SubsampledGaussian
from audit.bounds.own.adaptive_shifts import AdaptiveShifts, adaptive_shifts_curve
from audit.bounds.own.forgetting import forgetting_curve
from audit.bounds.own.run import WorstRun
from audit.constructions import QuadraticPair, TwoSidedWalk
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi, two_sided_log_moment
from tests.bounds.own.soundness import check
from tests.mechanisms import noisy_sgd
from tests.slow import slow

GAPS = np.array([0.05, 0.5, 3.0])
RUN = WorstRun(steps=5, noise=0.2, shift=0.3, gap=0.1, diameter=1.0, period=1, rate=0.3)
REPLACED = replace(RUN, gap=0.0, poisson=Relation.REPLACE_ONE)


paired = partial(noisy_sgd, steps=2, dataset_size=2, noise_std=0.2, diameter=4.0)


def on_the_map(
    strength: float, time: float, noise: float, relation: Relation | None = None, **changes: object
) -> NoisySGD:
    """Batches of a tenth of 1000 records, Poisson ones if a relation is given; see results/map.

    They move the mean by as much for every relation.
    """
    apart = strength * noise**2
    values: dict[str, object] = {
        "steps": max(1, round(time / apart)),
        "dataset_size": 1000,
        "batch_size": 100,
        "noise_std": noise,
        "lipschitz": 500 * apart,
        "batching": Batching.WITHOUT_REPLACEMENT,
    }
    if relation is not None:
        share = 500 if relation is Relation.REPLACE_ONE else 1000
        drawn = {"batching": Batching.POISSON, "relation": relation, "smoothness": 0.2}
        values |= {**drawn, "lipschitz": share * apart}
    return noisy_sgd(**(values | changes))


# --- the lemma, on spaces of a few points ---


def moment(p, q, alpha):
    return float(np.sum(p**alpha * q ** (1 - alpha)))


def batch_gap(random, crossed):
    """Right side less left side of the lemma of the batch, for random laws on four points."""
    p0, p1, q0, q1 = random.dirichlet(np.full(4, 0.7), size=4) + 1e-9
    rate, alpha = float(random.uniform(0.05, 0.95)), 1 + float(np.exp(random.uniform(-2, 2)))
    left = moment((1 - rate) * p0 + rate * p1, (1 - rate) * q0 + rate * q1, alpha)
    first = moment(p0, q0, alpha) ** (1 / alpha)
    second = moment(p1, q1, alpha)
    if crossed:
        second = max(second, moment(p1, q0, alpha))
    second = max(first, second ** (1 / alpha))
    return math.log((1 - rate) * first + rate * second) - math.log(left) / alpha


def lemma_gap(random, power):
    """Right side less left side of the lemma of Poisson batches, for laws on four points."""
    p, q = random.dirichlet(np.full(4, 0.7), size=(2, 3)) + 1e-9
    w, v = random.dirichlet(np.ones(3), size=2)
    alpha = 1 + float(np.exp(random.uniform(-2, 2)))
    b = alpha / (alpha - 1)
    f = np.array([[moment(x, y, alpha) ** (1 / alpha) for y in q] for x in p])
    bound = w @ (f ** (-b * power) @ v) ** (-1 / (b * power))
    return math.log(bound) - math.log(moment(w @ p, v @ q, alpha)) / alpha


@pytest.mark.parametrize(
    ("gap", "right", "wrong"),
    [
        # a record that is not paired with batches without it
        (batch_gap, True, False),
        # another power
        (lemma_gap, 1.0, 1.5),
    ],
)
def test_the_lemmas_by_brute_force(gap, right, wrong):
    for given, holds in ((right, True), (wrong, False)):
        random = np.random.default_rng(1)
        least = min(gap(random, given) for _ in range(500))
        assert least >= -1e-9 if holds else least < -0.01


# --- the recursion ---


def composed(run, gap):
    """Log-moment of a step from distance 0 over alpha."""
    alpha = 1 + gap
    if run.poisson is Relation.REPLACE_ONE:
        return two_sided_log_moment(alpha, run.rate, run.alone / run.noise) / alpha
    if run.poisson is not None:
        return gap * sampled_gaussian_renyi(alpha, run.rate, 1 / run.ratio) / alpha
    return gap * SubsampledGaussian(run.rate, run.ratio).renyi(alpha) / alpha


def plain_step(shifts, log_values, gap):
    """Return log U_(k+1) by plain loops over the rows."""
    run, rows = shifts.run, shifts.rows
    power = -(1 + gap) / gap

    def cost(distance):
        paid = np.maximum(distance - rows, 0.0) ** 2
        if distance >= rows[-1]:
            paid[-1] = 0.0
        return np.min(log_values + gap / (2 * run.noise**2) * paid)

    def mean(x, y, power=1.0):
        logs = math.log1p(-run.rate) + power * x, math.log(run.rate) + power * y
        return np.logaddexp(*logs) / power

    result = []
    for start in run.contraction * rows:
        first, one, both = (cost(start + push) for push in (0.0, run.alone, run.shift))
        result.append(mean(first, both))
        if run.alone < run.shift:
            apart = mean(mean(first, one, power), mean(one, both, power))
            result[-1] = min(result[-1], apart)
    result[0] = min(result[0], log_values[0] + composed(run, gap))
    return np.array(result)


@pytest.mark.parametrize("run", [RUN, REPLACED])
def test_steps_agree_with_plain_loops(run):
    shifts = AdaptiveShifts(run)
    values = np.full((GAPS.size, shifts.rows.size), np.inf)
    values[:, 0] = 0.0
    for _ in range(3):
        found = shifts.step(values, GAPS, shifts.composed(GAPS))
        for i, gap in enumerate(GAPS):
            expected = plain_step(shifts, values[i], gap)
            # costs and the shift of composition are raised by 2^-40, its log-moment by some times
            assert found[i] == pytest.approx(expected, rel=10 * 2.0**-40)
        values = found


# distances are rounded once, and where runs may draw the record independently twice
@pytest.mark.parametrize(("run", "count", "above"), [(RUN, 5, 1e-6), (REPLACED, 3, 0.03)])
def test_merged_steps_agree_with_all_patterns_of_batches(run, count, above):
    """Steps that pay their share whatever comes, over all patterns of draws."""
    shifts = AdaptiveShifts(replace(run, shift=0.05))
    rows, run = shifts.rows, shifts.run
    values = np.log1p(rows + rows**2)[None, :] * (1 + GAPS[:, None])
    found = shifts.steps(values, GAPS, count)
    kept = run.contraction**count
    spread = sum(run.contraction ** (2 * k) for k in range(count))
    patterns = [sum(pattern) for pattern in itertools.product((0, 1), repeat=count)]
    chances = np.array([run.rate**k * (1 - run.rate) ** (count - k) for k in patterns])
    for i, row in itertools.product((0, 2), (20, rows.size - 1)):
        power = -(1 + GAPS[i]) / GAPS[i]

        def after(distances, i=i):
            places = np.searchsorted(rows * (1 + 1e-12), distances)
            return np.exp(values[i, np.minimum(places, rows.size - 1)])

        options = []
        for end in rows[::2]:
            mean = chances @ after(end + np.array(patterns) * run.shift)
            if run.alone < run.shift:
                draws = np.add.outer(patterns, patterns) * run.alone
                apart = chances @ (after(end + draws) ** power @ chances) ** (1 / power)
                mean = min(mean, apart)
            paid = max(kept * rows[row] - end, 0.0) ** 2 / spread
            options.append(GAPS[i] / (2 * run.noise**2) * paid + math.log(mean))
        assert found[i, row] <= min(options) * (1 + above)
        assert found[i, row] == pytest.approx(min(options), rel=0.03)


@pytest.mark.parametrize("made", [RUN, *(replace(REPLACED, poisson=one) for one in Relation)])
def test_one_step_is_its_pair(made):
    run = replace(made, steps=1)
    found = AdaptiveShifts(run).moments(GAPS)
    expected = np.array([(1 + gap) * composed(run, gap) for gap in GAPS])
    assert found == pytest.approx(expected, rel=1e-6)
    assert np.all(found >= expected)


@pytest.mark.parametrize("rate", [1e-6, 1 - 1e-6])
def test_rates_at_the_ends(rate):
    run = WorstRun(steps=200, noise=0.1, shift=0.05, gap=0.0, diameter=1.0, period=1, rate=rate)
    epsilon = adaptive_shifts_curve(run).epsilon(1e-5)
    # with every batch: moves to distance 0 at the end over k steps, from D and k v
    always = min((1 + 0.05 * k) ** 2 / k for k in range(1, 201)) / 0.1**2
    assert epsilon < 0.5 if rate < 0.5 else epsilon >= 0.9 * always / 2


def test_longer_runs_cost_no_less_until_they_settle():
    values = [
        adaptive_shifts_curve(replace(RUN, steps=steps)).epsilon(1e-5)
        for steps in (1, 2, 5, 20, 1000, 10**6)
    ]
    assert np.all(np.diff(values) > -1e-2)
    assert values[-1] == pytest.approx(values[-2], rel=1e-3)


def test_a_run_goes_on_to_its_end_while_that_lowers_the_bound():
    """From distance 0 the bound is a sixth of that from the largest distance, long settled."""
    sizes = {"steps": 1512, "dataset_size": 841, "batch_size": 43, "step_size": 0.1}
    losses = {"noise_std": 0.112, "smoothness": 4.293, "diameter": 0.2995}
    m = noisy_sgd(batching=Batching.WITHOUT_REPLACEMENT, **sizes, **losses)
    curve = adaptive_shifts_curve(WorstRun.of(m))
    longer = adaptive_shifts_curve(WorstRun.of(replace(m, steps=10**6)))
    assert curve.epsilon(0.3) < 0.5 * longer.epsilon(0.3)


# --- values ---


def test_strong_pushes_on_the_map():
    """Where the best bound of the papers is 293; and compositions 146."""
    for relation, most in ((None, 147), (Relation.REPLACE_ONE, 57), (Relation.ADD_REMOVE, 137)):
        m = on_the_map(10, 10, 0.05, relation)
        assert bounds.evaluate("own.adaptive_shifts", m).epsilon(1e-5) < most
    assert not bounds.CATALOGUE["own.adaptive_shifts"].slow  # so that `best` compares it
    found = bounds.best(on_the_map(10, 0.1, 0.2), delta=1e-5)
    assert found.compared["own.adaptive_shifts"] > found.epsilon  # weak pushes are not its field


# --- soundness ---


def test_a_rate_that_is_too_small_is_found_below():
    m = paired(lipschitz=0.5, batching=Batching.WITHOUT_REPLACEMENT)
    right = WorstRun.of(m)
    pair = QuadraticPair(m, 0.0, 0.5)
    epsilons = (4.0, 8.0)
    wrong = adaptive_shifts_curve(replace(right, rate=0.05))
    assert check({"planted": wrong}, [pair], epsilons).wrong
    assert not check({"right": adaptive_shifts_curve(right)}, [pair], epsilons).wrong


# --- Poisson batches: values ---


def test_moments_far_apart():
    # P is q N(100, 1) where it matters, and Q is (1 - q) N(0, 1)
    expected = 2 * math.log(0.1) - math.log(0.9) + 100.0**2
    assert two_sided_log_moment(2.0, 0.1, 100.0) == pytest.approx(expected, rel=1e-9)
    assert two_sided_log_moment(1e4, 0.1, 100.0) <= 2e4 * (1e4 - 1) * 100.0**2


@pytest.mark.parametrize(
    ("place", "relation", "short"),
    [
        slow((0.1, 10, 0.05), Relation.ADD_REMOVE, False),
        ((1, 0.1, 0.1), Relation.ADD_REMOVE, True),
        ((8, 1, 0.2), Relation.REPLACE_ONE, True),
    ],
)
def test_weak_pushes_are_forgotten_and_short_runs_are_compositions(place, relation, short):
    m = on_the_map(*place, relation)
    composed, found = (
        bounds.evaluate(id, m).epsilon(1e-5) for id in ("accounting.poisson", "own.forgetting")
    )
    assert found == pytest.approx(composed, rel=1e-4) if short else found < 0.15 * composed


# --- Poisson batches: soundness and refusals ---


@pytest.mark.parametrize("made", [adaptive_shifts_curve, slow(forgetting_curve)])
def test_rates_and_pushes_that_are_too_small_are_found_below(made):
    m = paired(lipschitz=0.3, batching=Batching.POISSON)
    right = WorstRun.of(m)
    pair, epsilons = TwoSidedWalk(m), (2.0, 4.0)
    curves = {name: made(replace(right, **{name: 0.1})) for name in ("rate", "shift")}
    wrong = check(curves | {"right": made(right)}, [pair], epsilons).wrong
    assert {line.partition(":")[0] for line in wrong} == set(curves)


def test_batches_that_may_be_empty_move_points_no_closer():
    m = on_the_map(1, 1, 0.2, Relation.REPLACE_ONE, strong_convexity=0.1)
    assert WorstRun.of(m) == WorstRun.of(replace(m, strong_convexity=0.0))
