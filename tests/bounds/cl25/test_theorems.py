import dataclasses
import math

import numpy as np
import pytest

from audit import Batching, Relation, Release, bounds
from audit.bounds.accounting import HolderModulus
from audit.bounds.cl25.distance_tracking import Branch
from tests.bounds.cl25.lemmas import lemma_3_5, lemma_3_10, lemma_a_2
from tests.bounds.cl25.settings import FULL_IDS, figure_1, sampled


@pytest.mark.parametrize("id", FULL_IDS)
@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"steps": 5, "convex": False}, 0.032),
        ({"steps": 5}, 0.032),
        ({"convex": False}, 0.5463434543),
        ({}, 0.3201230769),
        ({"strong_convexity": 1.0}, 0.1333179707),
        ({"steps": 20, "strong_convexity": 1.0}, 0.1055352229),
    ],
)
def test_figure_1(id, changes, value):
    assert bounds.evaluate(id, figure_1(**changes)).renyi(2.0) == pytest.approx(value, abs=5e-11)


def test_convergence_and_the_frontier_of_figure_1():
    for changes in ({"convex": False}, {}, {"strong_convexity": 1.0}):
        values = [
            bounds.evaluate("cl25.theorem_3_1", figure_1(steps=t, **changes)).renyi(2.0)
            for t in (1, 3, 10, 30, 100, 1000, 10**5, 10**9)
        ]
        assert np.all(np.diff(values) >= -1e-12)
        assert values[-1] == pytest.approx(values[4], rel=2e-3)
        assert values[-1] < bounds.evaluate("cl25.output_perturbation", figure_1()).renyi(2.0)


@pytest.mark.parametrize("steps", [1, 7, 40, 3000, 10**6])
@pytest.mark.parametrize("diameter", [1e-3, 0.3, 1.0, 30.0])
def test_convex_case_is_never_above_at22(steps, diameter):
    m = figure_1(steps=steps, diameter=diameter)
    ours, theirs = (bounds.evaluate(id, m).renyi(3.0) for id in ("cl25.theorem_3_1", "at22.b_1"))
    assert ours <= theirs * (1 + 1e-12)
    # the Gaussian form is the closed one
    s, k = 0.08, np.arange(1, min(steps, 10**5) + 1)
    mu = np.min((np.minimum(diameter, (steps - k) * s) + k * s) / np.sqrt(k))
    mu = min(mu, s * math.sqrt(steps))
    assert bounds.evaluate("cl25.theorem_3_1_gaussian", m).mu == pytest.approx(mu, rel=1e-12)


def test_theorem_3_7_at_order_one_and_near_order_zero():
    smooth = figure_1(convex=False)
    holder = dataclasses.replace(smooth, smoothness=None, holder=(1.0, 1.0))
    assert bounds.evaluate("cl25.theorem_3_7", holder).renyi(2.0) == pytest.approx(
        bounds.evaluate("cl25.theorem_3_1", smooth).renyi(2.0), rel=1e-12
    )
    # the frontier of composition and of the last step: at order 0, g adds a constant
    constant, s = 0.5, 0.08
    for steps in (5, 400):
        m = dataclasses.replace(holder, steps=steps, holder=(constant, 1e-6))
        frontier = min(steps * s**2, (s + 1.0 + 0.1 * constant) ** 2)
        value = bounds.evaluate("cl25.theorem_3_7", m).renyi(2.0)
        assert value <= frontier * (1 + 1e-6)
        assert value >= 0.4 * frontier  # shifts below the jump are absorbed for nothing


