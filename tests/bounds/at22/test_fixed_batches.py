"""Altschuler and Talwar's bounds for fixed batches, and amplification by iteration."""

import math
from functools import partial

import numpy as np
import pytest

from audit import Batching, Relation, Release, bounds, exact
from audit.constructions import TwoSidedWalk
from tests.choices import RELATIONS
from tests.mechanisms import noisy_sgd

mechanism = partial(noisy_sgd, steps=100, dataset_size=100, batch_size=100, step_size=0.1)


cyclic = partial(mechanism, dataset_size=20, batch_size=4, batching=Batching.CYCLIC)


def rho(id, m, **options):
    return bounds.evaluate(id, m, **options).renyi(2.0) / 2


def test_reference_values():
    assert bounds.evaluate("at22.b_1", mechanism()).renyi(4.0) == pytest.approx(0.08, rel=1e-12)
    # Chien and Li (2025), Figure 1 and Appendix A.13: noise 1 on the iterate, order 2
    figure = mechanism(steps=10_000, dataset_size=5, batch_size=5, lipschitz=2.0, noise_std=10.0)
    assert bounds.evaluate("at22.b_1", figure).renyi(2.0) == pytest.approx(0.345714, abs=5e-7)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("steps", [1, 7, 300, 3000])
@pytest.mark.parametrize("diameter", [1e-3, 0.4, 3.0])
def test_best_integer_is_found(relation, steps, diameter):
    m = mechanism(steps=steps, diameter=diameter, relation=relation)
    s = m.step_size * m.sensitivity / m.dataset_size
    lengths = np.arange(1, steps + 1)
    inner = np.min(lengths * ((diameter + s) / lengths + s) ** 2)
    expected = 3.0 / (2 * m.step_std**2) * min(steps * s**2, inner)
    assert bounds.evaluate("at22.b_1", m).renyi(3.0) == pytest.approx(expected, rel=1e-12)
    # cycles of one batch are full batches
    same = bounds.evaluate("at22.theorem_5_6", m).renyi(3.0)
    assert same == pytest.approx(expected, rel=1e-12)
    # the states need not be widened by the last shift: amplification by itself is sharper
    bare = bounds.evaluate("at22.proposition_3_2", m).renyi(3.0)
    assert bare <= 3.0 / (2 * m.step_std**2) * inner * (1 + 1e-12)


def test_zero_out_takes_half():
    long = {"steps": 10**6, "diameter": 1e-9}
    replace = bounds.evaluate("at22.b_1", mechanism(**long)).renyi(2.0)
    zero = bounds.evaluate("at22.b_1", mechanism(**long, relation=Relation.ZERO_OUT)).renyi(2.0)
    assert zero == pytest.approx(replace / 4, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"convex": False}, "at22.b_1 needs convex losses, got convex=False"),
        ({"diameter": None}, "at22.b_1 needs a bounded domain, got diameter=None"),
        ({"smoothness": None}, "at22.b_1 needs eta <= 2/M .*, got smoothness=None"),
        ({"smoothness": 21.0}, "needs eta <= 2/M .*, got step_size=0.1 and smoothness=21.0"),
        ({"clip_norm": 0.5}, "at22.b_1 needs unclipped gradients.*, got clip_norm=0.5"),
        ({"release": Release.RANDOM_STOP}, "needs the release of the last iterate, got release="),
        (
            {"steps": 2, "step_size": (0.1, 0.2)},
            "needs one step size for all steps, got step_size=a schedule from 0.1 to 0.2",
        ),
    ],
)
def test_refusals_name_the_assumption_and_the_value(changes, message):
    with pytest.raises(bounds.NotApplicable, match=message):
        bounds.evaluate("at22.b_1", mechanism(**changes))


def test_clipping_that_never_acts_is_no_clipping():
    assert "at22.b_1" in bounds.applicable(mechanism(clip_norm=2.0))


@pytest.mark.parametrize("position", range(1, 6))
def test_cyclic_sum_is_the_papers(position):
    m = cyclic(steps=50)
    s, size = 0.1 * 2 / 4, 1 + 0.1 * 2 / 4
    for cycles in (1, 3, 10):
        total, rest = cycles * 5, 5 - position + 1
        a = size / total
        paper = (position - 1) * a**2 + (total - 5) * (a + s / 5) ** 2
        paper += rest * (a + s / rest) ** 2
        index = 4 * position  # the last record of the batch
        ours = rho("at22.theorem_5_6", m, index=index, length=total)
        assert ours == pytest.approx(paper / (2 * m.step_std**2), rel=1e-12)
        assert rho("at22.theorem_5_6", m, index=index) <= ours * (1 + 1e-12)
    worst = rho("at22.theorem_5_6", m)
    assert worst == pytest.approx(rho("at22.theorem_5_6", m, index=20))
    assert worst >= rho("at22.theorem_5_6", m, index=4 * position)


