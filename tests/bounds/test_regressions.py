"""Settings at which entries once claimed too little, each with the exact value that showed it."""

import dataclasses
import math

import numpy as np
import pytest

import audit
from audit import Batching, Losses, NotApplicable, bounds, exact
from audit.bounds.accounting import iteration
from audit.constructions import ChangingPair, Phase, PiecewiseLinear, TwoSidedWalk
from tests.mechanisms import noisy_sgd

UNEVEN = noisy_sgd(
    steps=4,
    dataset_size=2,
    step_size=(10.0, 0.1, 10.0, 0.1),
    smoothness=0.1,
    batching=Batching.CYCLIC,
    diameter=None,
)


@pytest.mark.parametrize("batching", [Batching.CYCLIC, Batching.SHUFFLED])
@pytest.mark.parametrize(
    "id",
    ["fmtt18.theorem_22", "at22.proposition_2_17", "at22.proposition_3_2", "at22.proposition_5_4"],
)
def test_the_worst_place_of_a_schedule_need_not_be_the_last(id, batching):
    m = dataclasses.replace(UNEVEN, batching=batching, diameter=200.0)
    claimed = bounds.evaluate(id, m)
    # the walls are far enough not to matter; the first record moves in the two long steps
    first = exact.curve(TwoSidedWalk(dataclasses.replace(UNEVEN, diameter=None), position=0))
    assert first.renyi(2.0) == pytest.approx(7.9992, abs=1e-4)
    assert claimed.renyi(2.0) >= first.renyi(2.0) * (1 - 1e-12)
    assert bounds.best(m, delta=1e-5).epsilon >= first.epsilon(1e-5) * (1 - 1e-12)


def test_schedules_without_a_worst_place_take_no_allocations():
    with pytest.raises(ValueError, match="shifts must be given with allocations if step"):
        bounds.evaluate("fmtt18.theorem_22", UNEVEN, allocations=(0.0, 0.1, 0.0, 0.1))


def test_many_places_are_taken_together():
    # a thousand batches: the record is let into every batch, which is loose and never wrong
    steps = tuple(0.1 / math.sqrt(1 + k) for k in range(3000))
    m = dataclasses.replace(UNEVEN, steps=3000, dataset_size=1000, step_size=steps, smoothness=1.0)
    claimed = bounds.evaluate("fmtt18.theorem_22", m).renyi(2.0)
    for position in (0, 500, 999):
        law = exact.curve(TwoSidedWalk(m, position=position))
        assert law.renyi(2.0) <= claimed


def test_sampled_gaussians_ask_for_more_than_a_sensitivity():
    m = noisy_sgd(
        dataset_size=20,
        gradient_sensitivity=1.0,
        batching=Batching.WITHOUT_REPLACEMENT,
        lipschitz=None,
        smoothness=None,
        diameter=None,
    )
    # records with gradients at the corners of a triangle of sides 1, by quadrature in the plane
    x = np.linspace(-9, 10, 1201)
    a, b = np.meshgrid(x, x, indexing="ij")

    def normal(p, q):
        return np.exp(-((a - p) ** 2 + (b - q) ** 2) / 2) / (2 * math.pi)

    rate = 1 / 20
    others = (1 - rate) * normal(0, 0)
    first = others + rate * normal(1, 0)
    second = others + rate * normal(0.5, math.sqrt(3) / 2)
    divergence = math.log(float(np.sum(first**2 / second)) * (x[1] - x[0]) ** 2)
    assert divergence == pytest.approx(0.00459226, abs=2e-8)
    bounded = dataclasses.replace(m, gradient_sensitivity=None, lipschitz=0.5)
    assert bounds.evaluate("at22.sampled_gaussian", bounded).renyi(2.0) < divergence
    with pytest.raises(NotApplicable, match="gradients bounded by L"):
        bounds.evaluate("at22.sampled_gaussian", m)
    less = dataclasses.replace(m, lipschitz=0.6)
    with pytest.raises(NotApplicable, match="gradients bounded by L"):
        bounds.evaluate("at22.sampled_gaussian", less)
    for id in bounds.applicable(m):
        if bounds.entry(id).status.sound:
            assert bounds.evaluate(id, m).renyi(2.0) >= divergence


def test_a_regulariser_is_not_bounded_by_the_lipschitz_constant():
    m = noisy_sgd(steps=5, dataset_size=10, lipschitz=0.01, strong_convexity=10.0, smoothness=None)
    # the last step may map the domain to nine times its size: D + 2 eta K does not bound it
    with pytest.raises(NotApplicable, match="steps whose effect on distances is bounded"):
        bounds.evaluate("cl25.output_perturbation_corrected", m)


def test_best_goes_on_where_one_bound_cannot(monkeypatch):
    monkeypatch.setattr(iteration, "LONGEST", 50)  # step sizes of 5,000 steps at most
    steps = 5001
    m = noisy_sgd(
        steps=steps,
        dataset_size=2,
        step_size=tuple(np.where(np.arange(steps) % 2, 0.1, 0.2).tolist()),
        noise_std=1000.0,
    )
    with pytest.raises(ValueError, match="shifts must leave at most 5000 steps, got 5001"):
        bounds.evaluate("fmtt18.theorem_22", m).epsilon(1e-5)
    best = audit.bounds.best(m, delta=1e-5)
    assert "fmtt18.theorem_22" not in best.compared
    assert best.epsilon < 10


@pytest.mark.parametrize("excess", [1e-12, 1e-13, 1e-14])
def test_steps_that_expand_are_not_contractive(excess):
    """After T steps distances have grown by (1 + 2 excess)^T, 2e-6 at T = 1e6."""
    m = dataclasses.replace(UNEVEN, step_size=0.5, smoothness=4 * (1 + excess), diameter=200.0)
    assert m.contraction > 1
    with pytest.raises(NotApplicable, match="needs eta <= 2/M"):
        bounds.evaluate("own.coupling", m)


def test_what_holds_for_a_fixed_loss_only_is_refused() -> None:
    """The stationary law of a fixed loss leaks at most 2 v D/s^2; changing losses leak more."""
    a, s = 0.1, 0.1
    m = noisy_sgd(
        steps=600, dataset_size=1000, noise_std=s, lipschitz=500 * a * s**2, losses=Losses.CHANGING
    )
    push = PiecewiseLinear.constant
    unit = s**2 * 1000 / 999  # the drift of a step in units of s^2/D
    drifts = ((472, 0.0), (64, 0.4), (32, 1.3), (16, 3.2), (8, 5.4), (4, 7.8), (4, 5.0))
    record = push(-m.lipschitz), push(m.lipschitz)
    phases = tuple(Phase(steps, push(drift * unit), *record) for steps, drift in drifts)
    law = exact.curve(ChangingPair(m, phases, start=0.5), threads=1)
    assert law.epsilon_bracket(1e-5)[0] > 2 * a
    with pytest.raises(bounds.NotApplicable, match="needs another losses, got losses='changing'"):
        bounds.evaluate("bsa24.corollary_5_2", m)
