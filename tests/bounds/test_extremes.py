"""Extreme input gives a finite bound, infinity, or an error that names the reason."""

import math

import numpy as np
import pytest

from audit import Batching, NoisySGD, Release, bounds

# nine orders of magnitude in every parameter that has no natural scale
SIGMAS = [1e-3, 1.0, 1e6]
STEPS = [1, 10**9]


def mechanisms(sigma, steps):
    common = {
        "steps": steps,
        "step_size": 0.1,
        "noise_std": sigma,
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "diameter": 1.0,
    }
    full = {"dataset_size": 10, "batch_size": 10}
    yield NoisySGD(**common, **full)
    yield NoisySGD(**common, **full, strong_convexity=1.0)
    yield NoisySGD(**common, **full, strong_convexity=1e-12)
    yield NoisySGD(**common, **full, convex=False)
    yield NoisySGD(**common, **full, release=Release.EXPONENTIAL_MECHANISM, strong_convexity=0.1)
    cyclic = {"dataset_size": 10, "batch_size": 1, "batching": Batching.CYCLIC}
    yield NoisySGD(**{**common, **cyclic, "steps": 10 * steps}, strong_convexity=0.1)
    sampled = {"dataset_size": 10**8, "batch_size": 1, "batching": Batching.WITHOUT_REPLACEMENT}
    yield NoisySGD(**common, **sampled, strong_convexity=0.1)
    whole = {"dataset_size": 10, "batch_size": 10, "batching": Batching.WITHOUT_REPLACEMENT}
    yield NoisySGD(**common, **whole, strong_convexity=0.1)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("steps", STEPS)
def test_extreme_mechanisms(sigma, steps):
    for m in mechanisms(sigma, steps):
        for id in bounds.applicable(m):
            if not id.startswith("bsa24"):
                continue
            curve = bounds.evaluate(id, m)
            for delta in (1e-12, 1e-5):
                epsilon = curve.epsilon(delta)
                assert epsilon >= 0, (id, m)
            for alpha in (1.001, 1e4):
                assert curve.renyi(alpha) >= 0, (id, m)
            for value in (curve.delta(1.0), curve.beta(0.1)):
                assert 0 <= value <= 1, (id, m)


def test_contraction_to_a_point_and_none_at_all():
    for strong, expected in ((10.0, 1.0), (1e-300, 1e4)):
        m = NoisySGD(
            steps=10**8,
            dataset_size=1,
            batch_size=1,
            step_size=0.1,
            noise_std=1.0,
            gradient_sensitivity=1.0,
            smoothness=10.0,
            strong_convexity=strong,
        )
        for id in ("theorem_4_2", "theorem_3_3"):
            assert bounds.evaluate(f"bsa24.{id}", m).mu == pytest.approx(expected, rel=1e-12)


def test_theorem_3_3_at_wide_ranges():
    random = np.random.default_rng(11)
    for _ in range(300):
        convex = bool(random.random() < 0.7)
        m = NoisySGD(
            steps=int(10 ** random.uniform(0, 9)),
            dataset_size=1,
            batch_size=1,
            step_size=float(10 ** random.uniform(-6, 0)),
            noise_std=float(10 ** random.uniform(-3, 6)),
            gradient_sensitivity=float(10 ** random.uniform(-3, 3)),
            smoothness=float(10 ** random.uniform(-9, 3)),
            convex=convex,
            diameter=float(10 ** random.uniform(-6, 6)),
        )
        mu = bounds.evaluate("bsa24.theorem_3_3", m).mu
        assert math.isfinite(mu)
        assert mu <= bounds.evaluate("bsa24.theorem_4_1", m).mu * (1 + 1e-12)