def test_given_parameters_reproduce_and_are_checked():
    m = figure_1(steps=50)
    best = bounds.evaluate("cl25.theorem_3_1", m).renyi(2.0)
    values = [bounds.evaluate("cl25.theorem_3_1", m, tau=t).renyi(2.0) for t in range(50)]
    assert min(values) == pytest.approx(best, rel=1e-12)
    # the convex optimum splits alike in every step
    k = 50 - int(np.argmin(values))
    beta = 0.08 / (0.08 + min(1.0, 0.08 * (50 - k)) / k)
    for given in (beta, [beta] * k):
        again = bounds.evaluate("cl25.theorem_3_1", m, tau=50 - k, beta=given).renyi(2.0)
        assert again == pytest.approx(best, rel=1e-12)
    assert bounds.evaluate("cl25.theorem_3_1", m, tau=50 - k, beta=0.5).renyi(2.0) > best
    for options, message in (
        ({"tau": 50}, r"tau must be at most steps - 1 \(49\), got 50"),
        ({"beta": 0.5}, "tau must be given with beta"),
        ({"tau": 10, "beta": 1.0}, "beta must leave room"),
        ({"tau": 10, "beta": [0.5, 0.5]}, "one for each of the 40 steps"),
        ({"tau": 10, "beta": 1.5}, r"beta must be in \[0, 1\]"),
        ({"tau": 10, "beta": 0.0}, "beta must be above 0"),
        ({"losses": "convex"}, "losses must be a Losses"),
    ):
        with pytest.raises(ValueError, match=message):
            bounds.evaluate("cl25.theorem_3_1", m, **options)


def test_given_holder_shifts():
    m = figure_1(convex=False, smoothness=None, holder=(0.5, 0.5))
    best = bounds.evaluate("cl25.theorem_3_7", m).renyi(2.0)
    g = HolderModulus(0.05, 0.5)
    at_once = bounds.evaluate("cl25.theorem_3_7", m, tau=199, shifts=[float(g(1.0))]).renyi(2.0)
    assert at_once == pytest.approx((0.08 + 1.05) ** 2, rel=1e-12)
    assert best < at_once
    assert best <= min(
        bounds.evaluate("cl25.theorem_3_7", m, tau=t).renyi(2.0) for t in range(180, 200)
    ) * (1 + 1e-9)
    with pytest.raises(ValueError, match="shifts must absorb the distance 1 at tau, got 0"):
        bounds.evaluate("cl25.theorem_3_7", m, tau=198, shifts=[0.1, 0.1])
    with pytest.raises(ValueError, match="tau must be given with shifts"):
        bounds.evaluate("cl25.theorem_3_7", m, shifts=[0.1])


def test_branches_and_what_they_refuse():
    clipped = figure_1(lipschitz=4.0, clip_norm=2.0, strong_convexity=1.0)
    free = figure_1(convex=False)
    value = bounds.evaluate("cl25.theorem_3_1", clipped).renyi(2.0)
    assert value == bounds.evaluate("cl25.theorem_3_1", free).renyi(2.0)
    for losses in (Branch.CONVEX, Branch.STRONGLY_CONVEX):
        message = f"the {losses.value} branch needs unclipped gradients"
        with pytest.raises(bounds.NotApplicable, match=message):
            bounds.evaluate("cl25.theorem_3_1", clipped, losses=losses)
    long_steps = figure_1(strong_convexity=1.0, smoothness=15.0)
    with pytest.raises(bounds.NotApplicable, match="needs eta <= 1/M"):
        bounds.evaluate("cl25.theorem_3_1", long_steps, losses=Branch.STRONGLY_CONVEX)
    assert bounds.evaluate("cl25.theorem_3_1", long_steps).renyi(2.0) == pytest.approx(
        0.3201230769, abs=1e-9
    )
    for id, changes, message in (
        ("theorem_3_1", {"smoothness": None}, "needs smooth losses, got smoothness=None"),
        ("theorem_3_7", {}, "needs Hoelder continuous gradients"),
        ("theorem_3_1", {"release": Release.RANDOM_STOP}, "needs the release of the last iterate"),
        ("theorem_3_12", {}, "needs batches sampled without replacement"),
        ("corollary_a_3", {}, "needs batches of records that are shuffled once"),
        ("output_perturbation", {"diameter": None}, "needs a bounded domain"),
    ):
        with pytest.raises(bounds.NotApplicable, match=message):
            bounds.evaluate(f"cl25.{id}", figure_1(**changes))


def test_zero_out_halves_one_term_only():
    m = figure_1(relation=Relation.ZERO_OUT, convex=False, smoothness=50.0, steps=3, diameter=None)
    # s = eta K/n = .04 grows by c = 6, but by no more than 2 eta K = .4 a step
    assert lemma_3_5(m) == pytest.approx([0, 0.04, 0.28, 0.68])
    assert lemma_3_5(dataclasses.replace(m, relation=Relation.REPLACE_ONE)) == pytest.approx(
        [0, 0.08, 0.48, 0.88]
    )


