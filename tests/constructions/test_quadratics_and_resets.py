"""Cyclic batches, quadratic losses and resets."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm

from audit import Batching, NoisySGD, Order, Relation, Release, bounds, exact
from audit.constructions import (
    Affine,
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


@pytest.mark.parametrize("epochs", [1, 2, 3, 8])
def test_theorem_4_5_is_reached_at_one_epoch_only(epochs):
    m = dataclasses.replace(STRONG, steps=40 * epochs)
    bound = bounds.evaluate("bsa24.theorem_4_5", m).mu
    reached = [exact.curve(QuadraticPair(m, k)).mu for k in np.linspace(0.002, 20.0, 21)]
    # with curvature 1/eta, only the last step's noise is left
    assert reached[0] < reached[-1] == pytest.approx(0.02 / 0.01, rel=1e-12)
    assert max(reached) <= bound * (1 + 1e-12)
    assert (max(reached) == pytest.approx(bound, rel=1e-9)) is (epochs == 1)


def test_curvatures_differ_as_far_as_the_sensitivity_allows():
    m = dataclasses.replace(STRONG, gradient_sensitivity=2.0, diameter=4.0)
    pairs = [(pair.curvature, pair.batch_curvature) for pair in CyclicQuadraticPair.suggested(m)]
    assert pairs[0] == pytest.approx((0.002, 0.502))
    assert max(abs(k - other) for k, other in pairs) == pytest.approx(0.5)
    wanted = "of record and other batches to differ by at most 2, the sensitivity, got "
    with pytest.raises(Inadmissible, match=wanted + r"2\.002"):
        CyclicQuadraticPair(m, 1.0, 1.501)
    line = dataclasses.replace(m, diameter=None)
    with pytest.raises(Inadmissible, match=wanted + "inf"):
        CyclicQuadraticPair(line, 1.0, 1.001)
    # one curvature, or a cycle of one batch, which has no other batches
    for m, curvature in ((line, 1.5), (dataclasses.replace(line, batch_size=40), 1.0)):
        pair, same = CyclicQuadraticPair(m, curvature, 1.5), QuadraticPair(m, 1.5)
        assert exact.curve(pair).mu == pytest.approx(exact.curve(same).mu, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "position", "lengths", "holds"),
    [  # the record is the third: runs of one or two steps do not reach it
        ({"release": Release.RANDOM_STOP, "steps": 6}, 2, range(1, 7), [0, 0, 1, 1, 1, 1]),
        # the fourth record is left out by the two longest skips
        ({"release": Release.RANDOM_SKIP}, 3, range(10, 4, -1), [1, 1, 1, 1, 0, 0]),
    ],
)
def test_random_releases_are_mixtures_over_lengths(changes, position, lengths, holds):
    m = dataclasses.replace(ONE_PASS, diameter=None, **changes)
    first, _ = TwoSidedWalk(m, position=position).processes()
    assert [len(path) for path in first.paths] == list(lengths)
    x = np.linspace(-6, 8, 15)
    expected = norm.pdf(x[:, None], np.array(holds), np.sqrt(lengths)).mean(axis=1)
    np.testing.assert_allclose(exact.law(first).density(x), expected, rtol=1e-10)


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
        CyclicQuadraticPair(STRONG, 21.0, 21.0)
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
    m = noisy_sgd(
        steps=2,
        dataset_size=4,
        batch_size=2,
        step_size=0.1,
        noise_std=3.0,
        smoothness=10.0,
        diameter=0.15,
        batching=Batching.CYCLIC,
    )
    with pytest.raises(Inadmissible, match=r"needs gradients of at most 1 .*, got 1.75$"):
        CyclicQuadraticPair(m, curvature=10.0, batch_curvature=10.0)


PASS = noisy_sgd(steps=10, dataset_size=10, noise_std=0.25, batching=Batching.CYCLIC, diameter=None)
SHARED = NoisySGD(
    steps=12,
    dataset_size=4,
    batch_size=4,
    step_size=0.1,
    noise_std=1.0,
    gradient_sensitivity=1.0,
    smoothness=5.0,
    strong_convexity=0.5,
    diameter=0.5,
)


def test_quadratics_are_gaussian_without_walls():
    m = dataclasses.replace(SHARED, diameter=None)
    pair = exact.curve(QuadraticPair(m, 2.0, others=0.3, start=0.1))
    c = 1 - 0.1 * 2.0
    distance = 0.1 / 4 * (1 - c**12) / (1 - c)
    spread = m.step_std * math.sqrt((1 - c**24) / (1 - c**2))
    assert pair.mu == pytest.approx(distance / spread, rel=1e-12)


def test_cyclic_quadratics_stay_below_theorem_4_5():
    m = dataclasses.replace(
        SHARED, diameter=None, batching=Batching.CYCLIC, batch_size=1, steps=400
    )
    reached = [exact.curve(QuadraticPair(m, 0.5, position=p)).mu for p in range(4)]
    assert max(reached) == reached[3]  # the last batch, after which nothing hides the record
    assert max(reached) <= bounds.evaluate("bsa24.theorem_4_5", m).mu


def test_flat_quadratics_are_walks():
    m = dataclasses.replace(SHARED, strong_convexity=0.0)
    flat, walk = (exact.curve(pair) for pair in (QuadraticPair(m, 0.0), TwoSidedWalk(m)))
    assert flat.epsilon(1e-5) == pytest.approx(walk.epsilon(1e-5), rel=1e-12)
    drift = QuadraticPair(m, 0.0, others=0.2, start=-0.2)
    same = DriftedWalk(m, drift=0.2 * 0.1 * 3 / 4, start=-0.2)
    drifted = exact.curve(same).epsilon(1e-5)
    assert exact.curve(drift).epsilon(1e-5) == pytest.approx(drifted, rel=1e-10)


def test_zero_out_keeps_the_regulariser():
    m = dataclasses.replace(SHARED, relation=Relation.ZERO_OUT, lipschitz=1.0)
    first, second = QuadraticPair(m, 2.0).processes()
    maps = [process.distinct_steps()[0].maps[0] for process in (first, second)]
    assert maps[0] == Affine(0.1 / 4, 1 - 0.2)
    assert maps[1] == Affine(0.0, 1 - 0.2)


def test_poisson_batches_of_any_size_contract_alike():
    m = dataclasses.replace(SHARED, batching=Batching.POISSON, batch_size=2)
    (step,) = QuadraticPair(m, 1.0).processes()[0].distinct_steps()
    assert {phi.slope for phi in step.maps} == {1 - 0.1}


def test_resets_expose_the_last_steps():
    """One pass over ten records, sigma = L/4, delta = 1e-5: 13.4 of linear losses, Huber 39.4."""
    linear = exact.curve(TwoSidedWalk(PASS, position=0)).epsilon(1e-5)
    m = dataclasses.replace(PASS, noise_std=0.25)
    last = exact.curve(ResetWalk(m, 1.0, 1.0)).epsilon(1e-5)
    first = exact.curve(ResetWalk(m, 1.0, 1.0, position=0)).epsilon(1e-5)
    walk = exact.curve(TwoSidedWalk(PASS)).epsilon(1e-5)
    assert linear == pytest.approx(walk, rel=1e-9)  # linear losses forget nothing
    assert walk == pytest.approx(13.4, abs=0.05)
    assert last == pytest.approx(39.4, abs=0.05)
    assert first < walk
    claim = bounds.evaluate("fmtt18.theorem_23", m, index=10)
    assert last <= claim.epsilon(1e-5)


def test_a_huber_update_is_what_it_says():
    pair = ResetWalk(PASS, 1.0, 0.5, centre=0.2)
    steps = pair.processes()[0].distinct_steps()
    reset = next(s.maps[0] for s in steps if not isinstance(s.maps[0], Affine))
    x = np.array([-3.0, -0.3, 0.2, 0.5, 3.0])
    assert reset(x) == pytest.approx([-2.5, 0.2, 0.2, 0.2, 2.5])
    assert reset.kinks == pytest.approx((-0.3, 0.7))
    assert hash(pair.processes()[0]) == hash(pair.processes()[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuadraticPair(SHARED, 0.4), r"needs curvature in \[0\.5, 5\].*curvature=0\.4"),
        (lambda: QuadraticPair(SHARED, 1.0, others=0.6), "other records' gradients in"),
        (lambda: QuadraticPair(SHARED, 1.0, others=-0.6), "other records' gradients in"),
        (
            lambda: QuadraticPair(dataclasses.replace(SHARED, clip_norm=1.0), 1.0),
            r"needs clip_norm=None .*, got clip_norm=1\.0",
        ),
        (lambda: QuadraticPair(SHARED, 1.0, start=1.0), "start must be in the domain"),
        (lambda: ResetWalk(SHARED, 1.0, 0.1), r"needs strong_convexity = 0 .*=0\.5"),
        (lambda: ResetWalk(PASS, 1.5, 1.0), "ResetWalk needs curvature"),
        (lambda: ResetWalk(PASS, 1.0, 1.1), r"gradients in \[-1, 1\].*got \[-1\.1, 1\.1\]"),
        (
            lambda: ResetWalk(dataclasses.replace(PASS, dataset_size=1, steps=3), 1.0, 1.0),
            "ResetWalk needs another record, got dataset_size=1",
        ),
        (
            lambda: QuadraticPair(dataclasses.replace(PASS, dataset_size=1), 0.5, others=0.1),
            "needs other records to push, got dataset_size=1",
        ),
        (lambda: ResetWalk(PASS, -1.0, 1.0), "curvature must be a positive finite number"),
    ],
)
def test_what_is_inadmissible(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    assert issubclass(Inadmissible, ValueError)


def test_repulsive_quadratics_need_losses_that_are_not_convex():
    m = dataclasses.replace(SHARED, convex=False, strong_convexity=0.0)
    (step,) = QuadraticPair(m, -5.0).processes()[0].distinct_steps()
    assert step.maps[0].slope == pytest.approx(m.contraction)
    with pytest.raises(Inadmissible, match="needs curvature"):
        QuadraticPair(dataclasses.replace(m, convex=True), -1.0)


def test_a_lipschitz_constant_alone_bounds_whole_gradients():
    # without strong convexity there is no regulariser to leave out: |2 x| + 1 reaches 2 at the end
    m = dataclasses.replace(
        SHARED, strong_convexity=0.0, gradient_sensitivity=None, lipschitz=1.0, diameter=1.0
    )
    with pytest.raises(Inadmissible, match=r"gradients of at most 1 on the domain .* got 2"):
        QuadraticPair(m, 2.0)
    QuadraticPair(dataclasses.replace(m, strong_convexity=0.5), 2.0)
    QuadraticPair(dataclasses.replace(m, gradient_sensitivity=0.5), 1.0)
    with pytest.raises(Inadmissible, match=r"at most 1 on the domain .* got 1\.25"):
        QuadraticPair(dataclasses.replace(m, gradient_sensitivity=0.5), 2.0)
