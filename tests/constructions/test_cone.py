"""Domains in many dimensions that cancel a gradient of all records."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from audit import bounds, exact
from audit.constructions import GradientPair, Inadmissible, PiecewiseLinear
from audit.mechanism import Batching, NoisySGD, Relation
from audit.search import check_admissible, worst_case
from tests.slow import slow

LINE = PiecewiseLinear.constant


sampled = partial(
    NoisySGD,
    steps=4,
    dataset_size=20,
    batch_size=4,
    step_size=1.0,
    noise_std=0.25,
    lipschitz=2.0,
    smoothness=1.0,
    diameter=1.0,
    batching=Batching.WITHOUT_REPLACEMENT,
)


def on_cone(along, across, length, slope):
    """Project points onto the cone: distances along its axis, and from it, in many dimensions."""
    inside = (across <= slope * (length - along)) & (along >= 0)
    reached = (along + slope**2 * length - slope * across) / (1 + slope**2)
    a = np.where(inside, along, np.clip(reached, 0, length))
    # beyond the base the nearest point has the same distance from the axis, if the base holds it
    base = (along < 0) & (across <= slope * length)
    a = np.where(base, 0, a)
    return a, np.where(inside | base, across, slope * (length - a))


def test_the_projection_onto_the_cone():
    rng = np.random.default_rng(5)
    length, slope = 1.2, 0.4
    for _ in range(3):
        point = rng.normal(size=3) * 2
        solved = minimize(
            lambda x, point=point: np.sum((x - point) ** 2),
            [0.3, 0.01, 0.01],
            constraints=[
                {"type": "ineq", "fun": lambda x: x[0]},
                {"type": "ineq", "fun": lambda x: slope * (length - x[0]) - np.hypot(*x[1:])},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        along, across = on_cone(point[0], np.hypot(*point[1:]), length, slope)
        direction = point[1:] / np.hypot(*point[1:])
        assert np.allclose([along, *(across * direction)], solved.x, atol=1e-5)


def in_many_dimensions(mechanism, record, rng, *, runs, dimension, width=1.0):
    """Run Noisy-SGD itself on the cone: linear losses, the others with gradient -L along the axis.

    ``record`` is the differing record's gradient, and ``width`` a factor of the cone's slope.
    """
    m = mechanism
    s, bound = m.step_std, m.lipschitz
    slope = width * bound / (m.noise_std * math.sqrt(dimension - 1))
    length = m.diameter / math.sqrt(1 + slope**2)
    along = np.full(runs, length / 2)
    across = np.zeros((runs, dimension - 1))
    for _ in range(m.steps):
        drawn = rng.random(runs) < m.sampling_rate
        mean = np.where(drawn, -bound + (record + bound) / m.batch_size, -bound)
        along = along - m.step_size * mean + s * rng.normal(size=runs)
        across = across + s * rng.normal(size=across.shape)
        norms = np.linalg.norm(across, axis=1)
        along, kept = on_cone(along, norms, length, slope)
        across *= (kept / norms)[:, None]
    return (along / length - 0.5) * m.diameter


def one_dimension(mechanism, push, rng, runs):
    """Run the walk without the common gradient; a batch with the record moves it by ``push``."""
    at = np.zeros(runs)
    for _ in range(mechanism.steps):
        drawn = rng.random(runs) < mechanism.sampling_rate
        at = at + push * drawn + mechanism.step_std * rng.normal(size=runs)
        at = np.clip(at, -mechanism.diameter / 2, mechanism.diameter / 2)
    return at


def test_a_run_in_many_dimensions_has_the_law_of_the_walk():
    # The common gradient moves a step by 3 of its standard deviations; on an interval every run
    # would end at the wall. The false-alarm rate of each comparison is 1 %; both are seeded.
    m = sampled(batch_size=2, lipschitz=0.75)
    rng = np.random.default_rng(11)
    shift = m.step_size * 2 * m.lipschitz / m.batch_size
    for record, push in ((m.lipschitz, -shift), (-m.lipschitz, 0.0)):
        many = in_many_dimensions(m, record, rng, runs=1000, dimension=3000)
        one = one_dimension(m, push, rng, 100_000)
        assert stats.ks_2samp(many, one).pvalue > 0.01
    # a cone that is 10 % wider does not cancel the gradient, and is found out
    wide = in_many_dimensions(m, -m.lipschitz, rng, runs=1000, dimension=3000, width=1.1)
    assert stats.ks_2samp(wide, one_dimension(m, 0.0, rng, 100_000)).pvalue < 1e-6


def test_one_step_attains_composition():
    """In one dimension, epsilon is less than half of what the theorem claims."""
    for size, lipschitz in ((2, 1.0), (19, 0.5)):
        m = sampled(steps=1, batch_size=size, lipschitz=lipschitz, diameter=100.0)
        pair = GradientPair(
            m, record=LINE(0.0), record_prime=LINE(2 * lipschitz), cancelled=-lipschitz
        )
        check_admissible(pair)
        claimed = bounds.evaluate("bsa24.theorem_4_8", m)
        law = exact.curve(pair)
        for delta in (1e-2, 1e-6):
            low, high = law.epsilon_bracket(delta)
            assert low == pytest.approx(claimed.epsilon(delta), rel=1e-6)
            assert high >= low


def test_the_search_leans_in_many_dimensions():
    m = sampled(steps=3, lipschitz=2.5)
    cone = worst_case(m, delta=1e-5, evaluations=60, seed=0, many_dimensions=True)
    assert cone.construction.cancelled != 0
    check_admissible(cone.construction)
    assert cone.bracket[0] > 42.6  # 32.11 on an interval
    assert cone.bracket[0] <= bounds.best(m, delta=1e-5).epsilon
    # a bound for one dimension, which takes L for the sensitivity, is refuted
    halved = dataclasses.replace(m, lipschitz=m.lipschitz / 2)
    assert cone.bracket[0] > bounds.best(halved, delta=1e-5).epsilon


@pytest.mark.slow
def test_the_search_leans_on_an_interval_without_a_bound_on_gradients_only():
    free = {"lipschitz": None, "gradient_sensitivity": 5.0}
    for changes, reached in (({"lipschitz": 2.5}, 32.11), (free, 42.68)):
        found = worst_case(sampled(steps=3, **changes), delta=1e-5, evaluations=60, seed=0)
        assert getattr(found.construction, "cancelled", 0) == 0
        assert found.bracket[0] == pytest.approx(reached, rel=0.02)


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_no_sound_bound_is_exceeded(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    m = sampled(
        steps=int(rng.integers(1, 6)),
        dataset_size=n,
        batch_size=int(rng.integers(1, n)),
        noise_std=float(10 ** rng.uniform(-1, 0.7)),
        lipschitz=float(10 ** rng.uniform(-1, 0.5)),
        smoothness=float(rng.choice([0.5, 2.0])),
    )
    found = worst_case(m, delta=1e-4, evaluations=25, seed=seed, many_dimensions=True)
    for id, value in dict(bounds.best(m, delta=1e-4).compared).items():
        assert found.bracket[0] <= value * (1 + 1e-9), id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diameter": None}, "needs a bounded domain if cancelled is not 0, got diameter=None"),
        ({"relation": Relation.ZERO_OUT}, "needs relation='replace one' if cancelled is not 0"),
        ({"batching": Batching.POISSON}, "needs batches of fixed size if cancelled is not 0"),
    ],
)
def test_where_nothing_cancels(changes, message):
    with pytest.raises(Inadmissible, match=message):
        GradientPair(sampled(**changes), cancelled=0.1)


def test_the_common_gradient_counts():
    m = sampled()
    with pytest.raises(Inadmissible, match=r"needs cancelled \+ record_prime in \[-2, 2\]"):
        GradientPair(m, record=LINE(0.0), record_prime=LINE(4.0), cancelled=-1.9)
    with pytest.raises(ValueError, match="cancelled must be a finite number, got inf"):
        GradientPair(m, cancelled=math.inf)
