"""Chien and Li (2025): lemmas, theorems, soundness, fresh shuffles and the Hölder limit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from audit import Batching, NoisySGD, Relation, bounds, exact
from audit.bounds.accounting import HolderModulus
from audit.bounds.cl25 import Branch, Growth, excess, growth_of, holder_modulus, others_share
from audit.bounds.cl25_cyclic import corollary_a_3_reshuffled, sequence_square, sequences
from audit.constructions import QuadraticPair, TwoSidedWalk
from audit.curves import RenyiCurve
from tests.mechanisms import noisy_sgd

FULL_IDS = ("cl25.theorem_3_1", "cl25.theorem_3_1_gaussian", "cl25.theorem_a_1")


# The setting of Figure 1: K = 2, noise 1 on the iterate, D = L = m = 1, n = 5, eta = .1.
figure_1 = partial(
    noisy_sgd, steps=200, dataset_size=5, batch_size=5, step_size=0.1, noise_std=10.0, lipschitz=2.0
)


sampled = partial(figure_1, dataset_size=20, batch_size=4, batching=Batching.WITHOUT_REPLACEMENT)


Array = NDArray[np.float64]


def distances(growth: Growth, steps: int, period: int = 1, position: int = 0) -> Array:
    """Bounds on the distance before the first and after each step."""
    tracked = growth.track(t % period == position for t in range(steps))
    return np.array(tracked + [tracked[-1]] * (steps + 1 - len(tracked)))


def lemma_3_5(m: NoisySGD, losses: Branch | None = None) -> Array:
    """D_t = min(c D_(t-1) + 2 eta K/n, D_(t-1) + 2 eta K, D): full batches, smooth losses."""
    modulus = HolderModulus(excess(m, losses), 1.0)
    return distances(growth_of(m, m.dataset_size, modulus), m.steps)


def lemma_a_2(m: NoisySGD, position: int) -> Array:
    """Cyclic batches: 0 until the batch with the record, which has g(.; eta L (b-1)/b)."""
    free, met = holder_modulus(m), holder_modulus(m, others_share(m))
    growth = growth_of(m, m.batch_size, free, met)
    return distances(growth, m.steps, m.dataset_size // m.batch_size, position)


def theorem_a_1_sequence(m: NoisySGD, places: Sequence[int]) -> RenyiCurve:
    """Theorem A.1 for one sequence of batches and smooth losses."""
    return RenyiCurve.linear(sequence_square(m, places, None) / 2)


# ---------------------------------------------------------------------------------------- theorems


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
@pytest.mark.parametrize("diameter", [1e-3, 1.0, 30.0])
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
    # Lemma 3.10: g(x) = x + eta L x^lambda for c x
    tracked = distances(growth_of(holder, holder.dataset_size, holder_modulus(holder)), 3)
    assert tracked[:3] == pytest.approx([0, first, second])
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
    fixed, orders = once(m, Batching.CYCLIC), np.array([1 + 1e-9, 2.0, 1e5])
    each = [bounds.evaluate("cl25.theorem_a_1", fixed, position=p).renyi(orders) for p in range(4)]
    assert np.argmax(np.array(each)[:, 1]) == 49 % 4
    mixed = bounds.evaluate("cl25.corollary_a_3", m)
    assert mixed.renyi(2.0) == pytest.approx(math.log(np.mean(np.exp(np.array(each)[:, 1]))))
    assert mixed.renyi(1 + 1e-9) == pytest.approx(np.mean(np.array(each)[:, 0]), rel=1e-6)
    assert mixed.renyi(1e5) == pytest.approx(np.max(np.array(each)[:, 2]), rel=1e-3)
    # grouped positions are on the safe side
    many = figure_1(dataset_size=600, batch_size=2, steps=3000, batching=Batching.SHUFFLED)
    fixed = once(many, Batching.CYCLIC)
    squares = [
        bounds.evaluate("cl25.theorem_a_1", fixed, position=p).renyi(2.0) for p in range(0, 300, 7)
    ]
    grouped = bounds.evaluate("cl25.corollary_a_3", many).renyi(2.0)
    assert math.log(np.mean(np.exp(squares))) <= grouped * (1 + 1e-3)
    assert grouped <= bounds.evaluate("cl25.theorem_a_1", many).renyi(2.0)


@pytest.mark.parametrize("strong_convexity", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 4, 57, 60])
def test_starts_just_after_a_meeting_are_the_best(steps, strong_convexity):
    """Only those are searched where losses are convex; here every start is tried."""
    sizes = {"steps": steps, "dataset_size": 10, "batch_size": 2}
    m = figure_1(batching=Batching.CYCLIC, strong_convexity=strong_convexity, **sizes)
    for position in (0, 3, 4):
        found = bounds.evaluate("cl25.theorem_a_1", m, position=position).renyi(2.0)
        tried = [
            bounds.evaluate("cl25.theorem_a_1", m, position=position, tau=tau).renyi(2.0)
            for tau in range(steps)
        ]
        assert found == pytest.approx(min(tried), rel=1e-12, abs=1e-300)


# --------------------------------------------------------------------------------------- soundness


def test_tracked_distances_hold_for_runs_with_common_noise():
    rng = np.random.default_rng(3)
    m = figure_1(steps=40, convex=False, smoothness=3.0)
    tracked = lemma_3_5(m)
    for push in (-1, 1):
        x = np.zeros((2, 500))
        for t in range(1, 41):
            gradient = -np.clip(3 * x, -1, 1) * 0.8  # others, repulsive
            gradient[0] += 0.4 * push * np.sin(x[0])
            gradient[1] -= 0.4 * push
            x = np.clip(x - 0.1 * gradient + rng.normal(size=500), -0.5, 0.5)
            assert np.max(np.abs(x[0] - x[1])) <= tracked[t] + 1e-12


def test_output_perturbation_is_refuted():
    m = noisy_sgd(steps=20, noise_std=0.3, lipschitz=0.5)
    low, high = exact.curve(TwoSidedWalk(m)).renyi_bracket(2.0)
    assert (low, high) == pytest.approx((12.88954, 12.88954), abs=5e-6)
    claim = bounds.evaluate("cl25.output_perturbation", m).renyi(2.0)
    assert claim == pytest.approx(11.1111111, rel=1e-8)
    assert low > claim
    corrected = bounds.evaluate("cl25.output_perturbation_corrected", m)
    assert corrected.renyi(2.0) == pytest.approx(4 / 0.09, rel=1e-12)
    # without smoothness the bound on the gradients limits the last step
    rough = dataclasses.replace(m, smoothness=None)
    assert bounds.evaluate("cl25.output_perturbation_corrected", rough).mu == pytest.approx(2 / 0.3)


# ----------------------------------------- fresh shuffles, and the limit of vanishing Hölder order


reshuffled = partial(figure_1, dataset_size=6, batch_size=2, steps=9, batching=Batching.RESHUFFLED)


def once(m, batching=Batching.SHUFFLED):
    """The mechanism with one shuffle for all epochs, or one order."""
    return dataclasses.replace(m, batching=batching)


def in_a_cycle_and_listed(m, place):
    """Theorem A.1 for the same place in every epoch, by both codes."""
    cycle = bounds.evaluate("cl25.theorem_a_1", once(m, Batching.CYCLIC), position=place)
    listed = theorem_a_1_sequence(m, [place] * -(-m.steps // 3))
    return cycle.renyi(2.0), listed.renyi(2.0)


@pytest.mark.parametrize("strong_convexity", [0.0, 1.0])
@pytest.mark.parametrize("steps", [1, 7, 60])
def test_the_same_place_in_every_epoch_is_theorem_a_1(steps, strong_convexity):
    """Two codes for one minimum: closed sums over a cycle, and a list of steps."""
    m = reshuffled(steps=steps, strong_convexity=strong_convexity)
    for place in range(3):
        cycle, listed = in_a_cycle_and_listed(m, place)
        if strong_convexity == 0:
            assert listed == pytest.approx(cycle, rel=1e-12)
        else:  # the list caps the tracked distance at D in every step
            assert 0.9 * cycle <= listed <= cycle * (1 + 1e-12)


def test_without_convexity_the_list_is_no_better():
    for place in range(3):
        cycle, listed = in_a_cycle_and_listed(reshuffled(convex=False, steps=30), place)
        assert cycle * (1 - 1e-12) <= listed <= 1.2 * cycle


def test_the_least_sum_of_squares_is_a_solvers():
    """The water level against a general optimiser, from every start of one uneven sequence."""
    m = reshuffled(strong_convexity=1.0, steps=9, diameter=0.25)
    c, met = 0.9, np.zeros(9)
    met[[2, 4, 6]] = 2 * 0.1 * 2.0 / 2
    distance, found = 0.0, []
    for start in range(9):
        least, weights = met[start:], c ** -np.arange(1.0, 10 - start)

        def room(b, least=least, weights=weights, distance=distance):
            return (b - least) @ weights - distance

        found.append(
            minimize(
                lambda b: b @ b,
                least + 0.2,
                bounds=[(s, None) for s in least],
                constraints={"type": "ineq", "fun": room},
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            ).fun
        )
        distance = min(c * distance + met[start], 0.25)
    assert np.argmin(found) == 7  # not composition, which is the first one
    ours = theorem_a_1_sequence(m, [2, 1, 0]).renyi(2.0)
    assert ours == pytest.approx(min(found), rel=1e-6)  # what the optimiser converges to


@pytest.mark.parametrize("curvature", [0.0, 2.0])
@pytest.mark.parametrize("noise_std", [0.8, 3.0])
def test_fresh_shuffles_are_bounded_on_the_exact_mixture(curvature, noise_std):
    """27 sequences of 3 epochs: the exact law of the mixture stays below the average."""
    losses = {"lipschitz": None, "gradient_sensitivity": 4.0, "smoothness": max(curvature, 1.0)}
    m = reshuffled(noise_std=noise_std, strong_convexity=curvature, **losses)
    law = exact.curve(QuadraticPair(m, curvature))
    mean = corollary_a_3_reshuffled(m)
    worst = max(
        (theorem_a_1_sequence(m, places) for places in sequences(3, 3)),
        key=lambda curve: curve.renyi(2.0),
    )
    for alpha in (1.3, 2.0, 8.0):
        low, _ = law.renyi_bracket(alpha)
        assert low <= mean.renyi(alpha) <= worst.renyi(alpha) * (1 + 1e-12)
        assert low > 0.02 * mean.renyi(alpha)  # else nothing is tested


def test_late_places_are_the_worst():
    m = reshuffled(steps=12, diameter=0.05)
    values = {places: theorem_a_1_sequence(m, places).renyi(2.0) for places in sequences(3, 4)}
    assert max(values, key=lambda places: values[places])[-1] == 2
    default = bounds.evaluate("cl25.theorem_a_1", once(m)).renyi(2.0)
    # for whole epochs of convex losses Theorem A.1's default serves every sequence
    assert max(values.values()) <= default * (1 + 1e-12)


def test_growth_beyond_all_doubles_in_a_cycle_is_no_matter():
    """c^1000 overflows; the sum over one cycle was infinity over infinity."""
    steep = {"smoothness": 2.0, "convex": False, "diameter": None}
    m = noisy_sgd(steps=2000, dataset_size=1000, batching=Batching.CYCLIC, **steep)
    composed = bounds.evaluate("bsa24.theorem_4_4", m).epsilon(1e-5)
    assert bounds.evaluate("cl25.theorem_a_1", m).epsilon(1e-5) >= composed * (1 - 1e-9)


def test_a_place_in_shuffled_batches_is_no_option():
    """Its bound, for runs of that place, was below a certified law of the shuffled run."""
    m = once(reshuffled(steps=9))
    with pytest.raises(bounds.NotApplicable, match="position must be left out for shuffled"):
        bounds.evaluate("cl25.theorem_a_1", m, position=0)
