"""Rates without constants, and the lower bound of Theorem 4.1."""

import math
from dataclasses import replace
from functools import partial

import pytest

from audit import Batching, bounds, exact
from audit.bounds import Status
from audit.constructions import BiasedWalk
from papers.at22_lower_bound import theorem_4_1
from tests.mechanisms import noisy_sgd

RATES = ("theorem_3_1", "theorem_5_1", "eq_5_5", "eq_1_3", "example_5_8")


mechanism = partial(
    noisy_sgd,
    steps=10**6,
    dataset_size=1000,
    batch_size=10,
    step_size=0.1,
    noise_std=2.0,
    batching=Batching.WITHOUT_REPLACEMENT,
)


def test_rates_are_never_judged():
    for name in RATES:
        entry = bounds.CATALOGUE[f"at22.{name}"]
        assert entry.status is Status.ASYMPTOTIC
        assert not entry.status.sound


def test_rates_flatten_at_the_crossing():
    scale = 1 / (1000 * 2.0) ** 2
    for steps, length in ((500, 500), (10**4, 10**4), (10**6, 10**4), (10**9, 10**4)):
        curve = bounds.evaluate("at22.theorem_3_1", mechanism(steps=steps))
        assert curve.renyi(2.0) == pytest.approx(2 * scale * length)
        dp = bounds.evaluate("at22.eq_1_3", mechanism(steps=steps))
        assert dp.epsilon(1e-5) == pytest.approx(math.sqrt(scale * length * math.log(1e5)))
        assert dp.delta(dp.epsilon(1e-5)) == pytest.approx(1e-5)
        assert dp.renyi(2.0) == math.inf
        cyclic = mechanism(steps=steps, batching=Batching.CYCLIC)
        rate = bounds.evaluate("at22.eq_5_5", cyclic).renyi(2.0)
        assert rate == pytest.approx(2 * scale * (100**2 + length))


def test_strong_convexity_flattens_sooner():
    m = mechanism(strong_convexity=0.5, step_size=2 / 1.5)
    length = 2 * math.log((1000 / (2 / 1.5)) ** 2 / 16)
    curve = bounds.evaluate("at22.theorem_5_1", m)
    assert curve.renyi(2.0) == pytest.approx(2 / 2000**2 * length)
    with pytest.raises(bounds.NotApplicable, match=r"theorem_5_1 needs eta = 2/\(M \+ m\)"):
        bounds.evaluate("at22.theorem_5_1", mechanism(strong_convexity=0.5))


def test_schedule_takes_the_last_step_size():
    sizes = tuple(0.1 / math.sqrt(t) for t in range(1, 10_001))
    m = mechanism(steps=10_000, step_size=sizes, diameter=0.01)
    # D n/(L eta) T^(1/2) = 100 * 100
    curve = bounds.evaluate("at22.example_5_8", m)
    assert curve.renyi(2.0) == pytest.approx(2 / 2000**2 * 10_000)
    short = bounds.evaluate("at22.example_5_8", mechanism(steps=10_000, diameter=0.01))
    assert short.renyi(2.0) == pytest.approx(2 / 2000**2 * 100)


def test_ranges_are_checked():
    with pytest.raises(bounds.NotApplicable, match=r"needs sigma > 8 sqrt\(2\) L/b, got noise_std"):
        bounds.evaluate("at22.theorem_3_1", mechanism(noise_std=1.0))
    assert bounds.evaluate("at22.theorem_3_1", mechanism()).renyi(1e9) == math.inf
    # above b/n = 1/5 any order is covered
    large = mechanism(batch_size=300, noise_std=0.5)
    assert bounds.evaluate("at22.theorem_3_1", large).renyi(1e9) < math.inf


def test_lower_bound_of_theorem_4_1():
    # T-bar = .75 D n/(L eta) = 3750, the noise at its threshold
    m = mechanism(steps=7500, dataset_size=5, batch_size=1, step_size=1e-3, diameter=1.0)
    threshold = math.sqrt(1e-3 / 3750) / 1e-3
    claim = theorem_4_1(replace(m, noise_std=threshold))
    assert claim.order == 100
    assert claim.divergence == pytest.approx(0.005625, rel=1e-9)
    assert claim.id == "at22.theorem_4_1"
    with pytest.raises(bounds.NotApplicable, match=r"needs sigma\^2 <= .*, got noise_std="):
        theorem_4_1(replace(m, noise_std=1.01 * threshold))
    with pytest.raises(bounds.NotApplicable, match=r"needs D >= 1000 eta L, got diameter=0\.9"):
        theorem_4_1(replace(m, noise_std=threshold, diameter=0.9))
    with pytest.raises(bounds.NotApplicable, match="needs a bounded domain"):
        theorem_4_1(replace(m, noise_std=threshold, diameter=None))


def test_lower_bound_is_true_where_it_is_claimed():
    values = {"steps": 20, "dataset_size": 1, "batch_size": 1, "step_size": 1e-3}
    m = mechanism(**values, diameter=1.0, noise_std=1.0)
    claim = theorem_4_1(m)
    # far inside the domain the walks are Gaussian: alpha T L^2/(2 sigma^2)
    found = exact.curve(BiasedWalk(mechanism(**values, diameter=None, noise_std=1.0)))
    assert found.renyi(claim.order) == pytest.approx(100 * 20 / 2, rel=1e-9)
    assert found.renyi(claim.order) > claim.divergence > 0