def test_distance_tracking():
    m = figure_1(steps=4)
    assert lemma_3_5(m) == pytest.approx([0, 0.08, 0.16, 0.24, 0.32])
    assert lemma_3_5(m, losses=Branch.NON_CONVEX) == pytest.approx(
        [0, 0.08, 0.168, 0.2648, 0.37128]
    )
    assert lemma_3_5(figure_1(steps=30))[-1] == 1.0
    assert lemma_3_5(figure_1(steps=3, strong_convexity=1.0)) == pytest.approx(
        [0, 0.08, 0.152, 0.2168]
    )
    holder = figure_1(steps=3, convex=False, smoothness=None, holder=(0.5, 0.5))
    first = 0.08
    second = first + 0.05 * math.sqrt(first) + 0.08
    assert lemma_3_10(holder)[:3] == pytest.approx([0, first, second])
    cyclic = dataclasses.replace(
        holder, steps=6, dataset_size=6, batch_size=2, batching=Batching.CYCLIC
    )
    tracked = lemma_a_2(cyclic, position=1)
    free = 0.2 + 0.05 * math.sqrt(0.2)
    after = free + 0.05 * math.sqrt(free)
    met = after + 0.025 * math.sqrt(after) + 0.2
    assert tracked == pytest.approx([0, 0, 0.2, free, after, met, met + 0.05 * math.sqrt(met)])


def test_sampled_theorem_converges_and_takes_a_split():
    values = [
        bounds.evaluate("cl25.theorem_3_12", sampled(steps=t)).renyi(2.0) for t in (5, 500, 10**6)
    ]
    assert values[0] < values[1]
    assert values[2] == pytest.approx(values[1], rel=0.05)
    m = sampled(steps=500)
    assert bounds.evaluate("cl25.theorem_3_12", m, beta=0.5).renyi(2.0) >= values[1]
    with pytest.raises(ValueError, match=r"beta must be in \[0, 1\], got 1\.5"):
        bounds.evaluate("cl25.theorem_3_12", m, beta=1.5)


def test_shuffling_is_the_mean_over_positions():
    m = figure_1(dataset_size=12, batch_size=3, steps=50, batching=Batching.SHUFFLED)
    each = [
        bounds.evaluate("cl25.theorem_a_1", m, position=p).renyi(np.array([1 + 1e-9, 2.0, 1e5]))
        for p in range(4)
    ]
    assert np.argmax(np.array(each)[:, 1]) == 49 % 4
    mixed = bounds.evaluate("cl25.corollary_a_3", m)
    assert mixed.renyi(2.0) == pytest.approx(math.log(np.mean(np.exp(np.array(each)[:, 1]))))
    assert mixed.renyi(1 + 1e-9) == pytest.approx(np.mean(np.array(each)[:, 0]), rel=1e-6)
    assert mixed.renyi(1e5) == pytest.approx(np.max(np.array(each)[:, 2]), rel=1e-3)
    # grouped positions are on the safe side
    many = figure_1(dataset_size=600, batch_size=2, steps=3000, batching=Batching.SHUFFLED)
    squares = [
        bounds.evaluate("cl25.theorem_a_1", many, position=p).renyi(2.0) for p in range(0, 300, 7)
    ]
    grouped = bounds.evaluate("cl25.corollary_a_3", many).renyi(2.0)
    assert math.log(np.mean(np.exp(squares))) <= grouped * (1 + 1e-3)
    assert grouped <= bounds.evaluate("cl25.theorem_a_1", many).renyi(2.0)


@pytest.mark.parametrize("strong_convexity", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 4, 57, 60])
def test_starts_just_after_a_meeting_are_the_best(steps, strong_convexity):
    """Only those are searched where losses are convex; here every start is tried."""
    m = figure_1(
        steps=steps,
        dataset_size=10,
        batch_size=2,
        batching=Batching.CYCLIC,
        strong_convexity=strong_convexity,
    )
    for position in (0, 3, 4):
        found = bounds.evaluate("cl25.theorem_a_1", m, position=position).renyi(2.0)
        tried = [
            bounds.evaluate("cl25.theorem_a_1", m, position=position, tau=tau).renyi(2.0)
            for tau in range(steps)
        ]
        assert found == pytest.approx(min(tried), rel=1e-12, abs=1e-300)
