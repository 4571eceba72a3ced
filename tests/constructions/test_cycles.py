import dataclasses
import math

import numpy as np
import pytest

from audit import Batching, NoisySGD, Order, Relation, Release, bounds, exact
from audit.constructions import (
    CyclicQuadraticPair,
    DriftedWalk,
    Inadmissible,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
    WallPinnedWalk,
)
from audit.curves import GaussianCurve
from tests.mechanisms import noisy_sgd

ONE_PASS = noisy_sgd(steps=10, dataset_size=10, diameter=60.0, batching=Batching.CYCLIC)
# Bok, Su and Altschuler 2024, Table 1, with fewer batches.
STRONG = NoisySGD(
    steps=80,
    dataset_size=40,
    batch_size=1,
    step_size=0.05,
    noise_std=0.01,
    gradient_sensitivity=0.02,
    strong_convexity=0.002,
    smoothness=20.0,
    batching=Batching.CYCLIC,
)


def test_theorem_23_in_three_ways():
    # Record 10 of 10 at order 2: linear losses keep all noise; Huber losses and the wall forget it.
    assert bounds.evaluate("fmtt18.theorem_23", ONE_PASS, index=10).renyi(2.0) == pytest.approx(4.0)
    linear = exact.curve(TwoSidedWalk(dataclasses.replace(ONE_PASS, diameter=None)))
    assert linear.renyi(2.0) == pytest.approx(0.4, abs=1e-9)
    assert exact.curve(ResetWalk(ONE_PASS)).renyi(2.0) == pytest.approx(1.62, abs=0.005)
    wall = exact.curve(WallPinnedWalk(ONE_PASS, before=-1.0, after=1.0, start=-30.0))
    assert wall.renyi(2.0) == pytest.approx(2.49, abs=0.005)


def test_exposed_last_steps_in_epsilon():
    m = dataclasses.replace(ONE_PASS, noise_std=0.25, diameter=40.0)
    wall = exact.curve(WallPinnedWalk(m, before=-1.0, start=-20.0)).epsilon_bracket(1e-5)
    assert 56.6 < wall[0] <= wall[1] < 56.7
    # what the last step alone could leak, with the iterate before it known
    assert wall[1] <= GaussianCurve(8.0).epsilon(1e-5)


def test_later_pushes_away_from_the_wall_keep_the_trace():
    away, along = (
        exact.curve(WallPinnedWalk(ONE_PASS, before=-1.0, after=a, start=-30.0, position=7))
        for a in (1.0, -1.0)
    )
    # the total variation distance; the far tail of X, which leaves the wall, is hardly touched
    assert away.delta(0.0) > 1.2 * along.delta(0.0)


def test_without_a_difference_it_is_a_drifted_walk():
    pinned = WallPinnedWalk(ONE_PASS, before=0.3, after=0.3, start=-29.0, position=4)
    drifted = DriftedWalk(ONE_PASS, drift=0.3, start=-29.0, position=4)
    assert pinned.processes() == drifted.processes()


def test_the_records_batch_may_forget():
    # One epoch: with curvature 1/eta in the last batch, only the last step's noise is left.
    m = dataclasses.replace(STRONG, steps=40)
    forgetful = exact.curve(CyclicQuadraticPair(m, 0.002, 20.0))
    assert forgetful.mu == pytest.approx(0.02 / 0.01, rel=1e-12)
    assert forgetful.mu == pytest.approx(bounds.evaluate("bsa24.theorem_4_5", m).mu, rel=1e-9)


@pytest.mark.parametrize("epochs", [2, 3, 8])
def test_theorem_4_5_is_not_passed(epochs):
    m = dataclasses.replace(STRONG, steps=40 * epochs)
    bound = bounds.evaluate("bsa24.theorem_4_5", m).mu
    reached = [
        exact.curve(CyclicQuadraticPair(m, 0.002, k)).mu for k in np.linspace(0.002, 20.0, 21)
    ]
    same = exact.curve(QuadraticPair(m, 0.002)).mu
    assert same < max(reached) <= bound * (1 + 1e-12)


def test_equal_curvatures_are_the_quadratic_pair():
    pair, same = CyclicQuadraticPair(STRONG, 3.0, 3.0), QuadraticPair(STRONG, 3.0)
    assert exact.curve(pair).mu == pytest.approx(exact.curve(same).mu, rel=1e-12)


