import dataclasses
import math

import numpy as np
import pytest

from audit import Relation, bounds, exact
from audit.constructions import Affine, PiecewiseLinear, TwoSidedWalk
from tests.bounds.process_pairs import assert_sound, pair, process
from tests.bounds.survey.settings import applying, cyclic, mechanism, sampled
from tests.choices import RELATIONS


def test_section_vi_a_reference_values():
    m = cyclic()
    values = {
        id: bounds.evaluate(f"survey.{id}", m, batch=10).renyi(2.0)
        for id in ("section_vi_a", "section_vi_a_last", "section_vi_a_corrected")
    }
    assert values == pytest.approx(
        {"section_vi_a": 0.01, "section_vi_a_last": 0.1, "section_vi_a_corrected": 1.0}
    )
    # the worst place is the default
    assert bounds.evaluate("survey.section_vi_a", m).renyi(2.0) == pytest.approx(0.01)
    first = bounds.evaluate("survey.section_vi_a_corrected", m, batch=1).renyi(2.0)
    assert first == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"batch must be at most .* \(10\), got 11"):
        bounds.evaluate("survey.section_vi_a", m, batch=11)
    with pytest.raises(bounds.NotApplicable, match="needs a whole number of epochs"):
        bounds.evaluate("survey.section_vi_a", cyclic(steps=11))


def test_section_vi_a_is_refuted_by_linear_losses():
    m = cyclic()
    low, high = exact.curve(TwoSidedWalk(m)).renyi_bracket(2.0)
    assert (low, high) == pytest.approx((0.1, 0.1), rel=1e-9)
    assert low > bounds.evaluate("survey.section_vi_a", m).renyi(2.0)
    assert high <= bounds.evaluate("survey.section_vi_a_corrected", m).renyi(2.0)


@pytest.mark.parametrize(("size", "value"), [(1, 0.2900687), (10, 0.9900988)])
def test_section_vi_a_last_is_refuted_by_huber_losses(size, value):
    """Nine batches of Huber losses of curvature 1/eta, then the record's batch with +-L."""
    m = cyclic(
        dataset_size=10 * size,
        batch_size=size,
        step_size=1.0,
        noise_std=2.0 / size,
        diameter=80 * 2.0 / size,
    )
    reset = PiecewiseLinear((-1.0, 1.0), (0.0, 0.0), (1.0, 1.0))
    laws = []
    for sign in (1, -1):
        left, right = (side / size + sign / size for side in (-1, 1))
        last = PiecewiseLinear((-1.0, 1.0), (left, right), (1.0, 1.0))
        steps = [((reset,), (1.0,), m.step_std, 9), ((last,), (1.0,), m.step_std, 1)]
        laws.append(process(steps, half=m.diameter / 2))
    low, high = pair(m, *laws).renyi_bracket(2.0)
    assert low == pytest.approx(value, abs=1e-6)
    assert low > bounds.evaluate("survey.section_vi_a_last", m).renyi(2.0) == pytest.approx(0.1)
    assert high <= bounds.evaluate("survey.section_vi_a_corrected", m).renyi(2.0)


def test_theorem_vii_2_reference_values_and_the_literal_reading():
    m = sampled(steps=50, noise_std=4.0, strong_convexity=1.0)
    assert bounds.evaluate("survey.theorem_vii_2", m).renyi(4.0) == pytest.approx(
        0.855152, abs=5e-7
    )
    two = sampled(steps=2, dataset_size=2, strong_convexity=0.1)
    claim = bounds.evaluate("survey.theorem_vii_2_literal", two).renyi(2.0)
    assert claim == pytest.approx(0.62011, abs=5e-6)
    # quadratics, c = .99: the record moves X by one step of noise, the other record moves none
    laws = []
    for shift in (0.0, 1.0):
        maps = (Affine(shift, 0.99), Affine(0.0, 0.99))
        laws.append(process([(maps, (0.5, 0.5), 1.0, 2)], half=60.0))
    low, high = pair(two, *laws).renyi_bracket(2.0)
    assert low == pytest.approx(0.68865, abs=5e-6)
    assert claim < low
    assert high <= bounds.evaluate("survey.theorem_vii_2", two).renyi(2.0)
    with pytest.raises(bounds.NotApplicable, match="at least one epoch"):
        bounds.evaluate("survey.theorem_vii_2_literal", sampled(steps=9, strong_convexity=0.1))


