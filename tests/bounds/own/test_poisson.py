"""Poisson batches: lemma, recursion against twins, moments, values, exact laws, refusals."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation, bounds
from audit.bounds.own.adaptive_shifts import AdaptiveShifts, AdaptiveShiftsCurve
from audit.bounds.own.forgetting import forgetting_curve
from audit.bounds.own.run import WorstRun
from audit.constructions import TwoSidedWalk
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi, two_sided_log_moment
from tests.bounds.own.soundness import check
from tests.mechanisms import noisy_sgd

GAPS = np.array([0.05, 0.5, 3.0])
REPLACED = WorstRun(
    steps=5,
    noise=0.2,
    shift=0.3,
    gap=0.0,
    diameter=1.0,
    period=1,
    rate=0.3,
    poisson=Relation.REPLACE_ONE,
)


def on_the_map(
    strength: float, time: float, noise: float, relation: Relation, **changes: object
) -> NoisySGD:
    """Batches of a tenth of 1000 records, which move the mean by as much for every relation."""
    apart = strength * noise**2
    values: dict[str, object] = {
        "steps": max(1, round(time / apart)),
        "dataset_size": 1000,
        "batch_size": 100,
        "noise_std": noise,
        "lipschitz": (500 if relation is Relation.REPLACE_ONE else 1000) * apart,
        "smoothness": 0.2,
        "batching": Batching.POISSON,
        "relation": relation,
    }
    return noisy_sgd(**(values | changes))


# --- the lemma, on spaces of a few points ---


def moment(p, q, alpha):
    return float(np.sum(p**alpha * q ** (1 - alpha)))


def lemma_gap(random, power):
    """Right side less left side of the lemma for random laws on four points."""
    p, q = random.dirichlet(np.full(4, 0.7), size=(2, 3)) + 1e-9
    w, v = random.dirichlet(np.ones(3), size=2)
    alpha = 1 + float(np.exp(random.uniform(-2, 2)))
    b = alpha / (alpha - 1)
    f = np.array([[moment(x, y, alpha) ** (1 / alpha) for y in q] for x in p])
    bound = w @ (f ** (-b * power) @ v) ** (-1 / (b * power))
    return math.log(bound) - math.log(moment(w @ p, v @ q, alpha)) / alpha


def test_the_lemma_by_brute_force():
    random = np.random.default_rng(1)
    assert min(lemma_gap(random, 1.0) for _ in range(500)) >= -1e-9


def test_another_power_breaks_the_lemma():
    random = np.random.default_rng(1)
    assert min(lemma_gap(random, 1.5) for _ in range(500)) < -0.01


# --- the recursion ---


def test_steps_agree_with_plain_loops():
    shifts = AdaptiveShifts(REPLACED)
    rows, q, u = shifts.rows, REPLACED.rate, REPLACED.alone
    assert u == REPLACED.shift / 2
    values = np.log1p(rows + rows**2)[None, :] * (1 + GAPS[:, None])
    found = shifts.step(values, GAPS, shifts.composed(GAPS))
    for i, gap in enumerate(GAPS):
        b = (1 + gap) / gap

        def cheapest(distance, i=i, gap=gap):
            price = gap / (2 * REPLACED.noise**2)
            paid = np.maximum(distance - rows, 0.0) ** 2
            if distance > rows[-1]:
                paid[-1] = 0.0
            return math.exp(np.min(values[i] + price * paid))

        def mean(x, y, b=b):
            return ((1 - q) * x**-b + q * y**-b) ** (-1 / b)

        for row in range(1, rows.size):
            first, one, both = (cheapest(rows[row] + push) for push in (0.0, u, 2 * u))
            expected = min(
                (1 - q) * first + q * both, (1 - q) * mean(first, one) + q * mean(one, both)
            )
            assert found[i, row] == pytest.approx(math.log(expected), rel=1e-8)


def test_merged_steps_agree_with_all_patterns_of_batches():
    """Three steps that pay their share whatever comes, over all 2^6 patterns of draws."""
    shifts = AdaptiveShifts(dataclasses.replace(REPLACED, shift=0.05))
    rows, run, count = shifts.rows, shifts.run, 3
    values = np.log1p(rows + rows**2)[None, :] * (1 + GAPS[:, None])
    found = shifts.steps(values, GAPS, count)
    patterns = [sum(pattern) for pattern in itertools.product((0, 1), repeat=count)]
    chances = [run.rate**met * (1 - run.rate) ** (count - met) for met in patterns]

    def value(i, distance):
        place = np.searchsorted(rows * (1 + 1e-12), distance)
        return math.exp(values[i, min(place, rows.size - 1)])

    for i in (0, 2):
        gap, price = GAPS[i], GAPS[i] / (2 * run.noise**2)
        b = (1 + gap) / gap
        for row in (20, rows.size - 1):
            options = []
            for end in rows[::4]:
                paid = max(rows[row] - end, 0.0)
                means = [
                    sum(
                        c * value(i, end + (met + k) * run.alone) ** -b
                        for c, k in zip(chances, patterns, strict=True)
                    )
                    ** (-1 / b)
                    for met in patterns
                ]
                apart = sum(c * mean for c, mean in zip(chances, means, strict=True))
                pairs = zip(chances, patterns, strict=True)
                together = sum(c * value(i, end + met * run.shift) for c, met in pairs)
                options.append(price * paid**2 / count + math.log(min(apart, together)))
            # two roundings of distances, where there is one here
            assert found[i, row] <= min(options) + 0.02
            assert found[i, row] == pytest.approx(min(options), rel=0.03)


def test_moments_far_apart():
    # P is q N(100, 1) where it matters, and Q is (1 - q) N(0, 1)
    expected = 2 * math.log(0.1) - math.log(0.9) + 100.0**2
    assert two_sided_log_moment(2.0, 0.1, 100.0) == pytest.approx(expected, rel=1e-9)
    assert two_sided_log_moment(1e4, 0.1, 100.0) <= 2e4 * (1e4 - 1) * 100.0**2


@pytest.mark.parametrize("relation", list(Relation))
def test_one_step_is_its_pair(relation):
    run = dataclasses.replace(REPLACED, steps=1, poisson=relation)
    found = AdaptiveShifts(run).moments(GAPS)
    if relation is Relation.REPLACE_ONE:
        mu = run.alone / run.noise
        expected = np.array([two_sided_log_moment(1 + gap, run.rate, mu) for gap in GAPS])
    else:
        expected = GAPS * sampled_gaussian_renyi(1 + GAPS, run.rate, 1 / run.ratio)
    assert found == pytest.approx(expected, rel=1e-6)
    assert np.all(found >= expected)


# --- values ---


def test_strong_pushes_on_the_map():
    """Composition has 146 and 702, 624 and 900."""
    for place, relation, most in (
        ((10, 10, 0.05), Relation.REPLACE_ONE, 57),
        ((10, 10, 0.05), Relation.ADD_REMOVE, 137),
        ((10, 100, 0.01), Relation.REPLACE_ONE, 54),
        ((10, 100, 0.01), Relation.ADD_REMOVE, 56),
    ):
        m = on_the_map(*place, relation)
        assert bounds.evaluate("own.adaptive_shifts", m).epsilon(1e-5) < most
    assert not bounds.CATALOGUE["own.adaptive_shifts"].slow  # so that `best` compares it


def test_weak_pushes_are_forgotten():
    m = on_the_map(0.1, 10, 0.05, Relation.ADD_REMOVE)
    whole = bounds.evaluate("accounting.poisson", m).epsilon(1e-5)
    assert bounds.evaluate("own.forgetting", m).epsilon(1e-5) < 0.15 * whole


@pytest.mark.parametrize(
    ("place", "relation"),
    [((1, 0.1, 0.1), Relation.ADD_REMOVE), ((8, 1, 0.2), Relation.REPLACE_ONE)],
)
def test_short_runs_are_compositions(place, relation):
    m = on_the_map(*place, relation)
    composed = bounds.evaluate("accounting.poisson", m)
    found = bounds.evaluate("own.forgetting", m)
    assert found.epsilon(1e-5) == pytest.approx(composed.epsilon(1e-5), rel=1e-4)


# --- soundness ---


@pytest.mark.parametrize("made", [AdaptiveShiftsCurve, forgetting_curve])
@pytest.mark.parametrize("planted", [{"rate": 0.1}, {"shift": 0.1}])
def test_rates_and_pushes_that_are_too_small_are_found_below(made, planted):
    m = noisy_sgd(
        steps=2,
        dataset_size=2,
        noise_std=0.2,
        lipschitz=0.3,
        diameter=4.0,
        batching=Batching.POISSON,
    )
    right = WorstRun.of(m)
    pair, epsilons = TwoSidedWalk(m), (2.0, 4.0)
    assert check({"planted": made(dataclasses.replace(right, **planted))}, [pair], epsilons).wrong
    assert not check({"right": made(right)}, [pair], epsilons).wrong


# --- refusals ---


@pytest.mark.parametrize("id", ["own.adaptive_shifts", "own.forgetting", "own.coupling"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"smoothness": 0.21}, r"needs eta M n/b <= 2 .*smoothness=0\.21"),
        ({"diameter": None, "strong_convexity": 0.1}, "needs a bounded domain"),
        ({"lipschitz": None, "gradient_sensitivity": 1.0}, "needs gradients whose bound alone"),
    ],
)
def test_refusals_name_the_assumption(id, changes, words):
    m = on_the_map(1, 1, 0.2, Relation.REPLACE_ONE, **changes)
    with pytest.raises(bounds.NotApplicable, match=words):
        bounds.evaluate(id, m)


def test_other_batches_have_the_record_in_both_datasets():
    m = on_the_map(1, 1, 0.2, Relation.ADD_REMOVE, batching=Batching.WITHOUT_REPLACEMENT)
    with pytest.raises(bounds.NotApplicable, match="needs equally many records"):
        bounds.evaluate("own.forgetting", m)


def test_batches_that_may_be_empty_move_points_no_closer():
    m = on_the_map(1, 1, 0.2, Relation.REPLACE_ONE, strong_convexity=0.1)
    assert WorstRun.of(m) == WorstRun.of(dataclasses.replace(m, strong_convexity=0.0))
