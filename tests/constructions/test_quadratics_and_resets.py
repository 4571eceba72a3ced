import dataclasses
import math

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation, bounds, exact
from audit.constructions import (
    Affine,
    DriftedWalk,
    Inadmissible,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
)
from tests.mechanisms import noisy_sgd

M = noisy_sgd(steps=10, dataset_size=10, noise_std=0.25, batching=Batching.CYCLIC, diameter=None)
STRONG = NoisySGD(
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
    m = dataclasses.replace(STRONG, diameter=None)
    pair = exact.curve(QuadraticPair(m, 2.0, others=0.3, start=0.1))
    c = 1 - 0.1 * 2.0
    distance = 0.1 / 4 * (1 - c**12) / (1 - c)
    spread = m.step_std * math.sqrt((1 - c**24) / (1 - c**2))
    assert pair.mu == pytest.approx(distance / spread, rel=1e-12)


def test_cyclic_quadratics_stay_below_theorem_4_5():
    m = dataclasses.replace(
        STRONG, diameter=None, batching=Batching.CYCLIC, batch_size=1, steps=400
    )
    reached = [exact.curve(QuadraticPair(m, 0.5, position=p)).mu for p in range(4)]
    assert max(reached) == reached[3]  # the last batch, after which nothing hides the record
    assert max(reached) <= bounds.evaluate("bsa24.theorem_4_5", m).mu


def test_flat_quadratics_are_walks():
    m = dataclasses.replace(STRONG, strong_convexity=0.0)
    flat, walk = (exact.curve(pair) for pair in (QuadraticPair(m, 0.0), TwoSidedWalk(m)))
    assert flat.epsilon(1e-5) == pytest.approx(walk.epsilon(1e-5), rel=1e-12)
    drift = QuadraticPair(m, 0.0, others=0.2, start=-0.2)
    same = DriftedWalk(m, drift=0.2 * 0.1 * 3 / 4, start=-0.2)
    drifted = exact.curve(same).epsilon(1e-5)
    assert exact.curve(drift).epsilon(1e-5) == pytest.approx(drifted, rel=1e-10)


def test_zero_out_keeps_the_regulariser():
    m = dataclasses.replace(STRONG, relation=Relation.ZERO_OUT, lipschitz=1.0)
    first, second = QuadraticPair(m, 2.0).processes()
    maps = [process.distinct_steps()[0].maps[0] for process in (first, second)]
    assert maps[0] == Affine(0.1 / 4, 1 - 0.2)
    assert maps[1] == Affine(0.0, 1 - 0.2)


def test_poisson_batches_of_any_size_contract_alike():
    m = dataclasses.replace(STRONG, batching=Batching.POISSON, batch_size=2)
    (step,) = QuadraticPair(m, 1.0).processes()[0].distinct_steps()
    assert {phi.slope for phi in step.maps} == {1 - 0.1}


def test_resets_expose_the_last_steps():
    """One pass over ten records, sigma = L/4, delta = 1e-5: 13.4 of linear losses, Huber 39.4."""
    linear = exact.curve(TwoSidedWalk(M, position=0)).epsilon(1e-5)
    m = dataclasses.replace(M, noise_std=0.25)
    last = exact.curve(ResetWalk(m, 1.0, 1.0)).epsilon(1e-5)
    first = exact.curve(ResetWalk(m, 1.0, 1.0, position=0)).epsilon(1e-5)
    walk = exact.curve(TwoSidedWalk(M)).epsilon(1e-5)
    assert linear == pytest.approx(walk, rel=1e-9)  # linear losses forget nothing
    assert walk == pytest.approx(13.4, abs=0.05)
    assert last == pytest.approx(39.4, abs=0.05)
    assert first < walk
    claim = bounds.evaluate("fmtt18.theorem_23", m, index=10)
    assert last <= claim.epsilon(1e-5)


def test_a_huber_update_is_what_it_says():
    pair = ResetWalk(M, 1.0, 0.5, centre=0.2)
    steps = pair.processes()[0].distinct_steps()
    reset = next(s.maps[0] for s in steps if not isinstance(s.maps[0], Affine))
    x = np.array([-3.0, -0.3, 0.2, 0.5, 3.0])
    assert reset(x) == pytest.approx([-2.5, 0.2, 0.2, 0.2, 2.5])
    assert reset.kinks == pytest.approx((-0.3, 0.7))
    assert hash(pair.processes()[0]) == hash(pair.processes()[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuadraticPair(STRONG, 0.4), r"needs curvature in \[0\.5, 5\].*curvature=0\.4"),
        (lambda: QuadraticPair(STRONG, 5.1), "QuadraticPair needs curvature"),
        (lambda: QuadraticPair(STRONG, 1.0, others=0.6), "other records' gradients in"),
        (lambda: QuadraticPair(STRONG, 1.0, others=-0.6), "other records' gradients in"),
        (
            lambda: QuadraticPair(dataclasses.replace(STRONG, clip_norm=1.0), 1.0),
            r"needs clip_norm=None .*, got clip_norm=1\.0",
        ),
        (lambda: QuadraticPair(STRONG, 1.0, start=1.0), "start must be in the domain"),
        (lambda: ResetWalk(STRONG, 1.0, 0.1), r"needs strong_convexity = 0 .*=0\.5"),
        (lambda: ResetWalk(M, 1.5, 1.0), "ResetWalk needs curvature"),
        (lambda: ResetWalk(M, 1.0, 1.1), r"gradients in \[-1, 1\].*got \[-1\.1, 1\.1\]"),
        (
            lambda: ResetWalk(dataclasses.replace(M, dataset_size=1, steps=3), 1.0, 1.0),
            "ResetWalk needs another record, got dataset_size=1",
        ),
        (
            lambda: QuadraticPair(dataclasses.replace(M, dataset_size=1), 0.5, others=0.1),
            "needs other records to push, got dataset_size=1",
        ),
        (lambda: ResetWalk(M, -1.0, 1.0), "curvature must be a positive finite number"),
    ],
)
def test_what_is_inadmissible(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    assert issubclass(Inadmissible, ValueError)


def test_repulsive_quadratics_need_losses_that_are_not_convex():
    m = dataclasses.replace(STRONG, convex=False, strong_convexity=0.0)
    (step,) = QuadraticPair(m, -5.0).processes()[0].distinct_steps()
    assert step.maps[0].slope == pytest.approx(m.contraction)
    with pytest.raises(Inadmissible, match="needs curvature"):
        QuadraticPair(dataclasses.replace(m, convex=True), -1.0)


def test_a_lipschitz_constant_alone_bounds_whole_gradients():
    # without strong convexity there is no regulariser to leave out: |2 x| + 1 reaches 2 at the end
    m = dataclasses.replace(
        STRONG, strong_convexity=0.0, gradient_sensitivity=None, lipschitz=1.0, diameter=1.0
    )
    with pytest.raises(Inadmissible, match=r"gradients of at most 1 on the domain .* got 2"):
        QuadraticPair(m, 2.0)
    QuadraticPair(dataclasses.replace(m, strong_convexity=0.5), 2.0)
    QuadraticPair(dataclasses.replace(m, gradient_sensitivity=0.5), 1.0)
    with pytest.raises(Inadmissible, match=r"at most 1 on the domain .* got 1\.25"):
        QuadraticPair(dataclasses.replace(m, gradient_sensitivity=0.5), 2.0)