def test_theorem_vii_2_recursion_step_by_step():
    m = sampled(steps=37, dataset_size=7, noise_std=3.0, strong_convexity=2.0, smoothness=2.0)
    alpha, sigma, q, c = 3.0, 1.5, 1 / 7, 0.8
    s = 1.0
    for _ in range(37):
        s = q * math.exp((alpha - 1) * alpha / (2 * sigma**2)) * s + (1 - q) * s ** (c**2)
    expected = math.log(s) / (alpha - 1)
    assert bounds.evaluate("survey.theorem_vii_2", m).renyi(alpha) == pytest.approx(expected)
    # past the steps that are run through: still above, and below the fixed point
    long = dataclasses.replace(m, steps=30_000)
    longest = dataclasses.replace(m, steps=10**9)
    values = [bounds.evaluate("survey.theorem_vii_2", x).renyi(alpha) for x in (m, long, longest)]
    assert values[0] <= values[1] <= values[2] < math.inf


def test_section_vii_a_is_refuted():
    m = mechanism(steps=25)
    low, _ = exact.curve(TwoSidedWalk(m)).renyi_bracket(2.0)
    claim = bounds.evaluate("survey.section_vii_a", m).renyi(2.0)
    assert low == pytest.approx(25 * claim, rel=1e-9)
    composed = bounds.evaluate("survey.rdp_composition", m).renyi(2.0)
    assert low == pytest.approx(composed, rel=1e-9)


def test_theorem_vii_1_holds_against_gaussians_from_any_start():
    """Nowhere below Theorem 4.2 of Bok et al. (2024): quadratics reach it, from any start."""
    steps = np.unique(np.rint(np.geomspace(1, 1e6, 60)))
    for pull in np.concatenate([np.geomspace(1e-6, 0.5, 40), 1 - np.geomspace(1e-6, 0.5, 40)]):
        log_c = math.log1p(-pull)
        exact_square = (2 - pull) / pull * np.tanh(-steps * log_c / 2)
        claimed = 4 / pull * -np.expm1(-pull * steps / 2)
        assert np.all(exact_square <= claimed)
    m = mechanism(steps=30, strong_convexity=0.7, step_size=0.5)
    expected = 4 / 0.35 * (1 - math.exp(-0.35 * 15)) * 3 / (2 * 10.0**2)
    assert bounds.evaluate("survey.theorem_vii_1", m).renyi(3.0) == pytest.approx(expected)
    with pytest.raises(bounds.NotApplicable, match="needs eta < 1/M"):
        bounds.evaluate("survey.theorem_vii_1", mechanism(strong_convexity=0.5, step_size=1.0))


@pytest.mark.parametrize("relation", RELATIONS)
def test_sampled_quadratics_are_sound(relation):
    """The record and the others pull to points of their own; the curvature is shared."""
    rng = np.random.default_rng(15)
    for _ in range(6):
        steps, pull = int(rng.integers(1, 10)), float(rng.uniform(0.02, 0.6))
        std, spread = float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.1, 1.0))
        m = sampled(
            steps=steps,
            dataset_size=3,
            step_size=1.0,
            noise_std=std,
            smoothness=pull,
            strong_convexity=pull,
            lipschitz=None,
            gradient_sensitivity=2 * spread if relation is Relation.REPLACE_ONE else spread,
            relation=relation,
            diameter=30.0,
        )
        others = float(rng.uniform(-spread, spread))
        ends = (spread, -spread) if relation is Relation.REPLACE_ONE else (spread, 0.0)
        laws = []
        for end in ends:
            maps = (Affine(end, 1 - pull), Affine(others, 1 - pull))
            laws.append(process([(maps, (1 / 3, 2 / 3), std, steps)], half=15.0))
        ids = applying(m)
        assert "survey.theorem_vii_2" in ids
        assert_sound(ids, m, pair(m, *laws))
