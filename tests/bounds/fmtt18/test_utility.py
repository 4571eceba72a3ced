"""The statements on utility and smoothing, by simulation."""

import math

import numpy as np
import pytest

from papers.fmtt18_statements import (
    corollary_34_smoothing,
    theorem_28,
    theorem_29_utility,
    theorem_30_utility,
    theorem_33,
)


def excess_loss(rng, *, steps, dimension, noise, step_size, runs=200):
    """Mean excess loss of projected SGD on |w - y| with y on a sphere, over all iterates."""
    w = np.zeros((runs, dimension))
    w[:, 0] = -1.0
    target = np.zeros(dimension)
    target[0] = 0.5
    total = 0.0
    for _ in range(steps):
        gap = w - target
        norm = np.linalg.norm(gap, axis=1, keepdims=True)
        gradient = gap / np.maximum(norm, 1e-12) + noise * rng.standard_normal(w.shape)
        w = w - step_size * gradient
        w /= np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1.0)
        total += float(np.mean(np.linalg.norm(w - target, axis=1)))
    return total / steps


@pytest.mark.parametrize("noise", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("steps", [4, 100])
def test_random_stopping_finds_the_minimum(noise, steps):
    rng = np.random.default_rng(11)
    dimension = 3
    norm = math.hypot(1.0, math.sqrt(dimension) * noise)
    claim = theorem_28(radius=1.0, gradient_norm=norm, steps=steps)
    same = theorem_29_utility(
        radius=1.0, lipschitz=1.0, noise_std=noise, dimension=dimension, dataset_size=steps
    )
    assert same == claim
    assert claim.excess_loss == pytest.approx(4 * norm / math.sqrt(steps))
    found = excess_loss(
        rng, steps=steps, dimension=dimension, noise=noise, step_size=claim.step_size
    )
    assert found <= claim.excess_loss
    skip = theorem_30_utility(
        radius=1.0, lipschitz=1.0, noise_std=noise, dimension=dimension, dataset_size=steps
    )
    assert skip.excess_loss == pytest.approx(claim.excess_loss * math.sqrt(2))


@pytest.mark.parametrize("dimension", [1, 4])
@pytest.mark.parametrize("width", [0.1, 1.0])
def test_gaussian_smoothing_of_the_norm(dimension, width):
    rng = np.random.default_rng(12)
    claim = theorem_33(lipschitz=1.0, width=width, dimension=dimension)
    z = width * rng.standard_normal((20_000, dimension))
    z = np.concatenate([z, -z])
    unit = np.eye(dimension)[0]

    def smoothed(t):
        return float(np.mean(np.linalg.norm(t * unit + z, axis=1)))

    points = np.linspace(-2, 2, 41)
    values = np.array([smoothed(t) for t in points])
    assert np.max(np.abs(values - np.abs(points))) <= claim.error
    slopes = np.diff(values) / np.diff(points)
    assert np.all(np.abs(slopes) <= 1 + 1e-9)
    assert np.all(np.diff(slopes) >= -1e-9)  # convex
    assert np.max(np.diff(slopes) / 0.1) <= claim.smoothness * 1.02


def test_smoothing_for_the_step_size():
    given = {"radius": 1.0, "lipschitz": 2.0, "epsilon": 0.5, "delta": 1e-6}
    smoothing = corollary_34_smoothing(**given, dimension=10, dataset_size=1000)
    assert smoothing.width == pytest.approx(0.25 / math.sqrt(1000 * math.log(1e6)))
    assert smoothing.smoothness == pytest.approx(2.0 / smoothing.width)
    assert smoothing.error == pytest.approx(2.0 * smoothing.width * math.sqrt(10))
    noise = 2 * 2.0 * math.sqrt(2 * math.log(1.25e6)) / 0.5
    utility = theorem_30_utility(
        radius=1.0, lipschitz=2.0, noise_std=noise, dimension=10, dataset_size=1000
    )
    assert utility.step_size <= 2 / smoothing.smoothness


def test_bad_input():
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        theorem_28(radius=1.0, gradient_norm=1.0, steps=0)
    with pytest.raises(ValueError, match="width must be a positive finite number, got 0"):
        theorem_33(lipschitz=1.0, width=0, dimension=2)