@pytest.mark.parametrize("steps", [1, 3, 5, 13, 50])
def test_equation_5_4_is_the_best_allocation(steps):
    m = cyclic(steps=steps)
    for position in range(1, 6):
        shifts = [0.05 if k % 5 == position - 1 else 0.0 for k in range(steps)]
        best = rho("at22.proposition_2_17", m, shifts=shifts)
        assert rho("at22.eq_5_4", m, index=4 * position) == pytest.approx(best, rel=1e-12)
    assert rho("at22.eq_5_4", m) == pytest.approx(rho("at22.proposition_2_17", m), rel=1e-12)


def test_amplification_options():
    m = mechanism(steps=4, step_size=1.0)
    shifts = [1.0, 0.0, 0.0, 0.0]
    assert rho("at22.proposition_2_17", m, shifts=shifts) == pytest.approx(1 / 8)
    by_hand = [0.4, 0.3, 0.2, 0.1]
    given = rho("at22.proposition_2_17", m, shifts=shifts, allocations=by_hand)
    assert given == pytest.approx(0.15)
    zero = [0.0] * 4
    assert rho("at22.proposition_3_2", m, shifts=zero) == pytest.approx(1 / 8)
    assert rho("at22.proposition_3_2", m, shifts=zero, tau=2) == pytest.approx(1 / 4)
    assert rho("at22.proposition_3_2", m, shifts=zero, distance=2.0) == pytest.approx(1 / 2)
    half = rho("at22.proposition_3_2", m, shifts=zero, tau=2, allocations=[0.5, 0.5])
    assert half == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match=r"tau must be at most steps - 1 \(3\), got 4"):
        rho("at22.proposition_3_2", m, tau=4)
    with pytest.raises(ValueError, match="allocations must end at z_T = 0, got 1"):
        rho("at22.proposition_3_2", m, shifts=zero, allocations=zero)
    schedule = mechanism(steps=2, step_size=(0.1, 0.2))
    with pytest.raises(ValueError, match=r"one value per step \(2\) for a schedule, got 3"):
        rho("at22.proposition_2_17", schedule, shifts=[1.0, 1.0, 1.0])
    strong = mechanism(step_size=1.0, strong_convexity=0.5, steps=4)
    contracted = rho("at22.proposition_5_4", strong, shifts=zero)
    c = 0.5
    assert contracted == pytest.approx(c**8 * (1 - c**2) / (1 - c**8) / 2)


def test_schedules_spread_by_variance():
    sizes = tuple(1 / math.sqrt(t) for t in range(1, 101))
    m = mechanism(steps=100, step_size=sizes, diameter=2.0)
    zero = [0.0] * 100
    # all of the distance, allocated in proportion to eta_t^2
    expected = 4.0 / (2 * sum(size**2 for size in sizes))
    assert rho("at22.proposition_3_2", m, shifts=zero) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_linear_losses_reach_the_original_amplification(steps):
    m = mechanism(steps=steps, diameter=None)
    law = exact.curve(TwoSidedWalk(m))
    for alpha in (1.5, 8.0):
        low, high = law.renyi_bracket(alpha)
        claimed = bounds.evaluate("at22.proposition_2_17", m).renyi(alpha)
        assert low * (1 - 1e-9) <= claimed <= high * (1 + 1e-9)


def test_conversion_is_never_below_the_tight_one():
    from papers.renyi_conversions import balle, bun_steinke, bun_steinke_delta, lemma_2_5

    for noise in (1e-3, 0.1, 1.0, 30.0):
        m = mechanism(noise_std=noise)
        printed, tight = bounds.evaluate("at22.conversion", m), bounds.evaluate("at22.b_1", m)
        for delta in (1e-12, 1e-5, 0.1):
            assert printed.epsilon(delta) >= tight.epsilon(delta) * (1 - 1e-9)
            assert printed.delta(printed.epsilon(delta)) == pytest.approx(delta, rel=1e-9)
        assert printed.renyi(3.0) == pytest.approx(tight.renyi(3.0))
    for value in (1e-4, 0.3, 8.0):
        gaussian = bounds.evaluate(
            "bsa24.theorem_4_1", mechanism(steps=1, noise_std=0.02 / math.sqrt(2 * value))
        )
        for delta in (1e-10, 1e-5, 1e-2):
            true = gaussian.epsilon(delta)
            assert true <= bun_steinke(rho=value, delta=delta) * (1 + 1e-9)
            for alpha in (1.5, 3.0, 40.0):
                given = {"alpha": alpha, "divergence": alpha * value, "delta": delta}
                assert true <= balle(**given) <= lemma_2_5(**given)
        assert bun_steinke_delta(rho=value, epsilon=0.0) == 1.0
    assert lemma_2_5(alpha=3.0, divergence=1.0, delta=math.exp(-4)) == pytest.approx(3.0)
