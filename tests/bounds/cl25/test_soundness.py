import dataclasses

import numpy as np
import pytest

from audit import Batching, NoisySGD, bounds, exact
from audit.constructions import Affine, Mapped, PiecewiseLinear, PowerUpdate, TwoSidedWalk
from tests.bounds.cl25.lemmas import lemma_3_5
from tests.bounds.cl25.settings import FULL_IDS, figure_1, sampled
from tests.bounds.process_pairs import assert_sound, pair, process
from tests.mechanisms import noisy_sgd


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


def test_quadratics_are_sound_in_any_position():
    rng = np.random.default_rng(5)
    for _ in range(40):
        period, steps = int(rng.integers(1, 5)), int(rng.integers(1, 40))
        pull, s, std = rng.uniform(0.01, 1.0), rng.uniform(0.05, 0.5), rng.uniform(0.1, 1.0)
        eta = 0.5
        m = NoisySGD(
            steps=steps,
            dataset_size=period,
            batch_size=1,
            step_size=eta,
            noise_std=std / eta,
            gradient_sensitivity=s / eta,
            smoothness=pull / eta,
            strong_convexity=pull / eta,
            batching=Batching.CYCLIC,
        )
        place = int(rng.integers(period))
        laws = [
            process(
                [
                    ((Affine(sign * s / 2 * (t % period == place), 1 - pull),), (1.0,), std, 1)
                    for t in range(steps)
                ]
            )
            for sign in (1, -1)
        ]
        assert_sound(["cl25.theorem_a_1"], m, pair(m, *laws), position=place)
        own = bounds.evaluate("cl25.theorem_a_1", m, position=place)
        worst = bounds.evaluate("cl25.theorem_a_1", m)
        assert own.renyi(2.0) <= worst.renyi(2.0) * (1 + 1e-9)


def repulsive(steps, width, surplus, shift, std, half, start=0.0):
    """Shared repulsion of slope ``surplus`` on (-width, width), and drifts +-shift/2."""
    laws = []
    for sign in (1, -1):
        ends = [(1 + surplus) * side * width + sign * shift / 2 for side in (-1, 1)]
        update = PiecewiseLinear((-width, width), tuple(ends), (1.0, 1.0))
        laws.append(process([((update,), (1.0,), std, steps)], half=half, start=start))
    return laws


def test_repulsive_kinks_are_sound():
    rng = np.random.default_rng(6)
    for _ in range(12):
        steps, surplus = int(rng.integers(2, 40)), float(rng.uniform(0.05, 1.0))
        s, std, width = rng.uniform(0.02, 0.2), rng.uniform(0.1, 0.5), rng.uniform(0.05, 0.5)
        m = noisy_sgd(
            steps=steps,
            noise_std=std,
            clip_norm=surplus * width + s / 2,
            gradient_sensitivity=s,
            smoothness=surplus,
            convex=False,
            lipschitz=None,
        )
        law = pair(m, *repulsive(steps, width, surplus, s, std, 0.5))
        both = dataclasses.replace(m, holder=(surplus, 1.0))
        ids = (*FULL_IDS, "cl25.theorem_3_7", "cl25.output_perturbation_corrected")
        assert_sound(ids, both, law)


def test_holder_pair_is_sound():
    """Gradients -sign(x) |x|^(1/3), Hoelder of order 1/3 with constant 2^(2/3) (A.14)."""
    eta, s, std, steps = 0.1, 0.08, 0.3, 12
    m = NoisySGD(
        steps=steps,
        dataset_size=1,
        batch_size=1,
        step_size=eta,
        noise_std=std / eta,
        gradient_sensitivity=s / eta,
        convex=False,
        diameter=1.0,
        holder=(2 ** (2 / 3), 1 / 3),
    )
    laws = []
    for sign in (1, -1):
        update = Mapped(PowerUpdate(-eta, 1 / 3, shift=sign * s / 2), (0.0,))
        laws.append(process([((update,), (1.0,), std, steps)], half=0.5))
    ids = ("cl25.theorem_3_7", "cl25.theorem_a_1", "cl25.output_perturbation_corrected")
    assert_sound(ids, m, pair(m, *laws))


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


def test_theorem_3_12_is_refuted_in_one_order():
    m = sampled(
        steps=1,
        dataset_size=2,
        batch_size=1,
        noise_std=1.0,
        lipschitz=1.0,
        diameter=1e3,
    )
    first = process([((Affine(0.1),), (1.0,), 0.1, 1)], half=5.0)
    second = process([((Affine(0.1), Affine(-0.1)), (0.5, 0.5), 0.1, 1)], half=5.0)
    low, high = pair(m, first, second).renyi_bracket(2.0)
    assert (low, high) == pytest.approx((2.66719609, 2.66719609), abs=1e-8)
    claim = bounds.evaluate("cl25.theorem_3_12", m).renyi(2.0)
    assert claim == pytest.approx(0.43851328, abs=1e-8)
    assert low > claim
    both = bounds.evaluate("cl25.theorem_3_12_both_orders", m).renyi(2.0)
    assert both == pytest.approx(2.66719609, abs=1e-8)


def test_bounds_rise_with_the_diameter():
    for base in (
        figure_1(convex=False),
        figure_1(),
        figure_1(strong_convexity=0.5),
        figure_1(convex=False, smoothness=None, holder=(0.5, 0.5)),
        figure_1(dataset_size=20, batch_size=5, batching=Batching.SHUFFLED),
        sampled(steps=100),
    ):
        for id in bounds.applicable(base):
            if not id.startswith("cl25."):
                continue
            width = [
                bounds.evaluate(id, dataclasses.replace(base, diameter=d)).renyi(2.0)
                for d in (0.01, 0.1, 0.5, 1.0, 2.0, 10.0)
            ]
            assert np.all(np.diff(width) >= -1e-9 * np.array(width[1:])), id