def test_random_stop_is_a_mixture_over_lengths():
    stop = dataclasses.replace(ONE_PASS, release=Release.RANDOM_STOP, diameter=None, steps=6)
    first, _ = TwoSidedWalk(stop, position=2).processes()
    assert [len(path) for path in first.paths] == [1, 2, 3, 4, 5, 6]
    law = exact.law(first)
    # the record is the third: runs of one or two steps do not reach it
    means, variances = np.array([0.0, 0, 1, 1, 1, 1]), np.arange(1.0, 7.0)
    x = np.linspace(-4, 6, 11)
    expected = np.exp(-((x[:, None] - means) ** 2) / (2 * variances)) / np.sqrt(
        2 * math.pi * variances
    )
    np.testing.assert_allclose(law.density(x), expected.mean(axis=1), rtol=1e-10)


def test_random_skip_leaves_the_first_records_out():
    skip = dataclasses.replace(ONE_PASS, release=Release.RANDOM_SKIP, diameter=None)
    first, _ = TwoSidedWalk(skip, position=3).processes()
    assert [len(path) for path in first.paths] == [10, 9, 8, 7, 6, 5]
    law = exact.law(first)
    # the fourth record is left out by the two longest skips
    means, variances = np.array([1.0, 1, 1, 1, 0, 0]), np.array([10.0, 9, 8, 7, 6, 5])
    x = np.linspace(-6, 8, 9)
    expected = np.exp(-((x[:, None] - means) ** 2) / (2 * variances)) / np.sqrt(
        2 * math.pi * variances
    )
    np.testing.assert_allclose(law.density(x), expected.mean(axis=1), rtol=1e-10)


def test_refusals():
    full = dataclasses.replace(ONE_PASS, batching=Batching.FULL, batch_size=10)
    with pytest.raises(Inadmissible, match=r"WallPinnedWalk needs batching='cyclic' .* got .*full"):
        WallPinnedWalk(full)
    with pytest.raises(Inadmissible, match=r"gradients in \[-1, 1\], .* got \[-0, 1.5\]"):
        WallPinnedWalk(ONE_PASS, before=-1.5)
    with pytest.raises(ValueError, match=r"position must be below .* \(10\), got 10"):
        WallPinnedWalk(ONE_PASS, position=10)
    with pytest.raises(Inadmissible, match=r"strong_convexity = 0 .* got strong_convexity=0.002"):
        WallPinnedWalk(STRONG)
    with pytest.raises(Inadmissible, match=r"curvature in \[0.002, 20\]"):
        CyclicQuadraticPair(STRONG, 0.002, 21.0)
    limited = dataclasses.replace(STRONG, lipschitz=1.0, gradient_sensitivity=None)
    with pytest.raises(Inadmissible, match=r"lipschitz=None if its curvatures differ"):
        CyclicQuadraticPair(limited, 0.002, 1.0)
    posterior = dataclasses.replace(ONE_PASS, release=Release.EXPONENTIAL_MECHANISM)
    with pytest.raises(ValueError, match=r"release must be 'last iterate', 'random stop' or 'rand"):
        TwoSidedWalk(posterior).processes()


def test_zero_out_pushes_one_dataset_only():
    m = dataclasses.replace(ONE_PASS, relation=Relation.ZERO_OUT)
    x, x_prime = WallPinnedWalk(m, before=-0.5).processes()
    assert [step.maps[0].shift for step in x.paths[0].steps()][-1] == 1.0
    assert [step.maps[0].shift for step in x_prime.paths[0].steps()][-1] == 0.0
    curve = exact.curve(WallPinnedWalk(m, before=-1.0, start=-30.0))
    assert curve.epsilon(1e-5, order=Order.FORWARD) > 0


def test_whole_gradients_stay_within_the_lipschitz_constant() -> None:
    """Without strong convexity nothing says that the curvature is a regulariser's."""
    m = NoisySGD(
        steps=2,
        dataset_size=4,
        batch_size=2,
        step_size=0.1,
        noise_std=3.0,
        lipschitz=1.0,
        smoothness=10.0,
        diameter=0.15,
        batching=Batching.CYCLIC,
    )
    with pytest.raises(Inadmissible, match=r"needs gradients of at most 1 .*, got 1.75$"):
        CyclicQuadraticPair(m, curvature=10.0, batch_curvature=10.0)
