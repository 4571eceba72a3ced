"""Pure differential privacy: two mechanisms as they should be, and a mistake in each.

Each function can be named in a scenario: ``function(dataset, trials, seed)`` answers ``trials``
times on dataset 0 or 1, which differ in one record, and returns one score a run.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPSILON = 1.0


def laplace_sum(dataset: int, trials: int, seed: int) -> Array:
    """Release a sum of numbers in [0, 1], with noise of scale 1/EPSILON."""
    return _noisy_sum(dataset, trials, seed, scale=1 / EPSILON)


def laplace_mean_noise(dataset: int, trials: int, seed: int) -> Array:
    """Release the sum with the noise that is meant for the mean of two records."""
    return _noisy_sum(dataset, trials, seed, scale=1 / EPSILON / 2)


def randomised_response(dataset: int, trials: int, seed: int) -> Array:
    """Tell a bit, and its opposite with probability 1/(1 + e^EPSILON) (Warner 1965)."""
    return _answers(dataset, trials, seed, lie=1 / (1 + math.exp(EPSILON)))


def coin_response(dataset: int, trials: int, seed: int) -> Array:
    """Tell the bit unless a coin falls heads, and then a second coin: its epsilon is log 3."""
    return _answers(dataset, trials, seed, lie=0.25)


def _noisy_sum(dataset: int, trials: int, seed: int, *, scale: float) -> Array:
    draws = np.random.default_rng(seed)
    return (1.0 if dataset == 0 else 0.0) + draws.laplace(0.0, scale, trials)


def _answers(dataset: int, trials: int, seed: int, *, lie: float) -> Array:
    lies = np.random.default_rng(seed).random(trials) < lie
    return np.where(lies, 1.0 - (dataset == 0), 0.0 + (dataset == 0))
